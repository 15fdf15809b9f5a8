"""Reconstruction of rows held out from their coordinates, where rows have no labels: errors by moments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.evaluation.cost_meter import Meter
from mmpca_dist.evaluation.reductions import Reductions
from mmpca_dist.evaluation.tables import LEFT_OUT, RECONSTRUCTION
from mmpca_dist.predictors.linear import pseudo_inverse_root
from mmpca_dist.predictors.reduced_moments import EPS
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.working_statistics import ColumnStatistics, Statistics

LEAST = 1e-10
"""Share of a column's direction outside the span of the components, of which less is rounding."""


def reconstructions(
    statistics: Statistics, held_out: ClassMoments, reductions: Reductions, rows: float, meter: Meter
) -> dict[str, Any]:
    """Return ``lines`` of errors and ``guessed`` for the record of a split that holds out so many rows.

    Errors are shares of sum |x - m|^2 over the rows held out, times these rows; m is the mean of the rows that train.
    Those of reconstruction are of x - m - P (x - m), P the projection on the span of the components. Those of left-out
    columns are of x_j less what is expected of it given the other columns of the row, where the covariance is that of
    probabilistic PCA: C = U M U^T + s (I - U U^T), with U an orthonormal basis of the span, M the covariance along it
    of the rows that train, and s the mean variance beside it. That is (C^-1 (x - m))_j / (C^-1)_jj.

    Source: Tipping & Bishop 1999, "Probabilistic principal component analysis", for the covariance; Bro, Kjeldahl,
    Smilde & Kiers 2008, "Cross-validation of component models", for leaving out columns.
    """
    assert isinstance(statistics, ColumnStatistics)  # noqa: S101  (their scatter is formed)
    held_out, scale, lines = statistics.adjusted(held_out), statistics.scale, []
    scatter, apart, n = held_out.scatters[0], held_out.mean - statistics.mean, held_out.total
    trained = statistics.in_columns
    units = np.ones(len(apart)) if scale is None else scale
    squares = (np.diagonal(scatter) + n * apart**2) / units**2
    total, variance = float(squares.sum()), float(np.sum(np.diagonal(trained.scatters[0]) / units**2)) / trained.total
    for item in reductions.items:
        with meter.charging(item.method):
            A, left, missed = reductions.directions(item), squares, squares
            if A.shape[1]:
                products = (A * units[:, None]).T @ (A * units[:, None])
                A = A @ pseudo_inverse_root(products, 10 * len(products) * EPS * np.diagonal(products))
                U, image = A * units[:, None], (scatter @ A + n * np.outer(apart, apart @ A)) / units[:, None]
                M = A.T @ trained.scatters[0] @ A / trained.total
                beside = max(variance - float(np.trace(M)), 0) / max(len(U) - len(M), 1)
                left = _squares(squares, U, image, np.eye(len(M)))
                known = np.eye(len(M)) - beside * np.linalg.pinv(M, hermitian=True)
                alone = 1 - np.einsum("jk,jk->j", U @ known, U)
                # A column that is a direction of its own is predicted by none of the others.
                missed = _squares(squares, U, image, known) / np.maximum(alone, LEAST) ** 2
                missed = np.where(alone > LEAST, missed, squares)
            for name, errors in ((RECONSTRUCTION, left), (LEFT_OUT, missed)):
                share = float(errors.sum()) / total if total > 0 else 1.0
                lines.append({
                    "method": item.method, "n_components": item.n_components, "used": item.used,
                    "classifier": name, "errors": share * rows,
                })  # fmt: skip
    return {"lines": lines, "guessed": float(rows)}


def _squares(squares: NDArray, U: NDArray, image: NDArray, inner: NDArray) -> NDArray[np.float64]:
    """Return the diagonal of (I - U G U^T) S (I - U G U^T), given that of S, and S U and G; never negative."""
    turned = U @ inner
    return np.maximum(squares + np.einsum("jk,jk->j", turned, turned @ (U.T @ image) - 2 * image), 0)
