"""Pages of Parquet: their headers are checked before pyarrow unpacks what they declare.

pyarrow takes the size of an unpacked page, up to 2 GiB, from the page's own header, and decodes as many values of lists
as pages hold. A few kilobytes can fill the memory, whatever the metadata of the file say.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mmpca_dist.errors import InputError

Data = bytes | memoryview

FACTOR, SLACK_BYTES = 3, 64 << 10
"""How much larger than its values a column may be: levels, dictionaries and their indices."""
WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8}
OTHER_WIDTH = 16
"""Bytes of a value: by type, and the most of other types."""
RATIOS = {"UNCOMPRESSED": 1, "SNAPPY": 22, "LZ4": 256, "LZ4_RAW": 256, "GZIP": 1100}
"""Bytes that a compressed byte can become at most; with other codecs, such as zstd, thousands."""
PLAIN, DELTA_LENGTH = 0, 6
"""Texts in these encodings take as much room as their page. In others, one stored text may come often."""
HOLE_BYTES = 8 << 10
"""Longer gaps between columns are skipped by another request, as Arrow does."""
MAX_DEPTH = 8
VARINTS, BOOLEANS, BYTE, BINARY, STRUCT = (4, 5, 6), (1, 2), 3, 8, 12
DATA_PAGE, DATA_PAGE_V2 = 0, 3


@dataclass(frozen=True)
class Pages:
    """What the headers of a column's pages declare: unpacked bytes, values, and the encodings of these."""

    n_bytes: int
    n_values: int
    encodings: frozenset[int]

    @property
    def repeats(self) -> bool:
        """Whether a text may come more often than it is stored."""
        return not self.encodings <= {PLAIN, DELTA_LENGTH}


def columns_of(group: pq.RowGroupMetaData, names: set[str]) -> list[pq.ColumnChunkMetaData]:
    """Return the columns of a row group that pyarrow reads for ``names``, in the order of the file.

    Of names with dots it reads, as of lists, all columns whose path begins so.
    """
    columns = (group.column(i) for i in range(group.num_columns))
    return [
        column
        for column in columns
        if not names.isdisjoint(accumulate(column.path_in_schema.split("."), lambda path, part: f"{path}.{part}"))
    ]


def unpacks_little(columns: Sequence[pq.ColumnChunkMetaData], limit: int) -> bool:
    """Tell whether columns fit ``limit`` bytes, whatever the headers of their pages declare."""
    return all(column.compression in RATIOS for column in columns) and limit >= sum(
        column.total_compressed_size * RATIOS[column.compression] for column in columns
    )


class CheckedColumns(io.RawIOBase):
    """The bytes of columns of a row group, as a file for pyarrow, which reads nothing else.

    ``n_values`` is the number of values of each column of numbers; None for texts, of which the metadata tell it.
    Pages that declare more than the metadata do are refused with an ``InputError``.
    """

    def __init__(self, file: Any, columns: Sequence[pq.ColumnChunkMetaData], n_values: int | None, where: str) -> None:
        super().__init__()
        self._at, self._data = 0, _read(file, columns)
        self.pages: list[Pages] = []
        for column in columns:
            data = self._data[_start(column)]
            try:
                pages = pages_of(data)
            except (IndexError, KeyError, TypeError, ValueError) as error:
                raise pa.ArrowInvalid(f"column {column.path_in_schema!r} has pages without headers") from error
            max_bytes, max_values = column.total_uncompressed_size, column.num_values
            if n_values is not None:
                max_bytes, max_values = n_values * WIDTHS.get(column.physical_type, OTHER_WIDTH), n_values
            if pages.n_bytes > FACTOR * max_bytes + SLACK_BYTES or pages.n_values > max_values:
                raise InputError(
                    f"The pages of column {column.path_in_schema!r} of {where} declare {pages.n_bytes:,} bytes and "
                    f"{pages.n_values:,} values, which is more than the metadata of the file say. It is damaged or "
                    "made up: write it again."
                )
            self.pages.append(pages)

    def read(self, n_bytes: int = -1) -> memoryview:
        data = self._data.get(self._at)
        if data is None or len(data) != n_bytes:
            raise pa.ArrowInvalid(f"its metadata are damaged: byte {self._at} does not begin a column")
        self._at += n_bytes
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence == 2:
            offset += max((start + len(data) for start, data in self._data.items()), default=0)
        self._at = offset + (self._at if whence == 1 else 0)
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def _read(file: Any, columns: Sequence[pq.ColumnChunkMetaData]) -> dict[int, memoryview]:
    """Return the bytes of columns by their offset; those next to each other are read at once."""
    n_bytes = file.seek(0, 2)
    spans: list[tuple[int, int, list[tuple[int, int]]]] = []
    for start, size in sorted((_start(column), column.total_compressed_size) for column in columns):
        if size < 0 or not 0 <= start <= start + size <= n_bytes:
            raise pa.ArrowInvalid("a column begins or ends beyond the file, which is damaged or cut short")
        if not spans or start > spans[-1][1] + HOLE_BYTES:
            spans.append((start, start + size, []))
        first, end, inner = spans[-1]
        spans[-1] = (first, max(end, start + size), inner)
        inner.append((start, size))
    views = {}
    for first, end, inner in spans:
        file.seek(first)
        data = memoryview(file.read(end - first))
        views.update({start: data[start - first : start - first + size] for start, size in inner})
    return views


def _start(column: pq.ColumnChunkMetaData) -> int:
    """Return the offset from which pyarrow reads a column."""
    first, dictionary = column.data_page_offset, column.dictionary_page_offset
    return dictionary if column.has_dictionary_page and 0 < dictionary < first else first


def pages_of(data: Data) -> Pages:
    """Read the headers of the pages that follow one another in a column of a row group."""
    at = n_bytes = n_values = 0
    encodings = set()
    while at < len(data):
        header, at = _struct(data, at, 0)
        kind, size = header[1], header[3]
        if size < 0 or header[2] < 0 or at + size > len(data):
            raise ValueError("an impossible size")
        n_bytes += header[2]
        if kind in (DATA_PAGE, DATA_PAGE_V2):
            page = header[5 if kind == DATA_PAGE else 8]
            n_values += page[1]
            encodings.add(page[2 if kind == DATA_PAGE else 4])
        at += size
    return Pages(n_bytes, n_values, frozenset(encodings))


def _struct(data: Data, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """Read a struct in Thrift's compact protocol; return its numbers and structs by the ids of fields, and its end."""
    if depth > MAX_DEPTH:
        raise ValueError("too deep")
    fields: dict[int, Any] = {}
    key = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            key += head >> 4
        else:
            key, at = _number(data, at)
        fields[key], at = _value(data, at, head & 15, depth)
    return fields, at + 1


def _value(data: Data, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in BOOLEANS:
        return kind == 1, at
    if kind == BYTE:
        return data[at], at + 1
    if kind in VARINTS:
        return _number(data, at)
    if kind == BINARY:
        size, at = _unsigned(data, at)
        return None, at + size
    if kind == STRUCT:
        return _struct(data, at, depth + 1)
    raise ValueError(f"type {kind}")  # headers of pages have no lists and no doubles


def _number(data: Data, at: int) -> tuple[int, int]:
    value, at = _unsigned(data, at)
    return (value >> 1) ^ -(value & 1), at


def _unsigned(data: Data, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number that is too long")
