"""``ColumnSelection``: the base of methods that choose columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.methods.base.reducer import MomentReducer


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
