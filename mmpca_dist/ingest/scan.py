"""Scan a table once, and find all columns that ingest would refuse."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from mmpca_dist.errors import ColumnError, InputError
from mmpca_dist.ingest.csv import CSV_SUFFIXES, CsvRows
from mmpca_dist.ingest.libsvm import LIBSVM_SUFFIXES
from mmpca_dist.ingest.sources import Selection
from mmpca_dist.limits import LIMITS
from mmpca_dist.tables.column_faults import ColumnFault, refusal
from mmpca_dist.tables.dataset import Dataset, unit_edges
from mmpca_dist.tables.readers.formats import stem_of
from mmpca_dist.tables.readers.named_columns import ColumnRows

Progress = Callable[[int, int], None]


class _CsvScan:
    """The faulty columns of CSV, from one reading; features that hold text are not parsed again.

    A block of lines is in memory at a time. What concerns lines, such as one with too few cells, is refused at once.
    """

    def __init__(self, rows: CsvRows) -> None:
        self._rows = rows
        self._texts: dict[int, ColumnFault] = {}
        self._names: dict[int, ColumnFault] = {}
        self._gaps: dict[int, tuple[int, str]] = {}
        self._counting: dict[int, float] | None = None

    def read(self, progress: Progress | None) -> None:
        """Read all lines."""
        for data, n_bytes in self._rows.pieces():
            self._scan_block(data)
            if progress is not None:
                progress(n_bytes, max(self._rows.total, n_bytes))

    def faults(self) -> list[ColumnFault]:
        """Return the columns that would be refused, in their order."""
        faults = dict(self._names)
        for position, (count, where) in self._gaps.items():
            cells = f"{_cells(count)} empty, NaN, infinite or too large, the first {where}"
            faults[position] = ColumnFault(self._rows.name_of(position), cells, "gap")
        faults.update(self._texts)
        return [faults[position] for position in sorted(faults)]

    def notes(self) -> list[str]:
        """Return notes on columns that only count the rows."""
        if self._rows.first_row <= 2:
            return []
        names = [self._rows.name_of(position) for position in self._counting or {} if position not in self._texts]
        return [
            f"Column {name!r} only counts the rows: leave it out with --drop {name}, unless it is a measurement."
            for name in names
        ]

    def _scan_block(self, data: bytes) -> None:
        """Look for faults in whole lines."""
        table = self._parsed(data)
        if table is None:
            return
        if self._rows.n_features:
            values = self._rows.matrix(table)
            first = self._rows.first_row
            _count_gaps(values, self._rows.features, lambda row: self._rows.where(first + row), self._gaps)
            self._find_counters(values)
        for name, column in list(self._rows.beside.items()):
            try:
                self._rows.codes(name, table)
            except ColumnError as error:
                self._names[column.position] = error.faults[0]
        self._rows.beside = {
            name: column for name, column in self._rows.beside.items() if column.position not in self._names
        }
        self._rows.first_row += len(table)

    def _parsed(self, data: bytes) -> pa.Table | None:
        """Return a block without the features that hold text; None where nothing is left to look at."""
        for is_first in (True, False):
            if not self._rows.features and not self._rows.beside:
                break
            try:
                return self._rows.parse(data)
            except pa.ArrowInvalid:
                if not is_first:
                    self._rows.explain(data)
                self._exclude_texts(data)
        return None

    def _exclude_texts(self, data: bytes) -> None:
        """Record the features of a block that hold text, and stop parsing them."""
        try:
            table = self._rows.parse(data, as_text=True)
        except pa.ArrowInvalid:
            self._rows.explain(data)
        for position, column in zip(list(self._rows.features), table.columns, strict=False):
            row = first_text(column, self._rows.dtype)
            if row is not None:
                where = self._rows.where(self._rows.first_row + row)
                self._texts[position] = self._rows.text_fault(position, str(column[row].as_py()), where)
        self._rows.leave_out(self._texts)

    def _find_counters(self, values: NDArray) -> None:
        """Find the columns whose values increase by one from row to row."""
        if self._counting is None:
            begins = np.flatnonzero(np.isfinite(values[0]) & (values[-1] == values[0] + (len(values) - 1)))
            self._counting = {self._rows.features[k]: float(values[0, k]) for k in begins}
        index = {position: k for k, position in enumerate(self._rows.features)}
        for position, first in list(self._counting.items()):
            rows = np.arange(self._rows.first_row, self._rows.first_row + len(values)) + first
            if position not in index or not np.array_equal(values[:, index[position]], rows.astype(values.dtype)):
                del self._counting[position]


def first_text(column: pa.ChunkedArray, dtype: np.dtype) -> int | None:
    """Return the first row of a column of strings whose value is no number; None where all are numbers."""
    trimmed = pc.utf8_trim_whitespace(column.combine_chunks())
    kind = pa.from_numpy_dtype(dtype)

    def have_text(n_rows: int) -> bool:
        try:
            trimmed.slice(0, n_rows).cast(kind)
        except pa.ArrowInvalid:
            return True
        return False

    if not have_text(len(trimmed)):
        return None
    return bisect.bisect_left(range(len(trimmed)), True, key=lambda row: have_text(row + 1))


def _cells(count: int) -> str:
    return "1 value that is" if count == 1 else f"{count:,} values that are"


def _count_gaps(
    values: NDArray, columns: Sequence[Any], where: Callable[[int], str], gaps: dict[Any, tuple[int, str]]
) -> None:
    """Count the values that are not finite, by column; ``where`` says where the first one is."""
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    for k in np.flatnonzero(bad.any(axis=0)).tolist():
        count, first = gaps.get(columns[k]) or (0, f"in {where(int(np.argmax(bad[:, k])))}")
        gaps[columns[k]] = (count + int(np.count_nonzero(bad[:, k])), first)


def table_faults(
    uri: str,
    selection: Selection,
    progress: Progress | None = None,
    note: Callable[[str], None] | None = None,
) -> list[ColumnFault]:
    """Return all columns of CSV or Parquet that ``ingest`` would refuse, from one reading; none for other formats.

    What is wrong with anything but columns, such as lines with too few cells, is an ``InputError``.
    """
    stem = stem_of(uri)
    if stem.endswith(CSV_SUFFIXES):
        scan = _CsvScan(selection.csv(uri))
        scan.read(progress)
        if note is not None:
            for line in scan.notes():
                note(line)
        return scan.faults()
    if stem.endswith((*LIBSVM_SUFFIXES, ".npz", ".npy")):
        return []
    dtype = None if selection.dtype is None else np.dtype(selection.dtype)
    return scan_columns(partial(selection.dataset, uri), selection.keep, dtype, progress)


def checked(uri: str, opened: Callable[[Sequence[str]], Dataset], dropped: Sequence[str]) -> Dataset:
    """Return a data set; refuse Parquet whose metadata tells of columns that are no features, all of them at once.

    ``opened`` opens the data set without some columns; ``dropped`` are those that the configuration leaves out already.
    """
    try:
        dataset = opened([])
        stored = dataset.stored
        gaps = stored.gaps().faults if isinstance(stored, ColumnRows) and not stored.allows_gaps else []
        if gaps:
            raise refusal(dataset.uri, gaps, options=False, dropped=dropped)
        return dataset
    except ColumnError as error:
        faults = scan_columns(opened, (), None, None, read=False)
        if len(faults) > 1:
            raise refusal(uri, faults, options=False, dropped=dropped) from error
        raise


def scan_columns(
    opened: Callable[[Sequence[str]], Dataset],
    keep: Sequence[str],
    kept_type: np.dtype | None,
    progress: Progress | None,
    *,
    read: bool = True,
) -> list[ColumnFault]:
    """Return the faulty columns of a table: by its schema and metadata, and by reading the rest.

    Rows are read only where they may hold NaN or infinity, or statistics are missing; a row group is in memory at a
    time, or a piece of it. ``opened`` opens the data set without some columns.
    """
    faults: dict[str, ColumnFault] = {}
    counts: dict[str, tuple[int, str]] = {}
    start = 0
    while True:
        try:
            dataset = opened([name for name, fault in faults.items() if fault.kind != "names"])
            if not isinstance(dataset, ColumnRows):
                return []
            gaps = dataset.gaps(keep)
            new_faults = [fault for fault in gaps.faults if fault.name not in faults]
            if new_faults:
                raise ColumnError("missing values", new_faults)
            if read and (dataset.dtype.kind == "f" or not gaps.complete):
                edges = unit_edges(dataset.chunk_edges, max(dataset.row_bytes, 1)).tolist()
                for begin, stop in itertools.pairwise([edge for edge in edges if edge >= start]):
                    _count_not_finite(dataset, begin, stop, kept_type or dataset.dtype, counts)
                    if not gaps.complete and dataset.label is not None and dataset.label not in faults:
                        dataset.read_labels(begin, stop)
                    start = stop
                    if progress is not None:
                        progress(stop, dataset.n_rows)
            break
        except ColumnError as error:
            faults.update((fault.name, fault) for fault in error.faults)
        except InputError:
            if not faults:
                raise
            break  # nothing but such columns
    for name, (count, where) in counts.items():
        what = f"{_cells(count)} NaN, infinite or too large, the first {where}"
        faults.setdefault(name, ColumnFault(name, what, "gap"))
    return list(faults.values())


def _row_after(first: int, row: int) -> str:
    return f"row {first + row}"


def _count_not_finite(
    dataset: ColumnRows, begin: int, stop: int, dtype: np.dtype, counts: dict[str, tuple[int, str]]
) -> None:
    """Count the values of some rows that are not finite as ``dtype``, by column."""
    step = max(1, LIMITS.band_bytes // max(dataset.row_bytes, 1))
    columns = [dataset.features] * dataset.n_features if dataset.features else dataset.columns
    for first in range(begin, stop, step):
        rows = dataset.read_rows(first, min(first + step, stop))
        if rows.dtype.kind == "f":
            with np.errstate(over="ignore"):
                values = rows.astype(dtype, copy=False) if dtype.kind == "f" else rows
            _count_gaps(values, columns, partial(_row_after, first), counts)
