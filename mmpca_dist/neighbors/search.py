"""Queries, the tasks that take those of one segment through the other segments, and the tables of results."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from mmpca_dist.errors import InputError, MmpcaError
from mmpca_dist.limits import LIMITS
from mmpca_dist.neighbors import bounds, kernels
from mmpca_dist.neighbors.cells import Cells, group_radii, relative_rounding
from mmpca_dist.neighbors.kernels import NO_ROW, Best
from mmpca_dist.neighbors.layout import ARRAYS, PARTS, Layout
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.tree_reduction import ArraySums
from mmpca_dist.passes.units import rows_within
from mmpca_dist.tables.spans import Span

LARGEST_GAP = 3
"""Cells that are read though no query must visit them, for the sake of fewer and longer reads."""
TASK_QUERIES, FEWEST_TASKS = 8192, 8
"""Where queries are drawn, a task takes segments together until it has about 8,192, or `Limits.task_bytes`; fewer, so
that there are eight tasks, but not fewer than `Limits.smallest_task`."""


@dataclass(frozen=True)
class Queries:
    """Queries grouped by cell, and by class within it."""

    x: NDArray  # (n, d)
    z: NDArray[np.float32]  # (n, width): coordinates relative to the centres of their cells
    tail: NDArray[np.float32]  # (n, tail_width)
    codes: NDArray[np.int64]  # (n,): classes
    rows: NDArray[np.int64]  # (n,): row numbers
    positions: NDArray[np.int64]  # (n,): in the layout; -1 for rows from elsewhere
    starts: NDArray[np.int64]  # (g + 1,): where groups begin
    cell: NDArray[np.intp]  # (g,)
    radii: NDArray[np.float64]  # (g,): bounds on the norms of the coordinates
    tail_radii: NDArray[np.float64]  # (g,)

    def __len__(self) -> int:
        return len(self.rows)

    def blocks(self, n_classes: int) -> NDArray[np.int64]:
        """Return the stretches for `bounds.QueryBatch`, sorted by class: group, start, stop, class or -1."""
        groups = np.arange(len(self.cell))
        if n_classes > LIMITS.few_classes:
            return np.stack([groups, self.starts[:-1], self.starts[1:], np.full(len(groups), -1)], axis=1)
        group = np.repeat(groups, np.diff(self.starts))
        key, first, count = np.unique(self.codes * len(groups) + group, return_index=True, return_counts=True)
        return np.stack([key % len(groups), first, first + count, key // len(groups)], axis=1)


def queries_of(layout: Layout, first: int, last: int, chosen: NDArray[np.int64] | None) -> Queries:
    """Return the rows of segments ``first`` to ``last``, or those whose numbers are in ``chosen`` (sorted)."""
    parts = [_rows_of(layout, segment, chosen) for segment in range(first, last)]
    x, z, tail, rows, positions, piece, codes = (
        np.concatenate(arrays) if len(arrays) > 1 else arrays[0] for arrays in zip(*parts, strict=True)
    )
    pieces, starts = np.unique(piece, return_index=True)
    return Queries(
        x, z, tail, codes, rows, positions, np.append(starts, len(rows)).astype(np.int64),
        layout.cell[pieces], layout.radii[pieces], layout.tail_radii[pieces],
    )  # fmt: skip


def _rows_of(layout: Layout, segment: int, chosen: NDArray[np.int64] | None) -> tuple[NDArray, ...]:
    """Return rows, coordinates, tails, row numbers, positions, pieces and class codes of a segment's queries."""
    table, names, pieces = f"segment-{segment}", ("x", "z", "tail", "rows"), layout.pieces(segment)
    counts = np.diff(layout.classes[pieces], axis=1)
    piece = np.repeat(np.arange(pieces.start, pieces.stop), counts.sum(axis=1))
    codes = np.repeat(np.tile(np.arange(layout.n_classes), len(counts)), counts.ravel())
    positions = np.arange(*layout.positions(segment))
    if chosen is None:
        return (*layout.scratch.get(table, names), positions, piece, codes)
    (rows,) = layout.scratch.get(table, ("rows",))
    own = np.flatnonzero(is_among(rows, chosen))
    return (*layout.scratch.get(table, names, own), positions[own], piece[own], codes[own])


