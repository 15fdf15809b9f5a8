"""Means and standard deviations of columns and of numbers to predict, and rows in these units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from mmpca_dist.errors import InputError
from mmpca_dist.passes.schedulers import OnRows
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import Span

EPS = float(np.finfo(np.float64).eps)
ROUNDING = 10 * EPS
"""Share of a column's mean: deviations from it, and spreads, that are no larger are zero up to rounding."""


def weighted_mean(means: NDArray, counts: NDArray) -> NDArray[np.float64]:
    """Return the mean of class means (C, d), shape (d,); of equal ones exactly their value, however many there are."""
    present = means if counts.all() else means[counts > 0]
    return np.asarray(np.clip(counts @ means / counts.sum(), present.min(axis=0), present.max(axis=0)))


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


def target_units(dataset: Dataset, spans: Sequence[Span], tasks: Tasks) -> tuple[tuple[float, float], ...]:
    """Return the mean and the standard deviation, 1 where it is 0, of each target of a data set.

    Targets that are NaN are left out. Raises InputError for targets that are infinite, and where none is known.
    """
    counts, means, squares = tasks.run(OnRows(dataset, _measure_targets, X=False), spans, _merged, "targets")
    if not counts.all():
        raise InputError("All values of a target are NaN, so that none is known: there is nothing to learn.")
    deviations = standard_deviations(squares / counts, means)
    return tuple(zip(means.tolist(), deviations.tolist(), strict=True))


def _measure_targets(dataset: Dataset, span: Span) -> tuple[NDArray, NDArray, NDArray]:
    targets = dataset.batch(span.start, span.stop, X=False, roles=("targets",)).targets
    if np.isinf(targets).any():
        row = int(np.argwhere(np.isinf(targets))[0, 0])
        raise InputError(f"The target of row {span.start + row} is infinite; targets must be finite, or NaN.")
    is_known = ~np.isnan(targets)
    counts = is_known.sum(axis=0)
    means = np.where(is_known, targets, 0.0).sum(axis=0) / np.maximum(counts, 1)
    return counts, means, np.where(is_known, (targets - means) ** 2, 0.0).sum(axis=0)


def _merged(left: tuple[NDArray, ...], right: tuple[NDArray, ...]) -> tuple[NDArray, NDArray, NDArray]:
    total = left[0] + right[0]
    share, apart = right[0] / np.maximum(total, 1), right[1] - left[1]
    return total, left[1] + share * apart, left[2] + right[2] + left[0] * share * apart**2
