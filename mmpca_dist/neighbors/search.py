"""The tasks of a search: each takes the queries of one segment through the other segments."""

from __future__ import annotations

import itertools
import operator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from mmpca_dist.datasets.dataset import Span
from mmpca_dist.errors import InputError, MmpcaError
from mmpca_dist.neighbors import kernels
from mmpca_dist.neighbors.bounds import (
    OWN_SHARE,
    Groups,
    Rules,
    Targets,
    centre_distances,
    leave_open,
    near_cells,
    wanted_cells,
)
from mmpca_dist.neighbors.cells import relative_rounding
from mmpca_dist.neighbors.layout import ARRAYS, PARTS, Layout, SegmentCells, rows_within
from mmpca_dist.neighbors.queries import Queries, queries_of
from mmpca_dist.neighbors.refinement import LOST, Metric
from mmpca_dist.neighbors.scratch import Scratch
from mmpca_dist.statistics.serialization import storable
from mmpca_dist.statistics.tree_reduction import Tasks

NONE = np.iinfo(np.int64).max
"""Row number of a neighbour that is not known yet: higher than any."""

LARGEST_GAP = 3
"""Cells that are read though nobody wants them, for the sake of fewer and longer reads."""

TASK_QUERIES, TASK_BYTES = 8192, 64 << 20
SMALLEST_TASK = 256
FEWEST_TASKS = 8
"""Where queries are drawn, a task takes segments together until it has about 8,192, or 64 MiB; fewer, so that there are
eight tasks, but not fewer than 256."""


@dataclass
class Found:
    """Nearest rows so far, by query and slot: one slot, or one for each class with ``one-vs-one``.

    With ``apart`` there are as many slots again, for the nearest rows that are in other parts than those of the first.

    Attributes
    ----------
    squared : array of shape (n, slots)
        Squared distances; infinite where none is known, as in the slot of the query's own class.
    rows, positions : int arrays of shape (n, slots)
        Row numbers and positions in the layout.
    open_bounds : array of shape (n,)
        Proved lower bound, in units of the frame, on the distance to all that was left out without proof.
    parts : int array of shape (n, slots / 2), or (n, 0)
        Of the rows in the first half of the slots, with ``apart``.
    """

    squared: NDArray[np.float64]
    rows: NDArray[np.int64]
    positions: NDArray[np.int64]
    open_bounds: NDArray[np.float64]
    parts: NDArray[np.int32]

    @classmethod
    def nothing(cls, n_queries: int, n_slots: int, apart: bool = False) -> Found:
        shape = (n_queries, n_slots * (1 + apart))
        return cls(
            np.full(shape, np.inf), np.full(shape, NONE), np.full(shape, -1), np.full(n_queries, np.inf),
            np.full((n_queries, n_slots * apart), -1, np.int32),
        )  # fmt: skip

    @property
    def n_slots(self) -> int:
        """One, or one for each class."""
        return self.parts.shape[1] or self.squared.shape[1]

    def reach(self, codes: NDArray[np.int64], scale: float, n_features: int) -> NDArray[np.float64]:
        """Return the largest distance of interest of every query, in units of the frame, rounding included."""
        squared, n_slots = self.squared, self.n_slots
        if n_slots > 1:
            squared = squared.copy()
            for own in range(0, squared.shape[1], n_slots):
                squared[np.arange(len(codes)), own + codes] = 0
        return np.sqrt(squared.max(axis=1) + LOST) * scale * (1 + relative_rounding(n_features))


@storable
@dataclass(frozen=True)
class Work:
    """What a search has cost, and how much of it is proved; adds up."""

    queries: int = 0
    proved: int = 0
    cells: int = 0
    compared: int = 0
    bounded: int = 0
    refined: int = 0
    read: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(*(operator.add(*pair) for pair in zip(vars(self).values(), vars(other).values(), strict=True)))


