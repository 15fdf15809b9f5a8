"""Linear regression on components: fitted by moments of the rows that train, scored by those of the rows held out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.evaluation.cost_meter import Meter
from mmpca_dist.evaluation.reductions import Reductions
from mmpca_dist.evaluation.tables import REGRESSION
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.working_statistics import ColumnStatistics, Statistics

SINGULAR = 1e-12
"""Components depend on one another where so small a share of their scatter is left."""
CONSTANT = "A target is constant in the rows held out of some splits: its R^2 counts as 0 there."


def regressions(
    statistics: Statistics, held_out: ClassMoments, reductions: Reductions, rows: float, meter: Meter
) -> dict[str, Any]:
    """Return ``lines`` of errors, ``guessed`` and ``notes`` for the record of a split that holds out so many rows.

    The errors are the share of the variance of the targets in the rows held out that is left unexplained, 1 - R^2,
    times these rows.
    """
    assert isinstance(statistics, ColumnStatistics)  # noqa: S101  (their scatter is formed)
    held_out, fitted, lines = statistics.adjusted(held_out), statistics.in_columns, []
    for item in reductions.items:
        with meter.charging(item.method):
            left, rmse = _errors(fitted, held_out, reductions.directions(item))
            lines.append({
                "method": item.method, "n_components": item.n_components, "used": item.used,
                "classifier": REGRESSION, "errors": left * rows, "r2": 1 - left, "rmse": rmse,
            })  # fmt: skip
    left, _ = _errors(fitted, held_out, np.zeros((fitted.n_features, 0)))
    is_constant = held_out.targets is not None and not np.diagonal(held_out.targets.squares).all()
    return {"lines": lines, "guessed": left * rows, "notes": [CONSTANT] if is_constant else []}


def _errors(fitted: ClassMoments, held_out: ClassMoments, A: NDArray[np.float64]) -> tuple[float, float]:
    """Return 1 - R^2 and the root of the mean squared error of least squares on z = A^T x, means over the targets.

    Source: both as ``r2_score`` and ``root_mean_squared_error`` of scikit-learn have them. R^2 is 0 of a target that is
    constant in the rows held out.
    """
    targets, own = fitted.targets, held_out.targets
    assert targets is not None and own is not None  # noqa: S101  (rows have numbers to predict)
    coef = (A @ _least_squares(A.T @ fitted.scatters[0] @ A, A.T @ targets.cross)).T
    at_mean = targets.mean + coef @ (held_out.mean - fitted.mean)
    squares = own.squared_errors(coef, at_mean, held_out.scatters[0], held_out.total)
    totals = np.diagonal(own.squares)
    left = np.divide(squares, totals, out=np.ones(len(squares)), where=totals > 0)
    return float(left.mean()), float(np.sqrt(np.maximum(squares, 0) / held_out.total).mean())


def _least_squares(scatter: NDArray[np.float64], cross: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the shortest w, shape (K, t), of those with the least squared errors, given Z^T H Z and Z^T H Y."""
    units = np.sqrt(np.diagonal(scatter))
    units = np.where(units > 0, units, 1.0)
    values, vectors = np.linalg.eigh(scatter / units / units[:, None])
    kept = values > SINGULAR * values.max(initial=0.0)
    seen, unseen = vectors[:, kept], vectors[:, ~kept] / units[:, None]
    w = (seen @ ((seen / values[kept]).T @ (cross / units[:, None]))) / units[:, None]
    free, _ = np.linalg.qr(unseen)
    return np.asarray(w - free @ (free.T @ w))
