"""The Zarr stores behind URLs: every operation patient, chunks by obstore where it is installed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.abc.store import ByteRequest, RangeByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.core.buffer.cpu import NDBuffer
from zarr.storage import FsspecStore, WrapperStore

from mmpca_dist.datasets import patience
from mmpca_dist.datasets.object_stores import S3, AbsentError, fast_reader, is_plain

__all__ = ["PatientStore", "block_of", "fill_from", "values_of"]

DELETED_AT_ONCE = 64
METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")


def values_of(array: zarr.Array, start: int = 0, stop: int | None = None) -> NDArray:
    """Return entries ``start`` to ``stop`` of an array along its first axis; damaged ones from afar are read again."""
    selection: Any = slice(start, stop) if array.ndim else ()
    return patience.undamaged(_is_remote(array), _name(array), lambda: np.asarray(array[selection]))


def block_of(array: zarr.Array, index: tuple[int, ...]) -> NDArray:
    """Return the chunk at a grid position of an array that has no shards."""
    return patience.undamaged(_is_remote(array), _name(array), lambda: np.asarray(array.get_block_selection(index)))


def fill_from(array: zarr.Array, start: int, stop: int, out: NDArray) -> None:
    """Fill ``out`` with rows ``start`` to ``stop`` of an array (n, d), as ``values_of`` would give them."""
    selection, target = (slice(start, stop), slice(None)), NDBuffer(out)  # type: ignore[arg-type]
    patience.undamaged(
        _is_remote(array),
        _name(array),
        lambda: array.get_basic_selection(selection, out=target),
    )


def _is_remote(array: zarr.Array) -> bool:
    return isinstance(array.store, PatientStore)


def _name(array: zarr.Array) -> str:
    return f"read {array.path}"


class PatientStore(WrapperStore[FsspecStore]):
    """A store whose operations are tried again while they fail for reasons that pass.

    Chunks have checksums, where they are Zarr's own. Metadata and lists have none: over a connection that is not
    encrypted they are read until two readings agree.
    """

    def __init__(self, store: FsspecStore, protocol: str) -> None:
        super().__init__(store)
        self._protocol = protocol

    def _with_store(self, store: FsspecStore) -> PatientStore:
        return type(self)(store, self._protocol)

    async def _patiently(self, name: str, key: str, call: Callable[[], Awaitable[Any]], agree: bool = False) -> Any:
        what = f"{name} {self._store.fs.unstrip_protocol(f'{self._store.path}/{key}')}".rstrip("/")

        async def attempt() -> Any:
            self._store.fs.invalidate_cache()
            return await call()

        async def read() -> Any:
            return await patience.patiently_async(what, attempt)

        if agree:  # of readings that are each tried again, so that one fault costs one reading
            return await patience.agreed_async(what, read, partial(is_plain, self._store.fs, self._protocol))
        return await read()

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        if key.rpartition("/")[2] in METADATA:

            async def read() -> bytes | None:
                found = await self._get(key, prototype, byte_range)
                return None if found is None else found.to_bytes()

            data = await self._patiently("read", key, read, agree=True)
            return None if data is None else prototype.buffer.from_bytes(data)
        return await self._patiently("read", key, lambda: self._get(key, prototype, byte_range))

    async def _get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None) -> Buffer | None:
        path = f"{self._store.path}/{key}"
        if self._protocol in S3:
            await self._store.fs.set_session()
        fast = fast_reader(self._store.fs, self._protocol, path)
        if fast is not None and (byte_range is None or isinstance(byte_range, RangeByteRequest)):
            wanted = None if byte_range is None else (byte_range.start, byte_range.end)
            try:
                found = await fast.read_async(path, wanted)
            except AbsentError:
                return None
            if found is not None:
                return prototype.buffer.from_bytes(found)
        return await self._store.get(key, prototype, byte_range)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    async def exists(self, key: str) -> bool:
        return await self._patiently("find", key, lambda: self._store.exists(key))

    async def set(self, key: str, value: Buffer) -> None:
        await self._patiently("write", key, lambda: self._store.set(key, value))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        await self._patiently("write", key, lambda: self._store.set_if_not_exists(key, value))

    async def delete(self, key: str) -> None:
        self._check_writable()
        await self._patiently("remove", key, lambda: self._delete(key))

    async def _delete(self, key: str) -> None:
        with suppress(FileNotFoundError):
            # Zarr's own ``delete`` takes the key for a pattern.
            await self._store.fs._rm_file(f"{self._store.path}/{key}")

    async def delete_dir(self, prefix: str) -> None:
        below = prefix.rstrip("/") + "/" if prefix else ""
        keys = [key async for key in self.list_prefix(below) if key.startswith(below)]
        for start in range(0, len(keys), DELETED_AT_ONCE):
            await asyncio.gather(*map(self.delete, keys[start : start + DELETED_AT_ONCE]))

    async def clear(self) -> None:
        await self.delete_dir("")

    async def is_empty(self, prefix: str) -> bool:
        return await self._patiently("list", prefix, lambda: self._store.is_empty(prefix))

    async def getsize(self, key: str) -> int:
        return await self._patiently("find", key, lambda: self._store.getsize(key))

    def list(self) -> AsyncIterator[str]:
        return self._listed("", self._store.list)

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        return self._listed(prefix, lambda: self._store.list_prefix(prefix))

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        return self._listed(prefix, lambda: self._store.list_dir(prefix))

    async def _listed(self, prefix: str, names: Callable[[], AsyncIterator[str]]) -> AsyncIterator[str]:
        async def found() -> Any:
            return sorted([name async for name in names()])

        for name in await self._patiently("list", prefix, found, agree=True):
            yield name
