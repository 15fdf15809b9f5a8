"""Chunks, reading units and spans: how passes cut the rows of a table, by its chunks alone."""

from __future__ import annotations

import itertools
from bisect import bisect, bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS

MIN_UNITS, GRAIN_BYTES = 8, 1 << 20
"""Rows in memory and sparse rows can be cut anywhere; their chunks are of this size."""
MAX_UNITS_PER_SPAN, MIN_SPANS = 16, 32
"""A span, the work of one task, holds up to 16 units (1 GiB of rows), as long as there are 32 spans."""


@dataclass(frozen=True)
class Span:
    """Consecutive reading units that one task works through; ``edges`` are the row numbers that bound them."""

    index: int
    edges: tuple[int, ...]

    @property
    def start(self) -> int:
        return self.edges[0]

    @property
    def stop(self) -> int:
        return self.edges[-1]

    @property
    def units(self) -> list[tuple[int, int]]:
        return list(itertools.pairwise(self.edges))


def overlaps(edges: Sequence[int] | NDArray[np.int64], start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Yield the number of each chunk that holds some of rows ``start`` to ``stop``, and the first and last of these."""
    for number in range(bisect(edges, start) - 1, min(bisect_left(edges, stop), len(edges) - 1)):
        first, last = max(start, int(edges[number])), min(stop, int(edges[number + 1]))
        if first < last:
            yield number, first, last


def chunk_edges(n_rows: int, chunk_rows: int) -> NDArray[np.int64]:
    """Return the edges of a regular grid of ``chunk_rows`` rows a chunk."""
    return np.append(np.arange(0, n_rows, chunk_rows, dtype=np.int64), n_rows)


def chunk_of(edges: NDArray[np.int64], row: int) -> tuple[int, int, int]:
    """Return the number of the chunk that holds a row, its first row, and the row after its last."""
    number = int(np.searchsorted(edges, row, side="right")) - 1
    return number, int(edges[number]), int(edges[number + 1])


def cut_edges(edges: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return edges of which no two are more than ``most`` rows apart: chunks that are larger are cut."""
    pieces = (range(first, last, most) for first, last in itertools.pairwise(edges.tolist()))
    return np.asarray([*itertools.chain.from_iterable(pieces), edges[-1]], np.int64)


def grain_edges(n_rows: int, row_bytes: int) -> NDArray[np.int64]:
    """Return the edges of the grid for rows that can be cut anywhere; ``row_bytes`` are those of a dense row."""
    return chunk_edges(n_rows, min(default_chunk_rows(row_bytes), max(1, GRAIN_BYTES // row_bytes)))


def default_chunk_rows(row_bytes: int) -> int:
    """Return how many rows of ``row_bytes`` make a unit, for data without chunks."""
    return max(1, LIMITS.unit_bytes // row_bytes)


def unit_edges(edges: NDArray[np.int64], row_bytes: int) -> NDArray[np.int64]:
    """Group consecutive chunks into reading units of up to ``LIMITS.unit_bytes``, at least one chunk each.

    Units are about equal, so that tasks end together. There are at least eight, if units then have 8 MiB or more.
    """
    first, n_rows, limit = int(edges[0]), int(edges[-1] - edges[0]), default_chunk_rows(row_bytes)
    fewest = len(_fill_units(edges, limit, [first + n_rows])) - 1
    n_units = max(fewest, min(MIN_UNITS, n_rows * row_bytes // LIMITS.smallest_unit_bytes), 1)
    return np.asarray(_fill_units(edges, limit, [first + n_rows * i // n_units for i in range(1, n_units + 1)]))


def reading_edges(table: Any, more: int = 0) -> NDArray[np.int64]:
    """Return the row edges of reading units, with ``more`` bytes for each row than those that are read for it."""
    return unit_edges(table.chunk_edges, int(table.row_bytes * table.facts.rows_read) + more)


def _fill_units(edges: NDArray[np.int64], limit: int, targets: list[int]) -> list[int]:
    """Return edges near the ``targets``, at most ``limit`` rows or one chunk apart."""
    kept = [int(edges[0])]
    ahead = itertools.chain(targets, itertools.repeat(targets[-1]))
    while kept[-1] < edges[-1]:
        target = next(edge for edge in ahead if edge > kept[-1])
        after = int(np.searchsorted(edges, target))
        nearest = after if 2 * (edges[after] - target) <= edges[after] - edges[after - 1] else after - 1
        within = int(np.searchsorted(edges, kept[-1] + limit, side="right")) - 1
        following = int(np.searchsorted(edges, kept[-1], side="right"))
        kept.append(int(edges[max(min(nearest, within), following)]))
    return kept


def make_spans(table: Any) -> list[Span]:
    """Cut a table into spans, which depend on its chunk grid alone, never on the workers."""
    if table.n_rows == 0:
        raise InputError(f"{table.uri} has no rows.")
    return spans_of(reading_edges(table))


def spans_of(edges: NDArray[np.int64]) -> list[Span]:
    """Group reading units, given by their row edges, into spans."""
    rows, n_units = edges.tolist(), len(edges) - 1
    size = min(max(n_units // MIN_SPANS, 1), MAX_UNITS_PER_SPAN)
    return [Span(i, tuple(rows[at : at + size + 1])) for i, at in enumerate(range(0, n_units, size))]
