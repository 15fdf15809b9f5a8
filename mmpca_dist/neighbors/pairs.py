"""From neighbours to the scatter of M-PCA2: a pass over queries and the rows they were matched with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.datasets.base import Dataset, Span
from mmpca_dist.neighbors.layout import Layout
from mmpca_dist.neighbors.nearest import Neighbors, find_nearest, make_layout
from mmpca_dist.neighbors.options import PairSearch
from mmpca_dist.neighbors.queries import queries_of
from mmpca_dist.neighbors.scratch import Scratch
from mmpca_dist.statistics.census import Census
from mmpca_dist.statistics.pairs import PairScatter
from mmpca_dist.statistics.reduction import Progress, Scheduler, reduce_spans
from mmpca_dist.statistics.sample import OnPass
from mmpca_dist.statistics.working import Statistics

SAMPLE_PAIRS = 20_000
SAMPLE_BYTES = 64 << 20
"""Differences that are kept for pictures and standard errors."""
BLOCK_ROWS = 2048
BINS = 120


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
class _PairRows:
    """The task: differences between the queries of some segments and their neighbours."""

    layout: Layout
    scratch: Scratch
    name: str
    chosen: NDArray[np.int64] | None
    once: bool
    precision: str
    basis: NDArray[np.float64] | None
    vectors: NDArray[np.float64] | None
    sampled: float
    edges: NDArray[np.float64]

    def __call__(self, span: Span) -> PairSums:
        queries = queries_of(self.layout, self.scratch, span.start, span.stop, self.chosen)
        squared, positions = self.scratch.get(f"{self.name}-{span.index}", ("squared", "positions"))
        d = self.layout.cells.frame.centre.size
        r = d if self.basis is None else self.basis.shape[1]
        total, trace, weight = np.zeros((r, r) if self.vectors is None else self.vectors.shape), 0.0, 0.0
        picked = np.linspace(0, len(queries) - 1, int(np.ceil(len(queries) * self.sampled))).astype(np.intp)
        kept, kept_of = [np.empty((0, d))], [np.empty(0, np.intp)]
        counts = np.zeros(len(self.edges) - 1, np.int64)
        for slot in range(squared.shape[1]):
            known = np.flatnonzero(positions[:, slot] >= 0)
            weights = self._weights(queries.rows, queries.codes, positions[:, slot], known)
            counts += np.histogram(np.sqrt(squared[known, slot]), self.edges)[0]
            partners = rows_at(self.layout, self.scratch, positions[known, slot])
            for start in range(0, len(known), BLOCK_ROWS):
                block = slice(start, start + BLOCK_ROWS)
                differences = queries.x[known[block]].astype(np.float64) - partners[block]
                total += self._product(differences, weights[block])
                trace += float(weights[block] @ np.einsum("ij,ij->i", differences, differences))
            weight += float(weights.sum())
            sampled = np.flatnonzero(np.isin(known, picked))
            kept.append(queries.x[known[sampled]].astype(np.float64) - partners[sampled])
            kept_of.append(known[sampled])
        by_query = np.argsort(np.concatenate(kept_of), kind="stable")
        return PairSums(total, trace, weight, np.concatenate(kept)[by_query], counts)

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


def rows_at(layout: Layout, scratch: Scratch, positions: NDArray[np.int64]) -> NDArray:
    """Return the rows at positions of the layout, shape (n, d)."""
    segments = layout.segment_of(positions)
    parts, places = [], []
    for segment in np.unique(segments):
        own = np.flatnonzero(segments == segment)
        (x,) = scratch.get(f"segment-{segment}", ("x",))
        parts.append(x[positions[own] - layout.positions(int(segment))[0]])
        places.append(own)
    if not parts:
        return np.empty((0, layout.cells.frame.centre.size))
    found = np.empty((len(positions), parts[0].shape[1]), parts[0].dtype)
    found[np.concatenate(places)] = np.concatenate(parts)
    return found


def with_pairs(
    statistics: Statistics,
    dataset: Dataset,
    census: Census,
    spans: list[Span],
    wanted: PairSearch,
    scratch: Scratch,
    *,
    scheduler: Scheduler,
    progress: Progress | None = None,
    on_pass: OnPass | None = None,
    summarize: Callable[..., PairScatter] | None = None,
) -> Statistics:
    """Return statistics with the scatter of pairs of nearest rows of different classes.

    ``summarize`` makes it of the neighbours, with the keywords of `pair_scatter`, which does by default.
    """
    layout = make_layout(
        dataset, census, spans, scratch,
        scheduler=scheduler, deviations=statistics.scale, progress=progress, on_pass=on_pass,
    )  # fmt: skip
    neighbors = find_nearest(
        layout, scratch, census.classes, wanted.search, scheduler=scheduler, progress=progress, on_pass=on_pass
    )
    if on_pass is not None:
        on_pass("pairs", 0)
    found = (summarize or pair_scatter)(
        neighbors, mutual=wanted.mutual, precision=statistics.precision, basis=statistics.basis, progress=progress
    )
    return replace(statistics, pairs=found)


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
    """Return the scatter that a pass over pairs leaves, with what is known of the search."""
    n_queries = neighbors.work.queries
    return PairScatter(
        found.scatter, found.weight, found.sample, n_queries, n_queries / neighbors.layout.n_rows, edges, found.counts,
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
    d, n_queries = neighbors.layout.cells.frame.centre.size, neighbors.work.queries
    wanted = min(SAMPLE_PAIRS, max(SAMPLE_BYTES // (8 * d), 256))
    slots = max(len(neighbors.classes) - 1, 1) if neighbors.search.pairing == "one-vs-one" else 1
    edges = np.linspace(0.0, neighbors.farthest() or 1.0, BINS + 1)
    task = _PairRows(
        neighbors.layout, neighbors.scratch, neighbors.name, neighbors.searched, mutual == "once", precision, basis,
        vectors, min(1.0, wanted / (n_queries * slots)), edges,
    )  # fmt: skip
    with single_blas_thread():
        found = reduce_spans(
            task, neighbors.tasks, _add, scheduler=neighbors.searcher.scheduler, name="pairs", progress=progress
        )
    return found, edges


def _missed(neighbors: Neighbors) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the differences to what was found and to what is nearest, where the recall's sample missed it."""
    if neighbors.recall is None or not len(neighbors.recall.missed):
        return None
    query, found, nearest = (
        rows_at(neighbors.layout, neighbors.scratch, positions).astype(np.float64)
        for positions in neighbors.recall.missed.T
    )
    return query - found, query - nearest
