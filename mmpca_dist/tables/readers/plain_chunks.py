"""Uncompressed local chunks of a Zarr array of shape (n, d), read past Zarr into a caller's buffer.

Zarr reads a chunk into new memory and copies it from there: 1.7 GiB/s on two cores, most of it page faults. Reading
into a reused buffer does 6 GiB/s (3 with the checksum, which covers every byte), and into one that stays in the
processor's cache 16. Bytes and checksums are the same; a test compares the two paths. ``PlainChunks`` compares metadata
with Zarr's specification, not with the classes of one version of the library. Whatever is not certainly a plain local
chunk goes through Zarr.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import google_crc32c
import numpy as np
import zarr
from numpy.typing import NDArray

from mmpca_dist.stores.zarr_stores import fill_from

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

    def read(self, start: int, stop: int, out: NDArray) -> None:
        """Fill ``out`` with rows ``start`` to ``stop``."""
        for _ in self.blocks(start, stop, out):
            pass

    def blocks(self, start: int, stop: int, out: NDArray) -> Iterator[NDArray]:
        """Yield rows ``start`` to ``stop``, as many at a time as ``out`` holds; the next ones overwrite them.

        A checksum is compared after the last row of its chunk, so that whoever takes some blocks must take all.
        """
        row = start
        for first, end, file in self._chunks(start, stop):
            crc = self._pass_over(file, row - first, 0)
            while row < end:
                held = (row - start) % len(out)
                upto = min(end, row + len(out) - held)
                part = out[held : held + upto - row]
                if file is None:
                    fill_from(self.array, row, upto, part)
                else:
                    crc = self._fill(file, part, crc)
                row = upto
                if row == end:
                    self._compare(file, self._pass_over(file, first + self.chunk_rows - end, crc))
                if row == stop or (row - start) % len(out) == 0:
                    yield out[: held + len(part)]

    def _chunks(self, start: int, stop: int) -> Iterator[tuple[int, int, BinaryIO | None]]:
        """Yield the first row of each chunk, the end of those that are asked for, and its file, at its first byte.

        The file of a chunk that is not stored is None.
        """
        file_rows = self.chunk_rows * self.per_file
        for number in range(start // file_rows, -(-stop // file_rows)):
            with self._opened(number) as (file, offsets):
                lo, hi = max(start, number * file_rows), min(stop, (number + 1) * file_rows)
                for index in range(lo // self.chunk_rows, -(-hi // self.chunk_rows)):
                    offset = offsets[index - number * self.per_file]
                    if offset != ABSENT and file is not None:
                        file.seek(offset)
                    stored = None if offset == ABSENT else file
                    yield index * self.chunk_rows, min(hi, (index + 1) * self.chunk_rows), stored

    @contextmanager
    def _opened(self, number: int) -> Iterator[tuple[BinaryIO | None, list[int]]]:
        """Yield a file, and where in it each chunk begins."""
        path = self.root / self.array.metadata.encode_chunk_key((number, 0))
        try:
            file = path.open("rb", buffering=0)
        except FileNotFoundError:
            yield None, [ABSENT] * self.per_file
            return
        with file:
            yield file, self._offsets(file, path.stat().st_size)

    def _offsets(self, file: BinaryIO, size: int) -> list[int]:
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

    def _pass_over(self, file: BinaryIO | None, n_rows: int, crc: int) -> int:
        """Skip rows that are not asked for; a checksum covers these and padding, which are read for it."""
        if file is None or not n_rows:
            return crc
        if self.checksum:
            return self._fill(file, np.empty(n_rows * self.row_bytes, np.uint8), crc)
        file.seek(n_rows * self.row_bytes, 1)
        return crc

    def _fill(self, file: BinaryIO, rows: NDArray, crc: int) -> int:
        _fill(file, rows)
        return google_crc32c.extend(crc, _bytes_of(rows)) if self.checksum else crc

    def _compare(self, file: BinaryIO | None, crc: int) -> None:
        if self.checksum and file is not None and crc != int.from_bytes(file.read(CRC_BYTES), "little"):
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
