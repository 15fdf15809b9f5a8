"""Where the search keeps what it has laid out: the memory of this process, or a Zarr group that workers share."""

from __future__ import annotations

import functools
import uuid
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec

from mmpca_dist.datasets import storage

CHUNK_BYTES = 4 << 20
"""Arrays that are read in part have chunks of this size, all in one shard."""


class Scratch(Protocol):
    """Named tables: arrays of equal length, written whole, read in part."""

    in_memory: bool

    def put(self, name: str, arrays: dict[str, NDArray]) -> None:
        """Write a table; doing it again, after a worker was lost, is harmless."""

    def get(self, name: str, arrays: tuple[str, ...], start: int = 0, stop: int | None = None) -> list[NDArray]:
        """Read rows ``start`` to ``stop`` of some arrays of a table."""

    def drop(self, name: str) -> None:
        """Remove a table, if it is there."""


@dataclass
class MemoryScratch:
    """Tables in this process, for tasks on its threads."""

    tables: dict[str, dict[str, NDArray]] = field(default_factory=dict)
    in_memory = True

    def put(self, name: str, arrays: dict[str, NDArray]) -> None:
        self.tables[name] = arrays

    def get(self, name: str, arrays: tuple[str, ...], start: int = 0, stop: int | None = None) -> list[NDArray]:
        return [self.tables[name][array][start:stop] for array in arrays]

    def drop(self, name: str) -> None:
        self.tables.pop(name, None)


@dataclass
class ZarrScratch:
    """Tables as Zarr groups below a path or URL that all workers reach; chunks are checksummed."""

    uri: str
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    in_memory = False

    def put(self, name: str, arrays: dict[str, NDArray]) -> None:
        with storage.explained(self.uri, "write"):
            group = storage.open_group(storage.join(self.uri, name), "w")
            for key, array in arrays.items():
                _write(group, key, array)

    def get(self, name: str, arrays: tuple[str, ...], start: int = 0, stop: int | None = None) -> list[NDArray]:
        with storage.explained(self.uri):
            group = _open(storage.join(self.uri, name), self.token)
            return [np.asarray(group[array][start:stop]) for array in arrays]  # type: ignore[index]

    def drop(self, name: str) -> None:
        remove(storage.join(self.uri, name))


def _write(group: zarr.Group, name: str, array: NDArray) -> None:
    length, row_bytes = len(array), max(array[:1].nbytes, 1)
    chunk = max(1, min(length, CHUNK_BYTES // row_bytes))
    shard = -(-max(length, 1) // chunk) * chunk
    target = group.create_array(
        name,
        shape=array.shape,
        chunks=(chunk, *(max(size, 1) for size in array.shape[1:])),
        shards=(shard, *(max(size, 1) for size in array.shape[1:])) if shard > chunk else None,
        dtype=array.dtype,
        fill_value=np.nan if array.dtype.kind == "f" else 0,
        compressors=[Crc32cCodec()],
        config={"write_empty_chunks": True},
    )
    if array.size:
        target[...] = array


@functools.lru_cache(maxsize=512)
def _open(uri: str, token: str) -> zarr.Group:
    return storage.open_group(uri)


def remove(uri: str) -> None:
    """Remove all that is below an address, if there is something."""
    fs, path = storage.filesystem(uri)
    fs.invalidate_cache()
    with storage.explained(uri, "remove"):
        if fs.exists(path):
            fs.rm(path, recursive=True)


def table_bytes(arrays: dict[str, Any]) -> int:
    """Return the size of a table."""
    return int(sum(array.nbytes for array in arrays.values()))