def search_queries(
    queries: Queries,
    layout: Layout,
    scratch: Scratch,
    *,
    one_vs_one: bool,
    effort: float = np.inf,
    found: Found | None = None,
    apart: bool = False,
) -> tuple[Found, Work]:
    """Return the nearest rows of other classes among all rows of the layout.

    Parameters
    ----------
    effort : float
        How far to look, see `bounds.OWN_SHARE`; by default nothing is left out without proof.
    found : Found, optional
        What is known already.
    apart : bool
        Find the nearest rows of other parts than theirs as well.

    Raises
    ------
    InputError
        For rows that differ by so little that the squares vanish.
    MmpcaError
        Where a query was left without a neighbour, which no data should bring about.
    """
    frame, n_classes = layout.cells.frame, layout.classes.shape[1] - 1
    found = found or Found.nothing(len(queries), n_classes if one_vs_one else 1, apart)
    rules = Rules(frame.width, frame.rounding, effort)
    visit = _Visit(queries, layout, scratch, found, one_vs_one, rules)
    for number in _nearest_first(visit.between, layout):
        visit.segment(layout.segment(int(number)))
    cells, compared, bounded, refined, query, row = visit.counters.tolist()
    if row >= 0:
        raise InputError(
            f"Rows {queries.rows[query]} and {row} differ by so little that the squares of their differences vanish in "
            "double precision: which row is the nearest cannot be told. Scale the rows up."
        )
    _check_all_found(found, queries)
    proved = int(np.sum(found.open_bounds > found.reach(queries.codes, frame.scale, queries.x.shape[1])))
    return found, Work(len(queries), proved, cells, compared, bounded, refined, visit.read)


def _check_all_found(found: Found, queries: Queries) -> None:
    """Refuse to go on where a query has no neighbour; what is nearest in other parts may not exist."""
    missing = found.positions[:, : found.n_slots] < 0
    if found.n_slots > 1:
        missing[np.arange(len(queries)), queries.codes] = False
    if missing.any():
        lost = np.flatnonzero(missing.any(axis=1))
        raise MmpcaError(
            f"The search found no row of another class for row {queries.rows[lost[0]]} ({len(lost)} such rows): this "
            "is a fault of the program. Please report it with the range of values of every column."
        )


@dataclass
class _Visit:
    """Queries on their way through the segments."""

    queries: Queries
    layout: Layout
    scratch: Scratch
    found: Found
    one_vs_one: bool
    rules: Rules
    read: int = 0

    def __post_init__(self) -> None:
        queries, cells = self.queries, self.layout.cells
        own, own_tail = cells.centres[queries.cell], cells.tail_centres[queries.cell]
        allowances = OWN_SHARE * np.einsum("ij,ij->i", queries.z, queries.z, dtype=np.float64)
        self.between = cdist(own, cells.centres).astype(np.float32)
        self.counters = np.asarray([0, 0, 0, 0, -1, -1])
        self.groups = Groups(queries.starts, queries.radii, queries.codes, allowances)
        relative = relative_rounding(queries.x.shape[1])
        self.metric = Metric(cells.frame.scale, relative, self.one_vs_one, self.found.parts.shape[1])
        self.asking = kernels.Asking(
            queries.z, queries.tail, queries.x, queries.codes, allowances,
            queries.blocks(self.layout.classes.shape[1] - 1), own, own_tail, queries.radii, queries.tail_radii,
        )  # fmt: skip

    def segment(self, cells: SegmentCells) -> None:
        """Search the cells of a segment that may hold something nearer, and note what is left out without proof."""
        queries, frame = self.queries, self.layout.cells.frame
        reach = self.found.reach(queries.codes, frame.scale, queries.x.shape[1])
        targets = Targets(self.between[:, cells.cell], cells.radii, cells.others)
        near = near_cells(self.groups, targets, reach, self.rules)
        centres = self.layout.cells.centres[cells.cell]
        distances = centre_distances(queries.z, queries.starts, self.asking.centres, centres, near)
        stretches = _stretches(wanted_cells(distances, near, self.groups, targets, reach, self.rules))
        if self.rules.effort < np.inf:
            left = np.ones(len(centres), bool)
            for first, last in stretches:
                left[first:last] = False
            leave_open(distances, near, self.groups, targets, left, self.found.open_bounds, self.rules)
        for first, last in stretches:
            self._search(cells, first, last, distances)

    def _search(self, cells: SegmentCells, first: int, last: int, distances: NDArray[np.float32]) -> None:
        """Read a stretch of a segment's cells and search it."""
        start, low, high = int(cells.starts[0]), int(cells.starts[first]), int(cells.starts[last])
        apart = self.metric.apart > 0
        arrays = self.scratch.get(cells.table, (*ARRAYS, PARTS) if apart else ARRAYS, low - start, high - start)
        self.read += sum(array.nbytes for array in arrays)
        x, z, halves, tail, rows = arrays[: len(ARRAYS)]
        parts = arrays[-1] if apart else np.empty(0, np.int32)
        all_cells, cell = self.layout.cells, cells.cell[first:last]
        offered = kernels.Candidates(
            z, halves, tail, x, rows, parts, low, cells.starts[first : last + 1] - low, cells.classes[first:last] - low,
            all_cells.centres[cell], all_cells.tail_centres[cell], cells.radii[first:last],
            cells.tail_radii[first:last], np.ascontiguousarray(distances[:, first:last]),
        )  # fmt: skip
        found, between = self.found, self.between[:, cell]
        best = kernels.Best(found.squared, found.rows, found.positions, found.open_bounds, found.parts)
        if np.isin(cell, self.queries.cell).any():
            order = np.argsort(between, axis=1, kind="stable")
            kernels.search_in_turn(self.asking, offered, best, order, self.metric, self.rules, self.counters)
        else:
            order = np.argsort(between.min(axis=0), kind="stable")
            kernels.search_together(self.asking, offered, best, order, self.metric, self.rules, self.counters)


