"""Rows in memory: arrays and CSR matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from mmpca_dist.datasets.changes import digest_of_arrays
from mmpca_dist.datasets.dataset import Dataset, check_table, grain_edges
from mmpca_dist.datasets.labels import normalize_labels
from mmpca_dist.datasets.readers.csr import SparseRows, most_stored, value_type
from mmpca_dist.datasets.stores import storage


class _InMemory(Dataset):
    """Base of rows ``X`` (n, d) in memory, with labels ``y`` (n,) or None."""

    kind = "memory"

    def __init__(self, X: Any, y: NDArray | None, uri: str) -> None:
        self.uri, self.has_labels = uri, y is not None
        self._y = None if y is None else normalize_labels(y, uri)
        check_table(uri, X.shape, X.dtype, None if self._y is None else len(self._y), sparse=self.sparse)
        self._X = X
        self.n_rows, self.n_features = X.shape

    def read_labels(self, start: int, stop: int) -> NDArray:
        assert self._y is not None  # noqa: S101  (has_labels says so)
        return self._y[start:stop]


class ArrayDataset(_InMemory):
    """Rows ``X`` of shape (n, d) that are in memory, and labels ``y`` of shape (n,), or None."""

    in_memory = True
    read_overhead = 0.0

    def __init__(self, X: NDArray, y: NDArray | None, uri: str = "the array in memory") -> None:
        super().__init__(np.asarray(X), y, uri)
        self.dtype = self._X.dtype

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return grain_edges(self.n_rows, self.row_bytes)

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        return self._X[start:stop]

    def fingerprint(self) -> str:
        return storage.digest("array", digest_of_arrays(self._X, self._y))


class SparseArray(_InMemory, SparseRows):
    """A ``scipy.sparse`` matrix or array ``X`` of shape (n, d) in memory, and labels ``y`` of shape (n,), or None.

    Values that are stored twice are summed, as scipy means them, unless ``sum_duplicates`` is false. ``X`` itself is
    never changed.
    """

    def __init__(
        self, X: Any, y: NDArray | None, uri: str = "the matrix in memory", *, sum_duplicates: bool = True
    ) -> None:
        super().__init__(X, y, uri)
        self.dtype = value_type(X.dtype)
        rows = csr_array(X)
        if sum_duplicates and not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        self._X = rows.astype(self.dtype, copy=False)

    def _stored(self, start: int, stop: int) -> tuple[NDArray, NDArray, NDArray]:
        ends = self._X.indptr[start : stop + 1]
        within = slice(ends[0], ends[-1])
        return self._X.data[within], self._X.indices[within], ends - ends[0]

    @property
    def nnz(self) -> int:
        return int(self._X.nnz)

    @property
    def n_bytes(self) -> int:
        return int(self._X.data.nbytes + self._X.indices.nbytes + self._X.indptr.nbytes)

    def _most_stored(self, n_rows: int) -> int:
        return most_stored(self._X.indptr, n_rows)

    def fingerprint(self) -> str:
        arrays = (self._X.data, self._X.indices, self._X.indptr, self._y)
        return storage.digest("csr", self.n_features, digest_of_arrays(*arrays))


def rows_in_memory(X: Any, y: Any, uri: str) -> ArrayDataset | SparseArray:
    """Return an array or a scipy.sparse matrix (n, d) with labels (n,), or None, as a data set."""
    return SparseArray(X, y, uri) if issparse(X) else ArrayDataset(X, y, uri)
