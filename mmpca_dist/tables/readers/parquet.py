"""Rows in Parquet: a file, or the files of a folder."""

from __future__ import annotations

import functools
import uuid
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mmpca_dist.errors import InputError, some_names
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores import storage
from mmpca_dist.tables.column_faults import ColumnFault
from mmpca_dist.tables.memory_limits import refuse_absurd, refuse_larger
from mmpca_dist.tables.readers.formats import Format, Request
from mmpca_dist.tables.readers.named_columns import ColumnRows
from mmpca_dist.tables.readers.parquet_folders import SUFFIXES, holds_parquet, parquet_files


@dataclass(frozen=True)
class RowGroup:
    """A row group: the file that holds it, its number there, its first row in the data set, its rows."""

    file: str
    number: int
    start: int
    n_rows: int


class ParquetDataset(ColumnRows):
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
        self._groups: list[RowGroup] = []
        n_rows = 0
        for file in self._files:
            metadata = _metadata(file, self._token)
            _refuse_other_columns(metadata.schema.to_arrow_schema(), stored, file, self._files[0])
            for number in range(metadata.num_row_groups):
                group_rows = metadata.row_group(number).num_rows
                if group_rows:
                    self._groups.append(RowGroup(file, number, n_rows, group_rows))
                n_rows += group_rows
        super().__init__(request, pa.schema([*stored, *self._in_folders]))
        label_number = next((i for i in range(len(leaves)) if leaves.column(i).path == self.label), None)
        for group in self._groups:
            self._refuse_oversized(group, label_number)
        self.facts = replace(self.facts, n_rows=n_rows)
        self._encode(request)
        refuse_absurd(self.uri, (self.n_rows, self.n_features), self.dtype.itemsize)

    def _refuse_oversized(self, group: RowGroup, label_number: int | None) -> None:
        """Refuse a row group by what its metadata declare: it is read whole, the labels at another time."""
        where = f"Row group {group.number} of {group.file}"
        refuse_absurd(where, (group.n_rows, self.n_features), self.dtype.itemsize)
        columns = _metadata(group.file, self._token).row_group(group.number)
        labels = 0 if label_number is None else columns.column(label_number).total_uncompressed_size
        refuse_larger(max(group.n_rows * self.row_bytes, labels), where, "Write it again with smaller row groups")

    def gaps(self, beside: Sequence[str] = ()) -> list[ColumnFault]:
        label = None if self._skips_unlabelled else self.label
        names = dict.fromkeys(self.columns, "gap") | {name: "names" for name in (label, *beside) if name}
        return _gaps((_metadata(group.file, self._token).row_group(group.number) for group in self._groups), names)

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return np.asarray([group.start for group in self._groups] + [self.n_rows], dtype=np.int64)

    def _parts(self, start: int, stop: int, columns: list[str]) -> Iterator[tuple[pa.Table, int]]:
        for group in self._groups[bisect(self._groups, start, key=lambda group: group.start) - 1 :]:
            if group.start >= stop:
                return
            table = self._with_folders(group, storage.undamaged(group.file, partial(self._read_group, group, columns)))
            skip = max(start - group.start, 0)
            # Columns are read in the order of the file.
            yield table.select(columns).slice(skip, min(stop - group.start, group.n_rows) - skip), group.start + skip

    def _read_group(self, group: RowGroup, columns: list[str]) -> pa.Table:
        metadata = _metadata(group.file, self._token)
        source = _source(group.file)
        with pq.ParquetFile(source, metadata=metadata, page_checksum_verification=True, pre_buffer=True) as file:
            return file.read_row_group(group.number, columns=columns, use_threads=False)

    def _with_folders(self, group: RowGroup, table: pa.Table) -> pa.Table:
        """Add the columns that are in the names of folders."""
        for column in self._in_folders:
            value = pa.scalar(self._of_file[group.file].get(column.name), column.type)
            table = table.append_column(column, pa.repeat(value, group.n_rows))
        return table

    @property
    def layout(self) -> str:
        groups = (_metadata(group.file, self._token).row_group(group.number) for group in self._groups[:1])
        codecs = {group.column(0).compression for group in groups if group.num_columns}
        return f"{super().layout.replace('chunks', 'row groups')}, {', '.join(codecs) or 'no rows'}"

    def describe_chunk(self, row: int) -> str:
        number, start, stop = self.chunk_of(row)
        group = self._groups[number]
        return f"row group {group.number} (rows {start} to {stop - 1}) of {group.file}"

    @property
    def rows_by_file(self) -> dict[str, int]:
        """The number of rows in each file."""
        counts = dict.fromkeys(self._files, 0)
        for group in self._groups:
            counts[group.file] += group.n_rows
        return counts

    @property
    def addresses(self) -> list[str]:
        return self._files

    def fingerprint(self) -> str:
        objects = [storage.list_objects(file) for file in self._files]
        in_folders = [self._of_file] if self._in_folders else []
        return storage.digest("parquet", self.n_rows, list(self.columns), self.label, objects, *in_folders)


def _source(file: str) -> Any:
    fs, path = storage.filesystem(file)
    return path if storage.is_local(file) else fs.open(path, "rb")


@functools.lru_cache(maxsize=4096)
def _metadata(file: str, token: str) -> pq.FileMetaData:
    storage.refuse_pipe(file)
    with storage.explained(file):
        try:
            return storage.undamaged(file, lambda: pq.read_metadata(_source(file)))
        except (pa.ArrowInvalid, UnicodeError) as error:
            raise InputError(
                f"{file} is not a readable Parquet file; it may be cut short ({str(error).rstrip('.')}). "
                "Write or copy it again."
            ) from error


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


def _gaps(groups: Iterator[pq.RowGroupMetaData], kinds: Mapping[str, str]) -> list[ColumnFault]:
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
        ColumnFault(name, f"{count:,} missing value{'s' * (count != 1)} (null)", kinds[name])
        for name, count in counts.items()
        if count
    ]


def _is_folder_of_parquet(uri: str) -> bool:
    with storage.reached(uri) as (fs, path):
        is_folder = fs.isdir(path)
    return is_folder and holds_parquet(uri, storage.names_in(uri))


FORMAT = Format("parquet", "Parquet", ParquetDataset, suffixes=SUFFIXES, holds=_is_folder_of_parquet, columns=True)
