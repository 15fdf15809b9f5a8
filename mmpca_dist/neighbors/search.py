"""The search as tasks: each takes the queries of a segment through the segments that may hold something nearer."""

from __future__ import annotations

import itertools
import operator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from mmpca_dist.datasets.base import Span
from mmpca_dist.neighbors import kernels
from mmpca_dist.neighbors.frame import relative_rounding
from mmpca_dist.neighbors.layout import ARRAYS, Layout, SegmentCells
from mmpca_dist.neighbors.queries import Queries, queries_of
from mmpca_dist.neighbors.scratch import Scratch
from mmpca_dist.statistics.reduction import Progress, Scheduler, reduce_spans

NONE = np.iinfo(np.int64).max
"""Row number of a neighbour that is not known yet: higher than any."""

LARGEST_GAP = 3
"""Cells that are read though nobody wants them, for the sake of fewer and longer reads."""

TASK_QUERIES = 8192
SMALLEST_TASK = 256
FEWEST_TASKS = 8
"""Where queries are drawn, a task takes segments together until it has about 8,192; fewer, so that there are eight
tasks, but not fewer than 256."""


@dataclass
class Found:
    """Nearest rows so far, by query and slot: one slot, or one for each class with ``one-vs-one``.

    Attributes
    ----------
    squared : array of shape (n, slots)
        Squared distances; infinite where none is known, as in the slot of the query's own class.
    rows, positions : int arrays of shape (n, slots)
        Row numbers and positions in the layout.
    open_bounds : array of shape (n,)
        Proved lower bound, in units of the frame, on the distance to all that was left out without proof.
    """

    squared: NDArray[np.float64]
    rows: NDArray[np.int64]
    positions: NDArray[np.int64]
    open_bounds: NDArray[np.float64]

    @classmethod
    def nothing(cls, n_queries: int, n_slots: int) -> Found:
        shape = (n_queries, n_slots)
        return cls(np.full(shape, np.inf), np.full(shape, NONE), np.full(shape, -1), np.full(n_queries, np.inf))

    def reach(self, codes: NDArray[np.int64], scale: float, n_features: int) -> NDArray[np.float64]:
        """Return the largest distance of interest of every query, in units of the frame, rounding included."""
        squared = self.squared
        if squared.shape[1] > 1:
            squared = squared.copy()
            squared[np.arange(len(codes)), codes] = 0
        return np.sqrt(squared.max(axis=1) + kernels.LOST) * scale * (1 + relative_rounding(n_features))


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
    queries: Queries, layout: Layout, scratch: Scratch, *, one_vs_one: bool, shrink: float, found: Found | None = None
) -> tuple[Found, Work]:
    """Return the nearest rows of other classes among all rows of the layout.

    Parameters
    ----------
    shrink : float
        Factor on the radii of cells that decides which are visited: at 1 none is left out without proof.
    found : Found, optional
        What is known already.
    """
    frame, n_classes = layout.cells.frame, layout.classes.shape[1] - 1
    found = found or Found.nothing(len(queries), n_classes if one_vs_one else 1)
    visit = _Visit(queries, layout, scratch, found, one_vs_one, shrink, queries.blocks(n_classes))
    for number in _nearest_first(visit.between, layout):
        visit.segment(layout.segment(int(number)))
    proved = int(np.sum(found.open_bounds > found.reach(queries.codes, frame.scale, queries.x.shape[1])))
    cells, compared, bounded, refined = visit.counters.tolist()
    return found, Work(len(queries), proved, cells, compared, bounded, refined, visit.read)


