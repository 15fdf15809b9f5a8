"""Rows in named columns, or in one column of fixed-size lists, and a column of labels."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmpca_dist.errors import ColumnError, InputError, did_you_mean, some_names
from mmpca_dist.limits import LIMITS
from mmpca_dist.settings import setting_name
from mmpca_dist.stores import storage
from mmpca_dist.tables.chosen_columns import positions_of
from mmpca_dist.tables.column_faults import ColumnFault, refusal
from mmpca_dist.tables.dataset import Dataset, readable, unit_edges
from mmpca_dist.tables.facts import Facts
from mmpca_dist.tables.labels import labels_among, normalize_labels
from mmpca_dist.tables.levels import Levels, count_levels, is_text, level_faults, mostly_new_note, unseen_note
from mmpca_dist.tables.memory_limits import refuse_absurd
from mmpca_dist.tables.readers.formats import Request, refuse_missing_names

LABEL_NAMES = ("label", "y")
INDEX = "__index_level_"
"""How pandas calls a nameless index."""
TRANSPOSE_ROWS = 256
"""Columns become rows in blocks of this many, which stay in the cache: five times as fast as at once."""


class ColumnRows(Dataset):
    """Base of the formats whose columns have names; a subclass counts the rows, and reads Arrow tables.

    ``request.names`` are the columns to take, in this order, unless ``features`` or a list column holds the rows; an
    empty list makes a table of labels alone.
    Columns in ``drop`` are no features; nor are those in ``beside``, which must exist, unless one is ``features`` or
    the label.
    """

    def __init__(self, request: Request, schema: pa.Schema) -> None:
        uri, drop, self.schema = request.uri, list(request.drop), schema
        name, times = Counter(schema.names).most_common(1)[0] if schema.names else ("", 0)
        if times > 1:
            raise InputError(f"{uri} has {times} columns called {name!r}. Rename all but one.")
        self.label = self._own_label = _label_column(schema, request)
        for name, setting in request.beside.items():
            if name not in schema.names:
                raise InputError(f"{uri} has no column {name!r} ({setting}).{did_you_mean(name, schema.names)}")
            if name not in (request.features, self.label):
                drop.append(name)
        self.columns, self._is_list = _feature_columns(schema, request, self.label, drop)
        self.named_columns = not self._is_list
        self.allows_gaps, self._skips_unlabelled = request.missing == "mean", request.unlabelled == "skip"
        fields = [schema.field(name) for name in self.columns]
        known = None if request.levels is None else {each.name for each in request.levels}
        self._texts = [
            field.name
            for field in fields
            if (request.encode and is_text(field.type) if known is None else field.name in known)
        ]
        fields = [field for field in fields if field.name not in self._texts]
        faults = _other_types(fields)
        if faults:
            raise self._refusal(faults, request)
        if self._is_list:
            kind, self.features = fields[0].type, self.columns[0]
            is_fixed, dtype = pa.types.is_fixed_size_list(kind), _numpy_type(kind.value_type)
            n_features = kind.list_size if is_fixed else 0  # the first row tells
            if is_fixed and not n_features:
                raise InputError(f"The lists in column {self.features!r} of {uri} have no values.")
        else:
            kinds = {_numpy_type(field.type) for field in fields} | (
                {np.dtype(np.uint8)} if self._texts or not fields else set()
            )
            n_features, dtype = len(self.columns), np.result_type(*kinds)
        if self.allows_gaps:
            dtype = np.result_type(dtype, np.float32)
        self.facts = Facts(
            uri, 0, n_features, dtype, feature_names=None if self._is_list else list(self.columns),
            has_labels=self.label is not None, kind="local" if storage.is_local(uri) else "remote", read_overhead=2.5,
        )  # fmt: skip

    def _complete(self, request: Request, n_rows: int) -> None:
        """Learn from rows how long lists are, and what levels text has, unless a model knows them."""
        self.facts = replace(self.facts, n_rows=n_rows)
        if self._is_list and not self.n_features and self.n_rows:
            (first,) = next(self._parts(0, 1, list(self.columns)))[0].column(0).to_pylist()
            if not first:
                raise InputError(f"The list in row 0 of column {self.features!r} of {self.uri} has no values.")
            self.facts = replace(self.facts, n_features=len(first))
        refuse_absurd(self.uri, (n_rows, self.n_features), self.dtype.itemsize)
        if not self._texts:
            return
        counts = self._count_levels(self)
        if request.levels is None:
            faults = level_faults(counts)
            if faults:
                raise self._refusal(faults, request)
            self.note = mostly_new_note(counts)
            self._encode([Levels.of(name, counts[name]) for name in self._texts])
        else:
            self.note = unseen_note(request.levels, counts, self.uri)
            self._encode(request.levels)

    def with_levels_of(self, rows: Dataset) -> Self:
        """Return the same table with the levels that the text of some ``rows`` of it has, rare by their weights."""
        same, counts = copy(self), self._count_levels(rows)
        same._encode([Levels.of(name, counts[name]) for name in self._texts])
        return same

    def _encode(self, levels: Sequence[Levels]) -> None:
        self.levels, by_name = list(levels), {each.name: each.names for each in levels}
        names = [name for column in self.columns for name in by_name.get(column, [column])]
        if not names:
            raise InputError(f"{self.uri} has no features: no row has text in {some_names(self._texts)}.")
        name, times = Counter(names).most_common(1)[0]
        if times > 1:
            raise InputError(f"{self.uri} has {times} features called {name!r}, one of them a text. Rename a column.")
        self.facts = replace(self.facts, n_features=len(names), feature_names=names)

    def _count_levels(self, rows: Dataset) -> dict[str, Counter[str]]:
        """Return how many ``rows`` of the table have each text of the columns of text, or the weights of these.

        These columns alone are looked at. A column with too many texts is counted no further.
        """
        counts: dict[str, Counter[str]] = {name: Counter() for name in self._texts}
        edges = unit_edges(rows.chunk_edges, max(self.row_bytes, 1)).tolist()
        with ThreadPoolExecutor() as pool:
            for of_unit in pool.map(partial(self._levels_of, rows), edges[:-1], edges[1:]):
                for name, more in of_unit.items():
                    if len(counts[name]) <= LIMITS.max_levels:
                        counts[name].update(more)
        return counts

    def _levels_of(self, rows: Dataset, start: int, stop: int) -> dict[str, Counter[str]]:
        counts: dict[str, Counter[str]] = {name: Counter() for name in self._texts}
        taken, weights = rows.source_rows(start, stop), rows.read_weights(start, stop)
        for table, first in self._parts(int(taken[0]), int(taken[-1]) + 1, self._texts):
            some = slice(*np.searchsorted(taken, [first, first + len(table)]))
            if some.stop - some.start < len(table):
                table = table.take(taken[some] - first)
            for name, column in zip(table.column_names, table.columns, strict=True):
                counts[name].update(count_levels(column, None if weights is None else weights[some]))
        return counts

    def _refusal(self, faults: list[ColumnFault], request: Request) -> ColumnError:
        """Return the error for faults, and for missing values that are refused too."""
        return refusal(request.uri, faults + ([] if self.allows_gaps else self.gaps()), request.drop)

    def gaps(self, beside: Sequence[str] = ()) -> list[ColumnFault]:
        """Return which features, labels and columns ``beside`` have missing values, as far as the metadata tell."""
        return []

    @abstractmethod
    def _parts(self, start: int, stop: int, columns: list[str]) -> Iterator[tuple[pa.Table, int]]:
        """Yield consecutive tables of some columns, which together are the rows, and the first row of each."""

    def tables(self, columns: list[str]) -> Iterator[pa.Table]:
        """Yield all rows of some stored columns, in tables of about a reading unit."""
        for start, stop in itertools.pairwise(unit_edges(self.chunk_edges, 8 * len(columns)).tolist()):
            with readable(self.describe_chunk(start)):
                yield from (table for table, _ in self._parts(start, stop, columns))

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        if out is None:
            out = np.empty((stop - start, self.n_features), self.dtype)
        for table, first in self._parts(start, stop, list(self.columns)):
            rows = out[first - start : first - start + len(table)]
            fill = self._fill_from_list if self._is_list else self._fill_from_columns
            fill(table, rows, first)
        return out

    def _fill_from_list(self, table: pa.Table, rows: NDArray, first: int) -> None:
        column, at = table.column(0), 0
        if not self.allows_gaps:
            _refuse_nulls(column, self.columns[0], first, self.uri)
        for chunk in column.chunks:
            known = chunk.is_valid().to_numpy(zero_copy_only=False)
            lists = chunk.drop_null()  # of null, flatten() may have values or none
            if not pa.types.is_fixed_size_list(chunk.type):
                lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
                if (lengths != rows.shape[1]).any():
                    other = int(np.argmax(lengths != rows.shape[1]))
                    raise InputError(
                        f"The list in row {first + at + int(np.flatnonzero(known)[other])} of {self.uri} has "
                        f"{lengths[other]} values, and that in row 0 has {rows.shape[1]}. Lists must have as many each."
                    )
            values = lists.flatten()
            if values.null_count and not self.allows_gaps:
                row = first + at + int(np.argmax(values.is_null().to_numpy(zero_copy_only=False))) // rows.shape[1]
                raise InputError(f"A list of {self.uri} has a missing value (null) in row {row}. Fill or drop it.")
            into = rows[at : at + len(chunk)]
            if chunk.null_count:
                into[~known] = np.nan
            into[known if chunk.null_count else ...] = _numbers(values).reshape(len(lists), rows.shape[1])
            at += len(chunk)

    def _fill_from_columns(self, table: pa.Table, rows: NDArray, first: int) -> None:
        columns, of_text = np.empty((rows.shape[1], len(rows)), rows.dtype), {each.name: each for each in self.levels}
        done = 0
        for name, column in zip(table.column_names, table.columns, strict=True):
            if not self.allows_gaps:
                _refuse_nulls(column, name, first, self.uri)
            text, at = of_text.get(name), 0
            width = 1 if text is None else len(text.names)
            for chunk in column.chunks:
                values = _numbers(chunk) if text is None else text.indicators(chunk, rows.dtype)
                columns[done : done + width, at : at + len(chunk)] = values
                at += len(chunk)
            done += width
        for start in range(0, len(rows), TRANSPOSE_ROWS):
            rows[start : start + TRANSPOSE_ROWS] = columns[:, start : start + TRANSPOSE_ROWS].T

    def read_labels(self, start: int, stop: int) -> NDArray:
        where = self.values_place
        if self._skips_unlabelled:
            return np.concatenate([_known_labels(chunk, where) for chunk in self._label_chunks(start, stop)])
        return np.concatenate([normalize_labels(values, where) for values in self._values(start, stop, "names")])

    def with_label(self, name: str, setting: str) -> Dataset:
        if name not in self.schema.names:
            hint = did_you_mean(name, self.schema.names) or f" Its columns are {some_names(self.schema.names)}."
            raise InputError(f"{self.uri} has no column {name!r} ({setting}).{hint}")
        return self._labelled_by(name)

    @property
    def beside_names(self) -> list[str]:
        taken = {self.label, *self.columns}
        return [name for name in self.schema.names if name not in taken and not name.startswith(INDEX)]

    def read_column(self, start: int, stop: int) -> pa.ChunkedArray:
        return pa.chunked_array(list(self._label_chunks(start, stop)))

    def is_labelled(self, start: int, stop: int) -> NDArray[np.bool_]:
        return np.concatenate([_has_label(chunk) for chunk in self._label_chunks(start, stop)])

    def _label_chunks(self, start: int, stop: int) -> Iterator[pa.Array]:
        for table, _ in self._parts(start, stop, [str(self.label)]):
            yield from table.column(0).chunks

    def read_values(self, start: int, stop: int) -> NDArray:
        if self._skips_unlabelled:  # whole numbers stay such: in the place of one that is not known, 0
            return np.concatenate([_numbers(_whole(chunk)) for chunk in self._label_chunks(start, stop)])
        return np.concatenate(list(self._values(start, stop, "values")))

    @property
    def values_place(self) -> str:
        return f"column {self.label!r} of {self.uri}"

    def _values(self, start: int, stop: int, what: str) -> Iterator[NDArray]:
        """Yield the label column of some rows piece by piece; ``what`` it holds, for errors."""
        assert self.label is not None  # noqa: S101  (has_labels says so)
        with readable(f"the {what} of rows {start} to {stop - 1} of {self.uri}"):
            for table, first in self._parts(start, stop, [self.label]):
                advice = f" {setting_name('unlabelled', 'skip')} leaves out rows without a label."
                if self.label != self._own_label:
                    advice = " Means stand for gaps in features alone." if self.allows_gaps else ""
                _refuse_nulls(table.column(0), self.label, first, self.uri, what, advice)
                yield from map(_values, table.column(0).chunks)


def _label_column(schema: pa.Schema, request: Request) -> str | None:
    """Return the label column, by default none of ``request.names``; None where there is none and none is required."""
    names = [request.label] if request.label else [name for name in LABEL_NAMES if name not in (request.names or ())]
    for name in names:
        if name in schema.names:
            return name
    if not request.label_required and request.label is None:
        return None
    hint = did_you_mean(names[0], schema.names) or f" Its columns are {some_names(schema.names)}."
    raise InputError(f"{request.uri} has no column {' or '.join(map(repr, names))} ({setting_name('label')}).{hint}")


def _feature_columns(
    schema: pa.Schema, request: Request, label: str | None, drop: list[str]
) -> tuple[tuple[str, ...], bool]:
    """Return the feature columns, and whether they are one fixed-size list."""
    uri, features = request.uri, request.features
    _refuse_unknown(drop, schema.names, label, uri)
    left_out = {label, *drop}
    if request.names == []:
        return (), False
    others = tuple(name for name in schema.names if name not in left_out and not name.startswith(INDEX))
    if request.names and features is None and not any(is_list(schema.field(name).type) for name in others):
        refuse_missing_names(uri, others, request.names)
        return tuple(request.names), False
    if features is not None and features not in others:
        raise InputError(
            f"{uri} has no feature column {features!r} ({setting_name('features')}).{did_you_mean(features, others)}"
        )
    names = (features,) if features is not None else others
    if not names:
        beside = [*([f"the label {label!r}"] if label else []), *(["those dropped or kept"] if drop else [])]
        raise InputError(f"{uri} has no columns" + (" other than " + " and ".join(beside) if beside else "") + ".")
    lists = [name for name in names if is_list(schema.field(name).type)]
    if lists and len(names) > 1:
        raise InputError(
            f"{uri} has a list column {lists[0]!r} and others; name the one to use with {setting_name('features')}, "
            f"or leave out the others with {setting_name('drop')}."
        )
    if request.columns is not None and not lists:
        names = tuple(names[i] for i in positions_of(request.columns, names, len(names), uri))
    return names, bool(lists)


def is_list(kind: pa.DataType) -> bool:
    """Tell whether a type of columns is that of lists."""
    return bool(pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _refuse_unknown(drop: list[str], names: list[str], label: str | None, uri: str) -> None:
    existing = set(names)
    for name in drop:
        if name == label:
            raise InputError(f"{setting_name('drop')} names {name!r}, which is the label of {uri}.")
        if name not in existing:
            hint = did_you_mean(name, names) or f" Its columns are {some_names(names)}."
            raise InputError(f"{setting_name('drop')} names {name!r}, which is no column of {uri}.{hint}")


def refuse_gaps(dataset: Dataset, beside: Sequence[str] = (), dropped: Sequence[str] = ()) -> None:
    """Raise a ``ColumnError`` for all columns of a data set that must have no missing values and, by metadata, have."""
    rows = dataset.stored
    if isinstance(rows, ColumnRows) and not rows.allows_gaps and (faults := rows.gaps(beside)):
        raise refusal(rows.uri, faults, dropped)


def _other_types(fields: list[pa.Field]) -> list[ColumnFault]:
    kinds = {field.name: field.type.value_type if is_list(field.type) else field.type for field in fields}
    is_number = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating)
    return [
        ColumnFault(name, f"{_kind(kind)}, where numbers belong")
        for name, kind in kinds.items()
        if not any(test(kind) for test in is_number)
    ]


def _kind(kind: pa.DataType) -> str:
    dates = " (turn dates into numbers, such as days since one of them)" if pa.types.is_temporal(kind) else ""
    return f"type {kind}{dates}"


def _numpy_type(kind: pa.DataType) -> np.dtype:
    return np.dtype(np.uint8) if pa.types.is_boolean(kind) else np.dtype(kind.to_pandas_dtype())


def _refuse_nulls(
    column: pa.ChunkedArray, name: str, first: int, uri: str, kind: str = "gap", advice: str = ""
) -> None:
    if column.null_count:
        row = first + int(np.argmax(column.is_null().to_numpy()))
        raise ColumnError(
            f"Column {name!r} of {uri} has missing values (null), the first in row {row}. Fill or drop them.{advice}",
            [ColumnFault(name, f"missing values (null), the first in row {row}", kind)],
        )


def _whole(values: pa.Array) -> pa.Array:
    """Return values with 0 in the place of whole numbers and booleans that are missing."""
    fills = pa.types.is_integer(values.type) or pa.types.is_boolean(values.type)
    return values.fill_null(pa.scalar(0).cast(values.type)) if fills else values


def _numbers(values: pa.Array) -> NDArray:
    """Return numbers; NaN where there is none."""
    if values.null_count and pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    return values.to_numpy(zero_copy_only=False)


def _has_label(chunk: pa.Array) -> NDArray[np.bool_]:
    valid = np.array(chunk.is_valid())
    if pa.types.is_floating(chunk.type):
        valid &= ~np.isnan(chunk.to_numpy(zero_copy_only=False))
    return valid


def _known_labels(chunk: pa.Array, where: str) -> NDArray:
    """Return labels, with anything in the place of those that are missing."""
    valid = _has_label(chunk)
    if not valid.any():
        kind = bool if pa.types.is_boolean(chunk.type) else np.int64
        return np.zeros(len(chunk), "U1" if is_text(chunk.type) else kind)
    return labels_among(valid, normalize_labels(_values(chunk.filter(pa.array(valid))), where))


def _values(chunk: pa.Array) -> NDArray:
    """Return labels; the text of a category is stored once, and not copied."""
    if pa.types.is_dictionary(chunk.type):
        return chunk.dictionary.to_numpy(zero_copy_only=False)[chunk.indices.to_numpy(zero_copy_only=False)]
    return chunk.to_numpy(zero_copy_only=False)
