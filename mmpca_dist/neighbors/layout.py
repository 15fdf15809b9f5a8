"""Lay out rows by cell and class: an external sort, first by reading unit, then by segment."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.faults import Col
from mmpca_dist.limits import LIMITS
from mmpca_dist.neighbors.cells import Cells, Frame, group_radii
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.scratch import Scratch
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.tree_reduction import Tasks, concatenated
from mmpca_dist.passes.units import read_batches, rows_within
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import Span

MIN_SEGMENTS = 32
"""Few rows make smaller segments, so that there are tasks for all threads."""
LARGEST_VALUE = 1e150
"""Values must be smaller in double precision: then up to 4e7 squares of differences, each at most 4e300, have a finite
sum. Single precision, whose values end at 3.4e38, always has. `bounds.SMALLEST_NORMAL` is the limit at the other
end, and `cells.FAR` keeps coordinates finite in between."""
ARRAYS = ("x", "z", "halves", "tail", "rows")
PARTS = "parts"
"""One more array if rows are laid out with their parts."""


@dataclass(frozen=True)
class Layout:
    """Rows by cell and class in ``scratch``: pieces of cells one after the other, in segments."""

    scratch: Scratch
    cells: Cells
    cell: NDArray[np.intp]  # (p,): the cell of each piece
    starts: NDArray[np.int64]  # (p + 1,): positions where pieces begin
    classes: NDArray[np.int64]  # (p, C + 1): positions where each class begins within a piece
    # (p,): largest norm of the rows of a piece, relative to the centre of its cell; never less than the true one
    radii: NDArray[np.float64]
    tail_radii: NDArray[np.float64]  # (p,)
    segments: NDArray[np.int64]  # (s + 1,): pieces where segments begin
    row_bytes: int  # of a row in its segment's table, ``segment-0`` and so on
    weighted: bool = False  # whether these tables have a column of weights

    @property
    def n_rows(self) -> int:
        return int(self.starts[-1])

    @property
    def n_features(self) -> int:
        return self.cells.frame.centre.size

    @property
    def n_classes(self) -> int:
        return self.classes.shape[1] - 1

    @property
    def n_segments(self) -> int:
        return len(self.segments) - 1

    def pieces(self, segment: int) -> slice:
        """Return the pieces of a segment."""
        return slice(int(self.segments[segment]), int(self.segments[segment + 1]))

    def positions(self, segment: int) -> tuple[int, int]:
        """Return where a segment begins and ends."""
        first, last = self.segments[segment], self.segments[segment + 1]
        return int(self.starts[first]), int(self.starts[last])

    def segment_of(self, positions: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the segments that hold positions."""
        return np.searchsorted(self.starts[self.segments], positions, side="right") - 1

    def at(self, array: str, positions: NDArray[np.int64]) -> NDArray:
        """Return an array of the rows at positions, in any order and more than once."""
        distinct, number = np.unique(positions, return_inverse=True)
        segments = self.segment_of(distinct)
        (none,) = self.scratch.get("segment-0", (array,), slice(0, 0))
        values = np.empty((len(positions), *none.shape[1:]), none.dtype)
        for segment in np.unique(segments).tolist():
            own = np.flatnonzero(segments == segment)
            (rows,) = self.scratch.get(f"segment-{segment}", (array,), distinct[own] - self.positions(segment)[0])
            # Distinct positions are in order, so those of a segment lie together.
            users = np.flatnonzero((number >= own[0]) & (number <= own[-1]))
            values[users] = rows[number[users] - own[0]]
        return values


Members = tuple[slice | NDArray[np.intp], NDArray[np.int64], dict[str, NDArray]]
"""For consecutive rows: which are laid out, their numbers, and the columns that go with them."""


class Membership:
    """Which rows of a data set are laid out: all, by their own numbers, and what of them.

    A subclass leaves some out, or adds ``columns`` that go with them, of ``row_bytes`` a row.
    """

    columns: tuple[str, ...] = ()
    row_bytes = 0

    def of(self, batch: Batch) -> Members:
        """Return the members among the rows of a batch."""
        return slice(None), np.arange(batch.start, batch.stop), {}


@storable
@dataclass(frozen=True)
class _SortedUnits:
    """Sorted units: for every (unit, cell and class) the rows there, in one table each.

    ``key`` is cell * C + class; ``start`` counts within the unit's table, called ``run-FIRSTROW``.
    """

    unit: NDArray[np.int64]
    key: NDArray[np.int64]
    start: NDArray[np.int64]
    count: NDArray[np.int64]


