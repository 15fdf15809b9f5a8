"""Scratch of a search: memory of this process, or a Zarr group that workers share."""

from __future__ import annotations

import functools
import itertools
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import psutil
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec

from mmpca_dist.datasets.dataset import Dataset
from mmpca_dist.datasets.readers.zarr_dense import ZarrReader
from mmpca_dist.datasets.stores import storage, zarr_stores
from mmpca_dist.datasets.stores.checksums import checksum
from mmpca_dist.datasets.stores.zarr_stores import reading_own, refuse_absent_chunks

CHUNK_BYTES = 1 << 20
"""Arrays that are read in part have chunks of this size, all in one shard."""

LAID_OUT = ("run-", "entries", "segment-")
"""What the names of the layout's tables begin with."""

MOST_FIRST, MOST_SECOND = 63, 255
"""Most axes of the matrix products, and of the second bound."""


class Scratch(Protocol):
    """Named tables: arrays of equal length, written whole, read in part."""

    @property
    def in_memory(self) -> bool:
        """Whether they are in the memory of this process."""

    def put(self, name: str, arrays: dict[str, NDArray]) -> None:
        """Write a table; doing it again, after a worker was lost, is harmless."""

    def get(self, name: str, arrays: tuple[str, ...], start: int = 0, stop: int | None = None) -> list[NDArray]:
        """Read rows ``start`` to ``stop`` of some arrays of a table."""

    def take(self, name: str, arrays: tuple[str, ...], places: NDArray[np.int64]) -> list[NDArray]:
        """Read rows at ``places``, sorted, of some arrays of a table."""

    def drop(self, name: str) -> None:
        """Remove a table, if it is there."""


@dataclass
class MemoryScratch:
    """Tables in this process, for tasks on its threads; what is found for queries may be kept on a disk as well."""

    tables: dict[str, dict[str, NDArray]] = field(default_factory=dict)
    found: ZarrScratch | None = None
    in_memory = True

    def put(self, name: str, arrays: dict[str, NDArray]) -> None:
        self.tables[name] = arrays
        if self.found is not None and not name.startswith(LAID_OUT):
            self.found.put(name, arrays)

    def get(self, name: str, arrays: tuple[str, ...], start: int = 0, stop: int | None = None) -> list[NDArray]:
        if self.found is not None and name not in self.tables:
            return self.found.get(name, arrays, start, stop)
        return [self.tables[name][array][start:stop] for array in arrays]

    def take(self, name: str, arrays: tuple[str, ...], places: NDArray[np.int64]) -> list[NDArray]:
        if self.found is not None and name not in self.tables:
            return self.found.take(name, arrays, places)
        return [self.tables[name][array][places] for array in arrays]

    def drop(self, name: str) -> None:
        self.tables.pop(name, None)


@dataclass
class ZarrScratch:
    """Tables as Zarr groups below a path or URL that all workers reach; chunks are checksummed."""

    uri: str
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    in_memory = False

    def put(self, name: str, arrays: dict[str, NDArray]) -> None:
        done = storage.join(self.uri, f"{name}.done")
        if storage.exists(done):
            return  # by another worker, which was taken for lost: readers may be at it
        place = storage.join(self.uri, name)
        with storage.explained(self.uri, "write"):
            group = zarr_stores.open_group(place, "w")
            for key, array in arrays.items():
                _write(group, key, array)
        storage.write_json(done, {key: _metadata_sum(place, key) for key in arrays})

    def get(self, name: str, arrays: tuple[str, ...], start: int = 0, stop: int | None = None) -> list[NDArray]:
        place = storage.join(self.uri, name)
        with reading_own(place, ""):
            return [_read(_reader(place, array, self.token), start, stop) for array in arrays]

    def take(self, name: str, arrays: tuple[str, ...], places: NDArray[np.int64]) -> list[NDArray]:
        place = storage.join(self.uri, name)
        with reading_own(place, ""):
            return [_take(_reader(place, array, self.token), places) for array in arrays]

    def drop(self, name: str) -> None:
        storage.remove(storage.join(self.uri, f"{name}.done"))
        storage.remove(storage.join(self.uri, name))


