"""Rows in Arrow IPC files; Feather files (version 2) are such files."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from mmpca_dist.errors import InputError, instead_of
from mmpca_dist.stores import storage
from mmpca_dist.tables.memory_limits import refuse_larger
from mmpca_dist.tables.readers.files import FileRows
from mmpca_dist.tables.readers.formats import Format, Request
from mmpca_dist.tables.readers.listing import files_of

MAGIC, SUFFIXES = b"ARROW1", (".arrow", ".feather", ".ipc")
MAX_WIDTH = 1 << 30
"""The width, in bits, that stands for columns without a fixed one."""
DAMAGES = (pa.ArrowException, OSError, IndexError, UnicodeError)
SMALLER = "Write it again with smaller record batches"


class ArrowRows(FileRows):
    """Rows and labels of an Arrow IPC file, or of those of a folder; their record batches are the chunks."""

    def __init__(self, request: Request) -> None:
        super().__init__(request, {file: {} for file in files_of(request.uri, MAGIC, SUFFIXES)}, [])
        for (file, number), n_rows in zip(self._groups, np.diff(self._edges).tolist(), strict=True):
            refuse_larger(n_rows * self.row_bytes, f"Record batch {number} of {file}", SMALLER)
        self._complete(request, int(self._edges[-1]))

    def _contents(self, file: str) -> tuple[pa.Schema, list[int]]:
        schema, edges = _metadata(file, self._token)
        return schema, np.diff(edges).tolist()

    def _tables(self, file: str, groups: Sequence[int], columns: list[str]) -> Iterator[pa.Table]:
        schema, _ = _metadata(file, self._token)
        fields = [i for i, name in enumerate(schema.names) if name in columns]
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        with storage.explained(file), _opened(file) as opened:
            reader = None
            for number in groups:
                where = f"Record batch {number} of {file}"
                with instead_of(DAMAGES, InputError, f"{where} is damaged ({{reason}}). Write or copy the file again."):
                    reader = reader or pa.ipc.open_file(opened, options=options)
                    rows = reader.get_batch(number)
                    rows.validate(full=True)
                yield pa.table(rows)

    def describe_chunk(self, row: int) -> str:
        batch, file, rows = self._group(row)
        return f"record batch {batch} ({rows}) of {file}"


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


FORMAT = Format(
    "arrow", "an Arrow file", ArrowRows, suffixes=SUFFIXES, magic=MAGIC, columns=True,
    holds=lambda _, names: any(name.lower().endswith(SUFFIXES) for name in names),
)  # fmt: skip
