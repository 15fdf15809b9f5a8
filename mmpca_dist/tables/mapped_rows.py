"""``MappedRows``: a table after row maps, which are applied as rows are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores import storage
from mmpca_dist.tables.dataset import Dataset, cut_edges, not_finite
from mmpca_dist.tables.proxies import DatasetProxy
from mmpca_dist.tables.row_maps.specification import ROW_MAPS, Arrays, RowMap

BLOCK_ROWS = 256
"""Maps with columns of their own get so many rows at a time, aligned to the table's row numbers and filled up with
zeros: matrix products of other shapes round otherwise. 8,192 rows of 784 columns took 0.39 s to 1,000 Fourier features,
and 0.46 s in blocks of 32, 0.44 s in blocks of 4,096; Nystroem features 0.68 s, and 1.09 s and 0.62 s."""

Values = dict[str, Any]
"""A row map as configurations store it: its name and its options."""


def stored_form(row_map: RowMap) -> str | Values:
    """Return a row map as configurations store it: its name, with its options if it has any."""
    name, options = name_of(row_map), row_map.model_dump(mode="json")
    return {"name": name, **options} if options else name


def name_of(row_map: RowMap) -> str:
    """Return the name of a row map in configurations."""
    return next(kind.name for kind in ROW_MAPS.values() if kind.options is type(row_map))


class MappedRows(DatasetProxy):
    """The rows of a data set after row maps, in floating point, with its labels.

    Each map gets what the one before it gives. A map with columns of its own gives dense rows. Rows of such maps can be
    read once all of these are fitted: ``fits`` is what the fit of every map has left.
    """

    in_memory = False  # rows are new ones

    def __init__(self, rows: Dataset, maps: Sequence[RowMap], fits: Sequence[Arrays] | None = None) -> None:
        self.source, self.maps, self.fits = rows, tuple(maps), fits
        width, operations, resident, self._block_bytes = rows.n_features, rows.row_operations, rows.resident_bytes, 0
        for row_map in self.maps:
            operations += row_map.row_operations(width)
            self._block_bytes += row_map.block_bytes(BLOCK_ROWS, width) + 3 * 8 * BLOCK_ROWS * width
            resident += row_map.fitted_bytes(width)
            width = row_map.n_columns(width)
        # Single precision holds every integer of two bytes.
        dtype = rows.dtype if rows.dtype.kind == "f" else np.dtype("f4" if rows.dtype.itemsize <= 2 else "f8")
        changes: dict[str, Any] = {"dtype": dtype, "row_operations": operations, "resident_bytes": resident}
        own = [row_map for row_map in self.maps if row_map.own_columns]
        self.own_columns = bool(own)
        if own:
            self._prefix = name_of(own[-1])
            changes |= {
                "n_features": width, "feature_names": [f"{self._prefix}{column}" for column in range(width)],
                "dtype": np.result_type(dtype, np.float32),  # half precision would lose what kernels tell apart
                "sparse": False, "image_shape": None, "read_overhead": 0.0,
            }  # fmt: skip
        super().__init__(rows, **changes)
        self.named_columns = rows.named_columns and not own
        if own:
            # A chunk whose mapped rows would be larger than a reading unit is cut, and read once for each piece.
            most = max(LIMITS.unit_bytes // self.row_bytes // BLOCK_ROWS, 1) * BLOCK_ROWS
            self.chunk_edges = cut_edges(rows.chunk_edges, most)
            self.n_bytes, self.nnz = self.n_rows * self.row_bytes, self.n_rows * self.n_features
        self._steps: Any = None if fits is None else [one.fitted(fit) for one, fit in zip(self.maps, fits, strict=True)]

    @property
    def needs_fit(self) -> bool:
        """Whether maps are yet to be fitted before rows can be read."""
        return self._steps is None

    def fingerprint(self) -> str:
        return storage.digest("mapped", self.source.fingerprint(), [stored_form(row_map) for row_map in self.maps])

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        if self.own_columns:
            return self._read_blocks(start, stop, out)
        rows = self._rows_in_place(self.source.read_rows(start, stop), start)
        if out is None:
            return np.ascontiguousarray(rows, self.dtype)
        out[...] = rows
        return out

    def read_sparse(self, start: int, stop: int) -> csr_array:
        if self.own_columns:
            return csr_array(self.read_rows(start, stop))
        return csr_array(self._rows_in_place(self.source.read_sparse(start, stop), start), dtype=self.dtype)

    def reading_bytes(self, n_rows: int) -> int:
        if not self.own_columns:
            return self.source.reading_bytes(n_rows) + 3 * n_rows * self.row_bytes
        read = self.source.sparse_bytes if self.source.sparse else self.source.reading_bytes
        return read(n_rows) + n_rows * self.row_bytes + self._block_bytes

    def sparse_bytes(self, n_rows: int) -> int:
        if not self.own_columns:
            return self.source.sparse_bytes(n_rows) + 3 * n_rows * self.row_bytes
        return self.reading_bytes(n_rows) + 2 * n_rows * self.row_bytes

    def _rows_in_place(self, X: Any, start: int) -> Any:
        """Return rows after maps that keep their columns."""
        self._refuse_not_finite(X, start)
        X = _row_by_row(X, self.dtype)
        for step in self._steps:
            X = step(X)
        return X

    def _read_blocks(self, start: int, stop: int, out: NDArray | None) -> NDArray:
        source = self.source
        X = source.read_sparse(start, stop) if source.sparse else source.read_rows(start, stop)
        self._refuse_not_finite(X, start)
        out = np.empty((stop - start, self.n_features), self.dtype) if out is None else out
        for first in range(start - start % BLOCK_ROWS, stop, BLOCK_ROWS):
            begin, end = max(first, start), min(first + BLOCK_ROWS, stop)
            block = filled_up(_row_by_row(X[begin - start : end - start], self.dtype), begin - first)
            rows = apply_steps(block, self.maps, self._steps)[begin - first : end - first]
            with np.errstate(over="ignore"):
                out[begin - start : end - start] = rows
            if not (finite := np.isfinite(out[begin - start : end - start]).all(axis=1)).all():
                row = begin + int(np.argmin(finite))
                raise InputError(
                    f"{self._prefix} makes values of row {row}, in {self.describe_chunk(row)}, that {self.dtype} "
                    "cannot hold. Lower its gamma or degree, or map rows to unit-length before."
                )
        return out

    def _refuse_not_finite(self, X: Any, start: int) -> None:
        """Name a value of the stored table that is not finite; CSR rows are checked where they are read."""
        if issparse(X) or X.dtype.kind != "f" or np.isfinite(X).all():
            return
        row, column = np.argwhere(~np.isfinite(X))[0].tolist()
        raise InputError(not_finite(self.source, start + row, column, float(X[row, column])))


def _row_by_row(X: Any, dtype: np.dtype) -> Any:
    """Return rows, dense or CSR, as a type; dense ones row by row in memory: of others sums may round differently."""
    return X.astype(dtype, copy=False) if issparse(X) else np.ascontiguousarray(X, dtype)


def filled_up(X: Any, offset: int) -> Any:
    """Return a block of ``BLOCK_ROWS`` rows, of which X are those from ``offset`` on and all others are zeros."""
    n_rows = X.shape[0]
    if n_rows == BLOCK_ROWS:
        return X
    if issparse(X):
        ends = np.concatenate([np.zeros(offset), X.indptr, np.full(BLOCK_ROWS - offset - n_rows, X.indptr[-1])])
        return csr_array((X.data, X.indices, ends.astype(X.indptr.dtype)), shape=(BLOCK_ROWS, X.shape[1]))
    block = np.zeros((BLOCK_ROWS, X.shape[1]), X.dtype)
    block[offset : offset + n_rows] = X
    return block


def apply_steps(X: Any, maps: Sequence[RowMap], steps: Sequence[Callable[[Any], Any]]) -> Any:
    """Return rows after fitted maps, one after the other; the result of maps with own columns is in double precision.

    Rows keep their precision until such a map, as they do without it.
    """
    for row_map, step in zip(maps, steps, strict=True):
        X = step(X.astype(np.float64, copy=False) if row_map.own_columns else X)
    return X


def mapped(rows: Dataset, maps: Sequence[RowMap], fits: Sequence[Arrays] | None = None) -> Dataset:
    """Return the rows of a data set after row maps; raise InputError where one cannot be fitted to so many rows."""
    if not maps:
        return rows
    if fits is None:
        for row_map in maps:
            row_map.check(rows.n_rows, rows.uri)
        if not any(row_map.own_columns for row_map in maps):
            fits = [{} for _ in maps]
    return MappedRows(rows, maps, fits)