def _write(group: zarr.Group, name: str, array: NDArray) -> None:
    """Write an array as a table of rows, which the reader of data sets knows how to read fast."""
    rows = array.reshape(len(array), -1) if array.size else np.empty((len(array), *array.shape[1:], 0), array.dtype)
    rows = rows.reshape(len(array), -1 if rows.size else 0)
    length, width = rows.shape
    chunk = max(1, -(-length // max(1, -(-rows.nbytes // CHUNK_BYTES))))  # even ones, as the last is padded
    shard = -(-max(length, 1) // chunk) * chunk
    target = group.create_array(
        name,
        shape=rows.shape,
        chunks=(chunk, max(width, 1)),
        shards=(shard, max(width, 1)) if shard > chunk else None,
        dtype=rows.dtype,
        fill_value=np.nan if rows.dtype.kind == "f" else 0,
        compressors=[Crc32cCodec()],
        config={"write_empty_chunks": True},
        attributes={"row_shape": list(array.shape[1:])},
    )
    if rows.size:
        target[...] = rows


def _read(reader: ZarrReader, start: int, stop: int | None) -> NDArray:
    array = reader.array
    stop = array.shape[0] if stop is None else min(stop, array.shape[0])
    out = np.empty((stop - start, array.shape[1]), array.dtype)
    if out.size:
        reader.read(start, stop, out)
    return out.reshape(stop - start, *array.attrs["row_shape"])  # type: ignore[misc]


def _take(reader: ZarrReader, places: NDArray[np.int64]) -> NDArray:
    """Read rows at sorted places: of the chunks that hold some, neighbouring ones together."""
    array = reader.array
    out = np.empty((len(places), *array.attrs["row_shape"]), array.dtype)  # type: ignore[misc]
    if len(places):
        breaks = np.flatnonzero(np.diff(places // array.chunks[0]) > 1) + 1
        for a, b in itertools.pairwise([0, *breaks.tolist(), len(places)]):
            start = int(places[a])
            out[a:b] = _read(reader, start, int(places[b - 1]) + 1)[places[a:b] - start]
    return out


@functools.lru_cache(maxsize=4096)
def _reader(uri: str, name: str, token: str) -> ZarrReader:
    """Return the reader of an array that is as it was written, and whole: Zarr reads absent chunks as fill values."""
    if storage.read_json(f"{uri}.done", "").get(name) != _metadata_sum(uri, name):
        raise ValueError(f"the metadata of {name} do not match their checksum")
    reader, place = ZarrReader.of(zarr_stores.open_group(uri)[name]), storage.join(uri, name)  # type: ignore[arg-type]
    refuse_absent_chunks(place, reader.array, {key: size for key, size, _ in storage.list_objects(place)}, "")
    return reader


def _metadata_sum(uri: str, name: str) -> str:
    return checksum(storage.read_bytes(storage.join(uri, name, "zarr.json")))


@contextmanager
def open_scratch(in_memory: bool, where: str | None = None, *, resumable: bool = False) -> Iterator[Scratch]:
    """Yield a scratch in memory, in a folder, or in a temporary folder of this machine; gone afterwards by default.

    Parameters
    ----------
    where : str, optional
        The folder, a path or URL that workers reach.
    resumable : bool
        The folder is this search's alone. What an attempt that failed has left there is taken up: all tables, or, in
        memory, what was found for queries. They stay, for whoever records the results to remove.
    """
    if in_memory and not (resumable and where):
        yield MemoryScratch()
        return
    with ExitStack() as stack:
        uri = storage.normalize(where or stack.enter_context(tempfile.TemporaryDirectory(prefix="mmpca-")))
        if not resumable:
            uri = storage.join(uri, f"search-{uuid.uuid4().hex[:8]}")
            stack.callback(storage.remove, uri)
        on_disk = ZarrScratch(uri)
        yield MemoryScratch(found=on_disk) if in_memory else on_disk


def fits_memory(n_bytes: int, limit: int | None = None) -> bool:
    """Tell whether tables of so many bytes, twice while they are laid out, fit half of ``limit`` (of what is free)."""
    return 2 * n_bytes <= (psutil.virtual_memory().available if limit is None else limit) // 2


def row_bytes(dataset: Dataset) -> int:
    """Return the most bytes a row can take in the layout, before axes are chosen."""
    d = dataset.n_features
    return d * 8 + 4 * (min(d, MOST_FIRST + 1) + min(d, MOST_SECOND + 1)) + 12
