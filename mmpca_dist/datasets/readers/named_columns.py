"""Rows in named columns, or in one column of fixed-size lists, and a column of labels."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmpca_dist.datasets.column_faults import ColumnFault, Gaps
from mmpca_dist.datasets.dataset import Dataset, reading_labels
from mmpca_dist.datasets.labels import normalize_labels
from mmpca_dist.datasets.readers.formats import Request
from mmpca_dist.errors import MOST_NAMES, ColumnError, InputError, did_you_mean, some_names
from mmpca_dist.settings import setting_name

LABEL_NAMES = ("label", "y")
TRANSPOSE_ROWS = 256
"""Columns become rows in blocks of this many, which stay in the cache: five times as fast as at once."""


class ColumnRows(Dataset):
    """Base of the formats whose columns have names; a subclass reads pieces of them as Arrow tables.

    Parameters
    ----------
    request : Request
        ``names`` are the columns to take, in this order, where neither ``features`` nor a list column says what the
        rows are; ``drop`` are columns that are no features, and so are those of ``beside``, which must be columns,
        unless one is ``features`` or the label.
    schema : pyarrow.Schema
        Of all columns.
    """

    def __init__(self, request: Request, schema: pa.Schema) -> None:
        self.uri, drop = request.uri, request.drop
        self.label = _label_column(schema, request.label, self.uri, request.label_required, request.names or [])
        self.has_labels = self.label is not None
        for name, setting in request.beside.items():
            if name not in schema.names:
                raise InputError(f"{self.uri} has no column {name!r} ({setting}).{did_you_mean(name, schema.names)}")
            if name not in (request.features, self.label):
                drop = [*drop, name]
        self.columns, self._is_list = _feature_columns(
            schema, request.features, self.label, self.uri, request.names, drop
        )
        self.features = self.columns[0] if self._is_list else None
        self.n_features, self.dtype = self._types(schema)
        if not self._is_list:
            self.feature_names = list(self.columns)
            self.named_columns = True

    def gaps(self, beside: Sequence[str] = ()) -> Gaps:
        """Return which features, labels and columns ``beside`` have missing values, as far as metadata tell."""
        return Gaps([], complete=False)

    @abstractmethod
    def _parts(self, start: int, stop: int, columns: list[str]) -> Iterator[tuple[pa.Table, int]]:
        """Yield pieces of some columns that hold the rows, cut to them, in order, and the first row of each."""

    def _types(self, schema: pa.Schema) -> tuple[int, np.dtype]:
        fields = [schema.field(name) for name in self.columns]
        _refuse_other_types(fields, self.uri)
        if self._is_list:
            return fields[0].type.list_size, _numpy_type(fields[0].type.value_type)
        return len(fields), np.result_type(*{_numpy_type(f.type) for f in fields})

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        if out is None:
            out = np.empty((stop - start, self.n_features), self.dtype)
        for table, first in self._parts(start, stop, list(self.columns)):
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
    raise InputError(f"{uri} has no column {wanted} ({setting_name('label')}).{hint}")


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
            f"{uri} has no feature column {features!r} ({setting_name('features')}).{did_you_mean(features, others)}"
        )
    names = (features,) if features is not None else others
    if not names:
        beside = [*([f"the label {label!r}"] if label else []), *(["those dropped or kept"] if drop else [])]
        raise InputError(f"{uri} has no columns" + (" beside " + " and ".join(beside) if beside else "") + ".")
    lists = [name for name in names if pa.types.is_fixed_size_list(schema.field(name).type)]
    if lists and len(names) > 1:
        raise InputError(
            f"{uri} has a list column {lists[0]!r} and others; name the one to use with {setting_name('features')}, "
            f"or leave out the others with {setting_name('drop')}."
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
            raise InputError(f"{setting_name('drop')} names {name!r}, which is the label of {uri}.")
        if name not in known:
            hint = did_you_mean(name, names) or f" Its columns are {some_names(names)}."
            raise InputError(f"{setting_name('drop')} names {name!r}, which is no column of {uri}.{hint}")


def _refuse_other_types(fields: list[pa.Field], uri: str) -> None:
    """Refuse columns that hold no numbers."""
    kinds = {f.name: f.type.value_type if pa.types.is_fixed_size_list(f.type) else f.type for f in fields}
    bad = [name for name, kind in kinds.items() if not _is_number(kind)]
    if bad:
        others = f" (and {len(bad) - 1} more: {some_names(bad[1:])})" if len(bad) > 1 else ""
        raise ColumnError(
            f"Column {bad[0]!r} of {uri} has type {kinds[bad[0]]}{others}; features must be numbers. Encode it as "
            f"numbers, leave it out with {setting_name('drop', bad[:MOST_NAMES])}, or name it as "
            f"{setting_name('label')}.",
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


def refuse_twice(schema: pa.Schema, uri: str) -> None:
    name, times = Counter(schema.names).most_common(1)[0] if schema.names else ("", 0)
    if times > 1:
        raise InputError(f"{uri} has {times} columns called {name!r}. Rename all but one.")


def _values(chunk: pa.Array) -> NDArray:
    """Return labels without a copy of each text, of which categories are stored once."""
    if pa.types.is_dictionary(chunk.type):
        return chunk.dictionary.to_numpy(zero_copy_only=False)[chunk.indices.to_numpy(zero_copy_only=False)]
    return chunk.to_numpy(zero_copy_only=False)
