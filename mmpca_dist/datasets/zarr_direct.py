"""Uncompressed Zarr chunks on a local disk, read straight into the caller's buffer.

Zarr reads a chunk into fresh memory and copies it from there: 2.7 GiB/s on two cores, most of it page
faults, where reading into a reused buffer does 20 (7 with the checksum, which has to see every byte). The
bytes are the same, and so are the checksums; a test compares the two paths. Chunks may be files of their own
or lie in shards. Whatever is not a plain local chunk goes through Zarr.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec

CRC_BYTES = 4
ABSENT = 2**64 - 1
"""The offset a shard's index gives for a chunk that is not stored."""


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
        """Return the plain chunks of ``array`` below ``root``, or None where it has no such chunks."""
        n_columns = array.shape[1]
        stored = array.shards or array.chunks
        if not array.chunks[1] == stored[1] == n_columns or array.dtype.kind not in "fiub":
            return None
        checksum: bool | None = False
        if array.metadata.zarr_format == 3:
            codecs = array.metadata.codecs
            if isinstance(codecs[0], ShardingCodec):
                at_end = codecs[0].index_location.value == "end" and _checksum(codecs[0].index_codecs)
                codecs = codecs[0].codecs if at_end and len(codecs) == 1 else ()
            checksum = _checksum(codecs)
        elif array.compressors or array.filters or array.order != "C" or array.dtype.byteorder == ">":
            return None
        if checksum is None:
            return None
        row_bytes, per_file = n_columns * array.dtype.itemsize, stored[0] // array.chunks[0]
        return cls(array, root, array.chunks[0], row_bytes, checksum, array.shards is not None, per_file)

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


def _checksum(codecs: Any) -> bool | None:
    """Tell whether plain little-endian bytes are followed by a checksum; None for any other codecs."""
    checksum = isinstance(codecs[-1], Crc32cCodec) if codecs else False
    plain = len(codecs) == 1 + checksum and isinstance(codecs[0], BytesCodec)
    if not plain or (codecs[0].endian is not None and codecs[0].endian.value != "little"):
        return None
    return checksum


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
