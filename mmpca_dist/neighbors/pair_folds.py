"""The scatter of M-PCA2 for each held-out fold, from one search.

With the nearest row of a query the search keeps the nearest of those that are in other parts than that one. While the
part of the nearest is held out the second takes its place; while any other is, the nearest stays. So nothing held out
is a neighbour, and the queries that are held out do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mmpca_dist.neighbors.layout import PARTS, Layout, Members, Membership
from mmpca_dist.neighbors.nearest import Neighbors, make_layout, run_search
from mmpca_dist.neighbors.options import Search
from mmpca_dist.neighbors.pair_statistics import add_pairs
from mmpca_dist.neighbors.search import Tables
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.scratch import Scratch
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.statistics.working_statistics import Statistics
from mmpca_dist.tables.batch import Batch

Parts = Any
"""One split of the rows into parts, by `mmpca_dist.evaluation.splits`, which leaves every class a row to train on."""


@dataclass(frozen=True)
class RowsInParts(Membership):
    """Every row under its own number, with its part."""

    parts: Parts
    columns = (PARTS,)
    row_bytes = np.dtype(np.int32).itemsize

    def of(self, batch: Batch) -> Members:
        (parts,) = self.parts.codes(batch)
        return slice(None), np.arange(batch.start, batch.stop), {PARTS: parts}


def find_by_part(layout: Layout, parts: Parts, search: Search, tasks: Tasks) -> list[Neighbors]:
    """Find the nearest row of another class among those that train, while each part in ``held_out`` is held out.

    The layout is that of `RowsInParts`. The distance and its ties are those of `find_nearest`. An approximate search
    reaches its recall in every part. ``max_queries`` are drawn from all rows, so many more that about as many train.
    """
    n_train, held_out = parts.n_train[0], list(parts.held_out)
    found = run_search(layout, parts.classes, search, tasks, held_out, layout.n_rows / int(n_train.min()))
    counts = _count_queries([each.tables for each in found])
    return [
        replace(each, n_rows=int(size), work=replace(each.cost, queries=queries, proved=proved))
        for each, size, (queries, proved) in zip(found, n_train, counts, strict=True)
    ]


def _count_queries(views: list[Tables]) -> list[list[int]]:
    """Return, for every part held out, how many queries train, and of how many the neighbours are proved."""
    layout, counts = views[0].layout, np.zeros((len(views), 2), np.int64)
    for span in views[0].spans:
        (codes,) = views[0].get(span.index, "codes")
        for count, view in zip(counts, views, strict=True):
            best = view.best(span)
            trains = np.isfinite(best.squared).any(axis=1)
            proved = best.open_bounds > best.reach(codes, layout.cells.frame.scale, layout.n_features)
            count += np.count_nonzero(trains), np.count_nonzero(trains & proved)
    return counts.tolist()


def with_pairs_by_part(
    statistics: Iterable[Statistics],
    rows: Rows,
    parts: Parts,
    search: Search,
    open_tables: Callable[[], AbstractContextManager[Scratch]],
) -> Iterator[Statistics]:
    """Yield statistics of the rows that train, with the scatter of pairs of nearest rows of different classes.

    It is the scatter that `with_pairs` finds among the rows that train alone, from one search for all parts: the same
    neighbours, ties included. With ``max_queries`` rows are drawn once, so that about as many train while each part is
    held out. The ``statistics`` come one at a time, in the order of ``parts.held_out``. Raises InputError for rows that
    are not finite, held out or not.

    It is for all other parts that train, and distances in the columns as they are: not standardised, since the rows
    that train have their own standard deviations.
    """
    with open_tables() as tables:
        found = find_by_part(make_layout(rows, tables, members=RowsInParts(parts)), parts, search, rows)
        for own, neighbors in zip(statistics, found, strict=True):
            yield add_pairs(own, neighbors)
