"""What a search will cost, before it reads a row: pairs to compare, scratch, memory, time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.base import Dataset
from mmpca_dist.neighbors import cells, layout, nearest, scratch, search
from mmpca_dist.neighbors.frame import LARGEST_EIGENPROBLEM, SMALL, row_type
from mmpca_dist.neighbors.options import Search
from mmpca_dist.neighbors.pairs import BLOCK_ROWS, SAMPLE_BYTES, SAMPLE_PAIRS
from mmpca_dist.neighbors.queries import FEW_CLASSES

PAIR_RATE = 4e8
"""Pairs a second a thread that are compared, in the products and the sweep after them: measured, on the slow side."""

SCRATCH_RATE = 1e9
"""Bytes a second a thread that come back from scratch: measured for a warm page cache."""

APPROXIMATE_SHARE = 0.25
"""Of the pairs, what an approximate search is expected to compare: measured on Gaussian data without any clusters in 32
columns. Clusters need less, more rows need less, more columns without structure need more."""

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
    proved : bool
        Whether the bounds are bounds, and not expected values.
    """

    queries: int
    pairs: float
    scratch: int
    in_memory: bool
    memory: int
    read: int
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
    unit_rows: int,
    unit: int,
    threads: int,
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
    unit_rows, unit : int
        Rows of the largest reading unit, and the bytes that a thread holds while it reads it.
    threads : int
        That share a process.
    """
    n, exact = dataset.n_rows, wanted.mode == "exact"
    queries = min(wanted.max_queries or n, n)
    others = float(n if len(counts) > FEW_CLASSES else counts @ (n - counts) / n)
    calibrated = 2 * nearest.CALIBRATION
    proved = exact or queries <= calibrated
    pairs = queries * others if proved else (calibrated + APPROXIMATE_SHARE * queries) * others
    sizes = _Sizes.of(dataset, standardize)
    slots = len(counts) if wanted.pairing == "one-vs-one" else 1
    results = queries * (24 * slots + 32) * (1 if exact else 3)
    size = max(2 * n * sizes.row, n * sizes.row + results)
    rounds = 1 if proved else 2
    tasks = sizes.segments if queries == n else math.ceil(queries / search.TASK_QUERIES) + search.FEWEST_TASKS
    held = (size + results if in_memory else 0) + COMPILED
    phases = (
        sizes.training(),
        threads * (unit + sizes.sorting(unit_rows, in_memory)),
        threads * sizes.searching(in_memory, queries, slots) + sizes.summing(threads),
    )
    return SearchCosts(
        queries=queries,
        pairs=pairs,
        scratch=size,
        in_memory=in_memory,
        memory=held + max(phases),
        read=0 if in_memory else rounds * min(tasks, sizes.segments) * n * sizes.row,
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

    def training(self) -> int:
        """The sample as it was read, and five copies in double: centred, along the axes, and what they miss."""
        budget = max(nearest.SAMPLE_BYTES // (8 * self.d), 256)
        rows = min(max(self.cells * cells.SAMPLE_PER_CELL, nearest.FRAME_SAMPLE), budget, self.n)
        axes = 4 * self.d * self.d if self.d <= LARGEST_EIGENPROBLEM else 3 * (rows + self.d) * self.first * 4
        return rows * self.d * (2 * self.read + 5 * 8) + rows * (6 * 4 * self.first + 3 * 8 * self.tail) + axes * 8

    def sorting(self, unit_rows: int, in_memory: bool) -> int:
        """What a thread holds beside a unit: coordinates, the sorted table, and blocks of distances to cells."""
        block = min(unit_rows, layout.BLOCK_ROWS)
        blocks = block * (4 * 8 * self.d + 3 * 8 * (self.first + self.tail) + 2 * 4 * self.cells)
        table = self.d * (self.item + self.read) + self.coordinates
        return unit_rows * (table + self.coordinates + 40 + self._storing(in_memory)) + blocks

    def _storing(self, in_memory: bool) -> int:
        """Bytes a row on their way to or from a disk: the largest array, encoded and in shards."""
        return 0 if in_memory else 2 * max(self.d * self.item, 4 * self.tail)

    def searching(self, in_memory: bool, queries: int, slots: int) -> int:
        """What a thread holds: queries, a segment of candidates, distances to its cells, a product; then partners."""
        rows = self.segment_rows
        asked = rows if queries == self.n else min(queries, search.TASK_QUERIES + math.ceil(rows * queries / self.n))
        near = min(math.ceil(UNEVEN * self.cells * rows / self.n), self.cells)
        product = 4 * min(layout.PIECE_ROWS, self.n) ** 2
        candidates = 0 if in_memory else rows * (self.row + self._storing(False))
        partners = asked * self.d * 2 * self.item + BLOCK_ROWS * self.d * 4 * 8
        return asked * (2 * self.row + 80 * slots + 40) + candidates + max(asked * near * 4 + product, partners)

    def summing(self, threads: int) -> int:
        """Scatters of pairs on their way to one another, and the differences that are kept."""
        width, waiting = min(self.d, self.n), math.ceil(math.log2(self.segments + 1)) + 2
        kept = min(SAMPLE_PAIRS * 8 * self.d, SAMPLE_BYTES)
        return (threads + waiting) * width * width * 8 + 3 * kept
