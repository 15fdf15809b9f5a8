"""Nearest rows of other classes for a whole data set: exact, or approximate with measured recall."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from mmpca_dist.limits import LIMITS
from mmpca_dist.neighbors.cells import SAMPLE_PER_CELL, n_cells, train_cells, train_frame
from mmpca_dist.neighbors.layout import Layout, Membership, is_usable, lay_out
from mmpca_dist.neighbors.options import Search
from mmpca_dist.neighbors.search import SearchCounts, SearchSegments, Tables, is_among
from mmpca_dist.passes.dask_rows import BlockScheduler
from mmpca_dist.passes.rows import Rows, draw_sample
from mmpca_dist.passes.schedulers import Configured
from mmpca_dist.passes.scratch import Scratch
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.stores.storage import digest

CONFIDENCE = 0.95
MAX_ROUNDS = 5
SEED = 841
FRAME_SAMPLE = 8192
SAMPLE_BYTES = 128 << 20
"""The sample for axes and cells, as doubles."""


@dataclass(frozen=True)
class Recall:
    """Measured share of neighbours that are as near as the nearest, with its 95% confidence interval."""

    found: int  # neighbours as near as the exact ones
    sampled: int  # neighbours compared
    queries: int  # whose neighbours these are: one each, or one for every other class
    # (k, 3): positions of the other queries, of what was found for them and of what is nearest
    missed: NDArray[np.int64]

    @property
    def share(self) -> float:
        return self.found / self.sampled

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper and Pearson's interval, as if the neighbours of one query were all found or all missed."""
        n, tail = self.queries, (1 - CONFIDENCE) / 2
        hits = self.share * n
        low = scipy.stats.beta.ppf(tail, hits, n - hits + 1) if hits > 0 else 0.0
        high = scipy.stats.beta.ppf(1 - tail, hits + 1, n - hits) if hits < n else 1.0
        return float(low), float(high)


