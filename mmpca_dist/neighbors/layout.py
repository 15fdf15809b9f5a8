"""Lay out rows by cell and class: an external sort, first by reading unit, then by segment."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.dataset import Dataset, Span
from mmpca_dist.datasets.labels import encode
from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.neighbors.cells import Cells, Frame
from mmpca_dist.neighbors.scratch import Scratch
from mmpca_dist.statistics.rows import Rows
from mmpca_dist.statistics.serialization import storable
from mmpca_dist.statistics.tree_reduction import Tasks
from mmpca_dist.statistics.units import Locate, read_units

PIECE_ROWS = 4096
"""Cells with more rows are worked on in pieces: it bounds the matrix products' results."""
SMALLEST_PIECE = 256
"""Wide rows make smaller pieces, lest one be more than a segment, but not smaller than this."""
SEGMENT_BYTES = 32 << 20
MIN_SEGMENTS = 32
BLOCK_ROWS, BLOCK_BYTES = 8192, 64 << 20
"""Rows that are brought to coordinates at a time, as doubles."""

LARGEST_VALUE = 1e150
"""Values must be smaller in double precision: then up to 4e7 squares of differences, each at most 4e300, have a finite
sum. Single precision, whose values end at 3.4e38, always has. `refinement.SMALLEST_NORMAL` is the limit at the other
end, and `frame.FAR` keeps coordinates finite in between."""

ARRAYS = ("x", "z", "halves", "tail", "rows")
PARTS = "parts"
"""The array beside these where rows are laid out with their parts."""
HALF_BYTES = 4
"""Of half the square of a row's coordinates, in single precision."""


@dataclass(frozen=True)
class SegmentCells:
    """The pieces of a segment, as in `Layout`; positions count from the beginning of all rows."""

    table: str
    cell: NDArray[np.intp]
    starts: NDArray[np.int64]
    classes: NDArray[np.int64]
    radii: NDArray[np.float64]
    tail_radii: NDArray[np.float64]

    @property
    def others(self) -> NDArray[np.bool_]:
        """Whether each piece holds rows of other classes than each class, shape (p, C)."""
        return np.diff(self.classes, axis=1) < np.diff(self.starts)[:, None]


