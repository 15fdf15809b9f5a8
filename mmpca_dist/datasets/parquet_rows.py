"""Rows in Parquet: one column a feature, or one fixed-size-list column, and a label column."""

from __future__ import annotations

import functools
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from dask.utils import format_bytes
from numpy.typing import NDArray

from mmpca_dist.datasets import storage
from mmpca_dist.datasets.base import Dataset, reading_labels
from mmpca_dist.datasets.column_faults import ColumnFault
from mmpca_dist.datasets.labels import NAME_CHARACTERS, normalize_labels, refuse_texts
from mmpca_dist.datasets.limits import allowed_bytes, refuse_absurd, refuse_larger
from mmpca_dist.datasets.parquet_folders import parquet_files
from mmpca_dist.datasets.parquet_pages import CheckedColumns, columns_of, unpacks_little
from mmpca_dist.errors import MOST_NAMES, ColumnError, InputError, did_you_mean, some_names

LABEL_NAMES = ("label", "y")
TRANSPOSE_ROWS = 256
"""Columns become rows in blocks of this many, which stay in the cache: five times as fast as at once."""


@dataclass(frozen=True)
class RowGroup:
    """A row group: the file that holds it, its number there, its first row in the data set, its rows."""

    file: str
    number: int
    start: int
    n_rows: int