def _sort_units(
    dataset: Dataset, span: Span, *, labels: NDArray, cells: Cells, scratch: Scratch, members: Membership
) -> _SortedUnits:
    """Give rows their coordinates and cells, and write each unit sorted by cell, class and row number."""
    units = read_batches(dataset, span)
    return concatenated(*(_sort_unit(batch, labels, cells, scratch, members) for batch in units))


def _sort_unit(batch: Batch, labels: NDArray, cells: Cells, scratch: Scratch, members: Membership) -> _SortedUnits:
    codes, frame = batch.codes(labels), cells.frame
    _refuse_bad_rows(batch, frame)
    kept, numbers, columns = members.of(batch)
    X, codes = batch.X[kept], codes[kept]
    cell, z, tail = cells.locate(X)
    keys = cell * len(labels) + codes
    order = np.argsort(keys, kind="stable")
    if len(X):
        table: dict[str, NDArray] = {"z": z, "tail": tail, "rows": numbers, **columns}
        if batch.weight is not None:
            table["weights"] = batch.weight[kept]
        table = {name: array[order] for name, array in table.items()}
        scratch.put(f"run-{batch.start}", {"x": frame.rows(X[order]), **table}, copied=False)
    key, first, count = np.unique(keys[order], return_index=True, return_counts=True)
    return _SortedUnits(np.full(len(key), batch.start), key, first, count)


def piece_rows(row_bytes: int) -> int:
    """Return how many rows of ``row_bytes`` a piece of a cell holds at most."""
    limit = LIMITS.piece_rows
    return rows_within(LIMITS.segment_bytes, row_bytes, limit, min(limit, LIMITS.smallest_piece))


