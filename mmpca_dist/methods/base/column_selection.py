"""``ColumnSelection``: the base of methods that choose columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from mmpca_dist.methods.base.reducer import MomentReducer


class ColumnSelection(MomentReducer):
    """Base of the reducers whose components are single columns: unit vectors, the best column first."""

    @property
    def columns_(self) -> NDArray[np.intp]:
        """Positions of the columns that are chosen, in the order of the components, shape (K,)."""
        return np.argmax(self.components_, axis=1)

    def get_support(self, indices: bool = False) -> NDArray:
        """Return which columns are chosen, shape (d,), or with ``indices`` their positions, ascending."""
        chosen = np.zeros(self.n_features_in_, bool)
        chosen[self.columns_] = True
        return np.flatnonzero(chosen) if indices else chosen

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the columns that are chosen, in the order of the components, shape (K,)."""
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        return np.asarray(names, dtype=object)[self.columns_]


def unit_vectors(columns: NDArray[np.intp], n_features: int) -> NDArray[np.float64]:
    """Return components that pick single columns, shape (K, d)."""
    components = np.zeros((len(columns), n_features))
    components[np.arange(len(columns)), columns] = 1
    return components
