"""The scatter of M-PCA2 for each held-out fold, from one search.

Beside the nearest row of a query the search keeps the nearest of those that are in other parts than that one. While the
part of the nearest is held out the second takes its place; while any other is, the nearest stays. So nothing held out
is a neighbour, and the queries that are held out do not count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.dataset import Dataset, Span
from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.neighbors.layout import PARTS, Kept, Layout
from mmpca_dist.neighbors.nearest import (
    Neighbors,
    Recall,
    draw_rows,
    enough_tests,
    find_nearest,
    make_layout,
    run_search,
    without_blocks,
)
from mmpca_dist.neighbors.options import PairSearch, Search
from mmpca_dist.neighbors.pair_statistics import add_pairs
from mmpca_dist.neighbors.scratch import LAID_OUT, Scratch
from mmpca_dist.neighbors.search import NONE, Searcher, Work, load_found
from mmpca_dist.statistics.coordinates import Statistics
from mmpca_dist.statistics.pair_scatter import PairScatter
from mmpca_dist.statistics.rows import Rows
from mmpca_dist.statistics.tree_reduction import Tasks

NOTHING = {"squared": np.inf, "rows": NONE, "positions": -1}
"""What the tables hold for a query that has no neighbour."""


class Parts(Protocol):
    """The part of every row, such as one split of `mmpca_dist.evaluation.splits.Splits`.

    Attributes
    ----------
    classes : array of shape (C,)
        Sorted labels.
    counts : int array of shape (C, P)
        Rows of every class in every part.
    held_out : sequence of int
        The parts that are held out in turn, while all others train.
    """

    @property
    def classes(self) -> NDArray:
        """Labels."""

    @property
    def counts(self) -> NDArray[np.int64]:
        """Rows."""

    @property
    def held_out(self) -> Sequence[int]:
        """Numbers of parts."""

    def codes(self, start: int, stop: int, labels: NDArray) -> NDArray[np.int32]:
        """Return the parts of rows ``start`` to ``stop``, which have these labels, shape (1, stop - start)."""


def check_parts(parts: Parts) -> None:
    """Refuse parts that leave a class without a row to train on while one of them is held out."""
    for part in parts.held_out:
        lost = np.flatnonzero(parts.counts.sum(axis=1) == parts.counts[:, part])
        if len(lost):
            raise InputError(
                f"All {parts.counts[lost[0], part]} rows of class {parts.classes[lost[0]]!s} are in one part: while it "
                "is held out, none is left to be a neighbour. Deal them out to several parts."
            )


def training_counts(parts: Parts) -> NDArray[np.int64]:
    """Return how many rows train while each part is held out, shape (P,)."""
    sizes = parts.counts.sum(axis=0)
    return np.asarray(sizes.sum() - sizes)


@dataclass(frozen=True)
class RowsInParts:
    """Every row under its own number, with its part."""

    parts: Any
    columns = ("parts",)
    row_bytes = np.dtype(np.int32).itemsize

    def of(self, start: int, labels: NDArray) -> tuple[Kept, NDArray[np.int64], dict[str, NDArray]]:
        stop = start + len(labels)
        (parts,) = self.parts.codes(start, stop, labels)
        return slice(None), np.arange(start, stop), {"parts": parts}


@dataclass(frozen=True)
class TrainingRows:
    """The rows that are not in a part, numbered among themselves.

    Attributes
    ----------
    before : dict of int
        By the first row of each reading unit, how many of the rows before it train.
    """

    parts: Any
    part: int
    before: dict[int, int]
    columns = ()
    row_bytes = 0

    @classmethod
    def among(cls, rows: Rows, parts: Parts, part: int) -> TrainingRows:
        """Number the rows, in a pass over the labels alone."""
        units = rows.reduce(_CountTraining(rows.dataset, parts, part), np.append, "training")
        starts = [start for span in rows.spans for start, _ in span.units]
        return cls(parts, part, dict(zip(starts, (np.cumsum(units) - units).tolist(), strict=True)))

    def of(self, start: int, labels: NDArray) -> tuple[Kept, NDArray[np.int64], dict[str, NDArray]]:
        (parts,) = self.parts.codes(start, start + len(labels), labels)
        kept = np.flatnonzero(parts != self.part)
        return kept, self.before[start] + np.arange(len(kept)), {}


@dataclass(frozen=True)
class _CountTraining:
    """Counts the rows of every reading unit that are not in a part."""

    dataset: Dataset
    parts: Any
    part: int
    labels_only = True

    def __call__(self, span: Span) -> NDArray[np.int64]:
        labels = self.dataset.read_labels(span.start, span.stop)
        (parts,) = self.parts.codes(span.start, span.stop, labels)
        trains = parts != self.part
        return np.asarray([np.count_nonzero(trains[a - span.start : b - span.start]) for a, b in span.units])


@dataclass(frozen=True)
class TrainingTables:
    """Tables of a search with ``apart``, as they are while a part is held out: queries of that part found nothing."""

    scratch: Scratch
    part: int

    @property
    def in_memory(self) -> bool:
        return self.scratch.in_memory

    def put(self, name: str, arrays: dict[str, NDArray]) -> None:
        self.scratch.put(name, arrays)

    def get(self, name: str, arrays: tuple[str, ...], start: int = 0, stop: int | None = None) -> list[NDArray]:
        if name.startswith(LAID_OUT) or not NOTHING.keys() & set(arrays):
            return self.scratch.get(name, arrays, start, stop)
        *found, own, nearest = self.scratch.get(name, (*arrays, "part", PARTS), start, stop)
        return [
            self._training(array, own, nearest, NOTHING[key]) if key in NOTHING else array
            for key, array in zip(arrays, found, strict=True)
        ]

    def _training(self, found: NDArray, own: NDArray, nearest: NDArray, nothing: float) -> NDArray:
        """Return the first half of the slots, or the second where the row of the first is held out."""
        slots = nearest.shape[1]
        kept = np.where(nearest == self.part, found[:, slots:], found[:, :slots])
        kept[own == self.part] = nothing
        return kept

    def take(self, name: str, arrays: tuple[str, ...], places: NDArray[np.int64]) -> list[NDArray]:
        return self.scratch.take(name, arrays, places)

    def drop(self, name: str) -> None:
        self.scratch.drop(name)


@dataclass(frozen=True)
class TrainingNeighbors(Neighbors):
    """The neighbours among the rows that train while a part is held out.

    Attributes
    ----------
    n_training : int
        Rows that train.
    whole : Work
        Of the search for all parts, ``shared_by`` so many; ``work`` has the queries that train, and those proved.
    """

    n_training: int
    whole: Work
    shared_by: int

    @property
    def fraction(self) -> float:
        return self.work.queries / self.n_training

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return what `Neighbors.arrays` does, of the queries that train."""
        queries, rows, distances = super().arrays()
        trains = (rows >= 0).any(axis=1)
        return queries[trains], rows[trains], distances[trains]

    def certificate(self) -> dict[str, Any]:
        """Return what is proved and measured of the queries that train, and what the search for all parts has cost."""
        return super().certificate() | {
            "compared_per_query": self.whole.compared / self.whole.queries,
            "refined_per_query": self.whole.refined / self.whole.queries,
            "shared_by": self.shared_by,
        }


