"""Cost of a search: pairs to compare, scratch, memory, time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.dataset import Dataset
from mmpca_dist.limits import LIMITS
from mmpca_dist.neighbors import cells, kernels, layout, nearest, pair_statistics, scratch, search
from mmpca_dist.neighbors.cells import LARGEST_EIGENPROBLEM, SMALL, row_type
from mmpca_dist.neighbors.layout import rows_within
from mmpca_dist.neighbors.options import Search
from mmpca_dist.neighbors.queries import FEW_CLASSES

PAIR_RATE = 5e8
"""Pairs a second a thread that are compared, in the products and the sweep after them: measured, on the slow side."""

PRODUCT_RATE = 1e10
"""Multiply-adds a second a thread, of differences with vectors: measured for 14 to 60 vectors, 4e9 to 1.3e10."""

SCRATCH_RATE = 1e9
"""Bytes a second a thread that come back from scratch: measured for a warm page cache."""

EXPECTED_SHARE, EXPECTED_CELLS, EXPECTED_POWER = 0.2, 250, 0.5
"""Of the pairs, an approximate search is expected to compare a fifth with 250 cells (100,000 rows), and less with more
of them, as a power of their number. Measured in 32 to 784 columns, recall 0.95 and 0.98, up to 10,000,000 rows: two or
three times that on white noise, about that on MNIST and on noise with a spectrum, a hundredth on separate clusters."""

COMPILED = 150 << 20
"""Resident memory that the compiled loops and their compiler take."""

UNEVEN = 2
"""A segment may hold so many times more cells than one of even cells would."""


@dataclass(frozen=True)
class SearchCosts:
    """What a search may cost; sizes in bytes.

    Attributes
    ----------
    queries : int
    pairs : float
        Upper bound on the pairs that are compared; of an approximate search, what is expected.
    scratch : int
        Largest size of what is laid out, in memory or on disk: it is there twice while it is sorted.
    in_memory : bool
    memory : int
        Of a process, beside what it has before and what the data set itself keeps.
    read : int
        Upper bound on what comes back from scratch on disk.
    preparation : float
        Multiply-adds of bringing rows into cells.
    products : float
        Multiply-adds of the scatter of pairs, or of applying it to vectors.
    proved : bool
        Whether the bounds are bounds, and not expected values.
    """

    queries: int
    pairs: float
    scratch: int
    in_memory: bool
    memory: int
    read: int
    preparation: float
    products: float
    proved: bool

    def seconds(self, threads: int) -> float:
        """Return how long the search takes with so many threads: at most, or as expected."""
        return (self.pairs / PAIR_RATE + self.products / PRODUCT_RATE + self.read / SCRATCH_RATE) / threads


def search_costs(
    dataset: Dataset,
    wanted: Search,
    *,
    counts: NDArray[np.int64],
    standardize: bool,
    in_memory: bool,
    spans: int,
    unit_rows: int,
    unit: int,
    threads: int,
    vectors: list[int] | None = None,
    solving: int = 0,
) -> SearchCosts:
    """Return the costs of a search.

    Parameters
    ----------
    counts : int array of shape (C,)
        Rows of each class.
    standardize : bool
        Whether columns are divided by their standard deviations.
    in_memory : bool
        Whether what is laid out stays in the memory of this process.
    spans : int
        Tasks of a pass over the rows.
    unit_rows, unit : int
        Rows of the largest reading unit, and the bytes that a thread holds while it reads it.
    threads : int
        That share a process.
    vectors : list of int, optional
        How many the scatter of pairs is applied to, for every pass over them, where it is not formed.
    solving : int
        Bytes that the solver holds between such passes.
    """
    n, exact = dataset.n_rows, wanted.mode == "exact"
    queries = min(wanted.max_queries or n, n)
    others = float(n if len(counts) > FEW_CLASSES else counts @ (n - counts) / n)
    calibrated = 2 * nearest.enough_tests(wanted.recall)
    proved = exact or queries <= calibrated
    sizes = _Sizes.of(dataset, standardize)
    share = min(1.0, EXPECTED_SHARE * (EXPECTED_CELLS / sizes.cells) ** EXPECTED_POWER)
    compared = others * (queries if proved else calibrated + share * queries)
    slots = len(counts) if wanted.pairing == "one-vs-one" else 1
    results = queries * (24 * slots + 40) * (1 if exact else 3)
    size = max(2 * n * sizes.row, n * sizes.row + results)
    rounds = 1 if proved else 2
    tasks = sizes.segments
    if queries < n:
        tasks = min(math.ceil(queries / search.most_queries(sizes.row)) + search.FEWEST_TASKS, tasks)
    laid_out, kept = (n * sizes.row, results) if in_memory else (0, 0)
    searches = [queries] if proved else [queries, calibrated]
    searching = max(sizes.searching(in_memory, asked, slots) for asked in searches)
    applied = [min(dataset.n_features, n)] if vectors is None else vectors
    later = (
        laid_out + min(threads, spans) * (unit + sizes.sorting(unit_rows, in_memory)),
        2 * laid_out + threads * sizes.filling(in_memory),
        laid_out + kept + threads * searching,
        laid_out + kept + threads * sizes.pairing(in_memory, queries, slots) + sizes.summing(threads, tasks, vectors)
        + max(sizes.missing(wanted, slots), solving),
    )  # fmt: skip
    return SearchCosts(
        queries=queries,
        pairs=compared,
        scratch=size,
        in_memory=in_memory,
        memory=COMPILED + max(sizes.training(), sizes.frame() + max(later)),
        read=0 if in_memory else rounds * tasks * n * sizes.row + len(applied) * sizes.matching(tasks, queries, slots),
        preparation=sizes.preparation(),
        products=2.0 * queries * slots * dataset.n_features * sum(applied),
        proved=proved,
    )


@dataclass(frozen=True)
class _Sizes:
    """Bytes of a row in the layout, rows of its segments, and what the tasks hold at their worst."""

    n: int
    d: int
    read: int
    item: int
    first: int
    tail: int

    @classmethod
    def of(cls, dataset: Dataset, standardize: bool) -> _Sizes:
        d = dataset.n_features
        item = 8 if standardize else row_type(dataset.dtype).itemsize
        first = min(d, scratch.MOST_FIRST + 1)
        tail = 0 if d <= SMALL else min(d, scratch.MOST_SECOND + 1)
        return cls(dataset.n_rows, d, dataset.dtype.itemsize, item, first, tail)

    @property
    def coordinates(self) -> int:
        """Bytes of a row's coordinates, half norm and row number."""
        return 4 * (self.first + self.tail) + 12

    @property
    def row(self) -> int:
        return self.d * self.item + self.coordinates

    @property
    def cells(self) -> int:
        return cells.n_cells(self.n)

    @property
    def piece_rows(self) -> int:
        return min(layout.piece_rows(self.row), self.n)

    @property
    def segment_rows(self) -> int:
        return max(min(self._wanted_rows, self.n), self.piece_rows)

    @property
    def _wanted_rows(self) -> int:
        rows = max(self.n // layout.MIN_SEGMENTS, LIMITS.smallest_segment)
        return min(max(layout.SEGMENT_BYTES // self.row, 1), rows)

    @property
    def segments(self) -> int:
        """How many there are at most, about: segments hold whole pieces, and may be half empty."""
        return math.ceil(2 * self.n / self._wanted_rows)

    @property
    def sampled(self) -> int:
        """Rows of the sample for axes and cells."""
        budget = max(nearest.SAMPLE_BYTES // (8 * self.d), 256)
        return min(max(self.cells * cells.SAMPLE_PER_CELL, nearest.FRAME_SAMPLE), budget, self.n)

    def preparation(self) -> float:
        """Distances to the cells' centres, in k-means and for all rows, and the rotation."""
        distances = (cells.ITERATIONS * self.sampled + self.n) * self.cells * self.first
        return float(distances + 2 * self.n * self.d * max(self.first, self.tail))

    def training(self) -> int:
        """The sample as it was read, and in double: centred, along the axes, what they miss; or all for k-means."""
        rows = self.sampled
        axes = 4 * self.d * self.d if self.d <= LARGEST_EIGENPROBLEM else 3 * (rows + self.d) * scratch.MOST_SECOND
        coordinates = 24 * self.first + 16 * self.tail
        return rows * self.d * 2 * self.read + max(rows * self.d * 5 * 8 + axes * 8, rows * coordinates)

    def frame(self) -> int:
        """The axes, and once more as they are sent."""
        return 2 * 8 * self.d * max(self.first, self.tail)

    def sorting(self, unit_rows: int, in_memory: bool) -> int:
        """What a thread holds beside a unit: coordinates, and blocks of distances to cells, then the sorted table."""
        block = min(unit_rows, rows_within(layout.BLOCK_BYTES, 8 * self.d, layout.BLOCK_ROWS))
        blocks = block * (3 * 8 * self.d + 3 * 8 * (self.first + self.tail) + 4 * self.cells)
        converted = self.d * self.read
        return unit_rows * (self.coordinates + 40) + max(blocks, unit_rows * (converted + self._table(in_memory)))

    def filling(self, in_memory: bool) -> int:
        """What a thread holds beside the segment it fills: what comes from the sorted units, squares of norms."""
        return self.segment_rows * (self.row + 16 + self._table(in_memory))

    def _table(self, in_memory: bool) -> int:
        """Bytes a row of a table on its way to or from a disk: itself, and its largest array encoded and in shards."""
        return 0 if in_memory else self.row + 2 * max(self.d * self.item, 4 * self.tail)

    def searching(self, in_memory: bool, queries: int, slots: int) -> int:
        """What a thread holds: queries, a segment of candidates, distances to its cells, a product."""
        asked, rows = self._asked(queries), self.segment_rows
        near = min(math.ceil(UNEVEN * self.cells * rows / self.n), self.cells)
        product = 4 * (self.piece_rows**2 + kernels.PRODUCT)
        held = asked * (80 * slots + 40 + 4 * near) + product + rows * self._table(in_memory)
        return held + self._gathering(in_memory, queries)

    def pairing(self, in_memory: bool, queries: int, slots: int) -> int:
        """What a thread holds: queries and their partners (of two slots at a time), and blocks of their differences."""
        asked, several = self._asked(queries), min(slots, 2)
        block = min(asked, rows_within(pair_statistics.BLOCK_BYTES, 8 * self.d, pair_statistics.BLOCK_ROWS))
        partners = asked * self.d * self.item * several + block * self.d * 4 * 8
        return asked * 80 + partners + self.segment_rows * self._table(in_memory) + self._gathering(in_memory, queries)

    def _asked(self, queries: int) -> int:
        """Rows of the queries of a task."""
        if queries == self.n:
            return self.segment_rows
        return min(queries, search.most_queries(self.row) + math.ceil(self.segment_rows * queries / self.n))

    def _gathering(self, in_memory: bool, queries: int) -> int:
        """Bytes of the queries of a task: those of a segment as they are stored, drawn ones as they are joined."""
        if queries == self.n:
            return 0 if in_memory else self.segment_rows * self.row
        return 2 * self._asked(queries) * self.row

    def summing(self, threads: int, tasks: int, vectors: list[int] | None) -> int:
        """Scatters of pairs, or what they make of vectors, as they are added up; differences that are kept."""
        waiting = math.ceil(math.log2(tasks + 1)) + 3
        size = min(self.d, self.n) ** 2 if vectors is None else self.d * max(vectors)
        return (2 * threads + waiting) * size * 8 + 3 * min(pair_statistics.sample_pairs(self.d), self.n) * 8 * self.d

    def missing(self, wanted: Search, slots: int) -> int:
        """Rows of an approximate search that missed, what it found and what is nearest, and two differences."""
        if wanted.mode == "exact":
            return 0
        missed = math.ceil((1 - wanted.recall) * nearest.enough_tests(wanted.recall) * slots)
        return missed * self.d * 8 * 5

    def matching(self, tasks: int, queries: int, slots: int) -> int:
        """What a pass over pairs reads: queries, and their partners in chunks or in whole segments."""
        row = self.d * self.item
        return queries * self.row + min(tasks * self.n * row, queries * slots * max(scratch.CHUNK_BYTES, row))
