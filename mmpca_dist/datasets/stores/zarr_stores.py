"""Zarr stores behind URLs, with retries."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.core.buffer.cpu import NDBuffer
from zarr.storage import FsspecStore, ObjectStore, WrapperStore

from mmpca_dist.datasets.stores import retries

__all__ = ["PatientStore", "block_of", "fill_from", "values_of"]

DELETED_AT_ONCE = 64
METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")


def values_of(array: zarr.Array, start: int = 0, stop: int | None = None) -> NDArray:
    """Return entries ``start`` to ``stop`` of an array along its first axis; damaged ones from afar are read again."""
    selection: Any = slice(start, stop) if array.ndim else ()
    return retries.undamaged(_is_remote(array), _name(array), lambda: np.asarray(array[selection]))


def block_of(array: zarr.Array, index: tuple[int, ...]) -> NDArray:
    """Return the chunk at a grid position of an array that has no shards."""
    return retries.undamaged(_is_remote(array), _name(array), lambda: np.asarray(array.get_block_selection(index)))


def fill_from(array: zarr.Array, start: int, stop: int, out: NDArray) -> None:
    """Fill ``out`` with rows ``start`` to ``stop`` of an array (n, d), as ``values_of`` would give them."""
    selection, target = (slice(start, stop), slice(None)), NDBuffer(out)  # type: ignore[arg-type]
    retries.undamaged(
        _is_remote(array),
        _name(array),
        lambda: array.get_basic_selection(selection, out=target),
    )


def _is_remote(array: zarr.Array) -> bool:
    return isinstance(array.store, PatientStore)


def _name(array: zarr.Array) -> str:
    return f"read {array.path}"


class PatientStore(WrapperStore[ObjectStore | FsspecStore]):
    """A store whose operations are repeated while they fail for reasons that pass.

    Chunks have checksums, where they are Zarr's own. Metadata and lists have none: over a connection that is not
    encrypted they are read until two readings agree.

    Parameters
    ----------
    store : ObjectStore or FsspecStore
    address : str
        The URL of the group, for messages.
    prefix : str
        What the names of the group's objects begin with in ``store``.
    is_plain : bool
        Whether the connection is not encrypted.
    """

    def __init__(self, store: ObjectStore | FsspecStore, address: str, prefix: str, is_plain: bool) -> None:
        super().__init__(store)
        self._address, self._prefix, self._is_plain = address, prefix, is_plain

    def _with_store(self, store: ObjectStore | FsspecStore) -> PatientStore:
        return type(self)(store, self._address, self._prefix, self._is_plain)

    def __eq__(self, value: object) -> bool:
        return super().__eq__(value) and isinstance(value, PatientStore) and self._prefix == value._prefix

    __hash__ = None  # type: ignore[assignment]  # as Zarr's stores have it

    async def _patiently(self, name: str, key: str, call: Callable[[], Awaitable[Any]], agree: bool = False) -> Any:
        what = f"{name} {self._address}/{key}".rstrip("/")

        async def read() -> Any:
            return await retries.patiently_async(what, call)

        if agree:  # of readings that are each tried again, so that one fault costs one reading
            return await retries.agreed_async(what, read, lambda: self._is_plain)
        return await read()

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        async def read() -> Buffer | None:
            return await self._store.get(self._prefix + key, prototype, byte_range)

        if key.rpartition("/")[2] not in METADATA:
            return await self._patiently("read", key, read)

        async def read_bytes() -> bytes | None:
            buffer = await read()
            return None if buffer is None else buffer.to_bytes()

        data = await self._patiently("read", key, read_bytes, agree=True)
        return None if data is None else prototype.buffer.from_bytes(data)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    # The wrapper's own pass these on without the prefix and without another attempt.
    _get_many = Store._get_many
    _set_many = Store._set_many

    async def exists(self, key: str) -> bool:
        return await self._patiently("find", key, lambda: self._store.exists(self._prefix + key))

    async def set(self, key: str, value: Buffer) -> None:
        await self._patiently("write", key, lambda: self._store.set(self._prefix + key, value))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        await self._patiently("write", key, lambda: self._store.set_if_not_exists(self._prefix + key, value))

    async def delete(self, key: str) -> None:
        self._check_writable()
        await self._patiently("remove", key, lambda: self._delete(key))

    async def _delete(self, key: str) -> None:
        with suppress(FileNotFoundError):
            if isinstance(self._store, FsspecStore):  # whose ``delete`` takes the key for a pattern
                await self._store.fs._rm_file(f"{self._store.path}/{key}")
            else:
                await self._store.delete(self._prefix + key)

    async def delete_dir(self, prefix: str) -> None:
        below = prefix.rstrip("/") + "/" if prefix else ""
        keys = [key async for key in self.list_prefix(below) if key.startswith(below)]
        for start in range(0, len(keys), DELETED_AT_ONCE):
            await asyncio.gather(*map(self.delete, keys[start : start + DELETED_AT_ONCE]))

    async def clear(self) -> None:
        await self.delete_dir("")

    async def is_empty(self, prefix: str) -> bool:
        return await self._patiently("list", prefix, lambda: self._store.is_empty(self._prefix + prefix))

    async def getsize(self, key: str) -> int:
        return await self._patiently("find", key, lambda: self._store.getsize(self._prefix + key))

    def list(self) -> AsyncIterator[str]:
        return self.list_prefix("")

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        names = functools.partial(self._store.list_prefix, self._prefix + prefix)
        return self._listed(prefix, names, len(self._prefix))

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        return self._listed(prefix, functools.partial(self._store.list_dir, (self._prefix + prefix).rstrip("/")), 0)

    async def _listed(self, prefix: str, names: Callable[[], AsyncIterator[str]], skipped: int) -> AsyncIterator[str]:
        async def read() -> Any:
            return sorted([name[skipped:] async for name in names()])

        for name in await self._patiently("list", prefix, read, agree=True):
            yield name