class ParquetDataset(Dataset):
    """Rows and labels of a Parquet file, or of the Parquet files of a folder; see ``parquet_folders``.

    Without ``label_required`` the column of labels may be absent. ``names`` are the columns to take, in this order,
    where neither ``features`` nor a list column says what the rows are; ``drop`` are columns that are no
    features, and so are those of ``beside``, which must be columns, unless one is ``features`` or the label; it holds
    what has named them, for errors.
    """

    def __init__(
        self,
        uri: str,
        features: str | None = None,
        label: str | None = None,
        label_required: bool = True,
        names: list[str] | None = None,
        drop: Sequence[str] = (),
        beside: Mapping[str, str] | None = None,
    ) -> None:
        self.uri, self._token = uri, uuid.uuid4().hex
        self.kind = "local" if storage.is_local(uri) else "remote"
        self.read_overhead = 2.5
        table = parquet_files(uri)
        self._files = table.files
        stored = _metadata(self._files[0], self._token).schema.to_arrow_schema()
        _refuse_twice(stored, uri)
        # A file that holds a column of its folder's name, too, knows it better.
        self._in_folders = [column for column in table.fields if column.name not in stored.names]
        self._of_file = dict(zip(table.files, table.values, strict=False)) if self._in_folders else {}
        schema = pa.schema([*stored, *self._in_folders])
        self.label = _label_column(schema, label, uri, label_required, names or [])
        self.has_labels = self.label is not None
        for name, setting in (beside or {}).items():
            if name not in schema.names:
                raise InputError(f"{uri} has no column {name!r} ({setting}).{did_you_mean(name, schema.names)}")
            if name not in (features, self.label):
                drop = [*drop, name]
        self._columns, self._is_list = _feature_columns(schema, features, self.label, uri, names, drop)
        self.list_column = self._columns[0] if self._is_list else None
        self.n_features, self.dtype = self._types(schema)
        if not self._is_list:
            self.feature_names = list(self._columns)
            self.named_columns = True
        leaves = _metadata(self._files[0], self._token).schema
        found = (i for i in range(len(leaves)) if leaves.column(i).path == self.label)
        self._label_number = next(found, None)
        self._groups: list[RowGroup] = []
        self._allowed = allowed_bytes()
        start = 0
        for file in self._files:
            metadata = _metadata(file, self._token)
            _refuse_other_columns(metadata.schema.to_arrow_schema(), stored, file, self._files[0])
            for number in range(metadata.num_row_groups):
                n_rows = metadata.row_group(number).num_rows
                self._refuse_oversized(metadata.row_group(number), f"Row group {number} of {file}")
                if n_rows:
                    self._groups.append(RowGroup(file, number, start, n_rows))
                start += n_rows
        self.n_rows = start
        refuse_absurd(uri, (self.n_rows, self.n_features), self.dtype.itemsize)

    def _refuse_oversized(self, group: pq.RowGroupMetaData, where: str) -> None:
        """Refuse a row group by what its metadata declare: it is read whole, the labels at another time."""
        refuse_absurd(where, (group.num_rows, self.n_features), self.dtype.itemsize)
        sizes = [group.num_rows * self.row_bytes]
        if self._label_number is not None:
            sizes.append(group.column(self._label_number).total_uncompressed_size)
        refuse_larger(max(sizes), where, "Write it again with smaller row groups")

    @property
    def columns(self) -> tuple[str, ...]:
        """The feature columns, or the one list column that holds them."""
        return self._columns

    def row_groups(self) -> Iterator[pq.RowGroupMetaData]:
        """Yield the metadata of the row groups that hold rows, in order."""
        for group in self._groups:
            yield _metadata(group.file, self._token).row_group(group.number)

    def _types(self, schema: pa.Schema) -> tuple[int, np.dtype]:
        fields = [schema.field(name) for name in self._columns]
        _refuse_other_types(fields, self.uri)
        if self._is_list:
            return fields[0].type.list_size, _numpy_type(fields[0].type.value_type)
        return len(fields), np.result_type(*{_numpy_type(f.type) for f in fields})

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return np.asarray([group.start for group in self._groups] + [self.n_rows], dtype=np.int64)

    def _parts(self, start: int, stop: int, columns: list[str]) -> Any:
        """Yield (table, first row in the data set) of the row groups that hold the rows, cut to them."""
        at = int(np.searchsorted(self.chunk_edges, start, side="right")) - 1
        for group in self._groups[at:]:
            if group.start >= stop:
                return
            table = self._with_folders(group, storage.undamaged(group.file, partial(self._read_group, group, columns)))
            skip = max(start - group.start, 0)
            # Columns are read in the order of the file.
            yield table.select(columns).slice(skip, min(stop - group.start, group.n_rows) - skip), group.start + skip

    def _read_group(self, group: RowGroup, columns: list[str]) -> pa.Table:
        metadata = _metadata(group.file, self._token)
        chunks = columns_of(metadata.row_group(group.number), set(columns))
        are_texts = any(chunk.physical_type == "BYTE_ARRAY" for chunk in chunks)
        source, batch_rows = _source(group.file), group.n_rows
        checks = are_texts or self._is_list or not unpacks_little(chunks, self._allowed)
        if checks:
            n_values = None if are_texts else group.n_rows * (self.n_features if self._is_list else 1)
            with Path(source).open("rb") if isinstance(source, str) else source as raw:
                source = CheckedColumns(raw, chunks, n_values, f"row group {group.number} of {group.file}")
            if are_texts:
                longest = max(pages.n_bytes if pages.repeats else 1 for pages in source.pages)
                batch_rows = min(max(self._allowed // max(longest, 1), 1), group.n_rows)
        with pq.ParquetFile(source, metadata=metadata, page_checksum_verification=True, pre_buffer=not checks) as file:
            if batch_rows == group.n_rows:
                return file.read_row_group(group.number, columns=columns, use_threads=False)
            return pa.Table.from_batches(self._names(file.iter_batches(batch_rows, [group.number], columns)))

    def _names(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Refuse texts that are longer than names, or do not fit, before there are many of them."""
        n_bytes = 0
        for batch in batches:
            (column,) = batch.columns
            texts = column.dictionary if pa.types.is_dictionary(column.type) else column
            n_bytes += batch.nbytes
            if n_bytes > self._allowed or (pc.max(pc.binary_length(texts)).as_py() or 0) > 4 * NAME_CHARACTERS:
                refuse_texts(texts.to_pylist(), f"Labels in column {self.label!r} of {self.uri}")
                raise InputError(
                    f"The labels of a row group of {self.uri} take more than {format_bytes(self._allowed)}. Write it "
                    "again with smaller row groups, or allow more memory."
                )
            yield batch

    def _with_folders(self, group: RowGroup, table: pa.Table) -> pa.Table:
        """Return a row group with the columns that are in the names of folders."""
        for column in self._in_folders:
            value = pa.scalar(self._of_file[group.file].get(column.name), column.type)
            table = table.append_column(column, pa.repeat(value, group.n_rows))
        return table

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        if out is None:
            out = np.empty((stop - start, self.n_features), self.dtype)
        for table, first in self._parts(start, stop, list(self._columns)):
            rows = out[first - start : first - start + len(table)]
            if self._is_list:
                _fill_from_list(table.column(0), rows, first, self.uri)
            else:
                _fill_from_columns(table, rows, first, self.uri)
        return out

    def read_labels(self, start: int, stop: int) -> NDArray:
        assert self.label is not None  # noqa: S101  (has_labels says so)
        parts = []
        with reading_labels(self.uri, start, stop):
            for table, first in self._parts(start, stop, [self.label]):
                column = table.column(0)
                _refuse_nulls(column, self.label, first, self.uri, "names")
                parts += [
                    normalize_labels(_values(chunk), f"column {self.label!r} of {self.uri}") for chunk in column.chunks
                ]
            return np.concatenate(parts)

    def describe_chunk(self, row: int) -> str:
        number, start, stop = self.chunk_of(row)
        group = self._groups[number]
        return f"row group {group.number} (rows {start} to {stop - 1}) of {group.file}"

    @property
    def addresses(self) -> list[str]:
        return self._files

    def fingerprint(self) -> str:
        objects = [storage.list_objects(file) for file in self._files]
        in_folders = [self._of_file] if self._in_folders else []
        return storage.digest("parquet", self.n_rows, list(self._columns), self.label, objects, *in_folders)


def _values(chunk: pa.Array) -> NDArray:
    """Return labels without a copy of each text, of which categories are stored once."""
    if pa.types.is_dictionary(chunk.type):
        return chunk.dictionary.to_numpy(zero_copy_only=False)[chunk.indices.to_numpy(zero_copy_only=False)]
    return chunk.to_numpy(zero_copy_only=False)


def _source(file: str) -> Any:
    fs, path = storage.filesystem(file)
    return path if storage.is_local(file) else fs.open(path, "rb")


@functools.lru_cache(maxsize=4096)
def _metadata(file: str, token: str) -> pq.FileMetaData:
    storage.refuse_pipe(file)
    with storage.explained(file):
        try:
            return storage.undamaged(file, lambda: storage.agreed(file, lambda: pq.read_metadata(_source(file))))
        except pa.ArrowInvalid as error:
            raise InputError(
                f"{file} is not a readable Parquet file; it may be cut short ({str(error).rstrip('.')}). "
                "Write or copy it again."
            ) from error


def _refuse_twice(schema: pa.Schema, uri: str) -> None:
    name, times = Counter(schema.names).most_common(1)[0] if schema.names else ("", 0)
    if times > 1:
        raise InputError(f"{uri} has {times} columns called {name!r}. Rename all but one.")


def _refuse_other_columns(found: pa.Schema, expected: pa.Schema, file: str, first: str) -> None:
    if found.names != expected.names:
        lacking = [name for name in expected.names if name not in found.names]
        more = [name for name in found.names if name not in expected.names]
        what = (
            f"lacks {some_names(lacking)} of" if lacking else f"has {some_names(more)} beyond" if more else "reorders"
        )
        raise InputError(f"{file} {what} the columns of {first}. Write all files of a folder alike.")
    for field, other in zip(found, expected, strict=True):
        if field.type != other.type:
            raise InputError(
                f"Column {field.name!r} has type {field.type} in {file} and {other.type} in {first}. Write both alike."
            )


def _label_column(
    schema: pa.Schema, label: str | None, uri: str, required: bool, features: Collection[str]
) -> str | None:
    """Return the label column; None where there need be none. A column that is a known feature is no label."""
    names = [label] if label else [name for name in LABEL_NAMES if name not in features]
    for name in names:
        if name in schema.names:
            return name
    if not required and label is None:
        return None
    wanted = " or ".join(repr(name) for name in names)
    hint = did_you_mean(names[0], schema.names) or f" Its columns are {some_names(schema.names)}."
    raise InputError(f"{uri} has no label column {wanted} (dataset.label).{hint}")


def _feature_columns(
    schema: pa.Schema,
    features: str | None,
    label: str | None,
    uri: str,
    wanted: list[str] | None,
    drop: Sequence[str],
) -> tuple[tuple[str, ...], bool]:
    """Return the feature columns, and whether they are one fixed-size list."""
    _refuse_unknown(drop, schema.names, label, uri)
    left_out = {label, *drop}
    others = tuple(name for name in schema.names if name not in left_out and not name.startswith("__index_level_"))
    if wanted and features is None and not any(pa.types.is_fixed_size_list(schema.field(n).type) for n in others):
        refuse_missing_names(uri, others, wanted)
        return tuple(wanted), False
    if features is not None and features not in others:
        raise InputError(
            f"{uri} has no feature column {features!r} (dataset.features).{did_you_mean(features, others)}"
        )
    names = (features,) if features is not None else others
    if not names:
        beside = [*([f"the label {label!r}"] if label else []), *(["those dropped or kept"] if drop else [])]
        raise InputError(f"{uri} has no columns" + (" beside " + " and ".join(beside) if beside else "") + ".")
    lists = [name for name in names if pa.types.is_fixed_size_list(schema.field(name).type)]
    if lists and len(names) > 1:
        raise InputError(
            f"{uri} has a list column {lists[0]!r} and others; name the one to use with dataset.features, "
            "or leave out the others with dataset.drop."
        )
    return names, bool(lists)


def refuse_missing_names(uri: str, found: Collection[str], wanted: list[str]) -> None:
    """Refuse features that lack some of those that are wanted.

    Raises
    ------
    InputError
        With the first few names, and what the first may be called instead.
    """
    known = set(found)
    missing = [name for name in wanted if name not in known]
    if missing:
        raise InputError(
            f"{uri} lacks {len(missing)} of the {len(wanted)} features that the model was fitted to: "
            f"{some_names(missing)}.{did_you_mean(missing[0], known.difference(wanted))}"
        )


def _refuse_unknown(drop: Sequence[str], names: list[str], label: str | None, uri: str) -> None:
    known = set(names)
    for name in drop:
        if name == label:
            raise InputError(f"dataset.drop names {name!r}, which is the label of {uri}.")
        if name not in known:
            hint = did_you_mean(name, names) or f" Its columns are {some_names(names)}."
            raise InputError(f"dataset.drop names {name!r}, which is no column of {uri}.{hint}")


def _refuse_other_types(fields: list[pa.Field], uri: str) -> None:
    """Refuse columns that hold no numbers."""
    kinds = {f.name: f.type.value_type if pa.types.is_fixed_size_list(f.type) else f.type for f in fields}
    bad = [name for name, kind in kinds.items() if not _is_number(kind)]
    if bad:
        others = f" (and {len(bad) - 1} more: {some_names(bad[1:])})" if len(bad) > 1 else ""
        raise ColumnError(
            f"Column {bad[0]!r} of {uri} has type {kinds[bad[0]]}{others}; features must be numbers. Encode it as "
            f"numbers, leave it out with dataset.drop: [{', '.join(bad[:MOST_NAMES])}], or name it as dataset.label.",
            [ColumnFault(name, f"type {kinds[name]}, where numbers belong") for name in bad],
        )


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _numpy_type(kind: pa.DataType) -> np.dtype:
    return np.dtype(np.uint8) if pa.types.is_boolean(kind) else np.dtype(kind.to_pandas_dtype())


def _refuse_nulls(column: pa.ChunkedArray, name: str, first: int, uri: str, kind: str = "gap") -> None:
    if column.null_count:
        row = first + int(np.argmax(column.is_null().to_numpy()))
        raise ColumnError(
            f"Column {name!r} of {uri} has {column.null_count} missing values (null), the first in row {row}. "
            "Fill or drop them.",
            [ColumnFault(name, f"missing values (null), the first in row {row}", kind)],
        )


def _fill_from_list(column: pa.ChunkedArray, rows: NDArray, first: int, uri: str) -> None:
    # A list array is flattened by flatten(), which drops null lists: they are refused before.
    _refuse_nulls(column, "features", first, uri)
    at = 0
    for chunk in column.chunks:
        values = chunk.flatten()
        if values.null_count:
            row = first + at + int(np.argmax(values.is_null().to_numpy(zero_copy_only=False))) // rows.shape[1]
            raise InputError(f"A list of {uri} has a missing value (null) in row {row}. Fill or drop it.")
        rows[at : at + len(chunk)] = values.to_numpy(zero_copy_only=False).reshape(len(chunk), -1)
        at += len(chunk)


def _fill_from_columns(table: pa.Table, rows: NDArray, first: int, uri: str) -> None:
    columns = np.empty((rows.shape[1], len(rows)), rows.dtype)
    for target, name, column in zip(columns, table.column_names, table.columns, strict=True):
        _refuse_nulls(column, name, first, uri)
        at = 0
        for chunk in column.chunks:
            target[at : at + len(chunk)] = chunk.to_numpy(zero_copy_only=False)
            at += len(chunk)
    for start in range(0, len(rows), TRANSPOSE_ROWS):
        rows[start : start + TRANSPOSE_ROWS] = columns[:, start : start + TRANSPOSE_ROWS].T
