"""Weights of rows: how often each row counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.tables.dataset import Dataset, DatasetProxy
from mmpca_dist.tables.selected_rows import SelectedRows


class WeightedRows(DatasetProxy):
    """The rows of a data set, with weights that are in memory, shape (n,)."""

    def __init__(self, rows: Dataset, weights: NDArray[np.float64]) -> None:
        super().__init__(rows)
        self._source, self._weights = rows, weights

    @property
    def _rows(self) -> Dataset:
        return self._source

    def fingerprint(self) -> str:
        return ""

    def read_weights(self, start: int, stop: int) -> NDArray[np.float64]:
        return self._weights[start:stop]


def as_weights(weights: Any, n_rows: int, where: str, first: int = 0) -> NDArray[np.float64]:
    """Return the weights of rows as doubles, shape (n,).

    Parameters
    ----------
    weights : array-like of shape (n,), or number
        A number weighs all rows alike.
    where : str
        What holds them, for errors.
    first : int
        The number of the first row.

    Raises
    ------
    InputError
        For weights that are not numbers, of another number than the rows, negative, or not finite.
    """
    weights = np.asarray(weights)
    if weights.dtype.kind not in "fiub":
        raise InputError(f"Weights in {where} have type {weights.dtype}; they must be numbers.")
    if weights.ndim == 0:
        weights = np.broadcast_to(weights, n_rows)
    if weights.shape != (n_rows,):
        raise InputError(f"Weights in {where} have shape {weights.shape}; there must be one for each of {n_rows} rows.")
    weights = weights.astype(np.float64)
    bad = np.flatnonzero(~((weights >= 0) & np.isfinite(weights)))
    if len(bad):
        raise InputError(
            f"The weight of row {first + bad[0]} in {where} is {weights[bad[0]]}. A weight says how often a row "
            "counts: it must be 0 or a positive number."
        )
    return weights


def weighted(rows: Dataset, weights: NDArray[np.float64]) -> Dataset:
    """Return the rows with weights that are in memory, shape (n,), without the rows of weight zero."""
    both = WeightedRows(rows, weights)
    if weights.all():
        return both
    return SelectedRows(both, lambda start, stop: weights[start:stop] > 0)
