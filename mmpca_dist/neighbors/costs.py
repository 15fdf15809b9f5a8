"""Cost of a search: pairs to compare, scratch, memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.limits import LIMITS
from mmpca_dist.neighbors import cells, kernels, nearest
from mmpca_dist.neighbors.layout import piece_rows, segment_rows
from mmpca_dist.neighbors.options import MAX_FIRST, MAX_SECOND, Search
from mmpca_dist.neighbors.pair_statistics import block_rows, sample_pairs
from mmpca_dist.neighbors.search import FEWEST_TASKS, most_queries
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import Span

EXPECTED_SHARE, EXPECTED_CELLS, EXPECTED_POWER = 0.2, 250, 0.5
"""An approximate search is expected to compare a fifth of the pairs with 250 cells (100,000 rows), and less with more
of them, as a power of their number. Measured in 32 to 784 columns, recall 0.95 and 0.98, up to 10,000,000 rows: two or
three times that on white noise, about that on MNIST and on noise with a spectrum, a hundredth on separate clusters."""
READING = 3
"""Copies of a unit that a task holds while it reads one, at most."""
UNEVEN = 2
"""A segment may hold so many times more cells than one of even cells would."""


@dataclass(frozen=True)
class SearchCosts:
    """The most that a search may cost; sizes in bytes."""

    queries: int
    pairs: float  # upper bound on the pairs that are compared; of an approximate search, what is expected
    scratch: int  # largest size of what is laid out, in memory or on disk: it is there twice while it is sorted
    in_memory: bool
    memory: int  # of a process, in addition to its base and to what the data set keeps
    proved: bool  # whether the bounds are bounds, and not expected values


def search_costs(
    dataset: Dataset,
    search: Search,
    *,
    counts: NDArray[np.int64],
    standardize: bool,
    in_memory: bool,
    spans: list[Span],
    threads: int,
    vectors: int = 0,
    solving: int = 0,
) -> SearchCosts:
    """Return the costs of a search among rows of which each class has ``counts`` (C,).

    Parameters
    ----------
    in_memory : bool
        Whether what is laid out stays in the memory of this process.
    threads : int
        That share a process.
    vectors : int
        How many the scatter of pairs is applied to, where it is not formed; else 0.
    solving : int
        Bytes that the solver holds between such passes.
    """
    n = dataset.n_rows
    queries = min(search.max_queries or n, n)
    others = float(n if len(counts) > LIMITS.few_classes else counts @ (n - counts) / n)
    calibrated = 2 * nearest.enough_tests(search.recall)
    proved = search.mode == "exact" or queries <= calibrated
    sizes = _Sizes.of(dataset, standardize, in_memory, len(counts) if search.pairing == "one-vs-one" else 1)
    share = min(1.0, EXPECTED_SHARE * (EXPECTED_CELLS / sizes.cells) ** EXPECTED_POWER)
    compared = others * (queries if proved else calibrated + share * queries)
    results = queries * (24 * sizes.slots + 40) * (1 if search.mode == "exact" else 3)
    tasks = sizes.segments
    if queries < n:
        tasks = min(math.ceil(queries / most_queries(sizes.row)) + FEWEST_TASKS, tasks)
    laid_out, kept = (n * sizes.row, results) if in_memory else (0, 0)
    searching = max(sizes.searching(asked) for asked in ([queries] if proved else [queries, calibrated]))
    unit_rows = max(stop - start for span in spans for start, stop in span.units)
    unit = READING * unit_rows * dataset.row_bytes
    later = (
        laid_out + min(threads, len(spans)) * (unit + sizes.sorting(unit_rows)),
        2 * laid_out + threads * sizes.filling(),
        laid_out + kept + threads * searching,
        laid_out + kept + threads * sizes.pairing(queries) + sizes.summing(threads, tasks, vectors)
        + max(sizes.missing(search), solving),
    )  # fmt: skip
    return SearchCosts(
        queries=queries,
        pairs=compared,
        scratch=max(2 * n * sizes.row, n * sizes.row + results),
        in_memory=in_memory,
        memory=max(sizes.training(), sizes.frame() + max(later)),
        proved=proved,
    )


@dataclass(frozen=True)
class _Sizes:
    """Bytes of a row in the layout, rows of its segments, and what the tasks hold at their worst.

    ``read`` and ``item`` are the bytes of a value as it is read and as it is compared, ``first`` and ``tail`` the
    coordinates of a row.
    """

    n: int
    d: int
    read: int
    item: int
    first: int
    tail: int
    in_memory: bool
    slots: int

    @classmethod
    def of(cls, dataset: Dataset, standardize: bool, in_memory: bool, slots: int) -> _Sizes:
        d, dtype = dataset.n_features, dataset.dtype
        item = 8 if standardize else cells.row_type(dtype).itemsize
        tail = 0 if d <= cells.SMALL else min(d, MAX_SECOND + 1)
        return cls(dataset.n_rows, d, dtype.itemsize, item, min(d, MAX_FIRST + 1), tail, in_memory, slots)

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
        return min(piece_rows(self.row), self.n)

    @property
    def segment_rows(self) -> int:
        return max(min(segment_rows(self.n, self.row), self.n), self.piece_rows)

    @property
    def segments(self) -> int:
        """How many there are at most, about: segments hold whole pieces, and may be half empty."""
        return math.ceil(2 * self.n / segment_rows(self.n, self.row))

    @property
    def sampled(self) -> int:
        """Rows of the sample for axes and cells."""
        return min(nearest.sample_size(self.n, self.d), self.n)

    @property
    def table(self) -> int:
        """Bytes a row of a table on its way to or from a disk: itself, and its largest array encoded and in shards."""
        return 0 if self.in_memory else self.row + 2 * max(self.d * self.item, 4 * self.tail)

    def training(self) -> int:
        """Return the bytes of the sample, as read and in double: centred, along the axes and beside them, or all."""
        rows, d = self.sampled, self.d
        axes = 4 * d * d if d <= cells.LARGEST_EIGENPROBLEM else 3 * (rows + d) * MAX_SECOND
        coordinates = 24 * self.first + 16 * self.tail
        return rows * d * 2 * self.read + max(rows * d * 5 * 8 + axes * 8, rows * coordinates)

    def frame(self) -> int:
        """Return the bytes of the axes, and once more as they are sent."""
        return 2 * 8 * self.d * max(self.first, self.tail)

    def sorting(self, unit_rows: int) -> int:
        """Bytes of a thread, plus a unit: coordinates, and blocks of distances to cells, then the sorted table."""
        block = min(unit_rows, cells.block_rows(self.d))
        blocks = block * (3 * 8 * self.d + 3 * 8 * (self.first + self.tail) + 4 * self.cells)
        return unit_rows * (self.coordinates + 40) + max(blocks, unit_rows * (self.d * self.read + self.table))

    def filling(self) -> int:
        """Bytes of a thread, plus the segment it fills: what comes from the sorted units, squares of norms."""
        return self.segment_rows * (self.row + 16 + self.table)

    def searching(self, queries: int) -> int:
        """Bytes of a thread: queries, a segment of candidates, distances to its cells, a product."""
        asked, rows = self._asked(queries), self.segment_rows
        near = min(math.ceil(UNEVEN * self.cells * rows / self.n), self.cells)
        product = 4 * (self.piece_rows**2 + kernels.PRODUCT)
        return asked * (80 * self.slots + 40 + 4 * near) + product + rows * self.table + self._gathering(queries)

    def pairing(self, queries: int) -> int:
        """Bytes of a thread: queries and their partners (of two slots at a time), and blocks of their differences."""
        asked = self._asked(queries)
        block = min(asked, block_rows(self.d))
        partners = asked * self.d * self.item * min(self.slots, 2) + block * self.d * 4 * 8
        return asked * 80 + partners + self.segment_rows * self.table + self._gathering(queries)

    def _asked(self, queries: int) -> int:
        """Rows of the queries of a task."""
        if queries == self.n:
            return self.segment_rows
        return min(queries, most_queries(self.row) + math.ceil(self.segment_rows * queries / self.n))

    def _gathering(self, queries: int) -> int:
        """Bytes of the queries of a task: those of a segment as they are stored, drawn ones as they are joined."""
        if queries == self.n:
            return 0 if self.in_memory else self.segment_rows * self.row
        return 2 * self._asked(queries) * self.row

    def summing(self, threads: int, tasks: int, vectors: int) -> int:
        """Scatters of pairs, or what they make of vectors, as they are added up; differences that are kept."""
        waiting = math.ceil(math.log2(tasks + 1)) + 3
        size = self.d * vectors or min(self.d, self.n) ** 2
        return (2 * threads + waiting) * size * 8 + 3 * min(sample_pairs(self.d), self.n) * 8 * self.d

    def missing(self, search: Search) -> int:
        """Rows of an approximate search that missed, what it found and what is nearest, and two differences."""
        if search.mode == "exact":
            return 0
        missed = math.ceil((1 - search.recall) * nearest.enough_tests(search.recall) * self.slots)
        return missed * self.d * 8 * 5
