"""Dense rows in a Zarr group: an array of shape (n, d); uncompressed local chunks are read past Zarr.

Zarr reads a chunk into new memory and copies it from there: 1.7 GiB/s on two cores, most of it page faults. Reading
into a reused buffer does 6 GiB/s (3 with the checksum, which covers every byte). Bytes and checksums are the same; a
test compares the two paths. ``PlainChunks`` compares metadata with Zarr's specification, not with the classes of one
version of the library. Whatever is not certainly a plain local chunk goes through Zarr; compressed local chunks through
zarrs, where it is installed. ``benchmarks/reading.py`` measures the speeds.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import zarr
from fsspec.implementations.local import LocalFileSystem
from numpy.typing import NDArray
from zarr.storage import FsspecStore, LocalStore

from mmpca_dist.stores.zarr_stores import fill_from
from mmpca_dist.tables.facts import Facts
from mmpca_dist.tables.memory_limits import check_table
from mmpca_dist.tables.readers.zarr_groups import ZarrGroupRows, array_of, kept_open
from mmpca_dist.tables.spans import chunk_edges, chunk_of

CRC_BYTES = 4
ABSENT = 2**64 - 1
"""The offset in a shard's index of a chunk that is not stored."""
METADATA_KEYS = {
    3: {"shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs", "attributes", "zarr_format",
        "node_type", "storage_transformers", "dimension_names"},
    2: {"shape", "chunks", "dtype", "compressor", "filters", "order", "dimension_separator", "fill_value", "attributes",
        "zarr_format"},
}  # fmt: skip
"""The keys of an array's metadata, by format: any other may change what the bytes mean."""


