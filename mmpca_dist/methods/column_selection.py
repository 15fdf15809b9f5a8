"""The base of methods that select single columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.methods.base import MomentReducer
from mmpca_dist.methods.solution import Solution


class ColumnSelection(MomentReducer):
    """Base of the reducers whose components are single columns: unit vectors, the best column first."""

    @property
    def columns_(self) -> NDArray[np.intp]:
        """Positions of the columns that are chosen, in the order of the components, shape (K,)."""
        return np.argmax(self.components_, axis=1)


def unit_vectors(columns: NDArray[np.intp], n_features: int) -> NDArray[np.float64]:
    """Return components that pick single columns, shape (K, d)."""
    components = np.zeros((len(columns), n_features))
    components[np.arange(len(columns)), columns] = 1
    return components


def selection(
    columns: NDArray[np.intp], values: NDArray[np.float64], errors: NDArray[np.float64], total: float, limit: str,
    n_features: int,
) -> Solution:  # fmt: skip
    """Return the solution that columns are, with their values and the errors of these, shape (K,)."""
    unknown = np.full(len(columns), np.nan)
    return Solution(unit_vectors(columns, n_features), values, unknown, errors, total, limit)
