"""From neighbours to the scatter of M-PCA2: a pass over pairs of rows."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.neighbors.nearest import Neighbors, find_nearest, make_layout
from mmpca_dist.neighbors.options import Search
from mmpca_dist.neighbors.search import Queries, Tables, queries_of
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.scratch import Scratch
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.tree_reduction import ArraySums
from mmpca_dist.passes.units import blocks, rows_within
from mmpca_dist.statistics.pair_scatter import PairScatter
from mmpca_dist.statistics.precision import too_large
from mmpca_dist.statistics.working_statistics import Statistics
from mmpca_dist.tables.spans import Span

BINS = 120
"""Bins of the histogram of distances."""


@storable
@dataclass(frozen=True)
class PairSums(ArraySums):
    """Sums of a pass over pairs, and samples of their differences; with vectors, ``scatter`` is applied to them."""

    scatter: NDArray[np.float64]
    trace: float
    weight: float
    samples: list[NDArray[np.float64]]
    counts: NDArray[np.int64]

    @property
    def sample(self) -> NDArray[np.float64]:
        """The sampled differences, shape (s, d)."""
        return np.concatenate(self.samples)


@dataclass(frozen=True)
class _SlotPairs:
    """The pairs of a task's queries in one slot."""

    queries: NDArray  # (q, d)
    numbers: NDArray[np.intp]  # (m,): of the queries that have a neighbour there
    squared: NDArray[np.float64]  # (m,): distances
    weights: NDArray[np.float64]  # (m,)
    partners: NDArray  # (m, d): their neighbours

    def differences(self, some: slice | NDArray[np.intp]) -> NDArray[np.float64]:
        """Return queries less their neighbours, for some of the pairs."""
        rows = self.queries[self.numbers[some]].astype(np.float64)
        rows -= self.partners[some]
        return rows

    def blocks(self) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Yield differences and their weights, some rows at a time."""
        for block in blocks(len(self.numbers), block_rows(self.queries.shape[1])):
            yield self.differences(block), self.weights[block]


def block_rows(n_features: int) -> int:
    """Return how many differences are multiplied at a time."""
    return rows_within(LIMITS.pair_block_bytes, 8 * n_features, LIMITS.pair_block_rows)


def _slot_pairs(tables: Tables, mutual: str, span: Span) -> Iterator[_SlotPairs]:
    """Yield the pairs of a task, slot by slot; each weighs as its query.

    Two rows that are each other's nearest weigh a half, or 1 ("twice").
    """
    layout = tables.layout
    queries = queries_of(layout, span.start, span.stop, tables.chosen)
    all_squared, all_positions = tables.get(span.index, "squared", "positions")
    for squared, positions in zip(all_squared.T, all_positions.T, strict=True):
        numbers = np.flatnonzero(positions >= 0)
        weights = layout.at("weights", queries.positions[numbers]) if layout.weighted else np.ones(len(numbers))
        if mutual == "once":
            weights[_are_mutual(tables, queries, numbers, positions[numbers])] = 0.5
        yield _SlotPairs(queries.x, numbers, squared[numbers], weights, layout.at("x", positions[numbers]))


def _are_mutual(
    tables: Tables, queries: Queries, numbers: NDArray[np.intp], positions: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Tell which queries are the nearest rows of the rows at ``positions``, which are nearest to them."""
    mutual, segments = np.zeros(len(numbers), bool), tables.layout.segment_of(positions)
    for segment in np.unique(segments).tolist():
        own = np.flatnonzero(segments == segment)
        (nearest,) = tables.get(segment, "rows")
        slot = queries.codes[numbers[own]] if nearest.shape[1] > 1 else 0
        within = positions[own] - tables.layout.positions(segment)[0]
        mutual[own] = nearest[within, slot] == queries.rows[numbers[own]]
    return mutual


