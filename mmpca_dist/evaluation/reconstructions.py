"""Reconstruction of rows held out from their coordinates, where rows have no labels: errors by moments."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmpca_dist.evaluation.cost_meter import Meter
from mmpca_dist.evaluation.reductions import Reductions
from mmpca_dist.evaluation.tables import RECONSTRUCTION
from mmpca_dist.predictors.linear import pseudo_inverse_root
from mmpca_dist.predictors.reduced_moments import EPS
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.working_statistics import ColumnStatistics, Statistics


def reconstructions(
    statistics: Statistics, held_out: ClassMoments, reductions: Reductions, rows: float, meter: Meter
) -> dict[str, Any]:
    """Return ``lines`` of errors and ``guessed`` for the record of a split that holds out so many rows.

    The errors are sum |x - m - P (x - m)|^2 / sum |x - m|^2 over the rows held out, times these rows: m is the mean of
    the rows that train, and P the projection on the span of the components.
    """
    assert isinstance(statistics, ColumnStatistics)  # noqa: S101  (their scatter is formed)
    held_out, scale, lines = statistics.adjusted(held_out), statistics.scale, []
    scatter, apart, n = held_out.scatters[0], held_out.mean - statistics.mean, held_out.total
    units = np.ones(len(apart)) if scale is None else scale
    total = float(np.sum((np.diagonal(scatter) + n * apart**2) / units**2))
    for item in reductions.items:
        with meter.charging(item.method):
            A, kept = reductions.directions(item), 0.0
            if A.shape[1]:  # the root of (A^T A)^+ makes coordinates those in an orthonormal basis
                squares = (A * units[:, None]).T @ (A * units[:, None])
                A = A @ pseudo_inverse_root(squares, 10 * len(squares) * EPS * np.diagonal(squares))
                kept = float(np.sum(A * (scatter @ A)) + n * np.sum((apart @ A) ** 2))
            left = max(1 - kept / total, 0.0) if total > 0 else 1.0
            lines.append({
                "method": item.method, "n_components": item.n_components, "used": item.used,
                "classifier": RECONSTRUCTION, "errors": left * rows,
            })  # fmt: skip
    return {"lines": lines, "guessed": float(rows)}