@dataclass(frozen=True)
class Neighbors:
    """The result of a search, in ``tables`` that are read piece by piece."""

    tables: Tables
    classes: NDArray  # (C,)
    search: Search
    n_rows: int  # how many rows were searched among; with ``tables.part`` those that train
    work: SearchCounts  # of the final search, over all queries; with ``tables.part`` its queries are those that train
    cost: SearchCounts  # of the final search, for all parts together
    read: int  # bytes that came back from scratch, for calibration too
    recall: Recall | None  # None where every neighbour is proved
    # how far the search looked in the end, see `bounds.OWN_SHARE`; infinite if nothing was left out without proof
    effort: float
    tasks: Tasks  # the context of further passes over the tables
    shared_by: int = 1  # how many parts that are held out in turn the search serves

    @property
    def layout(self) -> Layout:
        return self.tables.layout

    @property
    def fraction(self) -> float:
        """Share of the rows that were searched for."""
        return self.work.queries / self.n_rows

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return row numbers of the queries (q,), sorted, and the neighbours' row numbers and distances (q, slots).

        In the slot of a query's own class these are -1 and infinite.
        """
        queries, rows, squared = self.tables.joined("queries", "rows", "squared")
        has_neighbor = np.isfinite(squared)
        order = np.argsort(queries)
        order = order[has_neighbor[order].any(axis=1)]  # rows that are held out have no neighbours
        return queries[order], np.where(has_neighbor, rows, -1)[order], np.sqrt(squared)[order]

    def certificate(self) -> dict[str, Any]:
        """Return what is proved and measured, and what the search has cost, as JSON-like values."""
        recall = None
        if self.recall is not None:
            low, high = self.recall.interval
            recall = {"share": self.recall.share, "low": low, "high": high, "sampled": self.recall.sampled}
        work, cost, cells = self.work, self.cost, self.layout.cells
        return {
            "mode": self.search.mode,
            "queries": work.queries,
            "proved_exact": work.proved / work.queries,
            "recall": recall,
            "compared_per_query": cost.compared / cost.queries,
            "refined_per_query": cost.refined / cost.queries,
            "bytes_read": self.read,
            "scratch_bytes": self.layout.n_rows * self.layout.row_bytes,
            "cells": len(cells.centres),
            "coordinates": [cells.frame.width, cells.frame.tail_width],
            "effort": self.effort if np.isfinite(self.effort) else None,
            "work": asdict(work),
            **({} if self.tables.part is None else {"shared_by": self.shared_by}),
        }


def find_nearest(layout: Layout, classes: NDArray, search: Search, tasks: Tasks) -> Neighbors:
    """Find the nearest row of another class for the rows of a layout.

    The distance is the float64 sum of squared differences in a fixed order (`bounds.squared_distance`); ties go to
    the lowest row number.
    """
    (neighbors,) = run_search(layout, classes, search, tasks)
    return neighbors


def run_search(
    layout: Layout, classes: NDArray, search: Search, tasks: Tasks, parts: Sequence[int | None] = (None,),
    more: float = 1.0,
) -> list[Neighbors]:  # fmt: skip
    """Search for all rows, or for those drawn; approximately where that is asked and there are queries enough.

    Looks further, round by round, until the intervals of all recalls lie above what ``search`` asks: a recall for each
    of ``parts``, while it is held out. Returns what is found while each part is held out, with the work on the queries
    of all. So many times ``more`` are drawn, and show the recalls, as would be among the rows of one part.
    """
    tests, tasks = math.ceil(enough_tests(search.recall) * more), without_blocks(tasks)
    chosen = draw_rows(layout.n_rows, search.max_queries and math.ceil(search.max_queries * more))
    n_queries = layout.n_rows if chosen is None else len(chosen)

    def run(task: SearchSegments) -> SearchCounts:
        return tasks.run(task, task.tables.spans, operator.add, task.name)

    def found(tables: Tables, work: SearchCounts, read: int, effort: float, recalls: Any) -> list[Neighbors]:
        return [
            Neighbors(
                replace(tables, part=part), classes, search, layout.n_rows, work, work, read, recall, effort, tasks,
                len(parts),
            )
            for part, recall in zip(parts, recalls, strict=True)
        ]  # fmt: skip

    # Tables of other searches over the same layout stay as they are; another attempt at this one finds its own, however
    # pairs count that are made of them.
    token = digest({name: value for name, value in asdict(search).items() if name != "mutual"})[:8]
    one_vs_one, apart = search.pairing == "one-vs-one", parts[0] is not None
    task = SearchSegments(layout, one_vs_one, apart, f"nearest.{token}", chosen=chosen)
    exact = [None] * len(parts)
    if search.mode == "exact" or n_queries <= 2 * tests:
        tasks.begins("search")
        work = run(task)
        return found(task.tables, work, work.read, np.inf, exact)
    tasks.begins("calibrate")
    sampling = replace(task, name=f"sample.{token}", chosen=_sampled(n_queries, chosen, tests))
    read, sample, earlier = run(sampling).read, sampling.tables, None
    for number in range(MAX_ROUNDS + 1):
        tasks.begins("search")
        aim = 1 - (1 - search.recall) * 0.5**number
        effort = np.inf if number == MAX_ROUNDS else _calibrate(sample, aim)
        trial = replace(task, name=f"{task.name}-{number}", effort=effort, earlier=earlier)
        work, earlier = run(trial), trial.tables
        read += work.read
        if effort == np.inf:
            return found(earlier, work, read, effort, exact)
        recalls = [_measure(replace(sample, part=part), replace(earlier, part=part)) for part in parts]
        if all(recall.interval[0] >= search.recall for recall in recalls):
            return found(earlier, work, read, effort, recalls)
    raise AssertionError("a search with infinite effort is exact and ends the rounds")


def make_layout(
    rows: Rows, scratch: Scratch, deviations: NDArray[np.float64] | None = None, members: Membership | None = None
) -> Layout:
    """Learn axes and cells from a sample, and lay the rows out by cell and class in ``scratch``."""
    n, d = rows.dataset.n_rows, rows.dataset.n_features
    sample, _ = draw_sample(rows, sample_size(n, d))
    usable = is_usable(sample).all(axis=1)  # the layout names rows that are not
    sample = sample[usable] if usable.any() else np.zeros_like(sample[:1])
    cells = train_cells(train_frame(sample, deviations), sample, n_cells(n))
    return lay_out(rows, cells, scratch, without_blocks(rows), members)


def sample_size(n_rows: int, n_features: int) -> int:
    """Return how many rows the sample for axes and cells has, at most."""
    return min(max(n_cells(n_rows) * SAMPLE_PER_CELL, FRAME_SAMPLE), max(SAMPLE_BYTES // (8 * n_features), 256))


def without_blocks(tasks: Tasks) -> Tasks:
    """Return the context of tasks that do not need the blocks of a Dask array."""
    return replace(tasks, scheduler=Configured()) if isinstance(tasks.scheduler, BlockScheduler) else tasks


def draw_rows(n_rows: int, max_queries: int | None, seed: int = SEED) -> NDArray[np.int64] | None:
    """Draw rows without replacement, always the same; None for all."""
    if max_queries is None or max_queries >= n_rows:
        return None
    return np.sort(np.random.default_rng(seed).choice(n_rows, max_queries, replace=False, shuffle=False))


def enough_tests(recall: float) -> int:
    """Return how many queries show a recall: if none of them missed, the interval would begin well above it."""
    least = np.log((1 - CONFIDENCE) / 2) / np.log(recall)
    return max(LIMITS.calibration_queries, int(np.ceil(2 * least)))


def _sampled(n_queries: int, chosen: NDArray[np.int64] | None, tests: int) -> NDArray[np.int64]:
    """Draw the queries that are searched exactly, from those that are searched at all: twice as many as tests."""
    drawn = np.random.default_rng(SEED + 1).choice(n_queries, 2 * tests, replace=False, shuffle=False)
    return np.sort(drawn if chosen is None else chosen[drawn])


def _calibrate(sample: Tables, recall: float) -> float:
    """Choose the effort from what half of the sampled queries need; infinite where none suffices."""
    queries, needed = sample.joined("queries", "needed")
    needed = np.sort(needed[_first_half(queries)])
    # Two standard errors above the target for the interval measured to reach it, and half of one for the choice.
    level = recall + 2.5 * np.sqrt(recall * (1 - recall) / len(needed))
    return max(float(needed[min(int(np.ceil(level * len(needed))), len(needed)) - 1]), 0.0) + 1e-6


def _measure(sample: Tables, tables: Tables) -> Recall:
    """Compare a search with the exact one, on the sampled queries that the effort was not chosen from."""
    columns = sample.joined("queries", "own", "squared", "positions")
    tested = np.flatnonzero(~_first_half(columns[0]))
    tested = tested[np.argsort(columns[0][tested])]
    queries, own, exact, nearest = (column[tested] for column in columns)
    squared, positions = np.full(exact.shape, np.nan), np.full(exact.shape, -1)
    for span in tables.spans:
        numbers, *values = tables.get(span.index, "queries", "squared", "positions")
        hit = is_among(numbers, queries)
        target = np.searchsorted(queries, numbers[hit])
        squared[target], positions[target] = (array[hit] for array in values)
    counted = np.isfinite(exact)  # not in the slot of a query's own class
    missed = counted & (squared != exact)
    query, slot = np.nonzero(missed)
    positions_missed = np.stack([own[query], positions[query, slot], nearest[query, slot]], axis=1)
    n_counted, n_queries = int(counted.sum()), int(counted.any(axis=1).sum())
    return Recall(n_counted - len(query), n_counted, n_queries, positions_missed)


def _first_half(queries: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Split the sampled queries at random, but always in the same way."""
    drawn = np.random.default_rng(SEED + 2).permutation(len(queries)) < len(queries) // 2
    return drawn[np.argsort(np.argsort(queries))]
