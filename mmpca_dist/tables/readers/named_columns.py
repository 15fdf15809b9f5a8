"""Rows in named columns, or in one column of fixed-size lists, and a column of labels."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mmpca_dist.errors import ColumnError, InputError, did_you_mean, instead_of, some_names
from mmpca_dist.faults import Fault, Setting
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores import storage
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.column import Column, Known
from mmpca_dist.tables.column_faults import refusal
from mmpca_dist.tables.column_names import index_names
from mmpca_dist.tables.facts import Facts
from mmpca_dist.tables.levels import Levels, count_levels, is_text, level_faults, mostly_new_note, unseen_note
from mmpca_dist.tables.memory_limits import refuse_absurd
from mmpca_dist.tables.number_texts import NumberTexts, spelled_numbers, without_words
from mmpca_dist.tables.readers.column_choice import feature_columns, label_column, other_types
from mmpca_dist.tables.readers.formats import Request
from mmpca_dist.tables.readers.transposition import columns_apart, fill_from_columns
from mmpca_dist.tables.source import Source, readable
from mmpca_dist.tables.spans import unit_edges
from mmpca_dist.tables.stored_types import (
    column_numbers,
    column_values,
    conformed,
    is_list,
    is_number,
    numpy_type,
    plain,
)

DAMAGED = "What the file declares does not fit what it holds: it is damaged. Write or copy it again."
HEAD = 1000
"""Rows that tell how long lists are."""
OF_NUMBERS = ("weight", "target", "covariates")
"""Settings of columns whose text is read as numbers where it spells nothing else."""


class ColumnRows(Source):
    """Base of the formats whose columns have names; a subclass counts the rows, and reads Arrow tables.

    ``request.names`` are the columns to take, in this order, unless ``features`` or a list column holds the rows; an
    empty list makes a table of labels alone.
    Columns in ``drop`` are no features; nor are those in ``beside``, which must exist, unless one is ``features`` or
    the label.
    """

    reads_spelled = True
    """Whether text that spells numbers is read so, by itself or as a model has numbers there."""

    def __init__(self, request: Request, schema: pa.Schema, index: Collection[str] = ()) -> None:
        uri, drop, self.index = request.uri, list(request.drop), index_names(schema).union(index)
        self.schema = schema = pa.schema([field.with_type(plain(field.type)) for field in schema])
        self._n_lacking = dict[str, int]()
        self._words, self._decimal = frozenset(request.missing_values), request.decimal or "."
        self.label = label_column(schema, request, self.index)
        for name, setting in request.beside.items():
            if name not in schema.names:
                text = f"{uri} has no column {name!r} ({{setting}}).{did_you_mean(name, schema.names)}"
                raise InputError(text, setting=setting)
            if name not in (request.features, self.label):
                drop.append(name)
        self.columns, self._is_list = feature_columns(schema, request, self.label, drop, self.index)
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
        texts = {field.name for field in fields if is_text(field.type)}.difference(self._texts)
        reads = known is not None or request.names or (not request.encode and (self._words or request.decimal))
        self._spelled = sorted(texts) if reads and self.reads_spelled else []
        fields = [field for field in fields if field.name not in (*self._texts, *self._spelled)]
        if faults := other_types(fields):
            raise self._refusal(faults, request)
        if self._is_list:
            kind, self.features = fields[0].type, self.columns[0]
            is_fixed, dtype = pa.types.is_fixed_size_list(kind), numpy_type(kind.value_type)
            n_features = kind.list_size if is_fixed else 0  # the first row tells
            if is_fixed and not n_features:
                raise InputError(f"The lists in column {self.features!r} of {uri} have no values.")
        else:
            kinds = [numpy_type(field.type) for field in fields]
            kinds += [np.dtype(np.uint8)] if self._texts or not fields else []  # of indicators
            kinds += [np.dtype(np.float64)] if self._spelled else []
            n_features, dtype = len(self.columns), np.result_type(*kinds)
        if self.allows_gaps:
            dtype = np.result_type(dtype, np.float32)
        self.facts = Facts(
            uri, 0, n_features, dtype, feature_names=None if self._is_list else list(self.columns),
            kind="local" if storage.is_local(uri) else "remote",
        )  # fmt: skip

    def _complete(self, request: Request, n_rows: int) -> None:
        """Learn from rows how long lists are, and what levels text has, unless a model knows them."""
        self.facts = replace(self.facts, n_rows=n_rows)
        if self._is_list and not self.n_features and self.n_rows:
            (first,) = next(self._pieces(0, 1, list(self.columns)))[0].column(0).to_pylist()
            if not first:
                raise InputError(f"The list in row 0 of column {self.features!r} of {self.uri} has no values.")
            self.facts = replace(self.facts, n_features=len(first))
        refuse_absurd(self.uri, (n_rows, self.n_features), self.dtype.itemsize)
        if not self._texts and not self._spelled:
            return
        numbers = {name: NumberTexts(self._decimal) for name in (*self._texts, *self._spelled)}
        counts = self._count_levels(numbers)
        self._n_lacking = {name: n_rows - found.n_cells for name, found in numbers.items()}
        faults = self._spell(numbers, request)
        counts = {name: counts[name] for name in self._texts}
        if faults := faults + (level_faults(counts) if request.levels is None else []):
            raise self._refusal(faults, request)
        if request.levels is None:
            self._add_note(mostly_new_note(counts))
            if self._texts:
                self._encode([Levels.of(name, counts[name]) for name in self._texts])
        else:
            self._add_note(unseen_note(request.levels, counts, self.uri))
            self._encode(request.levels)

    def _add_note(self, note: str | None) -> None:
        self.note = " ".join(filter(None, [self.note, note])) or None

    def _spell(self, numbers: Mapping[str, NumberTexts], request: Request) -> list[Fault]:
        """Learn which columns of text are read as numbers, and return those that are neither these nor categories."""
        of_text = {} if request.levels is not None else {name: numbers[name] for name in self._texts}
        plain = {name: found for name, found in of_text.items() if found.are_plain and self.reads_spelled}
        spelled = [name for name, found in plain.items() if self._words or not found.are_few]
        if spelled:
            self._texts = [name for name in self._texts if name not in spelled]
            self._spelled += spelled
            self.facts = replace(self.facts, dtype=np.result_type(self.dtype, np.float64))
            self._add_note(f"Text of {self.uri} that spells numbers is read as numbers: {some_names(spelled)}.")
        faulty = {name: numbers[name] for name in self._spelled if numbers[name].others}
        faulty |= {name: of_text[name] for name in self._texts if name in of_text and of_text[name].are_numbers}
        return [found.fault(name) for name, found in faulty.items()]

    def with_levels_of(self, batches: Iterable[Batch]) -> Self:
        if not self.levels or self._levels_known:
            return self
        counts = self._count_levels(self._texts, ((batch.rows, batch.weight) for batch in batches))
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

    def _count_levels(
        self, names: Collection[str], units: Iterable[tuple[NDArray, NDArray | None]] | None = None
    ) -> dict[str, Counter[str]]:
        """Return how many rows have each text of some columns, or their weights, given units of rows with these.

        These columns alone are looked at. A column with too many texts is counted no further. Where ``names`` are keys
        of ``NumberTexts``, all texts of all rows go into these.
        """
        counts: dict[str, Counter[str]] = {name: Counter() for name in names}
        edges = itertools.pairwise(unit_edges(self.chunk_edges, max(self.row_bytes, 1)).tolist())
        units = ((np.arange(start, stop), None) for start, stop in edges) if units is None else units
        with ThreadPoolExecutor() as pool:
            for of_unit in pool.map(partial(self._levels_of, list(names)), *zip(*units, strict=True)):
                for name, more in of_unit.items():
                    if len(counts[name]) <= LIMITS.max_levels:
                        counts[name].update(more)
                    if isinstance(names, Mapping):
                        names[name].add(more)
        return counts

    def _levels_of(self, names: list[str], taken: NDArray, weights: NDArray | None) -> dict[str, Counter[str]]:
        counts: dict[str, Counter[str]] = {name: Counter() for name in names}
        for table, first in self._pieces(int(taken[0]), int(taken[-1]) + 1, names):
            some = slice(*np.searchsorted(taken, [first, first + len(table)]))
            if some.stop - some.start < len(table):
                table = table.take(taken[some] - first)
            for name, column in zip(table.column_names, table.columns, strict=True):
                column = without_words(column, self._words)
                counts[name].update(count_levels(column, None if weights is None else weights[some]))
        return counts

    def _refusal(self, faults: list[Fault], request: Request) -> ColumnError:
        """Return the error for faults, and for missing values that are refused too."""
        return refusal(request.uri, faults + ([] if self.allows_gaps else self.all_gaps()), request.drop)

    def all_gaps(self, beside: Sequence[str] = ()) -> list[Fault]:
        """Return the same as ``gaps``, and columns of text in which words say that there is no value."""
        faults = self.gaps(beside)
        lacking = {name: n for name, n in self._n_lacking.items() if n and all(f.facts["name"] != name for f in faults)}
        return faults + [
            Fault(f"{n:,} missing value{'s' * (n != 1)}", {"name": name}, "gap") for name, n in lacking.items()
        ]

    def gaps(self, beside: Sequence[str] = ()) -> list[Fault]:
        """Return which features, labels and columns ``beside`` have missing values, as far as the metadata tell."""
        return []

    @abstractmethod
    def _parts(self, start: int, stop: int, columns: list[str]) -> Iterator[tuple[pa.Table, int]]:
        """Yield consecutive tables of some columns, which together are the rows, and the first row of each."""

    def _pieces(self, start: int, stop: int, columns: list[str]) -> Iterator[tuple[pa.Table, int]]:
        """Yield what ``_parts`` does, with columns in the types of the schema; refuse rows that are not there."""
        done = start
        for table, first in self._parts(start, stop, columns):
            if first != done:
                break
            done += len(table)
            yield pa.table([self._typed(name, table[name], first) for name in columns], columns), first
        if done != stop:
            where = self.describe_chunk(done - 1 if done > start else start)
            raise InputError(f"Some of the {{where}} are not there. {DAMAGED}", where=where)

    def _typed(self, name: str, column: pa.ChunkedArray, first: int) -> pa.ChunkedArray:
        """Return a column in its type of the schema, which may be that of other files of the table."""
        kind = self.schema.field(name).type
        if column.type == kind:
            return column
        text = f"Column {name!r} of {self.describe_chunk(first)} has type {column.type}, and other files {kind}, which "
        text += "cannot hold all of its values ({reason}). Write it with one type."
        with instead_of(pa.ArrowException, InputError, text):
            return conformed(column, kind)

    def tables(self, columns: list[str]) -> Iterator[pa.Table]:
        """Yield all rows of some columns, without words for missing values, in tables of about a reading unit."""
        head = self._head([name for name in columns if is_list(self.schema.field(name).type)])
        width = 8 * len(columns) + head.nbytes // max(len(head), 1)
        for start, stop in itertools.pairwise(unit_edges(self.chunk_edges, width).tolist()):
            with readable(self.describe_chunk(start)):
                for table, _ in self._pieces(start, stop, columns):
                    yield pa.table([without_words(each, self._words) for each in table.columns], table.column_names)

    def _head(self, columns: list[str]) -> pa.Table:
        return next(self._pieces(0, min(HEAD, self.n_rows), columns))[0] if columns and self.n_rows else pa.table({})

    def rows_in_lists(self) -> str | None:
        """Return the column whose lists of numbers, of one length, outnumber the columns of numbers, or None."""
        kinds = {field.name: field.type for field in self.schema}
        n_numbers = sum(map(is_number, kinds.values()))
        lists = [name for name, kind in kinds.items() if is_list(kind) and not other_types([self.schema.field(name)])]
        head, lengths = self._head(lists), {}
        for name, column in zip(head.column_names, head.columns, strict=True):
            of_rows = pc.unique(pc.list_value_length(column.drop_null())).to_pylist()
            if len(of_rows) == 1 and of_rows[0] > n_numbers:
                lengths[name] = of_rows[0]
        return max(lengths, key=lambda name: lengths[name], default=None)

    def read(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        if out is None:
            out = np.empty((stop - start, self.n_features), self.dtype)
        for table, first in self._pieces(start, stop, list(self.columns)):
            rows = out[first - start : first - start + len(table)]
            if self._is_list:
                self._fill_from_list(table, rows, first)
            else:
                fill_from_columns(self._columns(table, first), rows)
        return out

    @property
    def by_blocks(self) -> bool:
        return not self._is_list

    def blocks(self, start: int, stop: int, out: NDArray) -> Iterator[NDArray]:
        held = 0  # rows of the block that are filled
        for table, first in self._pieces(start, stop, list(self.columns)):
            columns, at = self._columns(table, first), 0
            while at < len(table):
                size = min(len(out) - held, len(table) - at)
                fill_from_columns(columns[:, at : at + size], out[held : held + size])
                at, held = at + size, held + size
                if held == len(out):
                    yield out
                    held = 0
        if held:
            yield out[:held]

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
            into[known if chunk.null_count else ...] = column_numbers(values).reshape(len(lists), rows.shape[1])
            at += len(chunk)

    def _columns(self, table: pa.Table, first: int) -> NDArray:
        """Return the columns of rows from row ``first`` on, shape (d, n), in the type of the rows."""
        columns = columns_apart(self.n_features, len(table), self.dtype)
        of_text, done = {each.name: each for each in self.levels}, 0
        for name, column in zip(table.column_names, table.columns, strict=True):
            column = without_words(column, self._words)
            self._refuse_nulls(column, name, first)
            text, at = of_text.get(name), 0
            width = 1 if text is None else len(text.names)
            for chunk in column.chunks:
                spelled = partial(spelled_numbers, decimal=self._decimal) if name in self._spelled else column_numbers
                values = spelled(chunk) if text is None else text.indicators(chunk, self.dtype)
                columns[done : done + width, at : at + len(chunk)] = values
                at += len(chunk)
            done += width
        return columns

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
        if is_text(self.schema.field(name).type) and isinstance(setting, Setting) and setting.name in OF_NUMBERS:
            numbers = {name: NumberTexts(self._decimal)}
            self._count_levels(numbers)
            if numbers[name].are_plain and not (setting.name == "covariates" and numbers[name].are_few):
                read = partial(self._read_spelled, name)
        return Column(name, f"column {name!r} of {self.uri}", self.n_rows, read, arrow_reader=read_arrow)

    @property
    def beside_names(self) -> Sequence[str]:  # type: ignore[override]
        taken = {self.label, *self.columns}
        return [name for name in self.schema.names if name not in taken]

    def _read_arrow(self, name: str, start: int, stop: int) -> pa.ChunkedArray:
        with readable(f"column {name!r} of rows {start} to {stop - 1} of {self.uri}"):
            chunks = [chunk for table, _ in self._pieces(start, stop, [name]) for chunk in table.column(0).chunks]
        return pa.chunked_array(chunks, self.schema.field(name).type)

    def _read_spelled(self, name: str, start: int, stop: int) -> Known:
        column = without_words(self._read_arrow(name, start, stop), self._words)
        return spelled_numbers(column.combine_chunks(), self._decimal), np.array(column.is_valid())

    def _read_column(self, name: str, start: int, stop: int) -> Known:
        """Return numbers, text, or times; in the place of whole numbers that are missing 0, of others NaN or NaT."""
        column = without_words(self._read_arrow(name, start, stop), self._words)
        there = np.array(column.is_valid())
        text = (
            f"Column {name!r} of {self.uri} has decimals that are no numbers of 64 bits: write it as text ({{reason}})."
        )
        with instead_of(pa.ArrowInvalid, InputError, text):
            values = [column_values(chunk) for chunk in column.chunks]
        joined = np.concatenate(values) if values else column_values(column.combine_chunks())
        return joined, there & ~np.isnan(joined) if joined.dtype.kind == "f" else there


def refuse_gaps(rows: Source, beside: Sequence[str] = (), dropped: Sequence[str] = ()) -> None:
    """Raise a ``ColumnError`` for all columns of a table that must have no missing values and, by metadata, have."""
    if isinstance(rows, ColumnRows) and not rows.allows_gaps and (faults := rows.all_gaps(beside)):
        raise refusal(rows.uri, faults, dropped)
