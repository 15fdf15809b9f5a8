"""Exact splits: how large the smallest numbers of rows are, such as hashes of their positions, or their times.

Which rows of a class have the smallest hashes depends on row numbers and the seed alone: not on chunks, spans or
workers. The thresholds are found digit by digit, as a radix sort would, from counts that passes over the labels leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.rows import Rows
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import Span

LEAST_STEP = 4
"""Bits that a pass finds at least, whatever the counts take: with 100,000 classes and 50 splits, 640 MB."""

MAX_SEED = 1 << 32

NumbersOfRows = Callable[[int, int], Iterator[NDArray[np.uint64]]]
"""Yields unsigned integers of the rows from a start to a stop, one series after the other."""


def mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return well-mixed 64-bit numbers, one for each: different ones for different ``x``, and 0 for 0 alone.

    Source: Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators", the finisher of SplitMix64 with
    the constants of Stafford's variant 13.
    """
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def split_keys(seed: int, n_splits: int) -> NDArray[np.uint64]:
    """Return a key for every split, shape (S,).

    They are no ``mix(row + 1)``, for these are of smaller numbers.

    Raises InputError for a seed out of range.
    """
    if not 0 <= seed < MAX_SEED:
        raise InputError(f"seed={seed} must be a whole number from 0 to {MAX_SEED - 1}.")
    first = np.uint64((1 << 63) + (int(seed) << 31))
    return mix(first + np.arange(n_splits, dtype=np.uint64))


def row_mixes(start: int, stop: int) -> NDArray[np.uint64]:
    """Return what ``row_hashes`` makes hashes of, for rows ``start`` to ``stop``: the same for every split."""
    return mix(np.arange(start + 1, stop + 1, dtype=np.uint64))


def row_hashes(mixes: NDArray[np.uint64], key: np.uint64) -> NDArray[np.uint64]:
    """Return the hashes of rows in the split of a key: different for different rows, and never 0."""
    return mix(mixes ^ key)


def hashes_of_rows(start: int, stop: int, *, keys: NDArray[np.uint64]) -> Iterator[NDArray[np.uint64]]:
    """Yield the hashes of rows ``start`` to ``stop`` in the split of each key."""
    mixes = row_mixes(start, stop)
    return (row_hashes(mixes, key) for key in keys)


def find_thresholds(rows: Rows, numbers: NumbersOfRows, n_series: int, sizes: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the thresholds that the numbers of exactly so many rows of each class do not exceed.

    ``numbers`` yields S series, ``n_series``. Rows of equal numbers are on the same side: then those of more rows do
    not exceed it. ``sizes`` are between 0 and the count of the class, shape (C, m). The thresholds have shape
    (S, C, m).
    """
    census, shape = rows.census, (n_series, *sizes.shape)
    rank = np.broadcast_to(sizes, shape).copy()
    settled = (rank == 0) | (rank == census.sizes[:, None])
    last = np.where(rank == 0, np.uint64(0), np.uint64(2**64 - 1))
    low, bits = np.zeros(shape, np.uint64), 64
    # As many bits a pass as memory permits, and no more than there is use for.
    affordable = int(np.log2(max(LIMITS.split_count_bytes / (8 * int(np.prod(shape))), 1)))
    largest_step = max(min(affordable, census.n_rows.bit_length() + 2), LEAST_STEP)
    while not settled.all():
        step = min(largest_step, bits)
        task = partial(_count_in_bins, classes=census.classes, numbers=numbers, low=low, bits=bits, step=step)
        counts = rows.pass_over_columns(task, np.add, "splits")
        up_to = np.cumsum(counts, axis=-1)
        at = np.argmax(up_to >= rank[..., None], axis=-1)[..., None]
        inside = np.take_along_axis(counts, at, -1)[..., 0]
        rank -= np.take_along_axis(up_to, at, -1)[..., 0] - inside
        bits -= step
        low += at[..., 0].astype(np.uint64) << np.uint64(bits)
        # Between the last row below the threshold and the next one, any number will do; equal numbers are in bins of
        # their own when there are no more bits.
        now = ~settled & ((rank == inside) | (bits == 0))
        last[now] = low[now] + np.uint64((1 << bits) - 1)
        settled |= now
    return last


def _count_in_bins(
    dataset: Dataset, span: Span, *, classes: NDArray, numbers: NumbersOfRows, low: NDArray[np.uint64], bits: int,
    step: int,
) -> NDArray[np.int64]:  # fmt: skip
    """Count numbers in bins of intervals of 2^bits, one from each of ``low``: shape (S, C, m, 2^step)."""
    n_bins, shift = 1 << step, np.uint64(bits - step)
    counts = np.zeros((*low.shape, n_bins), np.int64)
    codes = dataset.batch(span.start, span.stop, X=False, roles=("label",)).codes(classes)
    for start in range(span.start, span.stop, LIMITS.hashed_rows):
        stop = min(start + LIMITS.hashed_rows, span.stop)
        own = codes[start - span.start : stop - span.start]
        for s, series in enumerate(numbers(start, stop)):
            for j in range(1 if bits == 64 else low.shape[2]):
                offsets, inside = series - low[s, own, j], own  # below the interval, they wrap round
                if bits < 64:
                    is_inside = offsets < np.uint64(1 << bits)
                    offsets, inside = offsets[is_inside], own[is_inside]
                bins = inside * n_bins + (offsets >> shift).astype(np.intp)
                counts[s, :, j] += np.bincount(bins, minlength=len(classes) * n_bins).reshape(-1, n_bins)
    if bits == 64:  # the intervals of all thresholds are still the same: it was counted for the first
        counts[:, :, 1:] = counts[:, :, :1]
    return counts
