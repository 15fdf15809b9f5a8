"""Rows of a data set with labels, or targets, that are in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.labels import label_array, normalize_labels
from mmpca_dist.tables.proxies import Relabelled


class GivenLabels(Relabelled):
    """The rows of a data set with labels (n,), or targets (n, q), that are in memory."""

    def __init__(self, rows: Dataset, y: Any) -> None:
        super().__init__(rows)
        self._y = label_array(y, "y")
        if len(self._y) != rows.n_rows:
            raise InputError(f"{rows.uri} has {rows.n_rows} rows and y {len(self._y)} labels; there must be one a row.")

    def read_labels(self, start: int, stop: int) -> NDArray:
        return normalize_labels(self._y[start:stop], "y")

    def read_targets(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return the targets of rows ``start`` to ``stop``."""
        return as_targets(self._y[start:stop], "y")


def as_targets(y: Any, where: str) -> NDArray[np.float64]:
    """Return targets as doubles of shape (n, q); raise InputError for others than numbers, one row of them a row."""
    y = np.asarray(y)
    if y.dtype.kind not in "fiub":
        raise InputError(f"Targets in {where} have type {y.dtype}; continuous targets must be numbers.")
    if y.ndim not in (1, 2) or (y.ndim == 2 and y.shape[1] == 0):
        raise InputError(f"Targets in {where} have shape {y.shape}; they must have shape (n,) or (n, q).")
    return np.asarray(y.reshape(len(y), -1), dtype=np.float64)
