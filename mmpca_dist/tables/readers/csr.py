"""CSR rows: the base of sparse data sets, and their checks."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mmpca_dist.errors import InputError
from mmpca_dist.faults import Col, Setting
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.source import Source
from mmpca_dist.tables.values import not_finite

PARTS = ("data", "indices", "indptr")
"""The arrays of a CSR matrix, as AnnData and scipy name them."""


class SparseRows(Source):
    """Rows of which only some values are stored; all others are zero.

    The chunk grid is that of the same rows in a dense array. Some methods make the rows of a unit dense, and their
    results have the same bits; moments of rows with few stored values differ by rounding. ``dtype`` is float32 or
    float64, whatever is stored.
    """

    @abstractmethod
    def _stored(self, start: int, stop: int) -> tuple[NDArray, NDArray, NDArray]:
        """Return values, column numbers and row ends (from 0) of rows as they are stored."""

    def read(self, start: int, stop: int, out: NDArray | None = None) -> csr_array:
        """Return rows ``start`` to ``stop`` in CSR form, with values of ``dtype`` and increasing columns in every row.

        An ``InputError`` refuses columns that do not exist or come twice in a row, and values that are not finite.
        """
        data, indices, indptr = self._stored(start, stop)

        def first_row(entries: NDArray[np.bool_]) -> tuple[int, int]:
            """Return the first true entry, and its row."""
            entry = int(np.argmax(entries))
            return entry, start + int(np.searchsorted(indptr, entry, side="right")) - 1

        outside = (indices < 0) | (indices >= self.n_features)
        if outside.any():
            entry, row = first_row(outside)
            raise InputError(
                f"Row {row} has a value in column {indices[entry]}, in {self.describe_chunk(row)}, whose columns are "
                f"numbered 0 to {self.n_features - 1}. The file is damaged: write it again."
            )
        kind = index_type(self.n_features, len(data))
        rows = csr_array(
            (data.astype(self.dtype, copy=False), indices.astype(kind, copy=False), indptr.astype(kind, copy=False)),
            shape=(stop - start, self.n_features),
        )
        if not rows.has_canonical_format:
            rows = rows.sorted_indices()
            row_of = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
            twice = (rows.indices[1:] == rows.indices[:-1]) & (row_of[1:] == row_of[:-1])
            if twice.any():
                entry, row = first_row(twice)
                raise InputError(
                    f"Row {row} has column {{column}} twice, in {self.describe_chunk(row)}. If its values are to be "
                    "summed, do so and write the file again: X.sum_duplicates().",
                    column=Col(int(rows.indices[entry])),
                )
        finite = np.isfinite(rows.data)
        if not finite.all():
            entry, row = first_row(~finite)
            raise InputError(not_finite(Dataset.of(self), row, int(rows.indices[entry]), float(rows.data[entry])))
        return rows

    @property
    @abstractmethod
    def _ends(self) -> NDArray:
        """Where rows end among the stored values, from 0, shape (n + 1,)."""

    @property
    def nnz(self) -> int:
        return int(self._ends[-1])


def value_type(stored: np.dtype) -> np.dtype:
    """Return the type of floats that holds values of ``stored``: single where that is exact, else double."""
    return np.dtype(np.float32 if np.can_cast(stored, np.float32) else np.float64)


def index_type(n_features: int, n_stored: int) -> type[np.signedinteger]:
    """Return the type of column numbers and row ends that scipy uses."""
    return np.int32 if max(n_features, n_stored) <= np.iinfo(np.int32).max else np.int64


def check_row_ends(indptr: NDArray, n_rows: int, n_stored: int, n_indices: int, where: str, axis: int = 0) -> None:
    """Refuse ends of rows, or of columns (``axis`` 1), that do not fit the numbers of these and of values."""
    problem = None
    if n_stored != n_indices:
        problem = f"{n_stored} values in data and {n_indices} columns in indices"
    elif indptr.ndim != 1 or indptr.dtype.kind not in "iu" or len(indptr) != n_rows + 1:
        problem = f"indptr of shape {indptr.shape} and type {indptr.dtype} for {n_rows} {('rows', 'columns')[axis]}"
    elif indptr[0] != 0 or indptr[-1] != n_stored:
        problem = f"indptr from {indptr[0]} to {indptr[-1]} for {n_stored} values"
    elif (falls := indptr[1:] < indptr[:-1]).any():
        row = int(np.argmax(falls))
        problem = f"indptr that falls from {indptr[row]} to {indptr[row + 1]} at {('row', 'column')[axis]} {row}"
    if problem is not None:
        raise InputError(
            f"{where} is no {('CSR', 'CSC')[axis]} matrix: it has {problem}. It is damaged: write it again."
        )


def check_form(form: Any, where: str) -> None:
    """Refuse rows in a group that is not what AnnData writes for sparse rows."""
    if form not in ("csr_matrix", "csc_matrix"):
        others = "Rows are an array, or CSR or CSC in arrays data, indices and indptr, as AnnData writes it"
        raise InputError(
            f"{where} is a group of encoding-type {form!r}. {others}; name others with {{features}}.",
            features=Setting("features"),
        )


def check_index_type(dtype: np.dtype, where: str) -> None:
    """Refuse column numbers that are no integers."""
    if dtype.kind not in "iu":
        raise InputError(f"The columns in {where} have type {dtype}; they must be integers. Write it again.")
