"""CSR rows in a Zarr group, in AnnData's layout: ``data``, ``indices``, ``indptr`` and ``shape``."""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass, field

import numpy as np
import zarr
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.stores import storage, zarr_stores
from mmpca_dist.stores.zarr_stores import values_of
from mmpca_dist.tables.facts import Facts
from mmpca_dist.tables.memory_limits import check_table
from mmpca_dist.tables.readers.csc import FORM, ByColumns
from mmpca_dist.tables.readers.csr import PARTS, SparseRows, check_form, check_index_type, check_row_ends, value_type
from mmpca_dist.tables.readers.formats import Format, Request
from mmpca_dist.tables.readers.packed import Packing
from mmpca_dist.tables.readers.zarr_dense import ZarrCube, ZarrRows
from mmpca_dist.tables.readers.zarr_groups import ZarrGroupRows, member, table_url
from mmpca_dist.tables.source import Source, readable
from mmpca_dist.tables.spans import chunk_of


def _open(request: Request) -> Source:
    """Open the rows of a Zarr group: an array (n, d) or a cube (y, x, band), or CSR in a group of its parts."""
    uri = request.uri
    table = table_url(uri, zarr_stores.open_group(uri))
    rows = member(zarr_stores.open_group(table), request.features or "X", uri)
    if isinstance(rows, zarr.Array):
        return (ZarrCube if rows.ndim == 3 else ZarrRows)(request, table)
    if rows is None:
        return ZarrRows(request, table)
    return (CscZarrRows if rows.attrs.get("encoding-type") == FORM else SparseZarrRows)(request, table)


FORMAT = Format("zarr", "a Zarr group", _open, suffixes=(".zarr",))


class SparseZarrRows(SparseRows, ZarrGroupRows):
    """CSR rows of a Zarr group. Where rows end, ``indptr``, is held in memory by each process: 8 bytes a row."""

    _axis = 0

    def _open(self, group: zarr.Group, where: str) -> Facts:
        arrays, shape = _parts(group, self.features, self._address)
        check_table(where, shape, arrays["data"].dtype, sparse=True)
        n_rows, n_features = shape
        check_index_type(arrays["indices"].dtype, f"{self._address}/{self.features}/indices")
        for name, array in arrays.items():
            self._refuse_missing(f"{self.features}/{name}", array, "entries")
        self._entry = sum(arrays[name].dtype.itemsize for name in ("data", "indices"))
        ends = _open_matrix(self.table, self.features, self._token, self._axis)[2]  # checked as it is opened
        self._row_ends_bytes = len(ends) * arrays["indptr"].dtype.itemsize
        packing = Packing.of(arrays["data"], f"{self._address}/{self.features}/data")
        if packing is not None and packing.offset:
            raise InputError(
                f"{self._address}/{self.features}/data has the attribute add_offset, which values that are not stored "
                "would have, too. Store the rows dense."
            )
        dtype = value_type(arrays["data"].dtype if packing is None else packing.dtype)
        return Facts(self._address, n_rows, n_features, dtype, sparse=True, resident_bytes=(n_rows + 1) * 8)

    def _stored(self, start: int, stop: int) -> tuple[NDArray, NDArray, NDArray]:
        ends = self._ends[start : stop + 1]
        first, last = int(ends[0]), int(ends[-1])
        return self._entries("data", first, last), self._entries("indices", first, last), ends - first

    def _entries(self, part: str, start: int, stop: int) -> NDArray:
        data, indices, _ = _open_matrix(self.table, self.features, self._token, self._axis)
        if part == "indices":
            return indices.read(start, stop)
        values, packing = data.read(start, stop), Packing.of(data.array, self.features)
        return values if packing is None else packing.unpack(values, np.empty(values.shape, self.dtype))

    @property
    def n_bytes(self) -> int:
        return self.nnz * self._entry + self._row_ends_bytes

    @property
    def _ends(self) -> NDArray:
        return _open_matrix(self.table, self.features, self._token, self._axis)[2]

    def describe_chunk(self, row: int) -> str:
        _, start, stop = chunk_of(self.chunk_edges, row)
        ends = self._ends
        return (
            f"rows {start} to {stop - 1} of {self.uri}/{self.features}, entries {ends[start]} to "
            f"{max(ends[stop] - 1, ends[start])} of its arrays data and indices"
        )


class CscZarrRows(ByColumns, SparseZarrRows):
    """Rows of a matrix that a Zarr group stores by columns."""

    _axis = 1

    @property
    def _column_ends(self) -> NDArray[np.int64]:
        return _open_matrix(self.table, self.features, self._token, self._axis)[2]


def _parts(group: zarr.Group, name: str, uri: str) -> tuple[dict[str, zarr.Array], tuple[int, ...]]:
    matrix, where = group[name], f"{uri}/{name}"
    assert isinstance(matrix, zarr.Group)  # noqa: S101  (_open looked)
    shape = matrix.attrs.get("shape")
    check_form(matrix.attrs.get("encoding-type"), where)
    arrays = {part: member(matrix, part, where) for part in PARTS}
    missing = [part for part, array in arrays.items() if not isinstance(array, zarr.Array) or array.ndim != 1]
    if missing:
        raise InputError(f"{where} lacks the flat arrays {', '.join(missing)} of CSR rows. Write it again.")
    if not isinstance(shape, list | tuple) or not all(type(size) is int for size in shape):
        raise InputError(f"{where} has the attribute shape {shape!r}; that of CSR rows must be [n, d].")
    return arrays, tuple(shape)  # type: ignore[return-value]


@dataclass(frozen=True)
class _Stretches:
    """Reads consecutive stretches of a flat array, and each chunk only once in each thread.

    Rows end anywhere within a chunk; the rest of the last chunk is kept for the rows that follow.
    """

    array: zarr.Array
    _kept: threading.local = field(default_factory=threading.local)

    def read(self, start: int, stop: int) -> NDArray:
        out = np.empty(stop - start, self.array.dtype.newbyteorder("="))
        if start == stop:
            return out
        size = self.array.chunks[0]
        first, rest = getattr(self._kept, "chunk", (0, ()))
        done = start
        if first <= start < first + len(rest):
            done = min(stop, first + len(rest))
            out[: done - start] = rest[start - first : done - first]
        if done < stop:
            begin, end = done // size * size, min(-(-stop // size) * size, self.array.shape[0])
            values = values_of(self.array, begin, end)
            out[done - start :] = values[done - begin : stop - begin]
            last = (stop - 1) // size * size
            self._kept.chunk = (last, values[last - begin :].copy()) if stop < end else (0, ())
        return out


# Kept per process, as the arrays of dense rows are; not many, for they hold 8 bytes a row.
@functools.lru_cache(maxsize=4)
def _open_matrix(uri: str, name: str, token: str, axis: int) -> tuple[_Stretches, _Stretches, NDArray[np.int64]]:
    """Return values and numbers of a matrix stored by rows (``axis`` 0) or columns, and where these end, in memory."""
    arrays, shape = _parts(zarr_stores.open_group(uri), name, uri)
    where = f"{uri}/{name}"
    with readable(f"{where}/indptr"), storage.explained(f"{where}/indptr"):
        row_ends = values_of(arrays["indptr"])
    check_row_ends(row_ends, shape[axis], arrays["data"].shape[0], arrays["indices"].shape[0], where, axis)
    return _Stretches(arrays["data"]), _Stretches(arrays["indices"]), row_ends.astype(np.int64)
