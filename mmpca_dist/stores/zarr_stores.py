"""Zarr groups behind paths and URLs: opened, read, and checked for damage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import google_crc32c
import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.abc.store import ByteRequest, Store
from zarr.codecs import Crc32cCodec
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.core.buffer.cpu import NDBuffer
from zarr.errors import GroupNotFoundError
from zarr.storage import FsspecStore, LocalStore, ObjectStore, WrapperStore

from mmpca_dist.errors import DamageError, InputError, MmpcaError, instead_of
from mmpca_dist.stores import failures, storage
from mmpca_dist.stores.addresses import check_address, is_bucket, is_local, is_remote
from mmpca_dist.stores.remote_files import Bucket

T = TypeVar("T")
CHECKED: dict[str, Any] = {"compressors": [Crc32cCodec()], "config": {"write_empty_chunks": True}}
"""Options of an array that stores every chunk as it is, followed by its checksum."""
DELETED_AT_ONCE = 64
METADATA = ("zarr.json", ".zgroup", ".zarray", ".zattrs")
STRANGE = (ValueError, TypeError, LookupError, RecursionError)
"""Errors that damaged metadata raise: JSON, or settings, that are none."""
ABSENT_OR_INVALID = (FileNotFoundError, IsADirectoryError, NotADirectoryError, ValueError)
"""Reasons why an object that was written cannot be read, other than an address that is out of reach."""


def open_group(uri: str, mode: str = "r") -> zarr.Group:
    """Open (``"r"``, ``"a"``) or create anew (``"w"``) a Zarr group.

    Consolidated metadata are ignored: they are copies, and out of date once an array is replaced.
    """
    with storage.explained(uri, "read" if mode == "r" else "write"):
        if is_local(uri) and mode in ("a", "w"):
            Path(uri).parent.mkdir(parents=True, exist_ok=True)
        location = zarr_location(uri, mode == "r")
        nothing = (
            f"Cannot read {uri}: there is no Zarr group at this address, and a folder of Parquet files has these "
            "directly in it."
        )
        damaged = f"Cannot read {uri}: its Zarr metadata is damaged ({{reason}}). Restore it."
        if mode != "r":
            return zarr.open_group(location, mode=mode, use_consolidated=False)  # type: ignore[arg-type]
        with instead_of(STRANGE, InputError, damaged):
            folder = location if isinstance(location, Path) else None
            return _metadata(uri, folder, lambda: _opened(location, is_remote(uri), nothing))


def _opened(location: Any, remote: bool, nothing: str) -> zarr.Group:
    with instead_of(GroupNotFoundError, InputError, nothing):
        if remote:
            # Looking for all forms of groups at once would take four times as many requests.
            with suppress(GroupNotFoundError):
                return zarr.open_group(location, mode="r", zarr_format=3, use_consolidated=False)
        return zarr.open_group(location, mode="r", use_consolidated=False)


def member(group: zarr.Group, name: str) -> zarr.Array | zarr.Group | None:
    """Return the member of a group of this name, or None where there is none; damaged remote metadata are read again.

    Raises InputError for local ones that are neither a file nor a folder, which would be waited for.
    """
    folder = group.store.root / group.path / name if isinstance(group.store, LocalStore) else None
    return _metadata(f"{group.path}/{name}", folder, lambda: group.get(name))


def _metadata(name: str, folder: Path | None, read: Callable[[], T]) -> T:
    for file in METADATA if folder is not None else ():
        storage.refuse_pipe(storage.join(str(folder), file))
    return failures.undamaged(folder is None, f"read the metadata of {name}", read, *STRANGE)


def zarr_location(uri: str, read_only: bool = False) -> Any:
    """Return what Zarr finds a group or array by: a path, or the store behind a URL."""
    if is_local(uri):
        return Path(uri)
    check_address(uri)
    if is_bucket(uri):
        with storage.explained(uri, "reach"):
            bucket, path = Bucket.of(uri)
            return PatientStore(ObjectStore(bucket.connect(), read_only=read_only), uri, path.partition("/")[2] + "/")
    fsspec_store = FsspecStore.from_url(uri, storage_options={"use_listings_cache": False}, read_only=read_only)
    return PatientStore(fsspec_store, uri, "")


def values_of(array: zarr.Array, start: int = 0, stop: int | None = None) -> NDArray:
    """Return entries ``start`` to ``stop`` of an array along its first axis; damaged remote data are read again."""
    selection: Any = slice(start, stop) if array.ndim else ()
    return _undamaged(array, lambda: np.asarray(array[selection]))


def pixels_of(array: zarr.Array, start: int, stop: int) -> NDArray:
    """Return pixels ``start`` to ``stop`` of an array (y, x) or (y, x, band), line by line; of a flat one its entries.

    Whole lines are read.
    """
    if array.ndim == 1:
        return values_of(array, start, stop)
    width = array.shape[1]
    first = start // width
    lines = values_of(array, first, -(-stop // width))
    return lines.reshape(-1, *array.shape[2:])[start - first * width : stop - first * width]


def block_of(array: zarr.Array, index: tuple[int, ...]) -> NDArray:
    """Return the chunk at a grid position of an array that has no shards."""
    return _undamaged(array, lambda: np.asarray(array.get_block_selection(index)))


def fill_from(array: zarr.Array, start: int, stop: int, out: NDArray) -> None:
    """Fill ``out`` with rows ``start`` to ``stop`` of an array (n, d), as ``values_of`` would give them."""
    selection, target = (slice(start, stop), slice(None)), NDBuffer(cast(Any, out))
    _undamaged(array, lambda: array.get_basic_selection(selection, out=target))


def write_chunk(uri: str, array: zarr.Array, start: int, values: NDArray) -> None:
    """Write the chunk of a `CHECKED` array at ``uri`` that begins at row ``start``: its bytes and their checksum.

    Zarr takes a millisecond of its one thread for each chunk, so local numbers go past it.
    """
    if not is_local(uri) or array.dtype.kind not in "fiub":
        array[start : start + len(values)] = values
        return
    chunk = np.ascontiguousarray(values, array.dtype.newbyteorder("<"))
    if missing := array.chunks[0] - len(chunk):
        chunk = np.concatenate([chunk, np.full((missing, *chunk.shape[1:]), array.fill_value, chunk.dtype)])
    data = chunk.reshape(-1).view(np.uint8)
    index = (start // array.chunks[0], *[0] * (array.ndim - 1))
    with storage.writing(storage.join(uri, array.metadata.encode_chunk_key(index))) as file:
        file.write(data.data)
        file.write(google_crc32c.value(data).to_bytes(4, "little"))


def _undamaged(array: zarr.Array, read: Callable[[], T]) -> T:
    return failures.undamaged(isinstance(array.store, PatientStore), f"read {array.path}", read)


@contextmanager
def reading_own(uri: str, remedy: str = storage.RESTORE) -> Iterator[None]:
    """Turn whatever damaged objects of this project raise into a ``DamageError``, which ends with ``remedy``.

    Other faults stay what they are.
    """
    try:
        with storage.explained(uri):
            yield
    except DamageError:
        raise
    except MmpcaError as error:
        if isinstance(error.__cause__, ABSENT_OR_INVALID):
            raise DamageError(f"{error} {remedy}".rstrip()) from error
        raise
    except Exception as error:  # whatever Zarr, codecs and parsers raise for damaged bytes
        raise DamageError(f"Cannot read {uri}: it is damaged ({_reason(error)}). {remedy}".rstrip()) from error


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    if "checksum" in text.lower():  # which Zarr follows with both of them, as bytes
        return "its checksum does not match"
    return f"it lacks {text}" if isinstance(error, KeyError) else text or type(error).__name__


def chunks_of(array: zarr.Array) -> Iterator[tuple[int, ...]]:
    """Yield the grid positions of the chunks, or shards, of an array."""
    stored = array.shards or array.chunks
    yield from np.ndindex(*(-(-size // chunk) for size, chunk in zip(array.shape, stored, strict=True)))


def refuse_absent_chunks(uri: str, array: zarr.Array, present: dict[str, int], remedy: str = storage.RESTORE) -> None:
    """Refuse an array of this project that lacks a chunk: Zarr would read fill values in its place.

    ``present`` has the sizes of the objects below ``uri``, by name.
    """
    for index in chunks_of(array):
        key = array.metadata.encode_chunk_key(index)
        if key not in present:
            raise DamageError(f"Cannot read {uri}/{key}: it does not exist. {remedy}".rstrip())


def read_chunks(uri: str, array: zarr.Array, remedy: str = storage.RESTORE) -> NDArray:
    """Return an array of this project, without shards; an error names the damaged chunk."""
    try:
        return values_of(array)
    except Exception:  # the same comes again, of the chunk
        for index in chunks_of(array):
            with reading_own(f"{uri}/{array.metadata.encode_chunk_key(index)}", remedy):
                block_of(array, index)
        raise


class PatientStore(WrapperStore[ObjectStore | FsspecStore]):
    """A store that retries operations while they fail for reasons that pass.

    ``address`` is the URL of the group, for messages; ``prefix`` is what the names of its objects begin with in
    ``store``.
    """

    def __init__(self, store: ObjectStore | FsspecStore, address: str, prefix: str) -> None:
        super().__init__(store)
        self._address, self._prefix = address, prefix

    def _with_store(self, store: ObjectStore | FsspecStore) -> PatientStore:
        return type(self)(store, self._address, self._prefix)

    def __eq__(self, value: object) -> bool:
        return super().__eq__(value) and isinstance(value, PatientStore) and self._prefix == value._prefix

    __hash__ = None  # type: ignore[assignment]  # as Zarr's stores have it

    async def _patiently(self, name: str, key: str, call: Callable[[], Awaitable[Any]]) -> Any:
        return await failures.patiently_async(f"{name} {self._address}/{key}".rstrip("/"), call)

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        return await self._patiently("read", key, lambda: self._store.get(self._prefix + key, prototype, byte_range))

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    # The wrapper's own pass these on without the prefix and without another attempt.
    _get_many = Store._get_many
    _set_many = Store._set_many
    get_ranges: Any = getattr(Store, "get_ranges", None)  # of Zarr 3.3 and later, for parts of shards
    get_sync: Any = None  # these, too, are of Zarr 3.3 and later: such stores are not read without waiting
    set_sync: Any = None
    delete_sync: Any = None
    _supports_sync_io = False

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
        return self._listed(prefix, lambda: self._store.list_prefix(self._prefix + prefix), len(self._prefix))

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        return self._listed(prefix, lambda: self._store.list_dir((self._prefix + prefix).rstrip("/")), 0)

    async def _listed(self, prefix: str, names: Callable[[], AsyncIterator[str]], skipped: int) -> AsyncIterator[str]:
        async def read() -> Any:
            return sorted([name[skipped:] async for name in names()])

        for name in await self._patiently("list", prefix, read):
            yield name
