"""Row maps: what is done to every row as it is read, before anything else sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.preprocessing import normalize

from mmpca_dist.datasets.dataset import Dataset, DatasetProxy
from mmpca_dist.datasets.stores import storage


@dataclass(frozen=True)
class RowMap:
    """A map of single rows, (n, d) dense or CSR to the same shape; it returns new rows."""

    name: str
    description: str
    apply: Callable[[Any], Any]


def _unit_length(X: Any) -> Any:
    return normalize(X)  # rows of zeros stay so


ROW_MAPS = {
    row_map.name: row_map for row_map in (RowMap("unit-length", "divide every row by its length", _unit_length),)
}
"""By name."""


class MappedRows(DatasetProxy):
    """The rows of a data set after row maps, in floating point, with its labels."""

    def __init__(self, rows: Dataset, names: Sequence[str]) -> None:
        super().__init__(rows)
        self._source, self._names = rows, tuple(names)
        self.dtype = rows.dtype if rows.dtype.kind == "f" else np.dtype(np.float32 if _is_narrow(rows.dtype) else "f8")
        self.in_memory = False  # rows are new ones
        for name in ("has_labels", "features", "label", "missing_chunks", "missing_label_rows", "label_fill"):
            setattr(self, name, getattr(rows, name))

    @property
    def _rows(self) -> Dataset:
        return self._source

    @property
    def addresses(self) -> list[str]:
        return self._source.addresses

    def fingerprint(self) -> str:
        return storage.digest("mapped", self._source.fingerprint(), list(self._names))

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        rows = self._mapped(self._source.read_rows(start, stop))
        if out is None:
            return np.ascontiguousarray(rows, self.dtype)
        out[...] = rows
        return out

    def read_sparse(self, start: int, stop: int) -> csr_array:
        return csr_array(self._mapped(self._source.read_sparse(start, stop)), dtype=self.dtype)

    def reading_bytes(self, n_rows: int) -> int:
        return self._source.reading_bytes(n_rows) + 3 * n_rows * self.row_bytes

    def sparse_bytes(self, n_rows: int) -> int:
        return self._source.sparse_bytes(n_rows) + 3 * n_rows * self.row_bytes

    def _mapped(self, X: Any) -> Any:
        X = X.astype(self.dtype, copy=False)
        for name in self._names:
            X = ROW_MAPS[name].apply(X)
        return X


def _is_narrow(dtype: np.dtype) -> bool:
    """Tell whether single precision holds every integer of a type."""
    return dtype.itemsize <= 2


def mapped(rows: Dataset, names: Sequence[str]) -> Dataset:
    """Return the rows of a data set after row maps."""
    return MappedRows(rows, names) if names else rows
