"""Uncompressed Zarr chunks on a local disk, read straight into the caller's buffer.

Zarr reads a chunk into fresh memory and copies it from there: 1.7 GiB/s on two cores, most of it page faults,
where reading into a reused buffer does 6 (3 with the checksum, which has to see every byte). The bytes are the
same, and so are the checksums; a test compares the two paths. Chunks may be files of their own or lie in shards.
Metadata is compared with Zarr's specification, not with the classes of one version of the library, and whatever
is not a plain local chunk for certain goes through Zarr. ``benchmarks/reading.py`` compares the speeds.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import zarr
from numpy.typing import NDArray

CRC_BYTES = 4
ABSENT = 2**64 - 1
"""The offset a shard's index gives for a chunk that is not stored."""
KNOWN_KEYS = {
    3: {"shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs", "attributes", "zarr_format",
        "node_type", "storage_transformers", "dimension_names"},
    2: {"shape", "chunks", "dtype", "compressor", "filters", "order", "dimension_separator", "fill_value", "attributes",
        "zarr_format"},
}  # fmt: skip
"""The keys of an array's metadata, by format: any other may change what the bytes mean."""


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
        """Return the plain chunks of ``array`` below ``root``, or None where it has no such chunks for certain."""
        try:
            document = array.metadata.to_dict()
            layout = _layout(document)
            stored, chunk, checksum, sharded = layout  # type: ignore[misc]
            path = array.metadata.encode_chunk_key((0, 0))
        except Exception:  # a later Zarr may have other metadata, and other names
            return None
        native = array.dtype.kind in "fiub" and array.dtype.isnative
        if not native or chunk[1] != array.shape[1] or not isinstance(path, str):
            return None
        row_bytes = chunk[1] * array.dtype.itemsize
        return cls(array, root, chunk[0], row_bytes, checksum, sharded, stored[0] // chunk[0])

    def read(self, start: int, stop: int, out: NDArray) -> bool:
        """Fill ``out`` with rows ``start`` to ``stop``; False where a chunk does not exist."""
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
        """Return where in a file its chunks begin."""
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
        return [int(offset) for offset in index[:, 0]]

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
    if set(document) - KNOWN_KEYS[document["zarr_format"]] or sys.byteorder != "little":
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
    whole = stored[1] == chunk[1] and stored[0] % chunk[0] == 0
    return (stored, chunk, checksum, sharded) if checksum is not None and whole else None


def _pair(shape: Any) -> tuple[int, int]:
    rows, columns = shape
    return int(rows), int(columns)


def _checksum(codecs: Any) -> bool | None:
    """Tell whether plain little-endian bytes are followed by a checksum; None for any other codecs."""
    names = [codec["name"] for codec in codecs]
    if names not in (["bytes"], ["bytes", "crc32c"]):
        return None
    # Bytes of a single-byte type have no order, and no configuration.
    little = codecs[0].get("configuration", {}).get("endian", "little") == "little"
    return len(names) == 2 if little else None


def _bytes_of(array: NDArray) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)


def _fill(file: Any, array: NDArray) -> None:
    target = _bytes_of(array).data
    done = 0
    while done < len(target):
        read = file.readinto(target[done:])
        if not read:
            raise ValueError("it ends early")
        done += read
