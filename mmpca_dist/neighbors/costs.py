"""What a search will cost, before it reads a row: pairs to compare, scratch, memory, time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.base import Dataset
from mmpca_dist.neighbors import cells, kernels, layout, nearest, scratch, search
from mmpca_dist.neighbors.frame import LARGEST_EIGENPROBLEM, SMALL, row_type
from mmpca_dist.neighbors.options import Search
from mmpca_dist.neighbors.pairs import BLOCK_ROWS, SAMPLE_BYTES, SAMPLE_PAIRS
from mmpca_dist.neighbors.queries import FEW_CLASSES

PAIR_RATE = 5e8
"""Pairs a second a thread that are compared, in the products and the sweep after them: measured, on the slow side."""

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
    proved: bool

    def seconds(self, threads: int) -> float:
        """Return how long the search takes with so many threads: at most, or as expected."""
        return (self.pairs / PAIR_RATE + self.read / SCRATCH_RATE) / threads


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
    vectors: int | None = None,
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
    vectors : int, optional
        How many the scatter of pairs is applied to, where it is not formed.
    """
    n, exact = dataset.n_rows, wanted.mode == "exact"
    queries = min(wanted.max_queries or n, n)
    others = float(n if len(counts) > FEW_CLASSES else counts @ (n - counts) / n)
    calibrated = 2 * nearest.CALIBRATION
    proved = exact or queries <= calibrated
    sizes = _Sizes.of(dataset, standardize)
    share = min(1.0, EXPECTED_SHARE * (EXPECTED_CELLS / sizes.cells) ** EXPECTED_POWER)
    pairs = others * (queries if proved else calibrated + share * queries)
    slots = len(counts) if wanted.pairing == "one-vs-one" else 1
    results = queries * (24 * slots + 40) * (1 if exact else 3)
    size = max(2 * n * sizes.row, n * sizes.row + results)
    rounds = 1 if proved else 2
    tasks = sizes.segments if queries == n else math.ceil(queries / search.TASK_QUERIES) + search.FEWEST_TASKS
    laid_out, kept = (n * sizes.row, results) if in_memory else (0, 0)
    phases = (
        sizes.training(),
        laid_out + min(threads, spans) * (unit + sizes.sorting(unit_rows, in_memory)),
        2 * laid_out + threads * sizes.filling(in_memory),
        laid_out + kept + threads * sizes.searching(in_memory, queries, slots),
        laid_out + kept + threads * sizes.pairing(in_memory, queries) + sizes.summing(threads, vectors),
    )
    return SearchCosts(
        queries=queries,
        pairs=pairs,
        scratch=size,
        in_memory=in_memory,
        memory=COMPILED + max(phases),
        read=0 if in_memory else rounds * min(tasks, sizes.segments) * n * sizes.row,
        preparation=sizes.preparation(),
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
    def segment_rows(self) -> int:
        return min(max(self._wanted_rows, layout.PIECE_ROWS), self.n)

    @property
    def _wanted_rows(self) -> int:
        rows = max(self.n // layout.MIN_SEGMENTS, layout.SMALLEST_SEGMENT)
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
        axes = 4 * self.d * self.d if self.d <= LARGEST_EIGENPROBLEM else 3 * (rows + self.d) * self.first
        coordinates = 24 * self.first + 16 * self.tail
        return rows * self.d * 2 * self.read + max(rows * self.d * 5 * 8 + axes * 8, rows * coordinates)

    def sorting(self, unit_rows: int, in_memory: bool) -> int:
        """What a thread holds beside a unit: coordinates, and blocks of distances to cells, then the sorted table."""
        block = min(unit_rows, layout.BLOCK_ROWS)
        blocks = block * (4 * 8 * self.d + 3 * 8 * (self.first + self.tail) + 4 * self.cells)
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
        product = 4 * (min(layout.PIECE_ROWS, self.n) ** 2 + kernels.PRODUCT)
        return asked * (2 * self.row + 80 * slots + 40 + 4 * near) + product + rows * self._table(in_memory)

    def pairing(self, in_memory: bool, queries: int) -> int:
        """What a thread holds: queries and their partners, and blocks of their differences."""
        asked = self._asked(queries)
        partners = asked * self.d * 2 * self.item + min(asked, BLOCK_ROWS) * self.d * 4 * 8
        return asked * (2 * self.row + 80) + partners + self.segment_rows * self._table(in_memory)

    def _asked(self, queries: int) -> int:
        """Rows of the queries of a task."""
        if queries == self.n:
            return self.segment_rows
        return min(queries, search.TASK_QUERIES + math.ceil(self.segment_rows * queries / self.n))

    def summing(self, threads: int, vectors: int | None) -> int:
        """Scatters of pairs, or what they make of vectors, as they are added up; differences that are kept."""
        waiting = math.ceil(math.log2(self.segments + 1)) + 2
        size = min(self.d, self.n) ** 2 if vectors is None else self.d * vectors
        kept = min(SAMPLE_PAIRS, self.n) * 8 * self.d
        return (threads + waiting) * size * 8 + 3 * min(kept, SAMPLE_BYTES)
