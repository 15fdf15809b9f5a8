"""Rows in Arrow IPC files; Feather files (version 2) are such files."""

from __future__ import annotations

import functools
import itertools
import uuid
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmpca_dist.errors import InputError, instead_of
from mmpca_dist.stores import storage
from mmpca_dist.tables.memory_limits import refuse_larger
from mmpca_dist.tables.readers.formats import Format, Request
from mmpca_dist.tables.readers.named_columns import ColumnRows
from mmpca_dist.tables.spans import chunk_of, overlaps

MAGIC = b"ARROW1"
MAX_WIDTH = 1 << 30
"""The width, in bits, that stands for columns without a fixed one."""
DAMAGES = (pa.ArrowException, OSError, IndexError, UnicodeError)
SMALLER = "Write it again with smaller record batches"


class ArrowRows(ColumnRows):
    """Rows and labels of an Arrow IPC file; its record batches are the chunks."""

    def __init__(self, request: Request) -> None:
        self._token = uuid.uuid4().hex
        schema, edges = _metadata(request.uri, self._token)
        super().__init__(request, schema)
        for number, (first, last) in enumerate(itertools.pairwise(edges)):
            refuse_larger((last - first) * self.row_bytes, f"Record batch {number} of {self.uri}", SMALLER)
        self._complete(request, edges[-1])

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return np.unique(_metadata(self.uri, self._token)[1])  # some batches may be empty

    def _parts(self, start: int, stop: int, columns: list[str]) -> Iterator[tuple[pa.Table, int]]:
        schema, edges = _metadata(self.uri, self._token)
        fields = sorted(schema.get_field_index(name) for name in columns)
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        with storage.explained(self.uri), _opened(self.uri) as file:
            reader = None
            for number, first, last in overlaps(edges, start, stop):
                where = f"Record batch {number} of {self.uri}"
                with instead_of(DAMAGES, InputError, f"{where} is damaged ({{reason}}). Write or copy the file again."):
                    reader = reader or pa.ipc.open_file(file, options=options)
                    rows = reader.get_batch(number)
                    rows.validate(full=True)
                yield pa.table(rows).select(columns).slice(first - edges[number], last - first), first

    def describe_chunk(self, row: int) -> str:
        number, start, stop = chunk_of(self.chunk_edges, row)
        return f"record batch {number} (rows {start} to {stop - 1}) of {self.uri}"


def _opened(uri: str) -> pa.NativeFile:
    """Open a file; map it into memory where it is local."""
    storage.refuse_pipe(uri)
    fs, path = storage.filesystem(uri)
    return pa.memory_map(path) if storage.is_local(uri) else pa.PythonFile(fs.open(path, "rb"), "r")


@functools.lru_cache(maxsize=64)
def _metadata(uri: str, token: str) -> tuple[pa.Schema, tuple[int, ...]]:
    """Return the columns of a file, and the rows where its batches begin and the last one ends."""
    text = f"{uri} is not a readable Arrow file; it may be cut short ({{reason}}). Write or copy it again."
    with storage.explained(uri), _opened(uri) as file, instead_of(DAMAGES, InputError, text):
        return _read_metadata(file, uri)


def _read_metadata(file: pa.NativeFile, uri: str) -> tuple[pa.Schema, tuple[int, ...]]:
    begin = bytes(file.read(8))
    file.seek(max(file.size() - len(MAGIC), 0))
    end = bytes(file.read(len(MAGIC)))
    file.seek(0)
    if not (begin.startswith(MAGIC) and end == MAGIC):
        raise InputError(
            f"{uri} is not an Arrow file, or it is cut short: it does not begin and end with ARROW1. Streams and "
            "Feather 1 cannot be read piece by piece: write them as Arrow files (Feather 2)."
        )
    reader = pa.ipc.open_file(file)
    schema = reader.schema
    _ = schema.names  # raises where one is no text
    # The rows of a batch are declared in its metadata, which pyarrow shows with a column: the narrowest one.
    widths = [field.type.bit_width if pa.types.is_primitive(field.type) else MAX_WIDTH for field in schema]
    narrow = pa.ipc.IpcReadOptions(included_fields=[int(np.argmin(widths))] if widths else [], use_threads=False)
    reader = pa.ipc.open_file(file, options=narrow)
    n_rows = (reader.get_batch(number).num_rows for number in range(reader.num_record_batches))
    return schema, tuple(itertools.accumulate(n_rows, initial=0))


FORMAT = Format("arrow", "an Arrow file", ArrowRows, suffixes=(".arrow", ".feather", ".ipc"), columns=True)