def find_by_part(
    layout: Layout, scratch: Scratch, parts: Parts, search: Search, tasks: Tasks
) -> list[TrainingNeighbors]:
    """Find the nearest row of another class among those that train, while each part in ``held_out`` is held out.

    The distance and its ties are those of `find_nearest`. An approximate search reaches its recall in every part. With
    ``max_queries`` rows are drawn from all, so many more that about as many train.

    Parameters
    ----------
    layout : Layout
        Of rows with their parts (`RowsInParts`).
    """
    counts, held_out = training_counts(parts), list(parts.held_out)
    more = layout.n_rows / int(counts[held_out].min())
    wanted = None if search.max_queries is None else math.ceil(search.max_queries * more)
    searched = draw_rows(layout.n_rows, wanted)
    one_vs_one = search.pairing == "one-vs-one"
    searcher = Searcher(layout, scratch, without_blocks(tasks), one_vs_one, apart=True)
    views = [TrainingTables(scratch, part) for part in held_out]
    tests = math.ceil(enough_tests(search.recall) * more)
    found = run_search(searcher, searched, search, tests, views, say=tasks.begins)
    recalls: Sequence[Recall | None] = found.recalls or [None] * len(views)
    known = _count_queries(searcher, found.name, searched, views)
    return [
        TrainingNeighbors(
            layout, view, replace(searcher, scratch=view), found.name, parts.classes, search, searched,
            replace(found.work, queries=int(queries), proved=int(proved)), recall, found.effort,
            int(counts[view.part]), found.work, len(views),
        )
        for view, recall, (queries, proved) in zip(views, recalls, known, strict=True)
    ]  # fmt: skip


