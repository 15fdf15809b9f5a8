"""Zarr arrays from untrusted sources: no chunk unpacks to more than the array's metadata declare.

A few kilobytes can unpack to gigabytes, whatever the shape of a chunk is. Compressed chunks are decoded here with a
bound; Zarr does everything else.
"""

from __future__ import annotations

import asyncio
import bz2
import copy
import functools
import gzip
import io
import lzma
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numcodecs
import numpy as np
import zarr
from numcodecs.abc import Codec
from zarr.abc.codec import ArrayArrayCodec, BytesBytesCodec
from zarr.codecs import ShardingCodec, VLenBytesCodec, VLenUTF8Codec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer

from mmpca_dist.errors import InputError, MmpcaError
from mmpca_dist.stores import storage
from mmpca_dist.tables.memory_limits import allowed_bytes, refuse_larger

SLACK_BYTES = 1 << 10
"""Checksums and headers of other codecs."""
FIXED_SIZE = "biufcSUV"
"""Kinds of types whose values all have one size."""
FILTER_FACTOR = 16
"""Filters may widen values before they are compressed."""
SHARD_ENTRY_BYTES = 16
ZSTD_MAGIC = 0xFD2FB528
ZSTD_SKIPPED = range(0x184D2A50, 0x184D2A60)
ZSTD_BLOCK = 128 << 10
MAX_CODECS = 20
VLEN = ("vlen-utf8", "vlen-bytes", "vlen-array")
STREAMS = ("gzip", "zlib", "bz2", "lzma")
COMPRESSIONS = ("zstd", "blosc", "lz4", *STREAMS)


def member(group: zarr.Group, name: str, uri: str) -> zarr.Array | zarr.Group | None:
    """Return the member ``name`` of a group; an array has bounds on what its chunks unpack to.

    Refuses damaged metadata, chunks that are declared larger than the memory, and codecs that run code.
    """
    if "\0" in name:
        raise InputError(f"{name!r} is no name of an array of {uri}: it holds the character NUL.")
    try:
        with storage.explained(f"{uri}/{name}"):
            item = group.get(name)
    except MmpcaError:
        raise
    except Exception as error:  # Zarr raises many types for damaged metadata
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise InputError(
            f"Cannot read {uri}/{name}: its Zarr metadata are damaged, or of a kind that is not known ({reason[:200]})."
        ) from error
    return _bounded(item, f"{uri}/{name}") if isinstance(item, zarr.Array) else item


