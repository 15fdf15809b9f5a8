"""Write rows, labels and kept columns to a Zarr group in whole shards."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mmpca_dist.errors import InputError, PlanError
from mmpca_dist.ingest.destination import Destination, Overwrite, Writing
from mmpca_dist.ingest.row_source import LABELS, RowBlock, RowSource
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores import storage, zarr_stores
from mmpca_dist.tables.facts import ARRAYS
from mmpca_dist.tables.labels import refuse_texts
from mmpca_dist.tables.readers.csr import index_type
from mmpca_dist.tables.readers.zarr_groups import ROWS

CHUNKS_PER_SHARD = 8
"""A shard of 64 MiB is one reading unit and one file or object, which is read whole at 9 GiB/s."""
CSR_CHUNK_BYTES = 1 << 20
"""A reading unit of text holds some hundred KiB of values, which begin and end anywhere in their chunks."""
LABEL_CHUNK_ROWS = 1 << 16
"""Labels are read a unit of rows at a time: chunks of at least this many, and a whole number of shards of rows."""


@contextmanager
def zarr_writer(
    destination: str, source: RowSource, dtype: np.dtype, columns: Sequence[str], *, sparse: bool, overwrite: Overwrite
) -> Iterator[ZarrWriter]:
    """Claim a destination, and yield a writer of the rows of a source; what is not finished is removed at the end.

    Raises PlanError where the local disk has less space free than the rows need, as far as that is known, and
    OutputError where something is that may not be replaced, or another ingest writes.
    """
    group, n_rows, n_features = Destination.of(destination), source.n_rows, source.n_features
    free = storage.free_bytes(group.uri)
    if free is not None and n_rows is not None and not (sparse and source.nnz is None):
        dense_bytes = n_rows * n_features * dtype.itemsize
        n_bytes = csr_bytes(n_rows, source.nnz or 0, n_features, dtype) if sparse else dense_bytes
        if n_bytes > free:
            raise PlanError(
                f"{n_rows} rows of {n_features} columns as {dtype} need {n_bytes / 2**30:.1f} GiB and "
                f"the disk of {destination} has {free / 2**30:.1f} GiB free. Choose another destination."
            )
    with (
        group.claimed(columns, overwrite) as writing,
        closing(ZarrWriter(writing, destination, n_features, dtype, columns, sparse)) as writer,
    ):
        yield writer


class ZarrWriter:
    """Writes rows ``X`` (n, d) and columns of names (n,), such as labels ``y``, into a new Zarr group, n unknown.

    Whole shards are written, one after the other, and the metadata of the group comes last: until then there is no
    new group at the address, see ``destination``. Each of the ``columns`` of names becomes an array.
    """

    def __init__(
        self, writing: Writing, destination: str, n_features: int, dtype: np.dtype, columns: Sequence[str], sparse: bool
    ) -> None:
        self._writing, self.destination, self.n_rows = writing, destination, 0
        self._n_features, self._dtype = n_features, dtype
        self._columns = {name: _Spool("labels" if name == LABELS else f"values of column {name!r}") for name in columns}
        uri, chunk_bytes = storage.join(writing.uri, "X"), LIMITS.chunk_bytes
        self._body: _Shards | _CsrShards
        if sparse:
            with storage.explained(destination, "write"):
                self._body = _CsrShards(uri, n_features, dtype, chunk_bytes)
            self._label_chunk_rows = LABEL_CHUNK_ROWS
        else:
            chunk_rows = max(1, chunk_bytes // (n_features * dtype.itemsize))
            shard_rows = chunk_rows * CHUNKS_PER_SHARD
            fill = np.nan if dtype.kind == "f" else 0
            shape = (shard_rows, n_features)
            self._body = _Shards(uri, shape, dtype, chunk_rows, fill, one_chunk=True)
            self._label_chunk_rows = shard_rows * -(-LABEL_CHUNK_ROWS // shard_rows)

    def append(self, block: RowBlock) -> None:
        """Take rows, which are converted to the type of the group, and their names."""
        self._writing.lease.check()
        for name, (values, codes) in block.names.items():
            self._columns[name].append(values, codes, self.n_rows)
        with storage.explained(self.destination, "write"):
            self._body.append(block.rows)
        self.n_rows += block.rows.shape[0]

    def finish(
        self, attributes: dict[str, Any], label_values: Callable[[list[Any]], NDArray]
    ) -> tuple[dict[Any, int], int]:
        """Write what is left and the columns of names; make the group appear, with its ``attributes``.

        Returns the number of rows by label, in sorted order (none without labels), and the bytes that are stored.
        ``label_values`` turns the list of a column's distinct values into an array of integers or strings. Raises
        InputError without any row, and OutputError where something has appeared at the destination meanwhile.
        """
        if self.n_rows == 0:
            raise InputError(f"There are no rows to write to {self.destination}: the source is empty.")
        uri = self._writing.uri
        values = {name: label_values(column.values) for name, column in self._columns.items()}
        with storage.explained(self.destination, "write"):
            self._body.finish()
            for name, column in self._columns.items():
                self._write_column(storage.join(uri, name), column, values[name])
        n_bytes = sum(size for _, size, _ in storage.list_objects(uri))
        rows = [self.n_rows, self._n_features, str(self._dtype)]
        self._writing.complete({**attributes, ARRAYS: ["X", *self._columns], ROWS: rows})
        return self._columns[LABELS].count(values[LABELS]) if LABELS in values else {}, n_bytes

    def close(self) -> None:
        """Close the files that hold columns of names."""
        for column in self._columns.values():
            column.file.close()

    def _write_column(self, uri: str, column: _Spool, values: NDArray) -> None:
        # Strings of a fixed width have no agreed form in Zarr v3, those of any width have one. NumPy makes unsigned
        # numbers of Python's that are of another C type than uint64.
        values = np.zeros(0) if column.dtype.kind == "f" else values
        kind = str if values.dtype.kind == "U" else np.dtype(f"{values.dtype.kind}{values.dtype.itemsize}")
        fitting = max(1, LIMITS.chunk_bytes // values.dtype.itemsize)
        chunk_rows = min(self._label_chunk_rows, self.n_rows, fitting)
        options = {"shape": (self.n_rows,), "chunks": (chunk_rows,), "dtype": kind}
        array = _create_array(uri, **options, fill_value="" if kind is str else 0)
        for start, codes in column.blocks(chunk_rows):
            array[start : start + len(codes)] = codes if column.dtype.kind == "f" else values[codes]


class _CsrShards:
    """CSR rows in a group as AnnData lays it out: ``data``, ``indices``, ``indptr``, and the attribute shape."""

    def __init__(self, uri: str, n_features: int, dtype: np.dtype, chunk_bytes: int) -> None:
        self._uri, self._n_features = uri, n_features
        self._n_rows = self._n_stored = 0

        def shards(name: str, kind: np.dtype) -> _Shards:
            chunk = max(1, min(chunk_bytes, CSR_CHUNK_BYTES) // kind.itemsize)
            shape = (chunk * LIMITS.csr_chunks_per_shard,)
            return _Shards(storage.join(self._uri, name), shape, kind, chunk, 0)

        self._data, self._indices = shards("data", dtype), shards("indices", np.dtype(index_type(n_features, 0)))
        self._indptr = shards("indptr", np.dtype(np.int64))
        self._indptr.append(np.zeros(1, np.int64))

    def append(self, rows: csr_array) -> None:
        self._data.append(rows.data)
        self._indices.append(rows.indices)
        self._indptr.append(rows.indptr[1:] + np.int64(self._n_stored))
        self._n_rows += rows.shape[0]
        self._n_stored += len(rows.data)

    def finish(self) -> None:
        for array in (self._data, self._indices, self._indptr):
            array.finish()
        shape = [self._n_rows, self._n_features]
        attributes = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": shape}
        zarr.create_group(zarr_stores.zarr_location(self._uri), attributes=attributes)


class _Shards:
    """An array that grows along its first axis by one whole shard, of shape ``shape``, at a time.

    With ``one_chunk``, data that fit one shard become one chunk, not a shard of several.
    """

    def __init__(
        self, uri: str, shape: tuple[int, ...], dtype: np.dtype, chunk: int, fill: float, one_chunk: bool = False
    ) -> None:
        self._uri, self._chunk, self._fill, self._one_chunk = uri, chunk, fill, one_chunk
        self._buffer = np.empty(shape, dtype)
        self._array: zarr.Array | None = None
        self._n_buffered = 0

    def append(self, entries: NDArray) -> None:
        """Take entries, which are converted to the type of the array."""
        start = 0
        while start < len(entries):
            part = entries[start : start + len(self._buffer) - self._n_buffered]
            self._buffer[self._n_buffered : self._n_buffered + len(part)] = part
            self._n_buffered += len(part)
            start += len(part)
            if self._n_buffered == len(self._buffer):
                self._flush(None)

    def finish(self) -> None:
        if self._n_buffered or self._array is None:
            is_single = self._one_chunk or self._n_buffered <= self._chunk
            self._flush(max(self._n_buffered, 1) if is_single else None)

    def _flush(self, single_chunk: int | None) -> None:
        entries, shape = self._buffer[: self._n_buffered], self._buffer.shape[1:]
        if self._array is None:
            self._array = _create_array(
                self._uri, shape=(0, *shape), chunks=(single_chunk or self._chunk, *shape),
                shards=None if single_chunk else self._buffer.shape, dtype=entries.dtype, fill_value=self._fill,
            )  # fmt: skip
        self._array.append(entries)
        self._n_buffered = 0


def _create_array(uri: str, **options: Any) -> zarr.Array:
    """Create an array of plain chunks: measurements hardly compress, and plain ones are read five times as fast."""
    return zarr.create_array(zarr_stores.zarr_location(uri), **zarr_stores.CHECKED, **options)


class _Spool:
    """A column of names, encoded as four bytes a row: numbers into the short list of distinct values; or of doubles."""

    dtype = np.dtype(np.int32)

    def __init__(self, what: str) -> None:
        self._what = what
        self._numbers: dict[Any, int] = {}
        self._counts = np.zeros(0, np.int64)
        self.file = tempfile.SpooledTemporaryFile(max_size=LIMITS.spool_bytes)  # noqa: SIM115

    @property
    def values(self) -> list[Any]:
        """The distinct values, by their numbers."""
        return list(self._numbers)

    def append(self, values: list[Any], codes: NDArray, first_row: int) -> None:
        if codes.dtype.kind == "f":
            self.dtype = codes.dtype
            self.file.write(codes.tobytes())
            return
        n_rows = first_row + len(codes)
        refuse_texts(values, f"The {self._what} up to row {n_rows}")
        numbers = [self._numbers.setdefault(value, len(self._numbers)) for value in values]
        if len(self._numbers) > LIMITS.max_classes:
            raise InputError(
                f"By row {n_rows} there are {len(self._numbers)} different {self._what}, {values[-1]!r} among them: "
                "these are measurements, not classes. Name another column, or bin it."
            )
        rows = np.asarray(numbers, np.int32)[codes]
        counts = np.bincount(rows, minlength=len(self._numbers))
        counts[: len(self._counts)] += self._counts
        self._counts = counts
        self.file.write(rows.tobytes())

    def blocks(self, n_rows: int) -> Iterator[tuple[int, NDArray]]:
        """Yield (first row, numbers) of ``n_rows`` rows at a time."""
        self.file.seek(0)
        start = 0
        while data := self.file.read(self.dtype.itemsize * n_rows):
            codes = np.frombuffer(data, self.dtype)
            yield start, codes
            start += len(codes)

    def count(self, values: NDArray) -> dict[Any, int]:
        """Return the number of rows by label, sorted; ``values`` are the labels as they are written."""
        counts: dict[Any, int] = {}
        for value, count in zip(values.tolist(), self._counts.tolist(), strict=True):
            counts[value] = counts.get(value, 0) + count
        return dict(sorted(counts.items()))


def csr_bytes(n_rows: int, nnz: int, n_features: int, dtype: np.dtype) -> int:
    """Return the bytes of CSR rows as they are written."""
    return nnz * (dtype.itemsize + np.dtype(index_type(n_features, 0)).itemsize) + (n_rows + 1) * 8
