"""Means and standard deviations of columns, and rows in these units."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from sklearn.utils.sparsefuncs import mean_variance_axis

EPS = float(np.finfo(np.float64).eps)
ROUNDING = 10 * EPS
"""Share of a column's mean: deviations from it, and spreads, that are no larger are zero up to rounding."""


def standard_deviations(variances: NDArray[np.float64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return square roots of variances; 1 for a column that is constant up to rounding."""
    deviations = np.sqrt(np.maximum(variances, 0))
    constant = deviations <= ROUNDING * np.abs(mean)
    return np.where(constant, 1.0, deviations)


def column_units(X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the means and standard deviations of the columns of rows in memory, dense or CSR."""
    if issparse(X):
        mean, variances = mean_variance_axis(X.astype(np.float64), axis=0)
    else:
        mean, variances = X.mean(axis=0, dtype=np.float64), X.var(axis=0, dtype=np.float64)
    return mean, standard_deviations(variances, mean)


def in_units(X: Any, mean: NDArray[np.float64], scale: NDArray[np.float64]) -> Any:
    """Standardise rows (n, d). CSR rows are only divided by the scale: less the mean they would be dense."""
    if issparse(X):
        return csr_array(X.multiply(1 / scale))
    rows = X - mean
    rows /= scale
    return rows
