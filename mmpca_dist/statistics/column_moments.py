"""Means and sums of squares of each column by class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.statistics.moments import provisional_centre


@dataclass(frozen=True)
class ColumnSums:
    """Of d columns in their own units, by C classes.

    Attributes
    ----------
    means : array of shape (C, d)
    squares : array of shape (C, d)
        Sums of squared deviations from the class means.
    """

    means: NDArray[np.float64]
    squares: NDArray[np.float64]


def column_sums(X: NDArray[np.float64], codes: NDArray[np.intp], n_classes: int) -> ColumnSums:
    """Return the sums of rows in memory; a column that is constant in a class has no squares at all."""
    means, squares = np.zeros((n_classes, X.shape[1])), np.zeros((n_classes, X.shape[1]))
    for label in np.unique(codes):
        rows = X[codes == label]
        centre = provisional_centre(rows)
        rows -= centre
        offset = rows.mean(axis=0)
        rows -= offset
        means[label], squares[label] = centre + offset, np.einsum("ij,ij->j", rows, rows)
    return ColumnSums(means, squares)