@dataclass(frozen=True)
class _SumPairs:
    """The task: the scatter of the differences between queries and their neighbours, and what pictures show of them.

    The scatter is formed, in working coordinates if there is a ``basis``, or applied to ``vectors``.
    """

    tables: Tables
    mutual: str
    precision: str
    basis: NDArray | None
    vectors: NDArray[np.float64] | None
    sampled: dict[int, int]  # how many queries a task sends to the sample, by its number
    edges: NDArray[np.float64]  # of the histogram of distances

    def __call__(self, span: Span) -> PairSums:
        d = self.tables.layout.n_features
        r = d if self.basis is None else self.basis.shape[1]
        total, trace, weight = np.zeros((r, r) if self.vectors is None else self.vectors.shape), 0.0, 0.0
        kept, kept_of = [np.empty((0, d))], [np.empty(0, np.intp)]
        counts = np.zeros(len(self.edges) - 1, np.int64)
        for pairs in _slot_pairs(self.tables, self.mutual, span):
            counts += np.histogram(np.sqrt(pairs.squared), self.edges)[0]
            for differences, weights in pairs.blocks():
                total += self._product(differences, weights)
                trace += float(weights @ np.einsum("ij,ij->i", differences, differences))
            weight += float(pairs.weights.sum())
            picked = np.linspace(0, len(pairs.queries) - 1, self.sampled.get(span.index, 0)).astype(np.intp)
            sampled = np.flatnonzero(np.isin(pairs.numbers, picked))
            kept.append(pairs.differences(sampled))
            kept_of.append(pairs.numbers[sampled])
        by_query = np.argsort(np.concatenate(kept_of), kind="stable")
        return PairSums(total, trace, weight, [np.concatenate(kept)[by_query]], counts)

    def _product(self, differences: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray:
        if self.vectors is not None:
            return differences.T @ (weights[:, None] * (differences @ self.vectors))
        rows = differences if self.basis is None else differences @ self.basis
        rows = rows * np.sqrt(weights)[:, None]
        if self.precision == "double":
            return rows.T @ rows
        # Differences far beyond or below 1 would overflow or vanish when squared in single precision.
        largest = float(np.abs(rows).max(initial=0.0))
        scale = 2.0 ** np.round(np.log2(largest)) if largest > 0 else 1.0
        single = (rows / scale).astype(np.float32)
        return (single.T @ single) * scale**2


Summary = Callable[..., PairScatter]
"""Makes a scatter of neighbours, in a precision."""


def with_pairs(
    statistics: Statistics, rows: Rows, search: Search, scratch: Scratch, summarize: Summary | None = None
) -> Statistics:
    """Return statistics with the scatter of pairs of nearest rows of different classes, by default `pair_scatter`."""
    layout = make_layout(rows, scratch, statistics.scale)
    neighbors = find_nearest(layout, rows.census.classes, search, rows)
    return add_pairs(statistics, neighbors, summarize)


def add_pairs(statistics: Statistics, neighbors: Neighbors, summarize: Summary | None = None) -> Statistics:
    """Return statistics with the scatter of the pairs that were found; see `with_pairs`."""
    neighbors.tasks.begins("pairs")
    scatter = (summarize or partial(pair_scatter, basis=statistics.basis))(neighbors, precision=statistics.precision)
    return replace(statistics, pairs={**statistics.pairs, neighbors.search: scatter})


def pair_scatter(neighbors: Neighbors, *, precision: str, basis: NDArray[np.float64] | None = None) -> PairScatter:
    """Return the scatter of the differences between rows and their nearest rows of other classes.

    ``basis`` (d, r) holds the orthonormal columns of the working coordinates. Source: Luo & Durrant 2017, section 3,
    M-PCA2.
    """
    return as_scatter(neighbors, *sum_pairs(neighbors, precision=precision, basis=basis))


def as_scatter(neighbors: Neighbors, sums: PairSums, edges: NDArray[np.float64]) -> PairScatter:
    """Return the scatter that a pass over pairs leaves, with the certificate of the search.

    Raises `InputError` where squares of differences add up to more than double precision holds.
    """
    if not np.isfinite(sums.trace):
        raise InputError(too_large(np.dtype(np.float64)))
    return PairScatter(
        sums.scatter, sums.weight, sums.sample, neighbors.work.queries, neighbors.fraction, edges, sums.counts,
        neighbors.certificate(), _missed(neighbors),
    )  # fmt: skip


def sum_pairs(
    neighbors: Neighbors,
    *,
    precision: str,
    basis: NDArray | None = None,
    vectors: NDArray[np.float64] | None = None,
) -> tuple[PairSums, NDArray[np.float64]]:
    """Return sums over all pairs, and the edges of the histogram of their distances.

    With ``vectors`` (d, b) the scatter is applied to them in place of being formed.
    """
    largest, sizes = 0.0, []
    for span in neighbors.tables.spans:
        (squared,) = neighbors.tables.get(span.index, "squared")
        largest = max(largest, float(squared[np.isfinite(squared)].max(initial=0.0)))
        sizes.append(len(squared))
    edges = np.linspace(0.0, float(np.sqrt(largest)) or 1.0, BINS + 1)
    sampled = _sampled(neighbors, sizes)
    return _summed(neighbors, precision, basis, vectors, sampled, edges), edges


def apply_pairs(neighbors: Neighbors, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the product of the scatter of all pairs and vectors, shape (d, b)."""
    return _summed(neighbors, "double", None, np.ascontiguousarray(vectors), {}, np.zeros(2)).scatter


def _summed(neighbors: Neighbors, *options: Any) -> PairSums:
    task = _SumPairs(neighbors.tables, neighbors.search.mutual, *options)
    return neighbors.tasks.run(task, neighbors.tables.spans, operator.add, "pairs")


def sample_pairs(n_features: int) -> int:
    """Return how many differences are kept for pictures and standard errors."""
    return rows_within(LIMITS.sampled_pair_bytes, 8 * n_features, LIMITS.sampled_pairs, LIMITS.fewest_sampled_pairs)


def _sampled(neighbors: Neighbors, sizes: list[int]) -> dict[int, int]:
    """Share out, by the tasks' numbers, how many of their queries, of which there are ``sizes``, are sampled."""
    slots = max(len(neighbors.classes) - 1, 1) if neighbors.search.pairing == "one-vs-one" else 1
    ends = np.cumsum([0, *sizes])
    share = min(1.0, sample_pairs(neighbors.layout.n_features) / (int(ends[-1]) * slots))
    shares = np.diff(np.ceil(ends * share).astype(int)).tolist()
    return {span.index: count for span, count in zip(neighbors.tables.spans, shares, strict=True)}


def _missed(neighbors: Neighbors) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the differences to what was found and to what is nearest, where the recall's sample missed it."""
    if neighbors.recall is None or not len(neighbors.recall.missed):
        return None
    columns = neighbors.recall.missed.T
    query, neighbor, nearest = (neighbors.layout.at("x", positions).astype(np.float64) for positions in columns)
    return query - neighbor, query - nearest
