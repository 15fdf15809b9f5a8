"""Rows in named columns, or in one column of fixed-size lists, and a column of labels."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmpca_dist.errors import ColumnError, InputError, did_you_mean, some_names
from mmpca_dist.faults import Fault, Setting
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores import storage
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.chosen_columns import listed, positions_of
from mmpca_dist.tables.column import Column, Known
from mmpca_dist.tables.column_faults import refusal
from mmpca_dist.tables.facts import Facts
from mmpca_dist.tables.levels import Levels, count_levels, is_text, level_faults, mostly_new_note, unseen_note
from mmpca_dist.tables.memory_limits import refuse_absurd
from mmpca_dist.tables.readers.formats import Request, refuse_missing_names
from mmpca_dist.tables.source import Source, readable
from mmpca_dist.tables.spans import unit_edges

LABEL_NAMES = ("label", "y")
INDEX = "__index_level_"
"""How pandas calls a nameless index."""
TRANSPOSE_ROWS = 256
"""Columns become rows in blocks of this many, which stay in the cache: five times as fast as at once."""


class ColumnRows(Source):
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
        self.label = _label_column(schema, request)
        for name, setting in request.beside.items():
            if name not in schema.names:
                text = f"{uri} has no column {name!r} ({{setting}}).{did_you_mean(name, schema.names)}"
                raise InputError(text, setting=setting)
            if name not in (request.features, self.label):
                drop.append(name)
        self.columns, self._is_list = _feature_columns(schema, request, self.label, drop)
        self.named_columns = not self._is_list
        self.allows_gaps = request.missing == "mean"
        self.whole_label = None if request.unlabelled == "skip" else self.label
        fields = [schema.field(name) for name in self.columns]
        known = None if request.levels is None else {each.name for each in request.levels}
        self._levels_known = known is not None
        self._texts = [
            field.name
            for field in fields
            if (request.encode and is_text(field.type) if known is None else field.name in known)
        ]
        fields = [field for field in fields if field.name not in self._texts]
        if faults := _other_types(fields):
            raise self._refusal(faults, request)
        if self._is_list:
            kind, self.features = fields[0].type, self.columns[0]
            is_fixed, dtype = pa.types.is_fixed_size_list(kind), _numpy_type(kind.value_type)
            n_features = kind.list_size if is_fixed else 0  # the first row tells
            if is_fixed and not n_features:
                raise InputError(f"The lists in column {self.features!r} of {uri} have no values.")
        else:
            kinds = [_numpy_type(field.type) for field in fields]
            kinds += [np.dtype(np.uint8)] if self._texts or not fields else []  # of indicators
            n_features, dtype = len(self.columns), np.result_type(*kinds)
        if self.allows_gaps:
            dtype = np.result_type(dtype, np.float32)
        self.facts = Facts(
            uri, 0, n_features, dtype, feature_names=None if self._is_list else list(self.columns),
            kind="local" if storage.is_local(uri) else "remote", read_overhead=2.5,
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
        units = itertools.pairwise(unit_edges(self.chunk_edges, max(self.row_bytes, 1)).tolist())
        counts = self._count_levels((np.arange(start, stop), None) for start, stop in units)
        if request.levels is None:
            if faults := level_faults(counts):
                raise self._refusal(faults, request)
            self.note = mostly_new_note(counts)
            self._encode([Levels.of(name, counts[name]) for name in self._texts])
        else:
            self.note = unseen_note(request.levels, counts, self.uri)
            self._encode(request.levels)

    def with_levels_of(self, batches: Iterable[Batch]) -> Self:
        if not self.levels or self._levels_known:
            return self
        counts = self._count_levels((batch.rows, batch.weight) for batch in batches)
        same = copy(self)
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

    def _count_levels(self, units: Iterable[tuple[NDArray, NDArray | None]]) -> dict[str, Counter[str]]:
        """Return how many rows have each text of the columns of text, or their weights, given units of rows with these.

        These columns alone are looked at. A column with too many texts is counted no further.
        """
        counts: dict[str, Counter[str]] = {name: Counter() for name in self._texts}
        with ThreadPoolExecutor() as pool:
            for of_unit in pool.map(self._levels_of, *zip(*units, strict=True)):
                for name, more in of_unit.items():
                    if len(counts[name]) <= LIMITS.max_levels:
                        counts[name].update(more)
        return counts

    def _levels_of(self, taken: NDArray, weights: NDArray | None) -> dict[str, Counter[str]]:
        counts: dict[str, Counter[str]] = {name: Counter() for name in self._texts}
        for table, first in self._parts(int(taken[0]), int(taken[-1]) + 1, self._texts):
            some = slice(*np.searchsorted(taken, [first, first + len(table)]))
            if some.stop - some.start < len(table):
                table = table.take(taken[some] - first)
            for name, column in zip(table.column_names, table.columns, strict=True):
                counts[name].update(count_levels(column, None if weights is None else weights[some]))
        return counts

    def _refusal(self, faults: list[Fault], request: Request) -> ColumnError:
        """Return the error for faults, and for missing values that are refused too."""
        return refusal(request.uri, faults + ([] if self.allows_gaps else self.gaps()), request.drop)

    def gaps(self, beside: Sequence[str] = ()) -> list[Fault]:
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

    def read(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        if out is None:
            out = np.empty((stop - start, self.n_features), self.dtype)
        for table, first in self._parts(start, stop, list(self.columns)):
            rows = out[first - start : first - start + len(table)]
            fill = self._fill_from_list if self._is_list else self._fill_from_columns
            fill(table, rows, first)
        return out

    def _fill_from_list(self, table: pa.Table, rows: NDArray, first: int) -> None:
        column, at = table.column(0), 0
        self._refuse_nulls(column, self.columns[0], first)
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
            self._refuse_nulls(column, name, first)
            text, at = of_text.get(name), 0
            width = 1 if text is None else len(text.names)
            for chunk in column.chunks:
                values = _numbers(chunk) if text is None else text.indicators(chunk, rows.dtype)
                columns[done : done + width, at : at + len(chunk)] = values
                at += len(chunk)
            done += width
        for start in range(0, len(rows), TRANSPOSE_ROWS):
            rows[start : start + TRANSPOSE_ROWS] = columns[:, start : start + TRANSPOSE_ROWS].T

    def _refuse_nulls(self, column: pa.ChunkedArray, name: str, first: int) -> None:
        if column.null_count and not self.allows_gaps:
            row = first + int(np.argmax(column.is_null().to_numpy()))
            text = (
                f"Column {name!r} of {self.uri} has missing values (null), the first in row {row}. Fill or drop them."
            )
            raise ColumnError(Fault(text, {"name": name}, "gap"))

    def column(self, name: str | None, setting: Setting | str) -> Column:
        name = str(self.label) if name is None else name
        if name not in self.schema.names:
            hint = did_you_mean(name, self.schema.names) or f" Its columns are {some_names(self.schema.names)}."
            raise InputError(f"{self.uri} has no column {name!r} ({{setting}}).{hint}", setting=setting)
        read, read_arrow = partial(self._read_column, name), partial(self._read_arrow, name)
        return Column(name, f"column {name!r} of {self.uri}", self.n_rows, read, arrow_reader=read_arrow)

    @property
    def beside_names(self) -> Sequence[str]:  # type: ignore[override]
        taken = {self.label, *self.columns}
        return [name for name in self.schema.names if name not in taken and not name.startswith(INDEX)]

    def _read_arrow(self, name: str, start: int, stop: int) -> pa.ChunkedArray:
        with readable(f"column {name!r} of rows {start} to {stop - 1} of {self.uri}"):
            chunks = [chunk for table, _ in self._parts(start, stop, [name]) for chunk in table.column(0).chunks]
        return pa.chunked_array(chunks, self.schema.field(name).type)

    def _read_column(self, name: str, start: int, stop: int) -> Known:
        """Return numbers, text, or times; in the place of whole numbers that are missing 0, of others NaN or NaT."""
        column = self._read_arrow(name, start, stop)
        there = np.array(column.is_valid())
        values = [_values(chunk) for chunk in column.chunks]
        joined = np.concatenate(values) if values else _values(column.combine_chunks())
        return joined, there & ~np.isnan(joined) if joined.dtype.kind == "f" else there


def _label_column(schema: pa.Schema, request: Request) -> str | None:
    """Return the label column, by default none of ``request.names``; None where there is none and none is required."""
    names = [request.label] if request.label else [name for name in LABEL_NAMES if name not in (request.names or ())]
    for name in names:
        if name in schema.names:
            return name
    if not request.label_required and request.label is None:
        return None
    hint = did_you_mean(names[0], schema.names) or f" Its columns are {some_names(schema.names)}."
    listed = " or ".join(map(repr, names))
    raise InputError(f"{request.uri} has no column {listed} ({{label}}).{hint}", label=Setting("label"))


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
        hint = did_you_mean(features, others)
        raise InputError(f"{uri} has no feature column {features!r} ({{setting}}).{hint}", setting=Setting("features"))
    names = (features,) if features is not None else others
    if not names:
        beside = [*([f"the label {label!r}"] if label else []), *(["those dropped or kept"] if drop else [])]
        raise InputError(f"{uri} has no columns" + (" other than " + " and ".join(beside) if beside else "") + ".")
    lists = [name for name in names if is_list(schema.field(name).type)]
    if lists and len(names) > 1:
        raise InputError(
            f"{uri} has a list column {lists[0]!r} and others; name the one to use with {{features}}, or leave out the "
            "others with {drop}.",
            features=Setting("features"), drop=Setting("drop"),
        )  # fmt: skip
    if request.columns is not None and not lists:
        names = tuple(names[i] for i in positions_of(listed(request.columns), names, len(names), uri))
    return names, bool(lists)


def is_list(kind: pa.DataType) -> bool:
    """Tell whether a type of columns is that of lists."""
    return bool(pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _refuse_unknown(drop: list[str], names: list[str], label: str | None, uri: str) -> None:
    existing = set(names)
    for name in drop:
        if name == label:
            raise InputError(f"{{drop}} names {name!r}, which is the label of {uri}.", drop=Setting("drop"))
        if name not in existing:
            hint = did_you_mean(name, names) or f" Its columns are {some_names(names)}."
            raise InputError(f"{{drop}} names {name!r}, which is no column of {uri}.{hint}", drop=Setting("drop"))


def refuse_gaps(rows: Source, beside: Sequence[str] = (), dropped: Sequence[str] = ()) -> None:
    """Raise a ``ColumnError`` for all columns of a table that must have no missing values and, by metadata, have."""
    if isinstance(rows, ColumnRows) and not rows.allows_gaps and (faults := rows.gaps(beside)):
        raise refusal(rows.uri, faults, dropped)


def _other_types(fields: list[pa.Field]) -> list[Fault]:
    kinds = {field.name: field.type.value_type if is_list(field.type) else field.type for field in fields}
    is_number = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating)
    dates = " (turn dates into numbers, such as days since one of them)"
    return [
        Fault(f"type {kind}{dates * pa.types.is_temporal(kind)}, where numbers belong", {"name": name}, "text")
        for name, kind in kinds.items()
        if not any(test(kind) for test in is_number)
    ]


def _numpy_type(kind: pa.DataType) -> np.dtype:
    return np.dtype(np.uint8) if pa.types.is_boolean(kind) else np.dtype(kind.to_pandas_dtype())


def _numbers(values: pa.Array) -> NDArray:
    """Return numbers; NaN where there is none."""
    if values.null_count and pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    return values.to_numpy(zero_copy_only=False)


def _values(chunk: pa.Array) -> NDArray:
    """Return values of a column; the text of a category is stored once, and not copied."""
    if chunk.null_count and (pa.types.is_integer(chunk.type) or pa.types.is_boolean(chunk.type)):
        chunk = chunk.fill_null(pa.scalar(0).cast(chunk.type))
    if not pa.types.is_dictionary(chunk.type):
        return chunk.to_numpy(zero_copy_only=False)
    levels, codes = chunk.dictionary.to_numpy(zero_copy_only=False), chunk.indices.fill_null(0)
    return levels[codes.to_numpy(zero_copy_only=False)] if len(levels) else np.full(len(chunk), None, object)