class ZarrRows(ZarrGroupRows):
    """Dense rows of a Zarr group, in one array (n, d), chunked along rows or along both axes."""

    def _open(self, group: zarr.Group, where: str) -> Facts:
        rows = array_of(group, self.features, self._address)
        check_table(where, rows.shape, rows.dtype)
        self._chunk_rows = int((rows.shards or rows.chunks)[0])
        self._refuse_missing(self.features, rows, "rows")
        n_rows, n_features = rows.shape
        overhead = 0.0 if ZarrReader.of(rows).plain is not None else 2.0
        return Facts(self._address, n_rows, n_features, rows.dtype, read_overhead=overhead)

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return chunk_edges(self.n_rows, self._chunk_rows)

    def read(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        if out is None:
            out = np.empty((stop - start, self.n_features), self.dtype)
        return kept_open(ZarrReader.opened, self.table, self.features, self._token).read(start, stop, out)

    def describe_chunk(self, row: int) -> str:
        number, start, stop = chunk_of(self.chunk_edges, row)
        return f"chunk {number} (rows {start} to {stop - 1}) of {self.uri}/{self.features}"


@dataclass(frozen=True)
class ZarrReader:
    """Reads rows of a Zarr array (n, d) into a buffer, past Zarr where chunks are plain local files."""

    array: zarr.Array
    plain: PlainChunks | None

    @classmethod
    def of(cls, array: zarr.Array) -> ZarrReader:
        store, root = array.store, None
        if isinstance(store, LocalStore):
            root = Path(store.root)
        elif isinstance(store, FsspecStore) and isinstance(getattr(store.fs, "sync_fs", store.fs), LocalFileSystem):
            root = Path(store.path)
        plain = None if root is None else PlainChunks.of(array, root / array.path)
        if plain is None and isinstance(store, LocalStore) and array.metadata.zarr_format == 3:
            _decode_with_zarrs(array)
        return cls(array, plain)

    @classmethod
    def opened(cls, group: zarr.Group, name: str, uri: str) -> ZarrReader:
        """Return a reader of the array ``name`` of a group."""
        return cls.of(array_of(group, name, uri))

    def read(self, start: int, stop: int, out: NDArray) -> NDArray:
        """Fill ``out``, shape (stop - start, d) and of the array's type, and return it."""
        if self.plain is None or not self.plain.read(start, stop, out):
            fill_from(self.array, start, stop, out)
        return out


def _decode_with_zarrs(array: zarr.Array) -> None:
    """Let zarrs decode the chunks of an array, where it is installed; it leaves what it does not know to Zarr."""
    with suppress(Exception):  # it is not installed, or belongs to another version of Zarr
        from zarrs import ZarrsCodecPipeline

        pipeline = ZarrsCodecPipeline.from_array_metadata_and_store(array.metadata, array.store)
        object.__setattr__(array._async_array, "codec_pipeline", pipeline)


@dataclass(frozen=True)
class PlainChunks:
    """The chunks of an uncompressed array that span all columns, one a file or ``per_file`` in a shard."""

    array: zarr.Array
    root: Path
    chunk_rows: int
    row_bytes: int
    checksum: bool
    sharded: bool
    per_file: int

    @classmethod
    def of(cls, array: zarr.Array, root: Path) -> PlainChunks | None:
        """Return the chunks of ``array`` below ``root``; None where they are not certainly plain."""
        try:
            stored, chunk, checksum, sharded = _layout(array.metadata.to_dict())  # type: ignore[misc]
            path = array.metadata.encode_chunk_key((0, 0))
        except Exception:  # a later Zarr may have other metadata, and other names
            return None
        native = array.dtype.kind in "fiub" and array.dtype.isnative
        if not native or chunk[1] != array.shape[1] or not isinstance(path, str):
            return None
        row_bytes = chunk[1] * array.dtype.itemsize
        return cls(array, root, chunk[0], row_bytes, checksum, sharded, stored[0] // chunk[0])

    def read(self, start: int, stop: int, out: NDArray) -> bool:
        """Fill ``out`` with rows ``start`` to ``stop``; False where a chunk is not stored."""
        file_rows = self.chunk_rows * self.per_file
        for number in range(start // file_rows, -(-stop // file_rows)):
            path = self.root / self.array.metadata.encode_chunk_key((number, 0))
            try:
                file = path.open("rb", buffering=0)
            except FileNotFoundError:
                return False
            with file:
                offsets = self._offsets(file, path.stat().st_size)
                lo, hi = max(start, number * file_rows), min(stop, (number + 1) * file_rows)
                for index in range(lo // self.chunk_rows, -(-hi // self.chunk_rows)):
                    offset = offsets[index - number * self.per_file]
                    if offset == ABSENT:
                        return False
                    first = index * self.chunk_rows
                    begin, end = max(lo, first), min(hi, first + self.chunk_rows)
                    file.seek(offset)
                    self._read_chunk(file, begin - first, out[begin - start : end - start])
        return True

    def _offsets(self, file: Any, size: int) -> list[int]:
        expected = self.chunk_rows * self.row_bytes + CRC_BYTES * self.checksum
        if not self.sharded:
            if size != expected:
                raise ValueError(f"it holds {size} bytes where {expected} belong")
            return [0]
        index = np.empty((self.per_file, 2), "<u8")
        if size < index.nbytes + CRC_BYTES:
            raise ValueError(f"it holds {size} bytes, less than the index of a shard")
        file.seek(size - index.nbytes - CRC_BYTES)
        _fill(file, index)
        if google_crc32c.value(_bytes_of(index)) != int.from_bytes(file.read(CRC_BYTES), "little"):
            raise ValueError("the checksum of its index does not match")
        if np.any((index[:, 0] != ABSENT) & (index[:, 1] != expected)):
            raise ValueError(f"its index names a chunk that is not {expected} bytes long")
        return index[:, 0].tolist()

    def _read_chunk(self, file: Any, skip_rows: int, rows: NDArray) -> None:
        if not self.checksum:
            file.seek(skip_rows * self.row_bytes, 1)
            _fill(file, rows)
            return
        # A checksum covers the whole chunk: rows that were not asked for, and padding, are read for it.
        before = np.empty(skip_rows * self.row_bytes, np.uint8)
        after = np.empty(self.chunk_rows * self.row_bytes - before.nbytes - rows.nbytes, np.uint8)
        crc = 0
        for part in (before, rows, after):
            _fill(file, part)
            crc = google_crc32c.extend(crc, _bytes_of(part)) if part.nbytes else crc
        if crc != int.from_bytes(file.read(CRC_BYTES), "little"):
            raise ValueError("its checksum does not match")


def _layout(document: Any) -> tuple[tuple[int, int], tuple[int, int], bool, bool] | None:
    """Return (shape of a stored file, shape of a chunk, has a checksum, is a shard) of uncompressed rows, or None.

    ``document`` is the metadata of an array (n, d), as ``zarr.json`` or ``.zarray`` hold it.
    """
    if set(document) - METADATA_KEYS[document["zarr_format"]] or sys.byteorder != "little":
        return None
    if document["zarr_format"] == 2:
        plain = document["compressor"] is None and not document["filters"] and document["order"] == "C"
        chunk = _pair(document["chunks"])
        return (chunk, chunk, False, False) if plain else None
    grid, codecs = document["chunk_grid"], list(document["codecs"])
    if grid["name"] != "regular" or document.get("storage_transformers"):
        return None
    stored = chunk = _pair(grid["configuration"]["chunk_shape"])
    sharded = codecs[0]["name"] == "sharding_indexed"
    if sharded:
        inner = codecs[0]["configuration"]
        at_end = inner.get("index_location", "end") == "end" and _checksum(inner["index_codecs"])
        chunk, codecs = _pair(inner["chunk_shape"]), list(inner["codecs"]) if at_end and len(codecs) == 1 else []
    checksum = _checksum(codecs)
    fits = stored[1] == chunk[1] and stored[0] % chunk[0] == 0
    return (stored, chunk, checksum, sharded) if checksum is not None and fits else None


def _pair(shape: Any) -> tuple[int, int]:
    rows, columns = shape
    return int(rows), int(columns)


def _checksum(codecs: Any) -> bool | None:
    """Tell whether a checksum follows plain little-endian bytes; None for any other codecs."""
    names = [codec["name"] for codec in codecs]
    if names not in (["bytes"], ["bytes", "crc32c"]):
        return None
    # Bytes of a single-byte type have no order, and no configuration.
    little = codecs[0].get("configuration", {}).get("endian", "little") == "little"
    return len(names) == 2 if little else None


def _fill(file: Any, out: NDArray) -> None:
    """Read a whole array; raise an ``EOFError`` where the file ends before."""
    target, done = out.reshape(-1).view(np.uint8).data, 0
    while done < len(target):
        size = file.readinto(target[done:])
        if not size:
            raise EOFError("it ends early")
        done += size


def _bytes_of(array: NDArray) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)