def is_among(rows: NDArray[np.int64], chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which rows are in a sorted array (which may be far longer: `numpy.isin` would sort it again)."""
    position = np.searchsorted(chosen, rows)
    return (position < len(chosen)) & (chosen[np.minimum(position, len(chosen) - 1)] == rows)


def queries_from(cells: Cells, X: NDArray, codes: NDArray[np.int64]) -> Queries:
    """Return rows that are not in the layout as queries, numbered as they come (but grouped)."""
    cell, z, tail = cells.locate(X)
    order = np.lexsort((codes, cell))
    z, tail = z[order], tail[order]
    groups, starts = np.unique(cell[order], return_index=True)
    return Queries(
        cells.frame.rows(X)[order], z, tail, codes[order], order.astype(np.int64), np.full(len(X), -1),
        np.append(starts, len(X)).astype(np.int64), groups, group_radii(z, starts), group_radii(tail, starts),
    )  # fmt: skip


@storable
@dataclass(frozen=True)
class SearchCounts(ArraySums):
    """The cost of a search, and how much of it is proved; adds up."""

    queries: int = 0
    proved: int = 0
    cells: int = 0
    compared: int = 0
    bounded: int = 0
    refined: int = 0
    read: int = 0


def search_queries(
    queries: Queries,
    layout: Layout,
    *,
    one_vs_one: bool,
    effort: float = np.inf,
    best: Best | None = None,
    apart: bool = False,
) -> tuple[Best, SearchCounts]:
    """Return the nearest rows of other classes among all rows of the layout, and with ``apart`` those of other parts.

    Parameters
    ----------
    effort : float
        How far to look, see `bounds.OWN_SHARE`; by default nothing is left out without proof.
    best : Best, optional
        The candidates of an earlier search, which nearer ones replace.

    Raises
    ------
    InputError
        For rows that differ by so little that the squares vanish.
    MmpcaError
        Where a query was left without a neighbour, which no data should bring about.
    """
    frame = layout.cells.frame
    best = best or Best.none(len(queries), layout.n_classes if one_vs_one else 1, apart)
    visit = _Visit(queries, layout, best, one_vs_one, bounds.Rules(frame.width, frame.rounding, effort))
    nearest = np.minimum.reduceat(visit.between.min(axis=0)[layout.cell], layout.segments[:-1])
    for segment in np.argsort(nearest, kind="stable").tolist():
        visit.segment(segment)
    cells, compared, bounded, refined, query, row = visit.counters.tolist()
    if row >= 0:
        raise InputError(
            f"Rows {queries.rows[query]} and {row} differ by so little that the squares of their differences vanish in "
            "double precision: no search can tell which row is the nearest. Scale the rows up."
        )
    _check_all_have_neighbors(best, queries)
    proved = int(np.sum(best.open_bounds > best.reach(queries.codes, frame.scale, layout.n_features)))
    return best, SearchCounts(len(queries), proved, cells, compared, bounded, refined, visit.read)


def _check_all_have_neighbors(best: Best, queries: Queries) -> None:
    """Refuse to go on where a query has no neighbour; what is nearest in other parts may not exist."""
    missing = best.positions[:, : best.n_slots] < 0
    if best.n_slots > 1:
        missing[np.arange(len(queries)), queries.codes] = False
    if missing.any():
        lost = np.flatnonzero(missing.any(axis=1))
        raise MmpcaError(
            f"The search found no row of another class for row {queries.rows[lost[0]]} ({len(lost)} such rows): this "
            "is a fault of the program. Please report it with the range of values of every column."
        )


@dataclass
class _Visit:
    """Queries on their way through the segments; ``best`` is updated in place."""

    queries: Queries
    layout: Layout
    best: Best
    one_vs_one: bool
    rules: bounds.Rules
    read: int = 0

    def __post_init__(self) -> None:
        queries, cells = self.queries, self.layout.cells
        own, own_tail = cells.centres[queries.cell], cells.tail_centres[queries.cell]
        self.between = cdist(own, cells.centres).astype(np.float32)
        self.counters = np.asarray([0, 0, 0, 0, -1, -1], np.int64)
        relative = relative_rounding(self.layout.n_features)
        self.metric = bounds.Metric(cells.frame.scale, relative, self.one_vs_one, self.best.parts.shape[1])
        self.queried = bounds.QueryBatch(
            queries.z, queries.tail, queries.x, queries.codes, _allowances(queries), queries.starts,
            queries.blocks(self.layout.n_classes), own, own_tail, queries.radii, queries.tail_radii,
        )  # fmt: skip

    def segment(self, segment: int) -> None:
        """Search the cells of a segment that may hold something nearer, and note what is left out without proof."""
        layout, queried, rules, pieces = self.layout, self.queried, self.rules, self.layout.pieces(segment)
        reach = self.best.reach(self.queries.codes, layout.cells.frame.scale, layout.n_features)
        cell, starts = layout.cell[pieces], layout.starts[pieces.start : pieces.stop + 1]
        others = np.diff(layout.classes[pieces], axis=1) < np.diff(starts)[:, None]
        targets = bounds.CandidateCells(self.between[:, cell], layout.radii[pieces], others)
        near = bounds.near_cells(queried, targets, reach, rules)
        distances = bounds.centre_distances(queried, layout.cells.centres[cell], near)
        stretches = _stretches(bounds.cells_to_visit(distances, near, queried, targets, reach, rules))
        if rules.effort < np.inf:
            left = np.ones(len(cell), bool)
            for first, last in stretches:
                left[first:last] = False
            bounds.leave_open(distances, near, queried, targets, left, self.best.open_bounds, rules)
        for first, last in stretches:
            visited = slice(pieces.start + first, pieces.start + last)
            self._search(segment, visited, np.ascontiguousarray(distances[:, first:last]))

    def _search(self, segment: int, pieces: slice, distances: NDArray[np.float32]) -> None:
        """Read consecutive pieces of a segment and search them."""
        layout, cells, cell = self.layout, self.layout.cells, self.layout.cell[pieces]
        starts, first = layout.starts[pieces.start : pieces.stop + 1], layout.positions(segment)[0]
        low, high = int(starts[0]), int(starts[-1])
        apart = self.metric.apart > 0
        names = (*ARRAYS, PARTS) if apart else ARRAYS
        arrays = layout.scratch.get(f"segment-{segment}", names, slice(low - first, high - first))
        self.read += sum(array.nbytes for array in arrays)
        x, z, halves, tail, rows = arrays[: len(ARRAYS)]
        offered = kernels.Candidates(
            z, halves, tail, x, rows, arrays[-1] if apart else np.empty(0, np.int32), low, starts - low,
            layout.classes[pieces] - low, cells.centres[cell], cells.tail_centres[cell], layout.radii[pieces],
            layout.tail_radii[pieces], distances,
        )  # fmt: skip
        between = self.between[:, cell]
        if np.isin(cell, self.queries.cell).any():
            search, order = kernels.search_in_turn, np.argsort(between, axis=1, kind="stable")
        else:
            search, order = kernels.search_together, np.argsort(between.min(axis=0), kind="stable")
        search(self.queried, offered, self.best, order, self.metric, self.rules, self.counters)


def _allowances(queries: Queries) -> NDArray[np.float64]:
    return bounds.OWN_SHARE * np.einsum("ij,ij->i", queries.z, queries.z, dtype=np.float64)


def _stretches(visited: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return stretches of cells that hold all to be visited, and no gap of more than a few between them."""
    cells = np.flatnonzero(visited)
    if not len(cells):
        return []
    groups = np.split(cells, np.flatnonzero(np.diff(cells) > LARGEST_GAP) + 1)
    return [(int(group[0]), int(group[-1]) + 1) for group in groups]


@dataclass(frozen=True)
class SearchSegments:
    """The task: search for the queries of consecutive segments and write what it finds as a table."""

    layout: Layout
    one_vs_one: bool
    apart: bool = False  # find the nearest rows of other parts as well
    name: str = ""  # of the tables: ``NAME-0`` and so on
    effort: float = np.inf
    chosen: NDArray[np.int64] | None = None  # sorted numbers of the rows to search for; None for all
    earlier: Tables | None = None  # of an earlier search for the same queries, to go on from

    def __call__(self, span: Span) -> SearchCounts:
        layout, queries = self.layout, queries_of(self.layout, span.start, span.stop, self.chosen)
        best, work = Best.none(0, layout.n_classes if self.one_vs_one else 1, self.apart), SearchCounts()
        if len(queries):
            earlier = None
            if self.earlier is not None:
                earlier = self.earlier.best(span)
                earlier.open_bounds[:] = np.inf
            best, work = search_queries(
                queries, layout, one_vs_one=self.one_vs_one, effort=self.effort, best=earlier, apart=self.apart
            )
        table = {"queries": queries.rows, "own": queries.positions, "codes": queries.codes, **best._asdict()}
        if self.apart:
            table["part"] = layout.at(PARTS, queries.positions)
        if self.effort == np.inf:
            table["needed"] = needed_effort(queries, best, layout)
        layout.scratch.put(f"{self.name}-{span.index}", table)
        return work

    @property
    def tables(self) -> Tables:
        """Arrays that the tasks write."""
        return Tables(self.layout, self.name, self.chosen)


def needed_effort(queries: Queries, best: Best, layout: Layout) -> NDArray[np.float64]:
    """Return the effort that visits the cells of the neighbours for certain, shape (n,); see `bounds.OWN_SHARE`."""
    centres, scale = layout.cells.centres.astype(np.float64), layout.cells.frame.scale
    group = np.repeat(np.arange(len(queries.cell)), np.diff(queries.starts))
    absolute = queries.z + centres[queries.cell][group]
    allowance = _allowances(queries)
    needed = np.full(len(queries), -np.inf)
    for squared, positions in zip(best.squared.T, best.positions.T, strict=True):
        own = np.flatnonzero(positions >= 0)
        piece = np.searchsorted(layout.starts, positions[own], side="right") - 1
        offsets = absolute[own] - centres[layout.cell[piece]]
        beyond = np.einsum("ij,ij->i", offsets, offsets) - allowance[own]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            reach = (np.sqrt(squared[own]) * scale) ** 2
            effort = np.where((beyond > 0) | (reach > 0), beyond / reach, -np.inf)
        needed[own] = np.maximum(needed[own], effort)
    return needed


def most_queries(row_bytes: int) -> int:
    """Return about how many drawn queries, of ``row_bytes`` each, a task takes at most."""
    return rows_within(LIMITS.task_bytes, row_bytes, TASK_QUERIES, LIMITS.smallest_task)


NO_NEIGHBOR = {"squared": np.inf, "rows": NO_ROW, "positions": -1}
"""Values in the tables for a query that has no neighbour."""


@dataclass(frozen=True)
class Tables:
    """The tables of a search in the scratch of a layout, one for each span of segments."""

    layout: Layout
    name: str  # what their names begin with
    chosen: NDArray[np.int64] | None  # sorted numbers of the rows that were searched for; None for all
    # of a search with ``apart``: read the tables as they are while this part is held out. Its queries have no
    # neighbours, and where the nearest row of a query is held out, the nearest of another part takes its place.
    part: int | None = None

    @property
    def spans(self) -> list[Span]:
        """Stretches of segments, one for each task and table."""
        layout, chosen = self.layout, self.chosen
        n = layout.n_segments
        if chosen is None:
            return [Span(i, (i, i + 1)) for i in range(n)]
        sizes = np.diff(layout.starts[layout.segments]) * (len(chosen) / layout.n_rows)
        size = min(max(len(chosen) / FEWEST_TASKS, LIMITS.smallest_task), most_queries(layout.row_bytes))
        bins = np.floor(np.cumsum(sizes) / size + 1e-9).astype(np.int64)
        edges = [0, *(np.flatnonzero(np.diff(bins)) + 1).tolist(), n]
        return [Span(i, (a, b)) for i, (a, b) in enumerate(itertools.pairwise(edges)) if b > a]

    def get(self, index: int, *arrays: str) -> list[NDArray]:
        """Read arrays of one table."""
        scratch, table = self.layout.scratch, f"{self.name}-{index}"
        if self.part is None or not NO_NEIGHBOR.keys() & set(arrays):
            return scratch.get(table, arrays)
        *values, own, nearest = scratch.get(table, (*arrays, "part", PARTS))
        slots = nearest.shape[1]
        for number, (key, array) in enumerate(zip(arrays, values, strict=True)):
            if key in NO_NEIGHBOR:
                values[number] = np.where(nearest == self.part, array[:, slots:], array[:, :slots])
                values[number][own == self.part] = NO_NEIGHBOR[key]
        return values

    def joined(self, *arrays: str) -> list[NDArray]:
        """Return arrays of all tables, joined."""
        tables: list[list[Any]] = [self.get(span.index, *arrays) for span in self.spans]
        return [np.concatenate(column) for column in zip(*tables, strict=True)]

    def best(self, span: Span) -> Best:
        """Return a copy of what a task found."""
        return Best(*(array.copy() for array in self.get(span.index, *Best._fields)))
