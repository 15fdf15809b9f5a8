"""Write rows to Zarr arrays in whole shards: one array for dense rows, three for CSR."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from scipy.sparse import csr_array
from zarr.codecs import Crc32cCodec

from mmpca_dist.datasets.readers.csr import index_type
from mmpca_dist.datasets.stores import storage, zarr_stores

CHUNK_BYTES = 8 << 20
CHUNKS_PER_SHARD = 8
"""A shard of 64 MiB is one reading unit and one file or object. Its chunks carry a checksum each, so that a slice
of 3 MiB costs 8 MiB: measured 3.6 GiB/s where chunks of 64 MiB give 0.3; whole shards are read at 9 GiB/s."""

CSR_CHUNK_BYTES = 1 << 20
CSR_CHUNKS_PER_SHARD = 64
"""A reading unit of text holds some hundred KiB of values, which begin and end anywhere in their chunks."""

LABEL_CHUNK_ROWS = 1 << 16
"""Labels are read a unit of rows at a time: chunks of at least this many, and a whole number of shards of rows."""


class Body(ABC):
    """Where the rows of a new group go, as they come."""

    label_chunk_rows: int

    @abstractmethod
    def append(self, rows: Any) -> None:
        """Take rows."""

    @abstractmethod
    def finish(self) -> None:
        """Write what is left."""


class DenseBody(Body):
    """Dense rows in an array ``X`` (n, d): eight chunks a shard, and what fits one shard becomes one chunk."""

    def __init__(self, place: str, destination: str, n_features: int, dtype: np.dtype, chunk_bytes: int) -> None:
        chunk_rows = max(1, chunk_bytes // (n_features * dtype.itemsize))
        fill = np.nan if dtype.kind == "f" else 0
        self._rows = _Shards(
            storage.join(place, "X"), destination, (n_features,), dtype, chunk_rows, CHUNKS_PER_SHARD, fill
        )
        shard_rows = chunk_rows * CHUNKS_PER_SHARD
        self.label_chunk_rows = shard_rows * -(-LABEL_CHUNK_ROWS // shard_rows)

    def append(self, rows: NDArray) -> None:
        self._rows.append(rows)

    def finish(self) -> None:
        self._rows.finish(one_chunk=True)


class CsrBody(Body):
    """CSR rows in a group ``X`` as AnnData lays it out: ``data``, ``indices``, ``indptr``, and the attribute shape."""

    label_chunk_rows = LABEL_CHUNK_ROWS

    def __init__(self, place: str, destination: str, n_features: int, dtype: np.dtype, chunk_bytes: int) -> None:
        self._place, self._destination, self._n_features = storage.join(place, "X"), destination, n_features
        self._n_rows = self._n_stored = 0
        size = min(chunk_bytes, CSR_CHUNK_BYTES)
        self._data, self._indices, self._indptr = (
            _Shards(
                storage.join(self._place, name), destination, (), kind, max(1, size // kind.itemsize),
                CSR_CHUNKS_PER_SHARD, 0,
            )
            for name, kind in (
                ("data", dtype), ("indices", np.dtype(index_type(n_features, 0))), ("indptr", np.dtype(np.int64)),
            )
        )  # fmt: skip
        self._indptr.append(np.zeros(1, np.int64))

    def append(self, rows: csr_array) -> None:
        self._data.append(rows.data)
        self._indices.append(rows.indices)
        self._indptr.append(rows.indptr[1:] + np.int64(self._n_stored))
        self._n_rows += rows.shape[0]
        self._n_stored += len(rows.data)

    def finish(self) -> None:
        for part in (self._data, self._indices, self._indptr):
            part.finish()
        attributes = {
            "encoding-type": "csr_matrix",
            "encoding-version": "0.1.0",
            "shape": [self._n_rows, self._n_features],
        }
        with storage.explained(self._destination, "write"):
            zarr.create_group(zarr_stores.zarr_location(self._place), attributes=attributes)


class _Shards:
    """An array that grows along its first axis by one whole shard at a time."""

    def __init__(
        self,
        uri: str,
        destination: str,
        entry_shape: tuple[int, ...],
        dtype: np.dtype,
        chunk: int,
        per_shard: int,
        fill: float,
    ) -> None:
        self._uri, self._destination, self._fill = uri, destination, fill
        self._chunk = chunk
        self._buffer = np.empty((chunk * per_shard, *entry_shape), dtype)
        self._array: zarr.Array | None = None
        self._filled = self._stored = 0

    def append(self, entries: NDArray) -> None:
        """Take entries, which are converted to the type of the array."""
        taken = 0
        while taken < len(entries):
            part = entries[taken : taken + len(self._buffer) - self._filled]
            self._buffer[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            taken += len(part)
            if self._filled == len(self._buffer):
                self._flush(None)

    def finish(self, one_chunk: bool = False) -> None:
        """Write what is left; with ``one_chunk``, what fits one shard becomes one chunk, not a shard of several."""
        if self._filled or self._array is None:
            whole = one_chunk or self._filled <= self._chunk
            self._flush(max(self._filled, 1) if whole else None)

    def _flush(self, single_chunk: int | None) -> None:
        entries, shape = self._buffer[: self._filled], self._buffer.shape[1:]
        if self._array is None:
            self._array = create_array(
                self._uri,
                self._destination,
                shape=entries.shape,
                chunks=(single_chunk or self._chunk, *shape),
                shards=None if single_chunk else self._buffer.shape,
                dtype=entries.dtype,
                fill_value=self._fill,
            )
        stop = self._stored + len(entries)
        with storage.explained(self._destination, "write"):
            if stop > self._array.shape[0]:
                self._array.resize((stop, *shape))
            if len(entries):
                self._array[self._stored : stop] = entries
        self._stored, self._filled = stop, 0


def create_array(uri: str, destination: str, **options: Any) -> zarr.Array:
    """Create an array that stores every chunk as it is, followed by its checksum.

    Measurements hardly compress, and plain chunks are read five times as fast.
    """
    with storage.explained(destination, "write"):
        return zarr.create_array(
            zarr_stores.zarr_location(uri), compressors=[Crc32cCodec()], config={"write_empty_chunks": True}, **options
        )
