"""The rows that are left of each chunk of a source, and the stretches of it that are read for some of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.tables.spans import reading_edges

Edges = NDArray[np.int64]


@dataclass(frozen=True)
class KeptRows:
    """How many rows are left of each chunk of a source; they are numbered anew.

    Chunks stay as they are, less what is left out; a chunk of which no row is left is not read. At most a reading unit
    of the source is read at once, however few rows are left of it.
    """

    edges: Edges
    """Of the chunks of which rows are left, by the new numbers."""
    starts: Edges
    """The first row of each of these chunks in the source."""
    stops: Edges
    cuts: Edges
    """Numbers of chunks with which a new stretch begins."""

    @classmethod
    def of(cls, sizes: NDArray[np.int64], edges: Edges, units: Edges) -> Self:
        """Return what is left, by the rows left of each chunk, and the edges of chunks and of reading units."""
        filled = np.flatnonzero(sizes)
        starts, stops = edges[filled], edges[filled + 1]
        is_next = np.diff(np.searchsorted(units, starts, side="right")) > 0
        cuts = 1 + np.flatnonzero(is_next | (starts[1:] > stops[:-1]))
        return cls(np.append(0, np.cumsum(sizes[filled])), starts, stops, cuts)

    def stretches(self, start: int, stop: int) -> Iterator[tuple[int, int, slice]]:
        """Yield stretches of the source that hold some rows, and where these are among the rows left of each."""
        first = int(np.searchsorted(self.edges, start, side="right")) - 1
        last = max(int(np.searchsorted(self.edges, stop)), first + 1)
        cuts = self.cuts[(self.cuts > first) & (self.cuts < last)].tolist()
        for chunk, after in itertools.pairwise([first, *cuts, last]):
            before = int(self.edges[chunk])
            yield int(self.starts[chunk]), int(self.stops[after - 1]), slice(max(start - before, 0), stop - before)


def windows(rows: NDArray[np.int64], table: Any) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
    """Yield stretches of a table that hold rows, given in order, and where these are in each.

    No stretch crosses the edges of reading units, unless the rows are all that it holds.
    """
    if not len(rows):
        return
    cuts = np.zeros(0, np.int64)
    if rows[-1] - rows[0] >= len(rows):
        cuts = np.flatnonzero(np.diff(np.searchsorted(reading_edges(table), rows, side="right"))) + 1
    for part in np.split(rows, cuts):
        yield int(part[0]), int(part[-1]) + 1, part - part[0]
