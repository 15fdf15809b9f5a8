"""One reading of a table from any source: what its columns, rows of numbers and labels are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmpca_dist.errors import InputError
from mmpca_dist.ingest.column_looks import ColumnLook, MatrixLook
from mmpca_dist.ingest.csv import CSV_SUFFIXES, CsvRows
from mmpca_dist.ingest.libsvm import LIBSVM_SUFFIXES, LibsvmRows
from mmpca_dist.ingest.row_source import LABELS, RowSource
from mmpca_dist.ingest.sources import DatasetRows
from mmpca_dist.stores import storage
from mmpca_dist.tables.readers.formats import format_of, open_rows, stem_of
from mmpca_dist.tables.readers.named_columns import ColumnRows, is_list

Progress = Callable[[int, int], None]


@dataclass
class TableLook:
    """What one reading of a table has shown."""

    uri: str
    layout: str
    """How it is stored, in words."""
    n_rows: int = 0
    columns: list[ColumnLook] = field(default_factory=list)
    """Columns that have names, in their order."""
    matrix: MatrixLook | None = None
    """The rows of numbers, where an array or a list column holds them."""
    features: str | None = None
    """The list column that holds them."""
    sparse: bool = False
    classes: Counter[str] = field(default_factory=Counter)
    """Rows of each label, of an array of labels."""
    n_unlabelled: int = 0
    notes: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """What a run refuses of the table as a whole."""

    def column(self, name: str | None) -> ColumnLook | None:
        """Return the column of a name, or None."""
        return next((each for each in self.columns if each.name == name), None)


def look_at(uri: str, label: str | None = None, progress: Progress | None = None) -> TableLook:
    """Read a table once, of any format that a run or an ingest reads; ``label`` names the array of its labels.

    Raises
    ------
    InputError
        For what is no table, or cannot be read to its end.
    """
    address, told = storage.normalize(uri), progress or (lambda done, total: None)
    stem = stem_of(address)
    if stem.endswith(CSV_SUFFIXES):
        return _of_csv(CsvRows(address, None, np.dtype(np.float64), labelled=False), uri, told)
    if stem.endswith(LIBSVM_SUFFIXES):
        look = TableLook(uri, "LIBSVM text")
        return _of_rows(LibsvmRows(address, np.dtype(np.float64), True), look, told)
    if not format_of(address).columns:
        return _of_array(uri, label, told)
    rows = open_rows(uri, names=[])
    assert isinstance(rows, ColumnRows)  # noqa: S101  (the format says so)
    return _of_columns(rows, uri, told)


def _of_csv(rows: CsvRows, uri: str, progress: Progress) -> TableLook:
    words = {",": "commas", ";": "semicolons", "\t": "tabs"}[rows.delimiter]
    look = TableLook(uri, f"text, separated by {words}, {rows.total:,} bytes", notes=list(rows.notes))
    names = [rows.name_of(i) for i in rows.features]
    repeated = [name for name, times in Counter(names).items() if times > 1]
    look.refused += [f"Several columns are called {name!r}: rename all but one." for name in repeated]
    look.columns = [ColumnLook(name, len(names)) for name in names]
    for table, done in rows.tables({}):
        for column, values in zip(look.columns, _chunks(table), strict=True):
            column.add(pc.utf8_trim_whitespace(values) if values.type == pa.string() else values)
        progress(done, max(rows.total, done))
    if any(column.kind == pa.binary() for column in look.columns):
        raise rows.refusal([])
    look.n_rows = look.columns[0].n_rows
    return look


def _chunks(table: pa.Table) -> Iterator[pa.Array]:
    for column in table.combine_chunks().columns:
        yield column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _of_columns(rows: ColumnRows, uri: str, progress: Progress) -> TableLook:
    look, done = TableLook(uri, rows.layout, rows.n_rows), 0
    kinds = {field.name: field.type for field in rows.schema}
    lists = [name for name, kind in kinds.items() if is_list(kind)]
    plain = {name: ColumnLook(name, len(kinds)) for name in kinds if name not in lists}
    for table in rows.tables(list(plain)) if plain and rows.n_rows else ():
        for name, values in zip(table.column_names, _chunks(table), strict=True):
            plain[name].add(values)
        done += len(table)
        progress(done, rows.n_rows)
    look.columns = [column for name, column in plain.items() if not name.startswith("__index_level_")]
    if lists:
        look.features = lists[0]
        look.refused += [f"{name!r} holds lists, as {lists[0]!r} does: drop one of them." for name in lists[1:]]
        dataset = open_rows(uri, features=lists[0], missing="mean")
        _add_rows(DatasetRows(dataset), look, progress)
    return look


def _of_array(uri: str, label: str | None, progress: Progress) -> TableLook:
    refused = []
    try:
        dataset = open_rows(uri, label=label, labelled=True, missing="mean", unlabelled="skip")
    except InputError as error:
        refused.append(str(error))
        dataset = open_rows(uri, missing="mean")
    stored = dataset.stored
    look = TableLook(uri, stored.layout, sparse=dataset.sparse, refused=refused)
    look.n_unlabelled = stored.n_rows - dataset.n_rows
    return _of_rows(DatasetRows(dataset), look, progress)


def _of_rows(rows: RowSource, look: TableLook, progress: Progress) -> TableLook:
    _add_rows(rows, look, progress)
    assert look.matrix is not None  # noqa: S101
    look.n_rows, look.sparse = look.matrix.n_rows + look.n_unlabelled, rows.sparse
    look.notes += rows.notes
    return look


def _add_rows(rows: RowSource, look: TableLook, progress: Progress) -> None:
    for block in rows.blocks():
        if look.matrix is None:
            look.matrix = MatrixLook(rows.n_features)
        look.matrix.add(block.rows)
        for values, codes in (block.names[LABELS],) if LABELS in block.names else ():
            times = np.bincount(codes, minlength=len(values))
            look.classes.update({str(value): int(n) for value, n in zip(values, times, strict=True) if n})
        progress(block.done, max(rows.total, block.done))
    if look.matrix is None:
        raise InputError(f"{rows.uri} has no rows.")
