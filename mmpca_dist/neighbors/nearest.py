"""Nearest rows of other classes for a whole data set: exact, or approximate with measured recall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from mmpca_dist.datasets.dataset import Span
from mmpca_dist.datasets.stores.storage import digest
from mmpca_dist.limits import LIMITS
from mmpca_dist.neighbors.cells import SAMPLE_PER_CELL, n_cells, train_cells, train_frame
from mmpca_dist.neighbors.layout import Layout, Members, is_usable, lay_out
from mmpca_dist.neighbors.options import Search
from mmpca_dist.neighbors.queries import is_among
from mmpca_dist.neighbors.scratch import Scratch
from mmpca_dist.neighbors.search import Searcher, Work
from mmpca_dist.statistics.dask_rows import BlockScheduler
from mmpca_dist.statistics.rows import Rows, draw_sample
from mmpca_dist.statistics.schedulers import Configured
from mmpca_dist.statistics.tree_reduction import OnPass, Tasks

CONFIDENCE = 0.95
MOST_ROUNDS = 5
SEED = 841
FRAME_SAMPLE = 8192
SAMPLE_BYTES = 128 << 20
"""The sample for axes and cells, as doubles."""


@dataclass(frozen=True)
class Sample:
    """The search for some rows that is exact: its tables' name, and the sorted numbers of the rows."""

    name: str
    rows: NDArray[np.int64]


@dataclass(frozen=True)
class Recall:
    """Measured share of neighbours that are as near as the nearest, with its 95% confidence interval.

    Attributes
    ----------
    found, sampled : int
        Neighbours as near as the exact ones, of those compared.
    queries : int
        Whose neighbours these are: one each, or one for every other class.
    missed : int array of shape (k, 3)
        Positions of the other queries, of what was found for them and of what is nearest.
    """

    found: int
    sampled: int
    queries: int
    missed: NDArray[np.int64]

    @property
    def share(self) -> float:
        return self.found / self.sampled

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper and Pearson's interval, as if the neighbours of one query were all found or all missed."""
        n, tail = self.queries, (1 - CONFIDENCE) / 2
        found = self.share * n
        low = scipy.stats.beta.ppf(tail, found, n - found + 1) if found > 0 else 0.0
        high = scipy.stats.beta.ppf(1 - tail, found + 1, n - found) if found < n else 1.0
        return float(low), float(high)