def segment_rows(n_rows: int, row_bytes: int) -> int:
    """Return how many rows of ``row_bytes`` a segment holds at most, unless one piece is larger."""
    return min(max(LIMITS.segment_bytes // row_bytes, 1), max(n_rows // MIN_SEGMENTS, LIMITS.smallest_segment))


def is_usable(X: NDArray) -> NDArray[np.bool_]:
    """Tell which values are finite and have squares that are."""
    if X.dtype.itemsize < 8:
        return np.isfinite(X)
    return np.abs(X) < LARGEST_VALUE


def _refuse_bad_rows(batch: Batch, frame: Frame) -> None:
    X, dataset, start = batch.X, batch.table, batch.start
    usable = is_usable(X)
    if usable.all() and frame.deviations is not None:
        usable = is_usable(X / frame.deviations)
    if not usable.all():
        row, column = np.argwhere(~usable)[0]
        value = float(X[row, column])
        if np.isfinite(value):
            chunk = dataset.describe_chunk(start + int(row))
            raise InputError(
                f"Found {value} in row {start + row}, column {{column}}, in {chunk}: squared distances to it overflow. "
                "Scale the rows down.",
                column=Col(int(column)),
            )
        raise InputError(batch.not_finite(int(row), int(column), value))


def _within(entries: NDArray[np.int64], first: int, last: int) -> NDArray[np.int64]:
    """Return the entries that go to positions ``first`` to ``last`` of the layout, clipped, relative to ``first``.

    ``entries`` (4, e) are stretches of sorted units in the order of the layout: unit, start and count there, position.
    """
    i, j = int(np.searchsorted(entries[3], first, side="right")) - 1, int(np.searchsorted(entries[3], last))
    unit, start, count, position = entries[:, i:j]
    before, after = np.maximum(first - position, 0), np.maximum(position + count - last, 0)
    return np.stack([unit, start + before, count - before - after, position + before - first], axis=1)


@dataclass(frozen=True)
class _FillSegment:
    """Bring the rows of a segment together from the sorted units and write it whole.

    ``edges`` are where the entries of each segment begin in the table ``entries``.
    """

    scratch: Scratch
    edges: NDArray[np.int64]
    piece_starts: list[NDArray[np.int64]]
    names: tuple[str, ...]

    def __call__(self, span: Span) -> NDArray[np.float64]:
        """Return the radii of the segment's pieces, shape (2, pieces)."""
        starts = self.piece_starts[span.index]
        edges = slice(*self.edges[span.index : span.index + 2].tolist())
        (columns,) = self.scratch.get("entries", ("columns",), edges)
        n = int(starts[-1])
        table: dict[str, NDArray] = {}
        for unit in np.unique(columns[:, 0]):
            first, count, position = columns[columns[:, 0] == unit, 1:].T
            low, high = int(first.min()), int((first + count).max())
            source, target = _expand(first - low, count), _expand(position, count)
            arrays = self.scratch.get(f"run-{unit}", self.names, slice(low, high))
            for name, array in zip(self.names, arrays, strict=True):
                out = table.setdefault(name, np.empty((n, *array.shape[1:]), array.dtype))
                out[target] = array[source]
        z = table["z"]
        table["halves"] = (0.5 * np.einsum("ij,ij->i", z, z, dtype=np.float64)).astype(np.float32)
        self.scratch.put(f"segment-{span.index}", table, copied=False)
        return np.stack([group_radii(table[name], starts[:-1]) for name in ("z", "tail")])


def _expand(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of all stretches, one after the other."""
    ends = np.cumsum(counts)
    return np.repeat(starts - (ends - counts), counts) + np.arange(ends[-1])


def lay_out(rows: Rows, cells: Cells, scratch: Scratch, filling: Tasks, members: Membership | None = None) -> Layout:
    """Write rows, or their ``members``, into ``scratch``, by cell and class, as tables ``segment-0``...

    One pass over the rows; tasks in the context ``filling`` read back once what it writes. Raises `InputError` for rows
    that are not finite.
    """
    dataset, labels, frame = rows.dataset, rows.census.classes, cells.frame
    members = members or Membership()
    task = partial(_sort_units, labels=labels, cells=cells, scratch=scratch, members=members)
    kept = not scratch.in_memory
    runs = rows.pass_over(task, concatenated, "cells", kept)
    order = np.lexsort((runs.unit, runs.key))
    count = runs.count[order]
    entries = np.stack([runs.unit[order], runs.start[order], count, np.cumsum(count) - count])
    sizes = np.bincount(runs.key, runs.count, len(cells.centres) * len(labels)).astype(np.int64)
    weighted = rows.census.totals is not None
    # Coordinates, half of their square, the row number, and the weight.
    numbers = 4 * (frame.width + frame.tail_width) + 4 + 8 + 8 * weighted
    row_bytes = frame.rows(np.zeros((1, dataset.n_features), dataset.dtype)).nbytes + numbers + members.row_bytes
    cell, starts, classes = _pieces(sizes.reshape(-1, len(labels)), piece_rows(row_bytes))
    segments = _segments(starts, row_bytes)
    parts = [_within(entries, int(a), int(b)) for a, b in itertools.pairwise(starts[segments])]
    scratch.put("entries", {"columns": np.concatenate(parts)}, copied=False)  # too much to send along with every task
    edges = np.cumsum([0, *(len(part) for part in parts)])
    piece_starts = [starts[a : b + 1] - starts[a] for a, b in itertools.pairwise(segments)]
    names = ("x", "z", "tail", "rows", *members.columns, *["weights"] * weighted)
    fill = _FillSegment(scratch, edges, piece_starts, names)
    rows.begins("segments")
    tasks = [Span(i, (i, i + 1)) for i in range(len(segments) - 1)]
    radii = filling.run(fill, tasks, partial(np.append, axis=1), "segments", kept)
    for unit in np.unique(runs.unit):
        scratch.drop(f"run-{unit}")
    scratch.drop("entries")
    return Layout(scratch, cells, cell, starts, classes, radii[0], radii[1], segments, row_bytes, weighted)


def _pieces(sizes: NDArray[np.int64], limit: int) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.int64]]:
    """Cut cells with ``sizes`` (cells, C) into pieces; return their cells, starts and classes' starts."""
    edges = np.concatenate([[0], np.cumsum(sizes.sum(axis=1))])
    counts = -(-np.diff(edges) // limit)
    cell = np.repeat(np.arange(len(sizes)), counts)
    starts = _expand(np.zeros(len(sizes), np.int64), counts) * limit + edges[cell]
    starts = np.append(starts, edges[-1])
    class_edges = edges[:-1, None] + np.concatenate([np.zeros((len(sizes), 1), np.int64), np.cumsum(sizes, axis=1)], 1)
    return cell, starts, np.clip(class_edges[cell], starts[:-1, None], starts[1:, None])


def _segments(starts: NDArray[np.int64], row_bytes: int) -> NDArray[np.int64]:
    """Return the pieces where segments begin."""
    rows = segment_rows(int(starts[-1]), row_bytes)
    edges = [0]
    while edges[-1] < len(starts) - 1:
        last = int(np.searchsorted(starts, starts[edges[-1]] + rows, side="right")) - 1
        edges.append(max(last, edges[-1] + 1))
    return np.asarray(edges, np.int64)
