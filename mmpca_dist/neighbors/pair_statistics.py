"""From neighbours to the scatter of M-PCA2: a pass over pairs of rows."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.datasets.dataset import Span
from mmpca_dist.errors import InputError
from mmpca_dist.neighbors.layout import Layout, rows_within
from mmpca_dist.neighbors.nearest import Neighbors, find_nearest, make_layout
from mmpca_dist.neighbors.options import PairSearch
from mmpca_dist.neighbors.queries import queries_of
from mmpca_dist.neighbors.scratch import Scratch
from mmpca_dist.statistics.coordinates import Statistics
from mmpca_dist.statistics.moments import too_large
from mmpca_dist.statistics.pair_scatter import PairScatter
from mmpca_dist.statistics.rows import Rows
from mmpca_dist.statistics.serialization import storable
from mmpca_dist.statistics.tree_reduction import Progress, Tasks

T = TypeVar("T")

SAMPLE_PAIRS, SAMPLE_BYTES, LEAST_SAMPLE = 20_000, 64 << 20, 256
"""Differences that are kept for pictures and standard errors: up to 64 MiB of them, unless these are fewer than 256."""
BLOCK_ROWS, BLOCK_BYTES = 2048, 16 << 20
"""Differences that are multiplied at a time."""
BINS = 120


@storable
@dataclass(frozen=True)
class PairSums:
    """What a pass over pairs leaves; in place of their scatter, what it makes of vectors, where these are given."""

    scatter: NDArray[np.float64]
    trace: float
    weight: float
    sample: NDArray[np.float64]
    counts: NDArray[np.int64]


def _add(left: PairSums, right: PairSums) -> PairSums:
    return PairSums(
        left.scatter + right.scatter,
        left.trace + right.trace,
        left.weight + right.weight,
        np.concatenate([left.sample, right.sample]),
        left.counts + right.counts,
    )


@dataclass(frozen=True)
class _Matched:
    """Queries of a task, ``queries`` (q, d), and the neighbours that those ``known`` (m,) have in a slot.

    ``squared`` distances, ``weights`` and ``partners``, rows, are of those known.
    """

    queries: NDArray
    known: NDArray[np.intp]
    squared: NDArray[np.float64]
    weights: NDArray[np.float64]
    partners: NDArray

    def differences(self, some: slice | NDArray[np.intp]) -> NDArray[np.float64]:
        """Return queries less their neighbours, for some of those known."""
        found = self.queries[self.known[some]].astype(np.float64)
        found -= self.partners[some]
        return found

    def blocks(self) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Yield differences and their weights, some rows at a time."""
        size = rows_within(BLOCK_BYTES, 8 * self.queries.shape[1], BLOCK_ROWS)
        for start in range(0, len(self.known), size):
            block = slice(start, start + size)
            yield self.differences(block), self.weights[block]


