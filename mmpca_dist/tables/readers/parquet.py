"""Rows in Parquet: a file, or the files of a folder."""

from __future__ import annotations

import functools
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mmpca_dist.errors import InputError, instead_of
from mmpca_dist.faults import Fault
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores import storage
from mmpca_dist.tables.memory_limits import refuse_absurd, refuse_larger
from mmpca_dist.tables.readers.files import FileRows
from mmpca_dist.tables.readers.formats import Format, Request
from mmpca_dist.tables.readers.named_columns import DAMAGED
from mmpca_dist.tables.readers.parquet_folders import MAGIC, SUFFIXES, holds_parquet, parquet_files


class ParquetRows(FileRows):
    """Rows and labels of a Parquet file, or of the Parquet files of a folder; see ``parquet_folders``."""

    def __init__(self, request: Request) -> None:
        super().__init__(request, *parquet_files(request.uri))
        for file, number in self._groups:
            self._refuse_oversized(file, number)
        self._complete(request, int(self._edges[-1]))

    def _contents(self, file: str) -> tuple[pa.Schema, list[int]]:
        metadata = _metadata(file, self._token)
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        sizes = [group.num_rows for group in groups]
        columns = [group.column(0) for group in groups if group.num_columns]
        is_flat = metadata.num_columns and metadata.schema.column(0).max_repetition_level == 0
        if sum(sizes) != metadata.num_rows or (is_flat and sizes != [column.num_values for column in columns]):
            raise InputError(f"{file} declares {metadata.num_rows} rows, which its row groups do not have. {DAMAGED}")
        return metadata.schema.to_arrow_schema(), sizes

    def _refuse_oversized(self, file: str, number: int) -> None:
        """Refuse a row group by what its metadata declare: it is read whole, the labels at another time."""
        where = f"Row group {number} of {file}"
        group = _metadata(file, self._token).row_group(number)
        refuse_absurd(where, (group.num_rows, self.n_features), self.dtype.itemsize)
        leaves = _metadata(file, self._token).schema
        own = (i for i in range(group.num_columns) if leaves.column(i).path == self.label)
        labels = next((group.column(i).total_uncompressed_size for i in own), 0)
        refuse_larger(max(group.num_rows * self.row_bytes, labels), where, "Write it again with smaller row groups")

    def gaps(self, beside: Sequence[str] = ()) -> list[Fault]:
        names = dict.fromkeys(self.columns, "gap") | {name: "names" for name in (self.whole_label, *beside) if name}
        metadata = (_metadata(file, self._token) for file in self._files)
        return [*super().gaps(beside), *_gaps(metadata, names)]

    def _tables(self, file: str, groups: Sequence[int], columns: list[str]) -> Iterator[pa.Table]:
        for number in groups:
            yield storage.undamaged(file, partial(self._read_group, file, number, columns))

    def _read_group(self, file: str, number: int, columns: list[str]) -> pa.Table:
        options = {"metadata": _metadata(file, self._token), "page_checksum_verification": True, "pre_buffer": True}
        with pq.ParquetFile(_source(file), **options) as opened:
            return opened.read_row_group(number, columns=columns, use_threads=False)

    @property
    def layout(self) -> str:
        groups = (_metadata(file, self._token).row_group(number) for file, number in self._groups[:1])
        codecs = {group.column(0).compression for group in groups if group.num_columns}
        return f"{super().layout.replace('chunks', 'row groups')}, {', '.join(codecs) or 'no rows'}"

    def describe_chunk(self, row: int) -> str:
        group, file, rows = self._group(row)
        return f"row group {group} ({rows}) of {file}"


class _Unreadable(io.RawIOBase):
    """A file of unknown content, which cannot be read."""

    size = at = 1 << 62

    def readable(self) -> bool:
        return True

    seekable = readable

    def seek(self, to: int, whence: int = 0) -> int:
        self.at = to if whence == io.SEEK_SET else self.size + to
        return self.at

    def tell(self) -> int:
        return self.at

    def read(self, n_bytes: int = -1) -> bytes:
        raise BufferError


def _source(file: str) -> Any:
    fs, path = storage.filesystem(file)
    return path if storage.is_local(file) else fs.open(path, "rb")


@functools.lru_cache(maxsize=4096)
def _metadata(file: str, token: str) -> pq.FileMetaData:
    storage.refuse_pipe(file)
    text = f"{file} is not a readable Parquet file; it may be cut short ({{reason}}). Write or copy it again."
    with storage.explained(file), instead_of((pa.ArrowException, UnicodeError), InputError, text):
        metadata = storage.undamaged(file, lambda: pq.read_metadata(_source(file)))
        _ = metadata.schema.to_arrow_schema().names  # raises where one is no text
    with instead_of((OSError, pa.ArrowException), InputError, text):
        # pyarrow ends the process where it shows a column that does not fit the schema, and reads none of them.
        opened = pq.ParquetFile(_Unreadable(), metadata=metadata, pre_buffer=True)
        try:
            opened.read_row_groups(range(metadata.num_row_groups), use_threads=False)
        except BufferError as error:
            error.__traceback__ = None  # pyarrow keeps the error, and with it all that calls this
    return metadata


def _gaps(files: Iterable[pq.FileMetaData], kinds: Mapping[str, str]) -> list[Fault]:
    """Return which columns have missing values, by the statistics of row groups; ``kinds`` are faults by column."""
    counts, looked_up = dict.fromkeys(kinds, 0), 0
    for file in files:
        leaves = [file.schema.column(i) for i in range(file.num_columns)]
        for group in map(file.row_group, range(file.num_row_groups)):
            for i in range(group.num_columns if looked_up <= LIMITS.parquet_statistics else 0):
                column = group.column(i)
                # The values of a list have a path of their own, such as x.list.element.
                path = leaves[i].path
                name = path if path in kinds else path.rsplit(".", 2)[0]
                # Arrow ends the process where statistics are of another type, as in a damaged file.
                if name in kinds and column.physical_type == leaves[i].physical_type and column.statistics is not None:
                    counts[name] += column.statistics.null_count or 0
            looked_up += group.num_columns
    return [
        Fault(f"{count:,} missing value{'s' * (count != 1)} (null)", {"name": name}, kinds[name])
        for name, count in counts.items()
        if count
    ]


FORMAT = Format("parquet", "Parquet", ParquetRows, suffixes=SUFFIXES, magic=MAGIC, holds=holds_parquet, columns=True)
