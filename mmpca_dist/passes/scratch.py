"""Tables of scratch: in the memory of this process, or in Zarr groups that workers share."""

from __future__ import annotations

import functools
import itertools
import math
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.checkpoint import read_back
from mmpca_dist.passes.serialization import encode
from mmpca_dist.stores import storage, zarr_stores
from mmpca_dist.stores.zarr_stores import reading_own, refuse_absent_chunks
from mmpca_dist.tables.readers.zarr_dense import ZarrReader

Selection = slice | NDArray[np.int64]
"""Rows of a table: a stretch, or sorted positions."""
ALL = slice(None)


@dataclass
class MemoryScratch:
    """Named tables, arrays of equal length, in this process, for tasks on its threads.

    ``copies``, if any, keeps tables on a disk too, for another attempt.
    """

    tables: dict[str, dict[str, NDArray]] = field(default_factory=dict)
    copies: ZarrScratch | None = None
    in_memory = True

    def put(self, name: str, arrays: dict[str, NDArray], *, copied: bool = True) -> None:
        """Write a table whole, and its copy unless another attempt soon makes it again (``copied=False``)."""
        self.tables[name] = arrays
        if self.copies is not None and copied:
            self.copies.put(name, arrays)

    def get(self, name: str, arrays: tuple[str, ...], rows: Selection = ALL) -> list[NDArray]:
        """Read rows of some arrays of a table."""
        if self.copies is not None and name not in self.tables:
            return self.copies.get(name, arrays, rows)
        return [self.tables[name][array][rows] for array in arrays]

    def drop(self, name: str) -> None:
        """Remove a table, if it is there."""
        self.tables.pop(name, None)
        if self.copies is not None:
            self.copies.drop(name)

    def put_value(self, name: str, value: Any) -> None:
        """Keep a value for another attempt, in place of an earlier one of this name."""
        if self.copies is not None:
            self.copies.put_value(name, value)

    def value(self, name: str) -> Any:
        """Return what an earlier attempt has kept; None where there is nothing."""
        return None if self.copies is None else self.copies.value(name)


@dataclass
class ZarrScratch:
    """Tables as Zarr groups below a path or URL that all workers reach; chunks are checksummed."""

    uri: str
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    in_memory = False

    def put(self, name: str, arrays: dict[str, NDArray], *, copied: bool = True) -> None:
        """Write a table whole; doing it again, after a worker was lost, is harmless."""
        done, path = storage.join(self.uri, f"{name}.done"), storage.join(self.uri, name)
        if storage.exists(done):
            return  # by another worker, which was taken for lost: readers may be at it
        with storage.explained(self.uri, "write"):
            group = zarr_stores.open_group(path, "w")
            for key, array in arrays.items():
                _write(group, key, array)
        storage.write_json(done, {key: _metadata_sum(path, key) for key in arrays})

    def get(self, name: str, arrays: tuple[str, ...], rows: Selection = ALL) -> list[NDArray]:
        path = storage.join(self.uri, name)
        with reading_own(path, ""):
            readers = [_reader(path, array, self.token) for array in arrays]
            if isinstance(rows, slice):
                return [_read_stretch(reader, rows) for reader in readers]
            return [_read_positions(reader, rows) for reader in readers]

    def drop(self, name: str) -> None:
        storage.remove(storage.join(self.uri, f"{name}.done"))
        storage.remove(storage.join(self.uri, name))

    def put_value(self, name: str, value: Any) -> None:
        storage.write_bytes(storage.join(self.uri, f"{name}.npz"), encode(value))

    def value(self, name: str) -> Any:
        uri = storage.join(self.uri, f"{name}.npz")
        return read_back(uri) if storage.exists(uri) else None


Scratch = MemoryScratch | ZarrScratch


def _write(group: zarr.Group, name: str, array: NDArray) -> None:
    """Write an array as a table of rows, which the reader of data sets knows how to read fast."""
    length, width = len(array), math.prod(array.shape[1:])
    chunk = max(1, -(-length // max(1, -(-array.nbytes // LIMITS.scratch_chunk_bytes))))  # even, as the last is padded
    shard = -(-max(length, 1) // chunk) * chunk
    target = group.create_array(
        name,
        shape=(length, width),
        chunks=(chunk, max(width, 1)),
        shards=(shard, max(width, 1)) if shard > chunk else None,
        dtype=array.dtype,
        fill_value=np.nan if array.dtype.kind == "f" else 0,
        **zarr_stores.CHECKED,
        attributes={"row_shape": list(array.shape[1:])},
    )
    if array.size:
        target[...] = array.reshape(length, width)


def _read_stretch(reader: ZarrReader, rows: slice) -> NDArray:
    array = reader.array
    start, stop, _ = rows.indices(array.shape[0])
    out = np.empty((stop - start, array.shape[1]), array.dtype)
    if out.size:
        reader.read(start, stop, out)
    return out.reshape(stop - start, *array.attrs["row_shape"])  # type: ignore[misc]


def _read_positions(reader: ZarrReader, positions: NDArray[np.int64]) -> NDArray:
    """Read rows at sorted positions: of the chunks that hold some, neighbouring ones together."""
    array = reader.array
    out = np.empty((len(positions), *array.attrs["row_shape"]), array.dtype)  # type: ignore[misc]
    if len(positions):
        breaks = np.flatnonzero(np.diff(positions // array.chunks[0]) > 1) + 1
        for a, b in itertools.pairwise([0, *breaks.tolist(), len(positions)]):
            start = int(positions[a])
            stretch = _read_stretch(reader, slice(start, int(positions[b - 1]) + 1))
            out[a:b] = stretch[positions[a:b] - start]
    return out


@functools.lru_cache(maxsize=4096)
def _reader(uri: str, name: str, token: str) -> ZarrReader:
    """Return the reader of an array that is as it was written, and whole: Zarr reads absent chunks as fill values."""
    if storage.read_json(f"{uri}.done", "").get(name) != _metadata_sum(uri, name):
        raise ValueError(f"the metadata of {name} do not match their checksum")
    reader, path = ZarrReader.of(zarr_stores.open_group(uri)[name]), storage.join(uri, name)  # type: ignore[arg-type]
    refuse_absent_chunks(path, reader.array, {key: size for key, size, _ in storage.list_objects(path)}, "")
    return reader


def _metadata_sum(uri: str, name: str) -> str:
    return storage.checksum(storage.read_bytes(storage.join(uri, name, "zarr.json")))


@contextmanager
def open_scratch(in_memory: bool, folder: str | None = None, *, resumable: bool = False) -> Iterator[Scratch]:
    """Yield a scratch in memory, in a folder, or in a temporary folder of this machine; gone afterwards by default.

    A ``folder`` is a path or URL that workers reach. With ``resumable`` it is one stage's alone: tables that a
    failed attempt has left there are reused. They stay until the code that records the results removes them.
    """
    if in_memory and not (resumable and folder):
        yield MemoryScratch()
        return
    with ExitStack() as stack:
        uri = storage.normalize(folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="mmpca-")))
        if not resumable:
            uri = storage.join(uri, f"tables-{uuid.uuid4().hex[:8]}")
            stack.callback(storage.remove, uri)
        on_disk = ZarrScratch(uri)
        yield MemoryScratch(copies=on_disk) if in_memory else on_disk
