"""Pages of Parquet, whose headers are looked at before pyarrow unpacks what they declare.

pyarrow takes the size of an unpacked page, up to 2 GiB, from the page's own header, and decodes as many values of lists
as pages hold. A few kilobytes can fill the memory, whatever the metadata of the file say.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mmpca_dist.errors import InputError

Data = bytes | memoryview

FACTOR, SLACK_BYTES = 3, 64 << 10
"""How much larger than its values a column may be: levels, dictionaries and their indices."""
WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8}
MOST_WIDTH = 16
"""Of numbers of other types."""
RATIOS = {"UNCOMPRESSED": 1, "SNAPPY": 22, "LZ4": 256, "LZ4_RAW": 256, "GZIP": 1100}
"""What a byte can become at most; a byte of others, such as zstd, becomes thousands."""
PLAIN, DELTA_LENGTH = 0, 6
"""Texts in these encodings take as much room as their page. In others, one that is stored once may come often."""
HOLE_BYTES = 8 << 10
"""So much is read for nothing rather than by another request: Arrow's own choice."""
NESTED = 8
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


def columns_of(group: pq.RowGroupMetaData, names: Collection[str]) -> list[pq.ColumnChunkMetaData]:
    """Return the columns of a row group that hold these, in the order of the file."""
    found = (group.column(i) for i in range(group.num_columns))
    return [column for column in found if column.path_in_schema.partition(".")[0] in names]


def unpacks_little(columns: Sequence[pq.ColumnChunkMetaData], most: int) -> bool:
    """Tell whether columns fit ``most`` bytes, whatever the headers of their pages declare."""
    if not all(column.compression in RATIOS for column in columns):
        return False
    return sum(column.total_compressed_size * RATIOS[column.compression] for column in columns) <= most


class CheckedColumns:
    """The bytes of columns of a row group, as a file for pyarrow, which reads nothing else.

    Parameters
    ----------
    file : file
    columns : sequence of column metadata
    n_values : int, optional
        Of each, where they are numbers; by default they are texts, as many as the metadata say.
    where : str
        For errors.

    Raises
    ------
    InputError
        For pages that declare more than the metadata do, or that cannot be told.
    """

    closed = False

    def __init__(self, file: Any, columns: Sequence[pq.ColumnChunkMetaData], n_values: int | None, where: str) -> None:
        self._at, self._data = 0, _read(file, columns)
        self.pages: list[Pages] = []
        for column in columns:
            data = self._data[_start(column)]
            try:
                pages = pages_of(data)
            except (IndexError, KeyError, TypeError, ValueError) as error:
                raise pa.ArrowInvalid(f"column {column.path_in_schema!r} has pages without headers") from error
            most = column.total_uncompressed_size
            if n_values is not None:
                most = n_values * WIDTHS.get(column.physical_type, MOST_WIDTH)
            most_values = column.num_values if n_values is None else n_values
            if pages.n_bytes > FACTOR * most + SLACK_BYTES or pages.n_values > most_values:
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

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        self._data.clear()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False


def _read(file: Any, columns: Sequence[pq.ColumnChunkMetaData]) -> dict[int, memoryview]:
    """Return the bytes of columns by where they begin; of those that are next to each other in one reading."""
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
    found = {}
    for first, end, inner in spans:
        file.seek(first)
        data = memoryview(file.read(end - first))
        found.update({start: data[start - first : start - first + size] for start, size in inner})
    return found


def _start(column: pq.ColumnChunkMetaData) -> int:
    """Return where pyarrow reads a column from."""
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
            raise ValueError("a size that is none")
        n_bytes += header[2]
        if kind in (DATA_PAGE, DATA_PAGE_V2):
            page = header[5 if kind == DATA_PAGE else 8]
            n_values += page[1]
            encodings.add(page[2 if kind == DATA_PAGE else 4])
        at += size
    return Pages(n_bytes, n_values, frozenset(encodings))


def _struct(data: Data, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """Read a struct in Thrift's compact protocol; return its numbers and structs by the ids of fields, and its end."""
    if depth > NESTED:
        raise ValueError("too deep")
    found: dict[int, Any] = {}
    key = 0
    while head := data[at]:
        at += 1
        kind = head & 15
        if head >> 4:
            key += head >> 4
        else:
            key, at = _number(data, at)
        found[key], at = _value(data, at, kind, depth)
    return found, at + 1


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