@dataclass(frozen=True)
class Neighbors:
    """What a search has found, in tables of ``scratch`` that are read piece by piece.

    Attributes
    ----------
    classes : array of shape (C,)
    searched : int array or None
        Sorted numbers of the rows that were searched for; None for all.
    work : Work
        Of the final search, over all queries.
    recall : Recall or None
        None where every neighbour is proved.
    effort : float
        How far the search looked in the end, see `bounds.OWN_SHARE`; infinite if nothing was left out without proof.
    """

    layout: Layout
    scratch: Scratch
    searcher: Searcher
    name: str
    classes: NDArray
    search: Search
    searched: NDArray[np.int64] | None
    work: Work
    recall: Recall | None
    effort: float

    @property
    def fraction(self) -> float:
        """Share of the rows that were searched for."""
        return self.work.queries / self.layout.n_rows

    @property
    def tasks(self) -> list[Span]:
        """The tables, as spans of segments."""
        return self.searcher.spans(self.searched)

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return row numbers of the queries, sorted, with the neighbours' row numbers and distances.

        Returns
        -------
        queries : array of shape (q,)
        neighbours : array of shape (q, slots)
            -1 in the slot of a query's own class.
        distances : array of shape (q, slots)
            Infinite there.
        """
        queries, rows, squared = self.searcher.table(self.name, self.searched, ("queries", "rows", "squared"))
        order = np.argsort(queries)
        known = np.isfinite(squared)
        return queries[order], np.where(known, rows, -1)[order], np.sqrt(squared)[order]

    def survey(self) -> tuple[float, list[int]]:
        """Return the largest distance found, and how many queries each of the tables holds."""
        largest, sizes = 0.0, []
        for span in self.tasks:
            (squared,) = self.scratch.get(f"{self.name}-{span.index}", ("squared",))
            largest = max(largest, float(squared[np.isfinite(squared)].max(initial=0.0)))
            sizes.append(len(squared))
        return float(np.sqrt(largest)), sizes

    def certificate(self) -> dict[str, Any]:
        """Return what is proved and measured, as JSON-like values."""
        recall = None
        if self.recall is not None:
            low, high = self.recall.interval
            recall = {"share": self.recall.share, "low": low, "high": high, "sampled": self.recall.sampled}
        work = self.work
        return {
            "mode": self.search.mode,
            "queries": work.queries,
            "proved_exact": work.proved / work.queries,
            "recall": recall,
            "compared_per_query": work.compared / work.queries,
            "refined_per_query": work.refined / work.queries,
            "bytes_read": self.searcher.work.read,
            "scratch_bytes": self.layout.n_rows * self.layout.row_bytes,
            "cells": len(self.layout.cells.centres),
            "coordinates": [self.layout.cells.frame.width, self.layout.cells.frame.tail_width],
            "effort": self.effort if np.isfinite(self.effort) else None,
            "work": asdict(work),
        }


def find_nearest(layout: Layout, scratch: Scratch, classes: NDArray, search: Search, tasks: Tasks) -> Neighbors:
    """Find the nearest row of another class for the rows of a layout.

    The distance is the float64 sum of squared differences in a fixed order (`refinement.squared_distance`); ties go to
    the lowest row number.
    """
    one_vs_one = search.pairing == "one-vs-one"
    searcher = Searcher(layout, scratch, without_blocks(tasks), one_vs_one)
    searched = draw_rows(layout.n_rows, search.max_queries)
    found = run_search(searcher, searched, search, enough_tests(search.recall), say=tasks.begins)
    recall = None if found.recalls is None else found.recalls[0]
    return Neighbors(layout, scratch, searcher, found.name, classes, search, searched, found.work, recall, found.effort)


@dataclass(frozen=True)
class Outcome:
    """A search that is done: its tables' name, its costs, how far it looked, and its recalls, unless it is exact."""

    name: str
    work: Work
    effort: float
    recalls: list[Recall] | None


def run_search(
    searcher: Searcher,
    searched: NDArray[np.int64] | None,
    search: Search,
    tests: int,
    views: Sequence[Scratch] = (),
    *,
    say: OnPass,
) -> Outcome:
    """Search for all rows, or for those drawn; approximately where that is wanted and there are queries enough.

    Parameters
    ----------
    tests : int
        How many queries show a recall.
    views : sequence of Scratch, optional
        Measure as many recalls, of what each of these shows of the tables, and reach what is wanted in all of them.
    """
    # Tables of other searches over the same layout stay as they are; another attempt at this one finds its own.
    token = digest(asdict(search))[:8]
    label = f"nearest.{token}"
    n_queries = searcher.layout.n_rows if searched is None else len(searched)
    if search.mode == "exact" or n_queries <= 2 * tests:
        say("search", 0)
        return Outcome(label, searcher.run(label, np.inf, searched), np.inf, None)
    say("calibrate", 0)
    sample = Sample(f"sample.{token}", _sampled(n_queries, searched, tests))
    searcher.run(sample.name, np.inf, sample.rows)
    return _approach(searcher, searched, sample, label, search.recall, views or (searcher.scratch,), say)


def _approach(
    searcher: Searcher, searched: NDArray[np.int64] | None, sample: Sample, label: str, wanted: float,
    views: Sequence[Scratch], say: OnPass,
) -> Outcome:  # fmt: skip
    """Search, measure, and look further until the intervals of all recalls lie above what is wanted."""
    earlier = None
    for number in range(MOST_ROUNDS + 1):
        say("search", 0)
        name = f"{label}-{number}"
        effort = np.inf if number == MOST_ROUNDS else _calibrate(searcher, sample, 1 - (1 - wanted) * 0.5**number)
        work = searcher.run(name, effort, searched, earlier)
        if effort == np.inf:
            return Outcome(name, work, effort, None)
        recalls = [_measure(replace(searcher, scratch=view), sample, name, searched) for view in views]
        if all(recall.interval[0] >= wanted for recall in recalls):
            return Outcome(name, work, effort, recalls)
        earlier = name
    raise AssertionError("a search with infinite effort is exact and ends the rounds")


