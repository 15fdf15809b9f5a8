"""Rows in one file or several with named columns, which are found by name and have one type in all files."""

from __future__ import annotations

import itertools
import uuid
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.faults import Fault, Setting
from mmpca_dist.stores import storage
from mmpca_dist.tables.column_faults import refusal
from mmpca_dist.tables.column_names import StoredNames, index_names
from mmpca_dist.tables.readers.formats import Request
from mmpca_dist.tables.readers.named_columns import ColumnRows
from mmpca_dist.tables.spans import chunk_of, overlaps
from mmpca_dist.tables.stored_types import plain, unified


class FileRows(ColumnRows):
    """Rows of files in their order, each of which holds groups of rows; a subclass reads one file.

    Columns are found by name. Those that files hold in different types have one that holds all of their values, and
    those that a file lacks have gaps there. ``values`` are those of columns that no file holds, ``fields``.
    """

    _edges: NDArray[np.int64]

    def __init__(self, request: Request, values: Mapping[str, Mapping[str, Any]], fields: Sequence[pa.Field]) -> None:
        self._token, self._files = uuid.uuid4().hex, list(values)
        contents = {file: self._contents(file) for file in self._files}
        names = {file: StoredNames(schema.names) for file, (schema, _) in contents.items()}
        schemas = {file: names[file].unique(schema) for file, (schema, _) in contents.items()}
        notes = {file: note for file, own in names.items() if (note := own.note(request.uri))}
        self._numbered = {file: names[file] for file in notes}
        schema, self._mixed = _united(request, schemas)
        # Where files hold a column of a folder's name too, the files count.
        self._in_folders = [column for column in fields if column.name not in schema.names]
        self._of_file = values if self._in_folders else {}
        lacking = {file: {*schema.names}.difference(one.names) for file, one in schemas.items()}
        self._lacking = {file: names for file, names in lacking.items() if names}
        groups = [(file, number, n) for file, (_, sizes) in contents.items() for number, n in enumerate(sizes) if n]
        self._groups = [(file, number) for file, number, _ in groups]
        self._edges = np.cumsum([0, *(n_rows for _, _, n_rows in groups)])
        index = set().union(*map(index_names, schemas.values()))
        super().__init__(request, pa.schema([*schema, *self._in_folders], schema.metadata), index)
        self._add_note(next(iter(notes.values()), None))
        if not self.allows_gaps and (faults := FileRows.gaps(self)):
            raise refusal(request.uri, faults, request.drop)

    @property
    def beside_names(self) -> Sequence[str]:  # type: ignore[override]
        return [name for name in super().beside_names if name not in self._mixed]

    @abstractmethod
    def _contents(self, file: str) -> tuple[pa.Schema, Sequence[int]]:
        """Return the columns of a file, and the rows of its groups."""

    @abstractmethod
    def _tables(self, file: str, groups: Sequence[int], columns: list[str]) -> Iterator[pa.Table]:
        """Yield some columns of groups of a file."""

    def gaps(self, beside: Sequence[str] = ()) -> list[Fault]:
        names = dict.fromkeys(self.columns, "gap") | {name: "names" for name in (self.whole_label, *beside) if name}
        return [
            Fault(f"{file} lacks it, and other files have it", {"name": name}, kind)
            for name, kind in names.items()
            if (file := next((file for file, lacking in self._lacking.items() if name in lacking), None))
        ]

    def _parts(self, start: int, stop: int, columns: list[str]) -> Iterator[tuple[pa.Table, int]]:
        within = overlaps(self._edges, start, stop)
        for file, some in itertools.groupby(within, key=lambda group: self._groups[group[0]][0]):
            groups, lacking = list(some), self._lacking.get(file, set()) | {field.name for field in self._in_folders}
            numbers = [self._groups[number][1] for number, _, _ in groups]
            stored = [name for name in columns if name not in lacking]
            own = self._numbered.get(file)
            asked = own.of(stored) if own else stored
            tables = self._tables(file, numbers, asked) if stored else itertools.repeat(None)
            for (group, first, last), table in zip(groups, tables, strict=False):
                n_rows = self._edges[group + 1] - self._edges[group] if table is None else len(table)
                table = own.named(table) if own and table is not None else table
                found = {name: table[name] if name in stored else self._value(file, name, n_rows) for name in columns}
                yield pa.table(found).slice(first - self._edges[group], last - first), first

    def _value(self, file: str, name: str, n_rows: int) -> pa.Array:
        """Return a column that a file does not hold: the value in the name of its folder, or gaps."""
        return pa.repeat(pa.scalar(self._of_file.get(file, {}).get(name), self.schema.field(name).type), n_rows)

    def _group(self, row: int) -> tuple[int, str, str]:
        """Return the number of the group that holds a row, its file, and its rows in words."""
        number, start, stop = chunk_of(self.chunk_edges, row)
        file, group = self._groups[number]
        return group, file, f"rows {start} to {stop - 1}"

    @property
    def rows_by_file(self) -> dict[str, int]:
        """The number of rows in each file."""
        counts = dict.fromkeys(self._files, 0)
        for (file, _), n_rows in zip(self._groups, np.diff(self._edges).tolist(), strict=True):
            counts[file] += n_rows
        return counts

    @property
    def addresses(self) -> list[str]:
        return self._files

    def fingerprint(self) -> str:
        return storage.digest(self._of_file, super().fingerprint())


def _united(request: Request, schemas: Mapping[str, pa.Schema]) -> tuple[pa.Schema, set[str]]:
    """Return the columns of all files, with types that hold the values of all, and the dropped ones that have none."""
    first = next(iter(schemas))
    kinds = {column.name: plain(column.type) for column in schemas[first]}
    origin, differences, mixed = dict.fromkeys(kinds, first), list[str](), set[str]()
    for file, schema in schemas.items():
        for column in schema:
            name, kind = column.name, plain(column.type)
            before = kinds.setdefault(name, kind)
            origin.setdefault(name, file)
            united = before if before == kind else unified(before, kind)
            if united is None and name not in request.drop:
                differences.append(f"{name!r} is {kind} in {file} and {before} in {origin[name]}")
            mixed.update([name] if united is None else [])
            kinds[name] = united or before
    if differences:
        raise InputError(
            f"Files of {request.uri} have columns of different types: {'; '.join(differences)}. Write each with one "
            "type, or leave it out with {drop}.",
            drop=Setting("drop"),
        )
    return pa.schema(list(kinds.items()), schemas[first].metadata), mixed
