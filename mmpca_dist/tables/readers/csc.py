"""Rows of a sparse matrix that is stored by columns (CSC): a band of rows is gathered from all columns at a time."""

from __future__ import annotations

import functools
import threading
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.tables.readers.csr import SparseRows
from mmpca_dist.tables.readers.formats import Request

FORM = "csc_matrix"
"""What AnnData calls such a matrix."""
PIECE = 1 << 22
"""Entries that are looked at in one go."""
GATHERED = 40
"""Bytes for each entry of a band while it is gathered, about."""
Band = tuple[int, NDArray, NDArray, NDArray[np.int64]]
"""The first row, values and column numbers row by row, and where rows end among them."""


class ByColumns(SparseRows):
    """CSR rows of a matrix that is stored by columns.

    Each band of rows costs a pass over all entries, so runs take matrices of one band alone. A process keeps one band.
    """

    _token: str
    _address: str
    features: str
    _entries: Callable[[str, int, int], NDArray]
    """Returns a stretch of the array ``data`` or ``indices``."""

    def __init__(self, request: Request, *args: Any) -> None:
        super().__init__(request, *args)  # type: ignore[call-arg]  # that of rows in a file
        n_bytes, most = self.nnz * GATHERED, LIMITS.turned_bytes
        if n_bytes > most and not request.by_columns:
            raise InputError(
                f"{self._address}/{self.features} is stored by columns (CSC), and has {self.nnz:,} values, too many to "
                f"turn around in memory: 'mmpca ingest {self._address} rows.zarr' stores it by rows."
            )
        self.facts = replace(self.facts, resident_bytes=self.facts.resident_bytes + min(n_bytes, most))

    def __eq__(self, other: object) -> bool:  # a copy in a task finds the band that another has gathered
        return isinstance(other, ByColumns) and self._token == other._token

    def __hash__(self) -> int:
        return hash(self._token)

    @property
    @abstractmethod
    def _column_ends(self) -> NDArray[np.int64]:
        """Where columns end among the stored values, from 0, shape (d + 1,)."""

    @property
    def nnz(self) -> int:
        return int(self._column_ends[-1])

    @property
    def _ends(self) -> NDArray[np.int64]:
        return _row_ends(self)

    def _stored(self, start: int, stop: int) -> tuple[NDArray, NDArray, NDArray]:
        first, data, indices, ends = _band_with(self, start, stop)
        own = ends[start - first : stop - first + 1]
        return data[own[0] : own[-1]], indices[own[0] : own[-1]], own - own[0]

    def describe_chunk(self, row: int) -> str:
        return f"row {row} of {self._address}/{self.features}"


@functools.lru_cache(maxsize=4)
def _row_ends(rows: ByColumns) -> NDArray[np.int64]:
    counts = np.zeros(rows.n_rows + 1, np.int64)
    for at in range(0, rows.nnz, PIECE):
        numbers = rows._entries("indices", at, min(at + PIECE, rows.nnz))
        outside = (numbers < 0) | (numbers >= rows.n_rows)
        if outside.any():
            raise InputError(
                f"{rows._address}/{rows.features} has a value in row {numbers[outside][0]}, and {rows.n_rows} rows. "
                "The file is damaged: write it again."
            )
        counts[1:] += np.bincount(numbers, minlength=rows.n_rows)
    return np.cumsum(counts)


_kept: dict[str, Band] = {}
_gathering = threading.Lock()


def _band_with(rows: ByColumns, start: int, stop: int) -> Band:
    """Return the band that is kept, if it holds these rows, or a new one from the first of them on."""
    with _gathering:
        band = _kept.get(rows._token)
        if band is None or start < band[0] or stop > band[0] + len(band[3]) - 1:
            _kept.clear()
            band = _kept[rows._token] = _gather(rows, start, stop)
        return band


def _gather(rows: ByColumns, start: int, stop: int) -> Band:
    ends = rows._ends
    last = int(np.searchsorted(ends, ends[start] + LIMITS.turned_bytes // GATHERED, side="right")) - 1
    stop = max(min(last, rows.n_rows), stop)
    found: dict[str, list[NDArray]] = {"row": [], "column": [], "data": []}
    for at in range(0, rows.nnz, PIECE):
        end = min(at + PIECE, rows.nnz)
        numbers = rows._entries("indices", at, end)
        within = np.flatnonzero((numbers >= start) & (numbers < stop))
        if len(within):
            found["row"].append(numbers[within] - start)
            found["column"].append(np.searchsorted(rows._column_ends, within + at, side="right") - 1)
            found["data"].append(rows._entries("data", at, end)[within])
    row, column, data = (np.concatenate(each) if each else np.zeros(0, np.int64) for each in found.values())
    order = np.argsort(row, kind="stable")  # columns stay in order
    return start, data[order], column[order], ends[start : stop + 1] - ends[start]