def _bounded(array: zarr.Array, where: str) -> zarr.Array:
    metadata: Any = copy.copy(array.metadata)
    n_items = math.prod(array.chunks)
    if array.ndim and not n_items * math.prod(array.shards or (1,)):
        raise InputError(f"The chunks of {where} have shape {array.chunks}, which is empty. Its metadata are damaged.")
    refuse_larger(n_items * array.dtype.itemsize, f"A chunk of {where}", "Store it in smaller chunks")
    if array.shards is not None:
        n_chunks = math.prod(-(-a // b) for a, b in zip(array.shards, array.chunks, strict=True))
        refuse_larger(SHARD_ENTRY_BYTES * n_chunks, f"The index of a shard of {where}", "Store it in smaller shards")
    limit = n_items * array.dtype.itemsize if array.dtype.kind in FIXED_SIZE else allowed_bytes()
    codecs = metadata.codecs if metadata.zarr_format == 3 else metadata.filters or ()
    if len(codecs) > MAX_CODECS:
        raise InputError(f"{where} declares {len(codecs):,} codecs. Its metadata are damaged or made up.")
    if metadata.zarr_format == 3:
        object.__setattr__(metadata, "codecs", _bounded_codecs(metadata.codecs, limit, n_items))
    else:
        compressor, filters = metadata.compressor, tuple(metadata.filters or ())
        if any(getattr(codec, "codec_id", None) == "pickle" for codec in (compressor, *filters)):
            raise InputError(
                f"{where} is stored by the codec 'pickle', which runs what is in the data and is never used. Store it "
                "as numbers, or labels as strings."
            )
        limit *= FILTER_FACTOR if filters else 1
        if compressor is not None:
            object.__setattr__(metadata, "compressor", _V2(compressor, limit, n_items))
        if filters:
            object.__setattr__(metadata, "filters", tuple(_V2(codec, limit, n_items) for codec in filters))
    inner = array._async_array
    return zarr.Array(type(inner)(metadata, inner.store_path))


def _bounded_codecs(codecs: tuple[Any, ...], limit: int, n_items: int) -> tuple[Any, ...]:
    if any(isinstance(codec, ArrayArrayCodec) for codec in codecs):
        limit *= FILTER_FACTOR
    bounded: list[Any] = []
    for codec in codecs:
        if isinstance(codec, ShardingCodec):
            shards = copy.copy(codec)
            object.__setattr__(shards, "codecs", _bounded_codecs(codec.codecs, limit, n_items))
            bounded.append(shards)
            limit = allowed_bytes()  # of the codecs around it
        elif isinstance(codec, VLenUTF8Codec | VLenBytesCodec):
            bounded += [codec, _V3(functools.partial(_with_items, n_items))]
        elif isinstance(codec, BytesBytesCodec) and (plain := _plain(codec)) is not None:
            bounded.append(_V3(functools.partial(_unpacked, plain, limit)))
        else:
            bounded.append(codec)
    return tuple(bounded)


def _plain(codec: Any) -> Codec | None:
    """Return the codec of numcodecs that equals one of Zarr; None where it is no compression."""
    content: Any = codec.to_dict()
    name = str(content.get("name")).removeprefix("numcodecs.")
    options = content.get("configuration", {}) if name == "lzma" else {}
    return numcodecs.get_codec({"id": name, **options}) if name in COMPRESSIONS else None


@dataclass(frozen=True)
class _V3(BytesBytesCodec):
    """A codec of Zarr 3 that only decodes."""

    decode_bytes: Callable[[Any], Any]
    is_fixed_size = False

    def _decode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        data = np.frombuffer(self.decode_bytes(chunk_bytes.as_numpy_array()), np.uint8)
        return chunk_spec.prototype.buffer.from_array_like(data)

    async def _decode_single(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        return await asyncio.to_thread(self._decode_sync, chunk_bytes, chunk_spec)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        raise NotImplementedError  # only writing asks for it, and this codec only reads


class _V2(Codec):
    """A codec of Zarr 2, bounded."""

    def __init__(self, codec: Any, limit: int, n_items: int) -> None:
        self.codec_id, self._codec, self._limit, self._n_items = codec.codec_id, codec, limit, n_items

    def decode(self, buf: Any, out: Any = None) -> Any:
        if self.codec_id in VLEN:
            return self._codec.decode(_with_items(self._n_items, buf))
        return _unpacked(self._codec, self._limit, buf)

    def encode(self, buf: Any) -> Any:
        return self._codec.encode(buf)

    def get_config(self) -> dict[str, Any]:
        return self._codec.get_config()


def _with_items(n_items: int, data: Any) -> Any:
    """Return texts in numcodecs' form, which begins with their number."""
    declared = int.from_bytes(_bytes_of(data)[:4], "little")
    if declared > n_items:
        raise ValueError(f"it declares {declared:,} texts where {n_items:,} belong")
    return data


def _unpacked(codec: Any, limit: int, data: Any) -> Any:
    """Decode a chunk; raise a ``ValueError`` where it has more than ``limit`` bytes, before it takes more memory."""
    kind, packed, longest = codec.codec_id, _bytes_of(data), limit + SLACK_BYTES
    if kind not in COMPRESSIONS:
        return codec.decode(data)
    if kind in STREAMS:
        unpacked = _first_bytes(codec, packed, longest + 1)
        n_bytes = len(unpacked)
    elif kind == "zstd":
        n_bytes, is_declared = _zstd_bytes(packed)
        if not is_declared and n_bytes > longest:
            return codec.decode(data, np.empty(limit, np.uint8))  # refuses any other length
    else:
        if kind == "blosc" and int.from_bytes(packed[12:16], "little") > len(packed):
            raise ValueError("it ends early")  # numcodecs would read on, past its end
        n_bytes = int.from_bytes(packed[4:8] if kind == "blosc" else packed[:4], "little")
    if n_bytes > longest:
        raise ValueError(f"it unpacks to more than the {limit:,} bytes that its metadata declare")
    return unpacked if kind in STREAMS else codec.decode(data)


def _first_bytes(codec: Any, data: memoryview, n_bytes: int) -> bytes:
    kind = codec.codec_id
    if kind == "gzip":
        return gzip.GzipFile(fileobj=io.BytesIO(data)).read(n_bytes)
    if kind == "bz2":
        return bz2.BZ2File(io.BytesIO(data)).read(n_bytes)
    decoder: Any = zlib.decompressobj()
    if kind == "lzma":
        raw = codec.format == lzma.FORMAT_RAW
        limits = {"filters": codec.filters} if raw else {"memlimit": allowed_bytes()}
        decoder = lzma.LZMADecompressor(codec.format, **limits)
    unpacked = decoder.decompress(data, n_bytes)
    if not decoder.eof and len(unpacked) < n_bytes:
        raise ValueError("it ends early")
    return unpacked


def _zstd_bytes(data: memoryview) -> tuple[int, bool]:
    """Return the most bytes that the frames of a chunk unpack to, and whether they declare it (RFC 8878)."""
    total, at, is_declared = 0, 0, True
    while at + 8 <= len(data):
        magic = int.from_bytes(data[at : at + 4], "little")
        if magic in ZSTD_SKIPPED:
            at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
            continue
        if magic != ZSTD_MAGIC:
            break
        flags = data[at + 4]
        is_single, has_checksum, id_bytes = flags >> 5 & 1, flags >> 2 & 1, (0, 1, 2, 4)[flags & 3]
        size_bytes = (is_single, 2, 4, 8)[flags >> 6]
        at += 6 - is_single + id_bytes
        declared = int.from_bytes(data[at : at + size_bytes], "little") + 256 * (size_bytes == 2)
        at += size_bytes
        is_last, by_blocks = 0, 0
        while not is_last and at + 3 <= len(data):
            header = int.from_bytes(data[at : at + 3], "little")
            is_last, kind, size = header & 1, header >> 1 & 3, header >> 3
            by_blocks += size if kind < 2 else ZSTD_BLOCK
            at += 3 + (1 if kind == 1 else size)
        at += 4 * has_checksum
        total += declared if size_bytes else by_blocks
        is_declared = is_declared and size_bytes > 0
    return total, is_declared


def _bytes_of(data: Any) -> memoryview:
    plain = np.ascontiguousarray(data).reshape(-1).view(np.uint8) if isinstance(data, np.ndarray) else data
    return memoryview(plain).cast("B")  # type: ignore[arg-type]