@dataclass(frozen=True)
class Layout:
    """Where everything is: pieces of cells one after the other, in segments.

    Attributes
    ----------
    cell : int array of shape (p,)
        The cell each piece belongs to.
    starts : int array of shape (p + 1,)
        Positions where pieces begin.
    classes : int array of shape (p, C + 1)
        Positions where each class begins within a piece.
    radii, tail_radii : arrays of shape (p,)
        Largest norm of the rows of a piece, relative to the centre of its cell; never less than the true one.
    segments : int array of shape (s + 1,)
        Pieces where segments begin.
    row_bytes : int
        Of a row in its segment's table.
    """

    cells: Cells
    cell: NDArray[np.intp]
    starts: NDArray[np.int64]
    classes: NDArray[np.int64]
    radii: NDArray[np.float64]
    tail_radii: NDArray[np.float64]
    segments: NDArray[np.int64]
    row_bytes: int

    @property
    def n_rows(self) -> int:
        return int(self.starts[-1])

    @property
    def n_segments(self) -> int:
        return len(self.segments) - 1

    def positions(self, segment: int) -> tuple[int, int]:
        """Return where a segment begins and ends."""
        first, last = self.segments[segment], self.segments[segment + 1]
        return int(self.starts[first]), int(self.starts[last])

    def segment(self, number: int) -> SegmentCells:
        """Return the pieces of a segment."""
        first, last = int(self.segments[number]), int(self.segments[number + 1])
        pieces = slice(first, last)
        return SegmentCells(
            f"segment-{number}", self.cell[pieces], self.starts[first : last + 1], self.classes[pieces],
            self.radii[pieces], self.tail_radii[pieces],
        )  # fmt: skip

    def segment_of(self, positions: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the segments that hold positions."""
        return np.searchsorted(self.starts[self.segments], positions, side="right") - 1


Kept = slice | NDArray[np.intp]


class Members(Protocol):
    """The rows of a data set that are laid out, and the columns that go with them."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of them."""

    def of(self, start: int, labels: NDArray) -> tuple[Kept, NDArray[np.int64], dict[str, NDArray]]:
        """Return places and numbers of the members among the rows from ``start`` on, and their columns."""


@dataclass(frozen=True)
class AllRows:
    """Every row under its own number."""

    columns = ()
    row_bytes = 0

    def of(self, start: int, labels: NDArray) -> tuple[Kept, NDArray[np.int64], dict[str, NDArray]]:
        return slice(None), np.arange(start, start + len(labels)), {}


@storable
@dataclass(frozen=True)
class _Runs:
    """What sorted units hold: for every (unit, cell and class) the rows there, in one table each.

    ``key`` is cell * C + class; ``start`` counts within the unit's table, called ``run-FIRSTROW``.
    """

    unit: NDArray[np.int64]
    key: NDArray[np.int64]
    start: NDArray[np.int64]
    count: NDArray[np.int64]


@dataclass(frozen=True)
class _SortUnits:
    """Give rows their coordinates and cells, and write each unit sorted by cell, class and row number."""

    dataset: Dataset
    labels: NDArray
    cells: Cells
    scratch: Scratch
    members: Members

    def __call__(self, span: Span) -> _Runs:
        found = [self._sort(start, X) for start, X in read_units(self.dataset, span)]
        return _join_all(found)

    def _sort(self, start: int, X: NDArray) -> _Runs:
        labels = self.dataset.read_labels(start, start + len(X))
        codes = encode(labels, self.labels, self.dataset.uri)
        frame, n_classes = self.cells.frame, len(self.labels)
        _refuse_bad_rows(X, frame, self.dataset, start)
        kept, rows, more = self.members.of(start, labels)
        X, codes = X[kept], codes[kept]
        z = np.empty((len(X), frame.width), np.float32)
        tail = np.empty((len(X), frame.tail_width), np.float32)
        cell = np.empty(len(X), np.intp)
        size = rows_within(BLOCK_BYTES, 8 * X.shape[1], BLOCK_ROWS)
        for a in range(0, len(X), size):
            block = slice(a, a + size)
            along, along_tail = frame.coordinates(frame.rows(X[block]))
            cell[block] = own = self.cells.assign(along)
            z[block] = along - self.cells.centres[own]
            if tail.size:
                tail[block] = along_tail - self.cells.tail_centres[own]
        keys = cell * n_classes + codes
        order = np.argsort(keys, kind="stable")
        table = {"x": frame.rows(X[order]), "z": z[order], "tail": tail[order], "rows": rows[order]}
        table |= {name: array[order] for name, array in more.items()}
        if len(X):
            self.scratch.put(f"run-{start}", table)
        key, first, count = np.unique(keys[order], return_index=True, return_counts=True)
        return _Runs(np.full(len(key), start), key, first, count)


def rows_within(n_bytes: int, row_bytes: int, most: int, least: int = 1) -> int:
    """Return how many rows take up so many bytes: at least ``least`` and, before that, at most ``most``."""
    return max(min(most, n_bytes // row_bytes), least)


def piece_rows(row_bytes: int) -> int:
    """Return how many rows of ``row_bytes`` a piece of a cell holds at most."""
    return rows_within(SEGMENT_BYTES, row_bytes, PIECE_ROWS, min(PIECE_ROWS, SMALLEST_PIECE))


def is_usable(X: NDArray) -> NDArray[np.bool_]:
    """Tell which values are finite and have squares that are."""
    if X.dtype.itemsize < 8:
        return np.isfinite(X)
    return np.abs(X) < LARGEST_VALUE


def _refuse_bad_rows(X: NDArray, frame: Frame, dataset: Dataset, start: int) -> None:
    usable = is_usable(X)
    if usable.all() and frame.deviations is not None:
        usable = is_usable(X / frame.deviations)
    if not usable.all():
        row, column = np.argwhere(~usable)[0]
        value, place = float(X[row, column]), dataset.describe_chunk(start + int(row))
        if np.isfinite(value):
            raise InputError(
                f"Found {value} in row {start + row}, column {column}, in {place}: squared distances to it overflow. "
                "Scale the rows down."
            )
        Locate(dataset, start).refuse(int(row), int(column), value)


def _join(left: _Runs, right: _Runs) -> _Runs:
    return _join_all([left, right])


def _join_all(parts: list[_Runs]) -> _Runs:
    columns = {name: np.concatenate([getattr(p, name) for p in parts]) for name in ("unit", "key", "start", "count")}
    return _Runs(**columns)


@dataclass(frozen=True)
class _Entries:
    """Stretches of sorted units in the order of the layout; ``position`` is where each goes."""

    unit: NDArray[np.int64]
    start: NDArray[np.int64]
    count: NDArray[np.int64]
    position: NDArray[np.int64]

    def within(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return what goes to positions ``start`` to ``stop``, clipped, relative to ``start``: shape (e, 4)."""
        first = int(np.searchsorted(self.position, start, side="right")) - 1
        last = int(np.searchsorted(self.position, stop))
        before = np.maximum(start - self.position[first:last], 0)
        after = np.maximum(self.position[first:last] + self.count[first:last] - stop, 0)
        starts, counts = self.start[first:last] + before, self.count[first:last] - before - after
        return np.stack([self.unit[first:last], starts, counts, self.position[first:last] + before - start], axis=1)


@dataclass(frozen=True)
class _FillSegment:
    """Bring the rows of a segment together from the sorted units and write it whole."""

    scratch: Scratch
    edges: NDArray[np.int64]
    """Where the entries of each segment begin in the table ``entries``."""
    piece_starts: list[NDArray[np.int64]]
    names: tuple[str, ...]

    def __call__(self, span: Span) -> NDArray[np.float64]:
        """Return the radii of the segment's pieces, shape (2, pieces)."""
        starts = self.piece_starts[span.index]
        (columns,) = self.scratch.get("entries", ("columns",), *self.edges[span.index : span.index + 2].tolist())
        entries, n = _Entries(*columns.T), int(starts[-1])
        table: dict[str, NDArray] = {}
        for unit in np.unique(entries.unit):
            own = entries.unit == unit
            first, count, position = entries.start[own], entries.count[own], entries.position[own]
            low, high = int(first.min()), int((first + count).max())
            source = _expand(first - low, count)
            target = _expand(position, count)
            arrays = self.scratch.get(f"run-{unit}", self.names, low, high)
            for name, array in zip(self.names, arrays, strict=True):
                out = table.setdefault(name, np.empty((n, *array.shape[1:]), array.dtype))
                out[target] = array[source]
        squares = np.einsum("ij,ij->i", table["z"], table["z"], dtype=np.float64)
        tails = np.einsum("ij,ij->i", table["tail"], table["tail"], dtype=np.float64)
        table["halves"] = (0.5 * squares).astype(np.float32)
        self.scratch.put(f"segment-{span.index}", table)
        # Raised a little, for they were rounded themselves.
        largest = [np.maximum.reduceat(norms, starts[:-1]) for norms in (squares, tails)]
        return np.sqrt(np.stack(largest)) * (1 + 1e-6)


def _expand(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of all stretches, one after the other."""
    ends = np.cumsum(counts)
    return np.repeat(starts - (ends - counts), counts) + np.arange(ends[-1])


def lay_out(rows: Rows, cells: Cells, scratch: Scratch, filling: Tasks, members: Members | None = None) -> Layout:
    """Write rows, or their ``members``, into ``scratch``, by cell and class, as tables ``segment-0``...

    One pass over the rows; what is written is read back once, by tasks in the context ``filling``.

    Raises
    ------
    InputError
        For rows that are not finite.
    """
    dataset, labels = rows.dataset, rows.census.classes
    members = members or AllRows()
    task = _SortUnits(dataset, labels, cells, scratch, members)
    kept = not scratch.in_memory
    runs = rows.pass_over(task, _join, "cells", kept)
    n_classes = len(labels)
    order = np.lexsort((runs.unit, runs.key))
    count = runs.count[order]
    entries = _Entries(runs.unit[order], runs.start[order], count, np.cumsum(count) - count)
    sizes = np.bincount(runs.key, runs.count, len(cells.centres) * n_classes).astype(np.int64)
    frame, one = cells.frame, np.zeros((1, dataset.n_features), dataset.dtype)
    coordinates = np.dtype(np.float32).itemsize * (frame.width + frame.tail_width)
    row_bytes = HALF_BYTES + frame.rows(one).nbytes + coordinates + np.dtype(np.int64).itemsize + members.row_bytes
    cell, starts, classes = _pieces(sizes.reshape(-1, n_classes), piece_rows(row_bytes))
    segments = _segments(starts, row_bytes)
    bounds = starts[segments]
    parts = [entries.within(int(a), int(b)) for a, b in itertools.pairwise(bounds)]
    scratch.put("entries", {"columns": np.concatenate(parts)})  # too much to send along with every task
    edges = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    piece_starts = [starts[a : b + 1] - starts[a] for a, b in itertools.pairwise(segments)]
    fill = _FillSegment(scratch, edges, piece_starts, ("x", "z", "tail", "rows", *members.columns))
    tasks = [Span(i, (i, i + 1)) for i in range(len(segments) - 1)]
    rows.begins("segments")
    radii = filling.run(fill, tasks, _side_by_side, "segments", kept)
    for unit in np.unique(runs.unit):
        scratch.drop(f"run-{unit}")
    scratch.drop("entries")
    return Layout(cells, cell, starts, classes, radii[0], radii[1], segments, row_bytes)


def _side_by_side(left: NDArray, right: NDArray) -> NDArray:
    return np.concatenate([left, right], axis=1)


def _pieces(sizes: NDArray[np.int64], most: int) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.int64]]:
    """Cut cells, whose rows by class are given, into pieces; return their cells, starts and classes' starts."""
    edges = np.concatenate([[0], np.cumsum(sizes.sum(axis=1))])
    counts = -(-np.diff(edges) // most)
    cell = np.repeat(np.arange(len(sizes)), counts)
    starts = _expand(np.zeros(len(sizes), np.int64), counts) * most + edges[cell]
    starts = np.append(starts, edges[-1])
    class_edges = edges[:-1, None] + np.concatenate([np.zeros((len(sizes), 1), np.int64), np.cumsum(sizes, axis=1)], 1)
    classes = np.clip(class_edges[cell], starts[:-1, None], starts[1:, None])
    return cell, starts, classes


def _segments(starts: NDArray[np.int64], row_bytes: int) -> NDArray[np.int64]:
    """Return the pieces where segments begin."""
    n = int(starts[-1])
    rows = min(max(SEGMENT_BYTES // row_bytes, 1), max(n // MIN_SEGMENTS, LIMITS.smallest_segment))
    kept = [0]
    while kept[-1] < len(starts) - 1:
        fitting = int(np.searchsorted(starts, starts[kept[-1]] + rows, side="right")) - 1
        kept.append(max(fitting, kept[-1] + 1))
    return np.asarray(kept, np.int64)