@dataclass(frozen=True)
class _Pairs:
    """Where tasks find the pairs of their queries."""

    layout: Layout
    scratch: Scratch
    name: str
    chosen: NDArray[np.int64] | None
    once: bool

    @classmethod
    def of(cls, neighbors: Neighbors, mutual: str) -> _Pairs:
        return cls(neighbors.layout, neighbors.scratch, neighbors.name, neighbors.searched, mutual == "once")

    def matched(self, span: Span) -> Iterator[_Matched]:
        """Yield what the queries of a task found, slot by slot."""
        queries = queries_of(self.layout, self.scratch, span.start, span.stop, self.chosen)
        squared, positions = self.scratch.get(f"{self.name}-{span.index}", ("squared", "positions"))
        for slot in range(squared.shape[1]):
            known = np.flatnonzero(positions[:, slot] >= 0)
            weights = self._weights(queries.rows, queries.codes, positions[:, slot], known)
            partners = rows_at(self.layout, self.scratch, positions[known, slot])
            yield _Matched(queries.x, known, squared[known, slot], weights, partners)

    def _weights(
        self, rows: NDArray[np.int64], codes: NDArray[np.int64], positions: NDArray[np.int64], known: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        """Return 1 for every pair, or a half where two rows are each other's nearest and that counts once."""
        weights = np.ones(len(known))
        if not self.once:
            return weights
        segments = self.layout.segment_of(positions[known])
        for segment in np.unique(segments):
            own = np.flatnonzero(segments == segment)
            (partners,) = self.scratch.get(f"{self.name}-{segment}", ("rows",))
            place = positions[known[own]] - self.layout.positions(int(segment))[0]
            slot = codes[known[own]] if partners.shape[1] > 1 else np.zeros(len(own), np.int64)
            weights[own[partners[place, slot] == rows[known[own]]]] = 0.5
        return weights


@dataclass(frozen=True)
class _SumPairs:
    """The task: the scatter of the differences between queries and their neighbours, and what pictures show of them.

    ``sampled`` tells, by the task's number, how many queries it sends to the sample.
    """

    pairs: _Pairs
    precision: str
    basis: NDArray | None
    vectors: NDArray[np.float64] | None
    sampled: dict[int, int]
    edges: NDArray[np.float64]

    def __call__(self, span: Span) -> PairSums:
        d = self.pairs.layout.cells.frame.centre.size
        r = d if self.basis is None else self.basis.shape[1]
        total, trace, weight = np.zeros((r, r) if self.vectors is None else self.vectors.shape), 0.0, 0.0
        kept, kept_of = [np.empty((0, d))], [np.empty(0, np.intp)]
        counts = np.zeros(len(self.edges) - 1, np.int64)
        for matched in self.pairs.matched(span):
            counts += np.histogram(np.sqrt(matched.squared), self.edges)[0]
            for differences, weights in matched.blocks():
                total += self._product(differences, weights)
                trace += float(weights @ np.einsum("ij,ij->i", differences, differences))
            weight += float(matched.weights.sum())
            picked = np.linspace(0, len(matched.queries) - 1, self.sampled[span.index]).astype(np.intp)
            sampled = np.flatnonzero(np.isin(matched.known, picked))
            kept.append(matched.differences(sampled))
            kept_of.append(matched.known[sampled])
        by_query = np.argsort(np.concatenate(kept_of), kind="stable")
        return PairSums(total, trace, weight, np.concatenate(kept)[by_query], counts)

    def _product(self, differences: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray:
        if self.vectors is not None:
            return _applied(differences, weights, self.vectors)
        rows = differences if self.basis is None else differences @ self.basis
        rows = rows * np.sqrt(weights)[:, None]
        if self.precision == "double":
            return rows.T @ rows
        # Differences far beyond or below 1 would overflow or vanish when squared in single precision.
        largest = float(np.abs(rows).max(initial=0.0))
        scale = 2.0 ** np.round(np.log2(largest)) if largest > 0 else 1.0
        single = (rows / scale).astype(np.float32)
        return (single.T @ single) * scale**2


@dataclass(frozen=True)
class _ApplyPairs:
    """The task: the scatter of the differences between queries and their neighbours, applied to vectors."""

    pairs: _Pairs
    vectors: NDArray[np.float64]

    def __call__(self, span: Span) -> NDArray[np.float64]:
        total = np.zeros(self.vectors.shape)
        for matched in self.pairs.matched(span):
            for differences, weights in matched.blocks():
                total += _applied(differences, weights, self.vectors)
        return total


def _applied(
    differences: NDArray[np.float64], weights: NDArray[np.float64], vectors: NDArray[np.float64]
) -> NDArray[np.float64]:
    return differences.T @ (weights[:, None] * (differences @ vectors))


def rows_at(layout: Layout, scratch: Scratch, positions: NDArray[np.int64]) -> NDArray:
    """Return the rows at positions of the layout, shape (n, d)."""
    distinct, place = np.unique(positions, return_inverse=True)
    found = np.empty((0, layout.cells.frame.centre.size))
    segments = layout.segment_of(distinct)
    for segment in np.unique(segments):
        own = np.flatnonzero(segments == segment)
        (x,) = scratch.take(f"segment-{segment}", ("x",), distinct[own] - layout.positions(int(segment))[0])
        if not len(found):
            found = np.empty((len(positions), x.shape[1]), x.dtype)
        # Several queries may have found the same row: distinct rows are in order, so those of a segment lie together.
        asked = np.flatnonzero((place >= own[0]) & (place <= own[-1]))
        found[asked] = x[place[asked] - own[0]]
    return found


def with_pairs(
    statistics: Statistics,
    rows: Rows,
    wanted: PairSearch,
    scratch: Scratch,
    summarize: Callable[..., PairScatter] | None = None,
) -> Statistics:
    """Return statistics with the scatter of pairs of nearest rows of different classes.

    ``summarize`` makes it of the neighbours, with the keywords of `pair_scatter`, which does by default.
    """
    layout = make_layout(rows, scratch, statistics.scale)
    neighbors = find_nearest(layout, scratch, rows.census.classes, wanted.search, rows)
    return add_pairs(statistics, neighbors, wanted, rows, summarize)


def add_pairs(
    statistics: Statistics,
    neighbors: Neighbors,
    wanted: PairSearch,
    tasks: Tasks,
    summarize: Callable[..., PairScatter] | None = None,
) -> Statistics:
    """Return statistics with the scatter of the pairs that were found; see `with_pairs`."""
    tasks.begins("pairs")
    found = (summarize or pair_scatter)(
        neighbors, mutual=wanted.mutual, precision=statistics.precision, basis=statistics.basis, progress=tasks.progress
    )
    return replace(statistics, pairs={**statistics.pairs, wanted: found})


def pair_scatter(
    neighbors: Neighbors,
    *,
    mutual: str,
    precision: str,
    basis: NDArray[np.float64] | None = None,
    progress: Progress | None = None,
) -> PairScatter:
    """Return the scatter of the differences between rows and their nearest rows of other classes.

    Parameters
    ----------
    mutual : {"twice", "once"}
        How often a pair counts whose rows are each other's nearest.
    basis : array of shape (d, r), optional
        Orthonormal columns of the working coordinates; the columns themselves by default.

    Source: Luo & Durrant 2017, section 3, M-PCA2.
    """
    found, edges = sum_pairs(neighbors, mutual=mutual, precision=precision, basis=basis, progress=progress)
    return as_scatter(neighbors, found, edges)


def as_scatter(neighbors: Neighbors, found: PairSums, edges: NDArray[np.float64]) -> PairScatter:
    """Return the scatter that a pass over pairs leaves, with what is known of the search.

    Raises
    ------
    InputError
        Where squares of differences add up to more than double precision holds.
    """
    if not np.isfinite(found.trace):
        raise InputError(too_large(np.dtype(np.float64)))
    n_queries = neighbors.work.queries
    return PairScatter(
        found.scatter, found.weight, found.sample, n_queries, neighbors.fraction, edges, found.counts,
        neighbors.certificate(), _missed(neighbors),
    )  # fmt: skip


def sum_pairs(
    neighbors: Neighbors,
    *,
    mutual: str,
    precision: str,
    basis: NDArray | None = None,
    vectors: NDArray[np.float64] | None = None,
    progress: Progress | None = None,
) -> tuple[PairSums, NDArray[np.float64]]:
    """Return sums over all pairs, and the edges of the histogram of their distances.

    Parameters
    ----------
    vectors : array of shape (d, b), optional
        Apply the scatter to them in place of forming it.
    """
    farthest, sizes = neighbors.survey()
    edges = np.linspace(0.0, farthest or 1.0, BINS + 1)
    task = _SumPairs(_Pairs.of(neighbors, mutual), precision, basis, vectors, _sampled(neighbors, sizes), edges)
    return _reduced(task, _add, neighbors, progress), edges


def apply_pairs(
    neighbors: Neighbors, vectors: NDArray[np.float64], *, mutual: str, progress: Progress | None = None
) -> NDArray[np.float64]:
    """Return what the scatter of all pairs makes of vectors, shape (d, b)."""
    return _reduced(_ApplyPairs(_Pairs.of(neighbors, mutual), vectors), operator.add, neighbors, progress)


def _reduced(
    task: Callable[[Span], T], merge: Callable[[T, T], T], neighbors: Neighbors, progress: Progress | None
) -> T:
    with single_blas_thread():
        return replace(neighbors.searcher.tasks, progress=progress).run(task, neighbors.tasks, merge, "pairs")


def sample_pairs(n_features: int) -> int:
    """Return how many differences are kept."""
    return rows_within(SAMPLE_BYTES, 8 * n_features, SAMPLE_PAIRS, LEAST_SAMPLE)


def _sampled(neighbors: Neighbors, sizes: list[int]) -> dict[int, int]:
    """Share out, by the tasks' numbers, how many of their queries, of which there are ``sizes``, are sampled."""
    slots = max(len(neighbors.classes) - 1, 1) if neighbors.search.pairing == "one-vs-one" else 1
    ends = np.cumsum([0, *sizes])
    share = min(1.0, sample_pairs(neighbors.layout.cells.frame.centre.size) / (int(ends[-1]) * slots))
    shares = np.diff(np.ceil(ends * share).astype(int)).tolist()
    return {span.index: count for span, count in zip(neighbors.tasks, shares, strict=True)}


def _missed(neighbors: Neighbors) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the differences to what was found and to what is nearest, where the recall's sample missed it."""
    if neighbors.recall is None or not len(neighbors.recall.missed):
        return None
    query, found, nearest = (
        rows_at(neighbors.layout, neighbors.scratch, positions).astype(np.float64)
        for positions in neighbors.recall.missed.T
    )
    return query - found, query - nearest
