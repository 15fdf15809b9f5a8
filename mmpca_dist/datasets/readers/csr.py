"""CSR rows: the base of sparse data sets, their checks, and matrices in memory."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mmpca_dist.datasets.content_digest import digest_of_arrays
from mmpca_dist.datasets.dataset import Dataset, check_table, grain_edges, not_finite
from mmpca_dist.datasets.labels import normalize_labels
from mmpca_dist.datasets.stores import storage
from mmpca_dist.errors import InputError

CSR_ITEM = 8
"""Bytes of a column number in the largest matrices."""


class SparseRows(Dataset):
    """Rows of which only some values are stored; all others are zero.

    The unit of reading is bounded by the bytes of its rows when they are dense, for that is what some methods make of
    them; the grid is that of the same rows in a dense array, and so are the bits of what follows from them. ``dtype``
    is float32 or float64, whatever is stored.
    """

    sparse = True

    @abstractmethod
    def _stored(self, start: int, stop: int) -> tuple[NDArray, NDArray, NDArray]:
        """Return values, column numbers and row ends (from 0) of rows as they are stored."""

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return grain_edges(self.n_rows, self.row_bytes)

    def read_sparse(self, start: int, stop: int) -> csr_array:
        """Return rows ``start`` to ``stop`` in CSR form, their values as ``dtype``, columns increasing in every row.

        Raises
        ------
        InputError
            For a column that does not exist or comes twice in a row, and for values that are not finite.
        """
        data, indices, indptr = self._stored(start, stop)
        if len(indices):
            outside = (indices < 0) | (indices >= self.n_features)
            if outside.any():
                at = int(np.argmax(outside))
                row = start + int(np.searchsorted(indptr, at, side="right")) - 1
                raise InputError(
                    f"Row {row} has a value in column {indices[at]}, in {self.describe_chunk(row)}, whose columns are "
                    f"numbered 0 to {self.n_features - 1}. The file is damaged: write it again."
                )
        kind = index_type(self.n_features, len(data))
        rows = csr_array(
            (data.astype(self.dtype, copy=False), indices.astype(kind, copy=False), indptr.astype(kind, copy=False)),
            shape=(stop - start, self.n_features),
        )
        if not rows.has_canonical_format:
            rows = rows.sorted_indices()
            self._refuse_twice(rows, start)
        if not np.isfinite(rows.data).all():
            at = int(np.argmin(np.isfinite(rows.data)))
            row = int(np.searchsorted(rows.indptr, at, side="right")) - 1
            raise InputError(not_finite(self, start + row, int(rows.indices[at]), float(rows.data[at])))
        return rows

    def _refuse_twice(self, rows: csr_array, start: int) -> None:
        """Refuse a column that comes twice in a row: whether its values are to be summed, nobody knows."""
        row_of = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        twice = (rows.indices[1:] == rows.indices[:-1]) & (row_of[1:] == row_of[:-1])
        if twice.any():
            at = int(np.argmax(twice))
            row = start + int(row_of[at])
            raise InputError(
                f"Row {row} has column {rows.indices[at]} twice, in {self.describe_chunk(row)}. If its values are to "
                "be summed, do so and write the file again: X.sum_duplicates()."
            )

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        if out is None:
            out = np.empty((stop - start, self.n_features), self.dtype)
        return self.read_sparse(start, stop).toarray(out=out)

    def sparse_bytes(self, n_rows: int) -> int:
        return 2 * self._most_stored(n_rows) * (self.dtype.itemsize + CSR_ITEM) + 3 * n_rows * 8

    def reading_bytes(self, n_rows: int) -> int:
        return n_rows * self.row_bytes + self.sparse_bytes(n_rows)

    @abstractmethod
    def _most_stored(self, n_rows: int) -> int:
        """Return the most values that so many consecutive rows hold."""


class SparseArray(SparseRows):
    """Rows in memory: a ``scipy.sparse`` matrix or array ``X`` of shape (n, d), and labels ``y``, or None.

    Values that are stored twice are summed, as scipy means them, unless ``sum_duplicates`` is false. ``X`` itself is
    never changed.
    """

    kind = "memory"

    def __init__(
        self, X: Any, y: NDArray | None, uri: str = "the matrix in memory", *, sum_duplicates: bool = True
    ) -> None:
        self.uri = uri
        self._y = None if y is None else normalize_labels(y, uri)
        self.has_labels = y is not None
        check_table(uri, X.shape, X.dtype, None if self._y is None else len(self._y), sparse=True)
        self.dtype = value_type(X.dtype)
        rows = csr_array(X)
        if sum_duplicates and not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        self._X = rows.astype(self.dtype, copy=False)
        self.n_rows, self.n_features = rows.shape

    def _stored(self, start: int, stop: int) -> tuple[NDArray, NDArray, NDArray]:
        return csr_stretch(self._X, start, stop)

    def read_labels(self, start: int, stop: int) -> NDArray:
        assert self._y is not None  # noqa: S101  (has_labels says so)
        return self._y[start:stop]

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


def value_type(stored: np.dtype) -> np.dtype:
    """Return the type of floats that holds values of ``stored``: single where that is exact, else double."""
    return np.dtype(np.float32 if np.can_cast(stored, np.float32) else np.float64)


def index_type(n_features: int, n_stored: int) -> type[np.signedinteger]:
    """Return the type of numbers of columns and row ends that scipy wants."""
    return np.int32 if max(n_features, n_stored) <= np.iinfo(np.int32).max else np.int64


def csr_stretch(X: csr_array, start: int, stop: int) -> tuple[NDArray, NDArray, NDArray]:
    """Return views of the values and columns of some rows, and the ends of these rows, from 0."""
    first, last = int(X.indptr[start]), int(X.indptr[stop])
    return X.data[first:last], X.indices[first:last], X.indptr[start : stop + 1] - first


def most_stored(indptr: NDArray, n_rows: int) -> int:
    """Return the most values that ``n_rows`` consecutive rows hold."""
    n_rows = min(n_rows, len(indptr) - 1)
    return int((indptr[n_rows:] - indptr[: len(indptr) - n_rows]).max())


def check_row_ends(indptr: NDArray, n_rows: int, n_stored: int, n_indices: int, where: str) -> None:
    """Refuse row ends that do not fit rows, values and column numbers.

    Raises
    ------
    InputError
        With what does not fit, and where.
    """
    problem = None
    if n_stored != n_indices:
        problem = f"{n_stored} values in data and {n_indices} columns in indices"
    elif indptr.ndim != 1 or indptr.dtype.kind not in "iu" or len(indptr) != n_rows + 1:
        problem = f"indptr of shape {indptr.shape} and type {indptr.dtype} for {n_rows} rows"
    elif indptr[0] != 0 or indptr[-1] != n_stored:
        problem = f"indptr from {indptr[0]} to {indptr[-1]} for {n_stored} values"
    else:
        falls = indptr[1:] < indptr[:-1]
        if falls.any():
            row = int(np.argmax(falls))
            problem = f"indptr that falls from {indptr[row]} to {indptr[row + 1]} at row {row}"
    if problem is not None:
        raise InputError(f"{where} is no CSR matrix: it has {problem}. It is damaged: write it again.")


def check_index_type(dtype: np.dtype, where: str) -> None:
    """Refuse column numbers that are no integers."""
    if dtype.kind not in "iu":
        raise InputError(f"The columns in {where} have type {dtype}; they must be integers. Write it again.")
