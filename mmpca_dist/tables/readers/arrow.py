"""Rows in Arrow IPC files; Feather files (version 2) are such files.

The footer lists the record batches, and the flatbuffer metadata of a batch declare its rows. They are read here, as
pyarrow does not expose them without the batch.

Source: https://arrow.apache.org/docs/format/Columnar.html, "IPC File Format".
"""

from __future__ import annotations

import functools
import itertools
import struct
import uuid
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.stores import storage
from mmpca_dist.tables.memory_limits import refuse_absurd, refuse_larger
from mmpca_dist.tables.readers.formats import Format, Request
from mmpca_dist.tables.readers.named_columns import ColumnRows

MAGIC, STREAM, FEATHER_1 = b"ARROW1", b"\xff\xff\xff\xff", b"FEA1"
MAX_METADATA = 256 << 20
"""Bytes of a footer, or of the metadata of a batch; ten million buffers take less."""
SMALLER = "Write it again with smaller record batches"


@dataclass(frozen=True)
class Batch:
    """A record batch: its first row in the data set, and its rows."""

    start: int
    n_rows: int


class ArrowDataset(ColumnRows):
    """Rows and labels of an Arrow IPC file; its record batches are the chunks."""

    def __init__(self, request: Request) -> None:
        self._token = uuid.uuid4().hex
        schema, batches = _metadata(request.uri, self._token)
        super().__init__(request, schema)
        self.facts = replace(self.facts, n_rows=sum(batch.n_rows for batch in batches))
        refuse_absurd(self.uri, (self.n_rows, self.n_features), self.dtype.itemsize)
        for number, batch in enumerate(batches):
            refuse_larger(batch.n_rows * self.row_bytes, f"Record batch {number} of {self.uri}", SMALLER)

    @property
    def _batches(self) -> tuple[Batch, ...]:
        return _metadata(self.uri, self._token)[1]

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return np.asarray([batch.start for batch in self._batches if batch.n_rows] + [self.n_rows], dtype=np.int64)

    def _parts(self, start: int, stop: int, columns: list[str]) -> Iterator[tuple[pa.Table, int]]:
        schema, batches = _metadata(self.uri, self._token)
        fields = sorted(schema.get_field_index(name) for name in columns)
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        with storage.explained(self.uri), _opened(self.uri) as file:
            reader = None
            for number in range(bisect(batches, start, key=lambda batch: batch.start) - 1, len(batches)):
                batch = batches[number]
                first, last = max(start, batch.start), min(stop, batch.start + batch.n_rows)
                if batch.start >= stop:
                    return
                if first >= last:
                    continue
                where = f"Record batch {number} of {self.uri}"
                try:
                    reader = reader or pa.ipc.open_file(file, options=options)
                    rows = reader.get_batch(number)
                    rows.validate(full=True)
                except (pa.ArrowException, OSError, IndexError, UnicodeError) as error:
                    raise InputError(
                        f"{where} is damaged ({str(error).rstrip('.')}). Write or copy the file again."
                    ) from error
                yield pa.table(rows).select(columns).slice(first - batch.start, last - first), first

    def describe_chunk(self, row: int) -> str:
        number, start, stop = self.chunk_of(row)
        return f"record batch {number} (rows {start} to {stop - 1}) of {self.uri}"

    @property
    def addresses(self) -> list[str]:
        return [self.uri]

    def fingerprint(self) -> str:
        return storage.digest("arrow", self.n_rows, list(self.columns), self.label, storage.list_objects(self.uri))


def _opened(uri: str) -> pa.NativeFile:
    """Open a file; map it into memory where it is local."""
    storage.refuse_pipe(uri)
    fs, path = storage.filesystem(uri)
    return pa.memory_map(path) if storage.is_local(uri) else pa.PythonFile(fs.open(path, "rb"), "r")


@functools.lru_cache(maxsize=64)
def _metadata(uri: str, token: str) -> tuple[pa.Schema, tuple[Batch, ...]]:
    """Return the columns and the batches of a file, once for each ``token``."""
    with storage.explained(uri), _opened(uri) as file:
        try:
            return _read_metadata(file, uri)
        except (pa.ArrowException, struct.error, IndexError, OverflowError, UnicodeError) as error:
            raise InputError(
                f"{uri} is not a readable Arrow file; it may be cut short ({str(error).rstrip('.')}). Write or copy it "
                "again."
            ) from error