def make_layout(
    rows: Rows, scratch: Scratch, deviations: NDArray[np.float64] | None = None, members: Members | None = None
) -> Layout:
    """Learn axes and cells from a sample, and lay the rows out by cell and class in ``scratch``."""
    dataset = rows.dataset
    count = n_cells(dataset.n_rows)
    wanted = min(max(count * SAMPLE_PER_CELL, FRAME_SAMPLE), max(SAMPLE_BYTES // (8 * dataset.n_features), 256))
    sample, _ = draw_sample(rows, wanted)
    usable = is_usable(sample).all(axis=1)  # the layout names rows that are not
    sample = sample[usable] if usable.any() else np.zeros_like(sample[:1])
    cells = train_cells(train_frame(sample, deviations), sample, count)
    return lay_out(rows, cells, scratch, without_blocks(rows), members)


def without_blocks(tasks: Tasks) -> Tasks:
    """Return the context of tasks that do not need the blocks of a Dask array."""
    return replace(tasks, scheduler=Configured()) if isinstance(tasks.scheduler, BlockScheduler) else tasks


def draw_rows(n_rows: int, wanted: int | None) -> NDArray[np.int64] | None:
    """Draw rows with a fixed seed, without replacement; None for all."""
    if wanted is None or wanted >= n_rows:
        return None
    return np.sort(np.random.default_rng(SEED).choice(n_rows, wanted, replace=False, shuffle=False)).astype(np.int64)


def enough_tests(recall: float) -> int:
    """Return how many queries show a recall: if none of them missed, the interval would begin well above it."""
    least = np.log((1 - CONFIDENCE) / 2) / np.log(recall)
    return max(LIMITS.calibration_queries, int(np.ceil(2 * least)))


def _sampled(n_queries: int, searched: NDArray[np.int64] | None, tests: int) -> NDArray[np.int64]:
    """Draw the queries that are searched exactly, from those that are searched at all: twice as many as tests."""
    drawn = np.random.default_rng(SEED + 1).choice(n_queries, 2 * tests, replace=False, shuffle=False)
    return np.sort(drawn if searched is None else searched[drawn]).astype(np.int64)


def _calibrate(searcher: Searcher, sample: Sample, recall: float) -> float:
    """Choose the effort from what half of the sampled queries need; infinite where none suffices."""
    queries, needed = searcher.table(sample.name, sample.rows, ("queries", "needed"))
    needed = np.sort(needed[_first_half(queries)])
    # Two standard errors above the target for the interval measured to reach it, and half of one for the choice.
    level = recall + 2.5 * np.sqrt(recall * (1 - recall) / len(needed))
    return max(float(needed[min(int(np.ceil(level * len(needed))), len(needed)) - 1]), 0.0) + 1e-6


def _measure(searcher: Searcher, sample: Sample, name: str, searched: NDArray[np.int64] | None) -> Recall:
    """Compare the search with the exact one, on the queries that the factor was not chosen from."""
    columns = searcher.table(sample.name, sample.rows, ("queries", "own", "squared", "positions"))
    kept = np.flatnonzero(~_first_half(columns[0]))
    kept = kept[np.argsort(columns[0][kept])]
    sampled, own, exact, nearest = (column[kept] for column in columns)
    squared, positions = np.full(exact.shape, np.nan), np.full(exact.shape, -1)
    for span in searcher.spans(searched):
        tables = searcher.scratch.get(f"{name}-{span.index}", ("queries", "squared", "positions"))
        hit = is_among(tables[0], sampled)
        place = np.searchsorted(sampled, tables[0][hit])
        squared[place], positions[place] = tables[1][hit], tables[2][hit]
    counted = np.isfinite(exact)  # not in the slot of a query's own class
    missed = counted & (squared != exact)
    query, slot = np.nonzero(missed)
    positions_missed = np.stack([own[query], positions[query, slot], nearest[query, slot]], axis=1)
    n_queries = int(counted.any(axis=1).sum())
    return Recall(int(counted.sum() - missed.sum()), int(counted.sum()), n_queries, positions_missed)


def _first_half(queries: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Split the sampled queries at random, but always in the same way."""
    drawn = np.random.default_rng(SEED + 2).permutation(len(queries)) < len(queries) // 2
    return drawn[np.argsort(np.argsort(queries))]
