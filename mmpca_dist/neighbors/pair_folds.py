"""The scatter of M-PCA2 for each held-out fold, from one search.

With the nearest row of a query the search keeps the nearest of those that are in other parts than that one. While the
part of the nearest is held out the second takes its place; while any other is, the nearest stays. So nothing held out
is a neighbour, and the queries that are held out do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.limits import LIMITS
from mmpca_dist.neighbors.layout import PARTS, Layout, Members, Membership
from mmpca_dist.neighbors.nearest import Neighbors, find_nearest, make_layout, run_search
from mmpca_dist.neighbors.options import Search
from mmpca_dist.neighbors.pair_statistics import add_pairs
from mmpca_dist.neighbors.search import Tables
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.scratch import Scratch
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.statistics.working_statistics import Statistics
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import Span

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


@dataclass(frozen=True)
class TrainingRows(Membership):
    """The rows that train while a part is held out, numbered among themselves.

    ``before`` maps the first row of each reading unit to the number of rows before it that train.
    """

    parts: Parts
    part: int
    before: dict[int, int]

    @classmethod
    def among(cls, rows: Rows, parts: Parts, part: int) -> TrainingRows:
        """Return the numbers of the rows that train, after a pass over the labels alone."""
        units = rows.pass_over_columns(partial(_count_training, parts=parts, part=part), np.append, "training")
        starts = [start for span in rows.spans for start, _ in span.units]
        return cls(parts, part, dict(zip(starts, (np.cumsum(units) - units).tolist(), strict=True)))

    def of(self, batch: Batch) -> Members:
        kept = np.flatnonzero(self.parts.training(batch, self.part)[0])
        return kept, self.before[batch.start] + np.arange(len(kept)), {}


def _count_training(dataset: Dataset, span: Span, *, parts: Parts, part: int) -> NDArray[np.int64]:
    """Count the rows of every reading unit that train while a part is held out."""
    (trains,) = parts.training(dataset.batch(span.start, span.stop, X=False, roles=("label",)), part)
    return np.asarray([np.count_nonzero(trains[a - span.start : b - span.start]) for a, b in span.units])


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

    It is the scatter that `with_pairs` finds among the rows that train alone: the same neighbours, ties included. The
    ``statistics`` come one at a time, in the order of ``parts.held_out``, and ``open_tables`` opens a new scratch
    whenever it is called. Raises InputError for rows that are not finite, held out or not.

    One search serves all parts, with three exceptions. Where only one or two parts are held out, a search for each
    costs less. Where only earlier parts train, the nearest row of any other part may be a later one. Where the
    statistics are standardised, the rows that train have their own standard deviations, and so distances. A search for
    one part lays out the rows that train alone, and draws its own queries with ``max_queries``; the search for all
    draws once, so that about as many train while each part is held out.
    """
    by_part: list[Neighbors] | None = None
    with ExitStack() as stack:
        for number, (part, own) in enumerate(zip(parts.held_out, statistics, strict=True)):
            separate = own.scale is not None or parts.forward or len(parts.held_out) < LIMITS.fewest_together
            if separate or by_part is None:
                stack.close()
                by_part = None
                members = TrainingRows.among(rows, parts, part) if separate else RowsInParts(parts)
                layout = make_layout(rows, stack.enter_context(open_tables()), own.scale, members)
            if separate:
                neighbors = find_nearest(layout, rows.census.classes, search, rows)
            else:
                by_part = by_part or find_by_part(layout, parts, search, rows)
                neighbors = by_part[number]
            yield add_pairs(own, neighbors)
