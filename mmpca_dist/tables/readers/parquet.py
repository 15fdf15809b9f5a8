"""Rows in Parquet: a file, or the files of a folder."""

from __future__ import annotations

import functools
import itertools
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mmpca_dist.errors import InputError, instead_of, some_names
from mmpca_dist.faults import Fault
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores import storage
from mmpca_dist.tables.memory_limits import refuse_absurd, refuse_larger
from mmpca_dist.tables.readers.formats import Format, Request
from mmpca_dist.tables.readers.named_columns import ColumnRows
from mmpca_dist.tables.readers.parquet_folders import SUFFIXES, holds_parquet, parquet_files
from mmpca_dist.tables.spans import chunk_of, overlaps


class ParquetRows(ColumnRows):
    """Rows and labels of a Parquet file, or of the Parquet files of a folder; see ``parquet_folders``."""

    def __init__(self, request: Request) -> None:
        self._token = uuid.uuid4().hex
        table = parquet_files(request.uri)
        self._files = table.files
        leaves = _metadata(self._files[0], self._token).schema
        stored = leaves.to_arrow_schema()
        # Where files hold a column of a folder's name too, the files count.
        self._in_folders = [column for column in table.fields if column.name not in stored.names]
        self._of_file = dict(zip(table.files, table.values, strict=False)) if self._in_folders else {}
        self._groups: list[tuple[str, int]] = []  # the file that holds each, and its number there
        self._edges = [0]
        for file in self._files:
            metadata = _metadata(file, self._token)
            _refuse_other_columns(metadata.schema.to_arrow_schema(), stored, file, self._files[0])
            for number in range(metadata.num_row_groups):
                if n_rows := metadata.row_group(number).num_rows:
                    self._groups.append((file, number))
                    self._edges.append(self._edges[-1] + n_rows)
        super().__init__(request, pa.schema([*stored, *self._in_folders]))
        label_number = next((i for i in range(len(leaves)) if leaves.column(i).path == self.label), None)
        for file, number in self._groups:
            self._refuse_oversized(file, number, label_number)
        self._complete(request, self._edges[-1])

    def _refuse_oversized(self, file: str, number: int, label_number: int | None) -> None:
        """Refuse a row group by what its metadata declare: it is read whole, the labels at another time."""
        where = f"Row group {number} of {file}"
        columns = _metadata(file, self._token).row_group(number)
        refuse_absurd(where, (columns.num_rows, self.n_features), self.dtype.itemsize)
        labels = 0 if label_number is None else columns.column(label_number).total_uncompressed_size
        refuse_larger(max(columns.num_rows * self.row_bytes, labels), where, "Write it again with smaller row groups")

    def gaps(self, beside: Sequence[str] = ()) -> list[Fault]:
        names = dict.fromkeys(self.columns, "gap") | {name: "names" for name in (self.whole_label, *beside) if name}
        return _gaps((_metadata(file, self._token).row_group(number) for file, number in self._groups), names)

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return np.asarray(self._edges)

    def _parts(self, start: int, stop: int, columns: list[str]) -> Iterator[tuple[pa.Table, int]]:
        for number, first, last in overlaps(self._edges, start, stop):
            file, group = self._groups[number]
            table = storage.undamaged(file, partial(self._read_group, file, group, columns))
            table = self._with_folders(file, table)
            # Columns are read in the order of the file.
            yield table.select(columns).slice(first - self._edges[number], last - first), first

    def _read_group(self, file: str, number: int, columns: list[str]) -> pa.Table:
        options = {"metadata": _metadata(file, self._token), "page_checksum_verification": True, "pre_buffer": True}
        with pq.ParquetFile(_source(file), **options) as opened:
            return opened.read_row_group(number, columns=columns, use_threads=False)

    def _with_folders(self, file: str, table: pa.Table) -> pa.Table:
        for column in self._in_folders:
            value = pa.scalar(self._of_file[file].get(column.name), column.type)
            table = table.append_column(column, pa.repeat(value, len(table)))
        return table

    @property
    def layout(self) -> str:
        groups = (_metadata(file, self._token).row_group(number) for file, number in self._groups[:1])
        codecs = {group.column(0).compression for group in groups if group.num_columns}
        return f"{super().layout.replace('chunks', 'row groups')}, {', '.join(codecs) or 'no rows'}"

    def describe_chunk(self, row: int) -> str:
        number, start, stop = chunk_of(self.chunk_edges, row)
        file, group = self._groups[number]
        return f"row group {group} (rows {start} to {stop - 1}) of {file}"

    @property
    def rows_by_file(self) -> dict[str, int]:
        """The number of rows in each file."""
        counts = dict.fromkeys(self._files, 0)
        for (file, _), (first, last) in zip(self._groups, itertools.pairwise(self._edges), strict=True):
            counts[file] += last - first
        return counts

    @property
    def addresses(self) -> list[str]:
        return self._files

    def fingerprint(self) -> str:
        return storage.digest(self._of_file, super().fingerprint())


def _source(file: str) -> Any:
    fs, path = storage.filesystem(file)
    return path if storage.is_local(file) else fs.open(path, "rb")


@functools.lru_cache(maxsize=4096)
def _metadata(file: str, token: str) -> pq.FileMetaData:
    storage.refuse_pipe(file)
    text = f"{file} is not a readable Parquet file; it may be cut short ({{reason}}). Write or copy it again."
    with storage.explained(file), instead_of((pa.ArrowInvalid, UnicodeError), InputError, text):
        return storage.undamaged(file, lambda: pq.read_metadata(_source(file)))


def _refuse_other_columns(schema: pa.Schema, expected: pa.Schema, file: str, first: str) -> None:
    if schema.names != expected.names:
        lacking = [name for name in expected.names if name not in schema.names]
        more = [name for name in schema.names if name not in expected.names]
        what = (
            f"lacks {some_names(lacking)} of" if lacking else f"has {some_names(more)} beyond" if more else "reorders"
        )
        raise InputError(f"{file} {what} the columns of {first}. Write all files of a folder in the same way.")
    for field, other in zip(schema, expected, strict=True):
        if field.type != other.type:
            raise InputError(
                f"Column {field.name!r} has type {field.type} in {file} and {other.type} in {first}. Use one type."
            )


def _gaps(groups: Iterator[pq.RowGroupMetaData], kinds: Mapping[str, str]) -> list[Fault]:
    """Return which columns have missing values, by the statistics of row groups; ``kinds`` are faults by column."""
    counts, looked_up = dict.fromkeys(kinds, 0), 0
    for group in groups:
        for column in (group.column(i) for i in range(group.num_columns)):
            # The values of a list have a path of their own, such as x.list.element.
            path = column.path_in_schema
            name = path if path in kinds else path.rsplit(".", 2)[0]
            if name in kinds and column.statistics is not None:
                counts[name] += column.statistics.null_count or 0
        looked_up += group.num_columns
        if looked_up > LIMITS.parquet_statistics:
            break
    return [
        Fault(f"{count:,} missing value{'s' * (count != 1)} (null)", {"name": name}, kinds[name])
        for name, count in counts.items()
        if count
    ]


FORMAT = Format("parquet", "Parquet", ParquetRows, suffixes=SUFFIXES, holds=holds_parquet, columns=True)