def _stretches(wanted: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return stretches of cells that hold all wanted ones, and no gap of more than a few between them."""
    cells = np.flatnonzero(wanted)
    if not len(cells):
        return []
    breaks = np.flatnonzero(np.diff(cells) > LARGEST_GAP)
    firsts = cells[np.concatenate([[0], breaks + 1])]
    lasts = cells[np.concatenate([breaks, [len(cells) - 1]])] + 1
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def _nearest_first(between: NDArray[np.float32], layout: Layout) -> NDArray[np.intp]:
    """Return the segments in the order of their nearest cell."""
    nearest = between.min(axis=0)[layout.cell]
    return np.argsort(np.minimum.reduceat(nearest, layout.segments[:-1]), kind="stable")


@dataclass(frozen=True)
class SearchSegments:
    """The task: search for the queries of consecutive segments and write what is found as a table."""

    layout: Layout
    scratch: Scratch
    name: str
    one_vs_one: bool
    effort: float
    chosen: NDArray[np.int64] | None = None
    earlier: str | None = None
    """Name of an earlier search for the same queries, to go on from."""
    apart: bool = False

    def __call__(self, span: Span) -> Work:
        queries = queries_of(self.layout, self.scratch, span.start, span.stop, self.chosen)
        known = None if self.earlier is None else load_found(self.scratch, self.earlier, span.index)[1]
        if known is not None:
            known.open_bounds[:] = np.inf
        if len(queries) == 0:
            n_slots = self.layout.classes.shape[1] - 1 if self.one_vs_one else 1
            found, work = Found.nothing(0, n_slots, self.apart), Work()
        else:
            found, work = search_queries(
                queries, self.layout, self.scratch,
                one_vs_one=self.one_vs_one, effort=self.effort, found=known, apart=self.apart,
            )  # fmt: skip
        table = {"queries": queries.rows, "own": queries.positions, "codes": queries.codes, **vars(found)}
        if self.apart:
            table["part"] = parts_at(self.layout, self.scratch, queries.positions)
        if self.effort == np.inf:
            table["needed"] = needed_effort(queries, found, self.layout)
        self.scratch.put(f"{self.name}-{span.index}", table)
        return work


def needed_effort(queries: Queries, found: Found, layout: Layout) -> NDArray[np.float64]:
    """Return the effort that visits the cells of the neighbours for certain, shape (n,); see `bounds.OWN_SHARE`."""
    centres, scale = layout.cells.centres.astype(np.float64), layout.cells.frame.scale
    group = np.repeat(np.arange(len(queries.cell)), np.diff(queries.starts))
    absolute = queries.z + centres[queries.cell][group]
    allowance = OWN_SHARE * np.einsum("ij,ij->i", queries.z, queries.z, dtype=np.float64)
    needed = np.full(len(queries), -np.inf)
    for slot in range(found.squared.shape[1]):
        known = np.flatnonzero(found.positions[:, slot] >= 0)
        piece = np.searchsorted(layout.starts, found.positions[known, slot], side="right") - 1
        offsets = absolute[known] - centres[layout.cell[piece]]
        beyond = np.einsum("ij,ij->i", offsets, offsets) - allowance[known]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            reach = (np.sqrt(found.squared[known, slot]) * scale) ** 2
            effort = np.where(beyond > 0, beyond / reach, np.where(reach > 0, beyond / reach, -np.inf))
        needed[known] = np.maximum(needed[known], effort)
    return needed


def load_found(scratch: Scratch, name: str, index: int) -> tuple[NDArray[np.int64], Found]:
    """Return the row numbers of a task's queries and what was found for them."""
    names = ("queries", "squared", "rows", "positions", "open_bounds", "parts")
    queries, *arrays = scratch.get(f"{name}-{index}", names)
    return queries, Found(*(array.copy() for array in arrays))


def parts_at(layout: Layout, scratch: Scratch, positions: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the parts of the rows at positions of the layout, sorted."""
    segments, found = layout.segment_of(positions), np.empty(len(positions), np.int32)
    for segment in np.unique(segments):
        own = segments == segment
        (found[own],) = scratch.take(f"segment-{segment}", (PARTS,), positions[own] - layout.positions(segment)[0])
    return found


def most_queries(row_bytes: int) -> int:
    """Return about how many drawn queries, of ``row_bytes`` each, a task takes at most."""
    return rows_within(TASK_BYTES, row_bytes, TASK_QUERIES, SMALLEST_TASK)


@dataclass
class Searcher:
    """Runs searches over one layout."""

    layout: Layout
    scratch: Scratch
    tasks: Tasks
    one_vs_one: bool
    apart: bool = False
    work: Work = field(default_factory=Work)

    def run(self, name: str, effort: float, chosen: NDArray[np.int64] | None, earlier: str | None = None) -> Work:
        """Search for all rows, or for those chosen (sorted numbers); tables ``NAME-0`` and so on hold what is found."""
        task = SearchSegments(self.layout, self.scratch, name, self.one_vs_one, effort, chosen, earlier, self.apart)
        work = self.tasks.run(task, self.spans(chosen), operator.add, name)
        self.work = self.work + work
        return work

    def spans(self, chosen: NDArray[np.int64] | None) -> list[Span]:
        """Return stretches of segments, one a task."""
        n = self.layout.n_segments
        if chosen is None:
            return [Span(i, (i, i + 1)) for i in range(n)]
        share = len(chosen) / self.layout.n_rows
        sizes = np.diff(self.layout.starts[self.layout.segments]) * share
        size = min(max(len(chosen) / FEWEST_TASKS, SMALLEST_TASK), most_queries(self.layout.row_bytes))
        bins = np.floor(np.cumsum(sizes) / size + 1e-9).astype(np.int64)
        edges = [0, *(np.flatnonzero(np.diff(bins)) + 1).tolist(), n]
        return [Span(i, (a, b)) for i, (a, b) in enumerate(itertools.pairwise(edges)) if b > a]

    def table(self, name: str, chosen: NDArray[np.int64] | None, arrays: tuple[str, ...]) -> list[NDArray]:
        """Return arrays of all tables of a search, joined."""
        parts: list[list[Any]] = [self.scratch.get(f"{name}-{span.index}", arrays) for span in self.spans(chosen)]
        return [np.concatenate(column) for column in zip(*parts, strict=True)]