def _count_queries(
    searcher: Searcher, name: str, searched: NDArray[np.int64] | None, views: list[TrainingTables]
) -> NDArray[np.int64]:
    """Return, for every part held out, how many queries train, and of how many the neighbours are proved."""
    frame, counts = searcher.layout.cells.frame, np.zeros((len(views), 2), np.int64)
    for span in searcher.spans(searched):
        (codes,) = searcher.scratch.get(f"{name}-{span.index}", ("codes",))
        for count, view in zip(counts, views, strict=True):
            _, found = load_found(view, name, span.index)
            trains = np.isfinite(found.squared).any(axis=1)
            proved = found.open_bounds > found.reach(codes, frame.scale, frame.centre.size)
            count += np.count_nonzero(trains), np.count_nonzero(trains & proved)
    return counts


def with_pairs_by_part(
    statistics: Iterable[Statistics],
    rows: Rows,
    parts: Parts,
    wanted: PairSearch,
    open_tables: Callable[[], AbstractContextManager[Scratch]],
    summarize: Callable[..., PairScatter] | None = None,
) -> Iterator[Statistics]:
    """Yield statistics of the rows that train, with the scatter of pairs of nearest rows of different classes.

    It is the scatter that `with_pairs` finds among the rows that train alone: the same neighbours, ties included.

    Parameters
    ----------
    statistics : iterable of Statistics
        Of the rows that train while each part in ``parts.held_out`` is held out, in that order; taken one at a time.
    rows : Rows
        All of them.
    open_tables : callable
        Opens a scratch of its own every time it is called, such as a partial `open_scratch` that is not resumable.
    summarize : callable, optional
        As for `with_pairs`.

    Raises
    ------
    InputError
        For rows that are not finite, held out or not, or parts that leave a class without a row to train on.

    Notes
    -----
    One search serves all parts. There is a search of the rows that train for each, over a layout of their own, where
    only one or two parts are held out, which costs less, and where the statistics are standardised, as rows that train
    have standard deviations, and so distances, of their own. These draw their own queries with ``max_queries``; the
    search for all draws once, so that about as many train while each part is held out.
    """
    check_parts(parts)
    together: list[TrainingNeighbors] | None = None
    with ExitStack() as stack:
        for number, (part, own) in enumerate(zip(parts.held_out, statistics, strict=True)):
            separate = own.scale is not None or len(parts.held_out) < LIMITS.fewest_together
            if separate or together is None:
                stack.close()
                together = None
                scratch = stack.enter_context(open_tables())
                members = TrainingRows.among(rows, parts, part) if separate else RowsInParts(parts)
                layout = make_layout(rows, scratch, own.scale, members)
            if separate:
                neighbors = find_nearest(layout, scratch, rows.census.classes, wanted.search, rows)
            else:
                together = together or find_by_part(layout, scratch, parts, wanted.search, rows)
                neighbors = together[number]
            yield add_pairs(own, neighbors, wanted, rows, summarize)