def _read_metadata(file: pa.NativeFile, uri: str) -> tuple[pa.Schema, tuple[Batch, ...]]:
    size = file.size()
    begin, end = _at(file, 0, min(8, size)), _at(file, max(size - 10, 0), min(10, size))
    if begin.startswith((FEATHER_1, STREAM)):
        what = "a Feather file of version 1" if begin.startswith(FEATHER_1) else "an Arrow stream"
        raise InputError(
            f"{uri} is {what}, which cannot be read piece by piece. Write it as an Arrow file (Feather 2)."
        )
    if not (begin.startswith(MAGIC) and end.endswith(MAGIC) and len(end) == 10):
        raise InputError(f"{uri} is not an Arrow file, or it is cut short: it does not begin and end with ARROW1.")
    length = struct.unpack("<i", end[:4])[0]
    footer = _Flatbuffer(_at(file, size - 10 - length, length))
    schema = pa.ipc.open_file(file).schema
    _ = schema.names  # raises where one is no text
    n_rows = [_rows_of_batch(file, block) for block in footer.structs(footer.root, 3, "<qi4xq")]
    return schema, tuple(map(Batch, itertools.accumulate(n_rows, initial=0), n_rows))


def _at(file: pa.NativeFile, offset: int, n_bytes: int) -> bytes:
    if not 0 <= n_bytes <= MAX_METADATA or offset < 0:
        raise IndexError(f"{n_bytes} bytes of metadata at {offset}")
    file.seek(offset)
    data = bytes(file.read(n_bytes))
    if len(data) != n_bytes:
        raise IndexError(f"{len(data)} of {n_bytes} bytes at {offset}")
    return data


def _rows_of_batch(file: pa.NativeFile, block: tuple[int, ...]) -> int:
    """Return the rows of a batch from its block in the footer: offset, bytes of metadata, bytes of the body."""
    offset, n_metadata, n_body = block
    if offset < 0 or n_body < 0 or offset + n_metadata + n_body > file.size():
        raise IndexError(f"a record batch at {offset} lies beyond the end")
    message = _Flatbuffer(_at(file, offset + 8, n_metadata - 8))
    n_rows = message.number(message.table(message.root, 2), 0, "<q")
    if n_rows < 0:
        raise IndexError(f"the record batch at {offset} declares {n_rows} rows")
    return n_rows


class _Flatbuffer:
    """A flatbuffer: tables of numbered fields, which may be absent, and vectors of structs."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.root = self._unpack("<I", 0)[0]

    def _unpack(self, form: str, at: int) -> tuple[Any, ...]:
        if at < 0:
            raise IndexError(f"position {at}")
        return struct.unpack_from(form, self._data, at)

    def field(self, table: int, number: int) -> int | None:
        """Return the position of a field of a table; None where it is absent."""
        fields = table - self._unpack("<i", table)[0]
        if 4 + 2 * number >= self._unpack("<H", fields)[0]:
            return None
        offset = self._unpack("<H", fields + 4 + 2 * number)[0]
        return table + offset if offset else None

    def table(self, table: int, number: int) -> int:
        """Return the position of the table that a field refers to."""
        at = self.field(table, number)
        if at is None:
            raise IndexError(f"field {number} is missing")
        return at + int(self._unpack("<I", at)[0])

    def number(self, table: int, number: int, form: str) -> int:
        at = self.field(table, number)
        return 0 if at is None else int(self._unpack(form, at)[0])

    def structs(self, table: int, number: int, form: str) -> list[tuple[int, ...]]:
        """Return the structs of a vector; none where it is absent."""
        if self.field(table, number) is None:
            return []
        at = self.table(table, number)
        (count,) = self._unpack("<I", at)
        size = struct.calcsize(form)
        if count * size > len(self._data):
            raise IndexError(f"a vector of {count} structs")
        return list(struct.iter_unpack(form, self._data[at + 4 : at + 4 + count * size]))


FORMAT = Format("arrow", "an Arrow file", ArrowDataset, suffixes=(".arrow", ".feather", ".ipc"), columns=True)