@dataclass
class _Visit:
    """Queries on their way through the segments."""

    queries: Queries
    layout: Layout
    scratch: Scratch
    found: Found
    one_vs_one: bool
    shrink: float
    blocks: NDArray[np.int64]
    read: int = 0

    def __post_init__(self) -> None:
        cells = self.layout.cells
        self.own, self.own_tail = cells.centres[self.queries.cell], cells.tail_centres[self.queries.cell]
        self.between = cdist(self.own, cells.centres).astype(np.float32)
        self.counters = np.zeros(4, np.int64)

    def segment(self, cells: SegmentCells) -> None:
        """Search the cells of a segment that may hold something nearer, and note what is left out without proof."""
        queries, frame = self.queries, self.layout.cells.frame
        centres, between = self.layout.cells.centres[cells.cell], self.between[:, cells.cell]
        reach = self.found.reach(queries.codes, frame.scale, queries.x.shape[1])
        rules = (frame.width, frame.rounding, self.shrink)
        near = kernels.near_cells(between, cells.radii, queries.radii, queries.starts, reach, *rules)
        distances = kernels.centre_distances(queries.z, queries.starts, self.own, centres, near)
        bounds = (distances, near, cells.radii, cells.others, queries.starts, queries.radii, queries.codes)
        stretches = _stretches(kernels.wanted_cells(*bounds, reach, *rules))
        if self.shrink < 1:
            left = np.ones(len(centres), bool)
            for first, last in stretches:
                left[first:last] = False
            kernels.leave_open(*bounds, between, left, self.found.open_bounds, *rules[:2])
        for first, last in stretches:
            self._search(cells, first, last, distances)

    def _search(self, cells: SegmentCells, first: int, last: int, distances: NDArray[np.float32]) -> None:
        """Read a stretch of a segment's cells and search it, the nearest cells first."""
        queries, found, frame = self.queries, self.found, self.layout.cells.frame
        start, low, high = int(cells.starts[0]), int(cells.starts[first]), int(cells.starts[last])
        x, z, halves, tail, rows = self.scratch.get(cells.table, ARRAYS, low - start, high - start)
        self.read += sum(array.nbytes for array in (x, z, halves, tail, rows))
        order = first + np.argsort(self.between[:, cells.cell[first:last]], axis=1, kind="stable")
        kernels.search_cells(
            queries.z, queries.tail, queries.x, queries.codes, queries.starts, self.blocks,
            self.own, self.own_tail, queries.radii, queries.tail_radii,
            z, halves, tail, x, rows, cells.starts - low, cells.classes - low,
            self.layout.cells.centres[cells.cell], self.layout.cells.tail_centres[cells.cell],
            cells.radii, cells.tail_radii, distances, order, low,
            found.squared, found.rows, found.positions, found.open_bounds, self.counters,
            self.one_vs_one, self.shrink, frame.scale, relative_rounding(x.shape[1]), frame.rounding,
        )  # fmt: skip


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
    shrink: float
    chosen: NDArray[np.int64] | None = None
    earlier: str | None = None
    """Name of an earlier search for the same queries, to go on from."""

    def __call__(self, span: Span) -> Work:
        queries = queries_of(self.layout, self.scratch, span.start, span.stop, self.chosen)
        known = None if self.earlier is None else load_found(self.scratch, self.earlier, span.index)[1]
        if known is not None:
            known.open_bounds[:] = np.inf
        if len(queries) == 0:
            found, work = Found.nothing(0, 1 if not self.one_vs_one else self.layout.classes.shape[1] - 1), Work()
        else:
            found, work = search_queries(
                queries, self.layout, self.scratch, one_vs_one=self.one_vs_one, shrink=self.shrink, found=known
            )
        table = {"queries": queries.rows, "own": queries.positions, "codes": queries.codes, **vars(found)}
        if self.shrink >= 1:
            table["needed"] = needed_shrink(queries, found, self.layout)
        self.scratch.put(f"{self.name}-{span.index}", table)
        return work


def needed_shrink(queries: Queries, found: Found, layout: Layout) -> NDArray[np.float64]:
    """Return the factor on the radii that visits the cells of the neighbours for certain, shape (n,)."""
    centres, scale = layout.cells.centres.astype(np.float64), layout.cells.frame.scale
    group = np.repeat(np.arange(len(queries.cell)), np.diff(queries.starts))
    absolute = queries.z + centres[queries.cell][group]
    needed = np.full(len(queries), -np.inf)
    for slot in range(found.squared.shape[1]):
        known = np.flatnonzero(found.positions[:, slot] >= 0)
        piece = np.searchsorted(layout.starts, found.positions[known, slot], side="right") - 1
        distance = np.linalg.norm(absolute[known] - centres[layout.cell[piece]], axis=1)
        beyond = distance - np.sqrt(found.squared[known, slot]) * scale
        radius = layout.radii[piece]
        share = np.where(radius > 0, beyond / np.where(radius > 0, radius, 1), np.where(beyond > 0, 1.0, 0.0))
        needed[known] = np.maximum(needed[known], share)
    return needed


def load_found(scratch: Scratch, name: str, index: int) -> tuple[NDArray[np.int64], Found]:
    """Return the row numbers of a task's queries and what was found for them."""
    names = ("queries", "squared", "rows", "positions", "open_bounds")
    queries, *arrays = scratch.get(f"{name}-{index}", names)
    return queries, Found(*(array.copy() for array in arrays))


@dataclass
class Searcher:
    """Runs searches over one layout."""

    layout: Layout
    scratch: Scratch
    scheduler: Scheduler
    one_vs_one: bool
    progress: Progress | None = None
    work: Work = field(default_factory=Work)

    def run(self, name: str, shrink: float, chosen: NDArray[np.int64] | None, earlier: str | None = None) -> Work:
        """Search for all rows, or for those chosen (sorted numbers); tables ``NAME-0`` and so on hold what is found."""
        task = SearchSegments(self.layout, self.scratch, name, self.one_vs_one, shrink, chosen, earlier)
        work = reduce_spans(
            task, self.tasks(chosen), operator.add, scheduler=self.scheduler, name=name, progress=self.progress
        )
        self.work = self.work + work
        return work

    def tasks(self, chosen: NDArray[np.int64] | None) -> list[Span]:
        """Return stretches of segments, one a task."""
        n = self.layout.n_segments
        if chosen is None:
            return [Span(i, (i, i + 1)) for i in range(n)]
        share = len(chosen) / self.layout.n_rows
        sizes = np.diff(self.layout.starts[self.layout.segments]) * share
        size = min(max(len(chosen) / FEWEST_TASKS, SMALLEST_TASK), TASK_QUERIES)
        bins = np.floor(np.cumsum(sizes) / size + 1e-9).astype(np.int64)
        edges = [0, *(np.flatnonzero(np.diff(bins)) + 1).tolist(), n]
        return [Span(i, (a, b)) for i, (a, b) in enumerate(itertools.pairwise(edges)) if b > a]

    def table(self, name: str, chosen: NDArray[np.int64] | None, arrays: tuple[str, ...]) -> list[NDArray]:
        """Return arrays of all tables of a search, joined."""
        parts: list[list[Any]] = [self.scratch.get(f"{name}-{span.index}", arrays) for span in self.tasks(chosen)]
        return [np.concatenate(column) for column in zip(*parts, strict=True)]
