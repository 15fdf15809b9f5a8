"""Samples of rows that are spread evenly over a table, by the number of its rows alone: no labels, no chunks."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

STRETCHES = 32
"""A sample comes from up to so many stretches of consecutive rows, so that it reads 64 chunks at most."""
STRETCH_ROWS = 256
"""Rows of a stretch, at least."""
SPREAD = 4
"""Rows of all stretches, for each row of the sample: neighbouring rows may be similar."""


def evenly_drawn(n_rows: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the numbers of ``count`` of the rows, one at random from each of so many equal parts; ascending."""
    edges = np.arange(count + 1) * n_rows // count
    return rng.integers(edges[:-1], edges[1:])


def stretches(n_rows: int, count: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Return first and last rows (exclusive) of the stretches that a sample of ``count`` rows comes from.

    The table is cut into equal parts, and a stretch of each begins at a random row. Where stretches would cover the
    table, they are its parts.
    """
    parts = min(STRETCHES, n_rows)
    size = max(STRETCH_ROWS, -(-SPREAD * count // parts))
    edges = (np.arange(parts + 1) * n_rows // parts).tolist()
    return [_stretch(start, stop, size, rng) for start, stop in itertools.pairwise(edges)]


Stretch = tuple[int, int, NDArray[np.int64]]
"""First and last row (exclusive) to read, and which of these rows to take, from 0."""


def sample_plan(n_rows: int, count: int, seed: int) -> list[Stretch]:
    """Return which rows make a sample of ``count`` rows, or all where there are fewer; stretches are ascending."""
    rng, count = np.random.default_rng(seed), min(count, n_rows)
    read = stretches(n_rows, count, rng)
    ends = np.cumsum([0, *(stop - start for start, stop in read)])
    chosen = evenly_drawn(int(ends[-1]), count, rng)
    cuts = np.searchsorted(chosen, ends)
    return [(start, stop, chosen[cuts[i] : cuts[i + 1]] - ends[i]) for i, (start, stop) in enumerate(read)]


def by_chunk(plan: list[Stretch], edges: NDArray[np.int64]) -> list[Stretch]:
    """Return the same sample with the stretches that begin in one chunk joined, so that it is read once.

    ``edges`` are the row numbers where chunks begin and where the last one ends.
    """
    chunks = np.searchsorted(edges, [start for start, _, _ in plan], side="right").tolist()
    joined = []
    for _, group in itertools.groupby(zip(chunks, plan, strict=True), key=lambda pair: pair[0]):
        parts = [part for _, part in group]
        first = parts[0][0]
        joined.append((first, parts[-1][1], np.concatenate([picks + start - first for start, _, picks in parts])))
    return joined


def _stretch(start: int, stop: int, size: int, rng: np.random.Generator) -> tuple[int, int]:
    if stop - start <= size:
        return start, stop
    first = int(rng.integers(start, stop - size + 1))
    return first, first + size
