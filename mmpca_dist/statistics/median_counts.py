"""Counts of the values of a span against brackets of medians, and the values that lie inside."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.rows import rows_by_class
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.units import BLOCK_BYTES, blocks, rows_within
from mmpca_dist.tables.spans import Span

COUNT_ROWS = 128
"""Rows whose counts fit in a byte, which adds up 20 times faster than wider integers."""

FEW = 8
"""Values from one end of a bracket to the other are looked at one by one where they are less than one in so many."""

ARRAY_BYTES = 128
"""Bytes that an array takes in addition to its values."""

PIECE_VALUES = 1 << 20
"""Values that are thinned at a time, about: it takes some 40 bytes for each."""


@dataclass(frozen=True)
class Brackets:
    """Where the medians of T sets of classes lie, column by column."""

    members: NDArray[np.bool_]  # (T, C): the classes of each set
    sizes: NDArray[np.int64]  # (C,): the rows of each class, or how often they count in all
    low: NDArray  # (T, d), of the type of the rows: the end of the bracket, which belongs to it
    high: NDArray  # (T, d): the other end
    step: int = 1  # beyond 1 values are kept of every so many rows, and those at the ends count as inside
    known: tuple[NDArray, NDArray] | None = None  # (T, d) each: medians lie between these; None: anywhere
    unit: float | None = None  # weights are whole numbers of it; None: every row counts once
    rows: int = 0  # of all classes, where these have weights

    @property
    def totals(self) -> NDArray[np.int64]:
        """How often rows of each set count in all, (T,); a product would first make the sets eight times as large."""
        return np.asarray([self.sizes[member].sum() for member in self.members])

    def counter(self, span: Span) -> MedianCounter:
        """Return the counter of a span, whose budget is its share of all rows."""
        return MedianCounter(
            self, int(LIMITS.kept_bytes * (span.stop - span.start) / (self.rows or int(self.sizes.sum())))
        )

    @property
    def kept_type(self) -> np.dtype:
        """The type of what is kept of the inside: values, and how often each counts where rows have weights."""
        return self.low.dtype if self.unit is None else np.dtype([("value", self.low.dtype), ("times", np.int64)])


@storable
@dataclass
class MedianCounts:
    """Counts of one pass for every bracket."""

    counts: NDArray[np.int64]  # (4, T, d): below the bracket, at its low end, inside, and at its high end, by weight
    keys: NDArray[np.unsignedinteger]  # of the values inside: set times d plus column
    values: NDArray  # all of them, or every 2^thinned-th
    thinned: int = 0
    budget: int = 0

    def merge(self, other: MedianCounts) -> MedianCounts:
        """Return the counts of both sets of rows."""
        level = max(self.thinned, other.thinned)
        left, right = self._thin_to(level), other._thin_to(level)
        keys, values = np.concatenate([left.keys, right.keys]), np.concatenate([left.values, right.values])
        both = self.counts + other.counts, keys, values, level, self.budget + other.budget
        return MedianCounts(*both).within_budget()

    def within_budget(self) -> MedianCounts:
        """Thin the values until they fit the budget."""
        counts = self
        while counts.keys.nbytes + counts.values.nbytes > self.budget + LIMITS.kept_floor:
            thinner = counts._thin_to(counts.thinned + 1)
            if len(thinner.keys) == len(counts.keys):  # one value a median is as few as there can be
                break
            counts = thinner
        return counts

    def in_order(self, n_keys: int) -> tuple[NDArray, NDArray[np.integer]]:
        """Return the values by key, and where those of each key begin."""
        # Columns of CSR come together in linear time, a third of that of ``argsort``.
        places, ends = np.arange(len(self.keys), dtype=np.int32), np.asarray([0, len(self.keys)], np.int32)
        rows = csr_array((places, self.keys.astype(np.int32), ends), shape=(1, n_keys)).tocsc()
        return self.values[rows.data], rows.indptr

    def _thin_to(self, level: int) -> MedianCounts:
        keys, values = self.keys, self.values
        for _ in range(level - self.thinned):
            keys, values = _halved(keys, values)
        return replace(self, keys=keys, values=values, thinned=level)


@dataclass
class MedianCounter:
    """Counts rows of one span against brackets."""

    brackets: Brackets
    budget: int
    _kept_keys: list[NDArray] = field(default_factory=list)
    _kept_values: list[NDArray] = field(default_factory=list)

    def __post_init__(self) -> None:
        shape = self.brackets.low.shape
        self._counts = np.zeros((4, *shape), np.int64)
        self._key_type = key_type(*shape)
        dtype = self.brackets.low.dtype
        size = rows_within(BLOCK_BYTES, dtype.itemsize * shape[1]), shape[1]
        # New arrays for every piece would cost as much as the comparisons.
        self._rows, self._marks = np.empty(size, dtype), np.empty((2, *size), bool)
        self._thinned = self._kept(0, self.budget)
        self._pending = 0

    def add(self, X: NDArray, codes: NDArray, weights: NDArray | None = None) -> None:
        """Count a block of rows (n, d), given the position of each one's class, and its weight."""
        unit = self.brackets.unit
        times = None if unit is None or weights is None else np.rint(weights / unit)
        X = X.view(np.uint8) if X.dtype == bool else X
        order, _ = rows_by_class(codes)  # rows of a piece are then in the same sets, or nearly
        for some in blocks(len(X), len(self._rows)):
            which = order[some]
            piece = np.take(X, which, axis=0, out=self._rows[: len(which)], mode="clip")
            held = np.zeros((len(self.brackets.members), len(which) + 2), bool)
            held[:, 1:-1] = self.brackets.members[:, codes[which]]
            numbers, ends = np.nonzero(held[:, 1:] != held[:, :-1])
            for number, start, stop in zip(numbers[::2].tolist(), ends[::2].tolist(), ends[1::2].tolist(), strict=True):
                self._count(piece[start:stop], number, None if times is None else times[which[start:stop]])
            if self._pending > max(self.budget, LIMITS.kept_floor):
                self._collect()

    def _count(self, rows: NDArray, number: int, times: NDArray[np.float64] | None) -> None:
        """Count rows (m, d) of a set, each so many times, against its bracket."""
        low, high, d = self.brackets.low[number], self.brackets.high[number], rows.shape[1]
        step, (from_low, held) = self.brackets.step, self._marks[:, : len(rows)]
        np.greater_equal(rows, low, out=from_low)
        np.less_equal(rows, high, out=held)
        self._counts[0, number] += (len(rows) if times is None else int(times.sum())) - count_rows(from_low, times)
        held &= from_low
        if step > 1:
            self._counts[2, number] += count_rows(held, times)
            at, columns = np.divmod(np.flatnonzero(held[::step]), d)
            at *= step
        else:
            at, columns = self._between(rows, held, number, times)
        if len(at):
            kept = np.empty(len(at), self.brackets.kept_type)
            (kept if times is None else kept["value"])[:] = rows[at, columns]
            if times is not None:
                kept["times"] = times[at]
            self._kept_keys.append((columns + number * d).astype(self._key_type))
            self._kept_values.append(kept)
            self._pending += len(at) * self._key_type.itemsize + kept.nbytes + 2 * ARRAY_BYTES

    def _between(
        self, rows: NDArray, held: NDArray[np.bool_], number: int, times: NDArray[np.float64] | None
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Count rows on the ends of a bracket and strictly inside; return the rows and columns of the latter."""
        low, high, d = self.brackets.low[number], self.brackets.high[number], rows.shape[1]
        if FEW * np.count_nonzero(held) > held.size:  # as whole numbers are, many lie on the ends
            at_low = rows == low
            at_high = (rows == high) & ~at_low
            self._counts[1, number] += count_rows(at_low, times)
            self._counts[3, number] += count_rows(at_high, times)
            held &= ~(at_low | at_high)
        inside = np.flatnonzero(held)
        at, columns = np.divmod(inside, d)
        values, often = rows.reshape(-1)[inside], None if times is None else times[at]
        at_low, at_high = values == low[columns], values == high[columns]
        at_high &= ~at_low  # where both ends are one value, everything at it counts as the low end
        for counts, some in ((self._counts[1], at_low), (self._counts[3], at_high)):
            if some.any():
                counts[number] += np.bincount(columns[some], None if often is None else often[some], d).astype(np.int64)
        between = ~(at_low | at_high)
        at, columns = at[between], columns[between]
        self._counts[2, number] += np.bincount(columns, None if often is None else often[between], d).astype(np.int64)
        return at, columns

    def _kept(self, *thinning: int) -> MedianCounts:
        """Return counts of nothing, with what was kept since the last time."""
        zeros = np.zeros_like(self._counts)
        keys = np.concatenate([np.empty(0, self._key_type), *self._kept_keys])
        values = np.concatenate([np.empty(0, self.brackets.kept_type), *self._kept_values])
        return MedianCounts(zeros, keys, values, *thinning)

    def _collect(self) -> None:
        """Bring what was kept since the last time within the budget."""
        pending = self._kept()
        self._kept_keys, self._kept_values, self._pending = [], [], 0
        self._thinned = self._thinned.merge(pending)

    def result(self) -> MedianCounts:
        """Return what the span found."""
        self._collect()
        return replace(self._thinned, counts=self._counts)


def _halved(keys: NDArray, values: NDArray) -> tuple[NDArray, NDArray]:
    """Return every second value of each key, in the order of the keys: a range of keys at a time."""
    if not len(keys):
        return keys, values
    sizes = np.zeros(int(keys.max()) + 1, np.int64)
    for start in range(0, len(keys), PIECE_VALUES):
        sizes += np.bincount(keys[start : start + PIECE_VALUES], minlength=len(sizes))
    kept = np.cumsum(-(-sizes // 2))
    new_keys, new_values = np.empty(kept[-1], keys.dtype), np.empty(kept[-1], values.dtype)
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // PIECE_VALUES, prepend=-1))
    for first, last in zip(cuts, [*cuts[1:], len(sizes)], strict=True):
        piece = np.flatnonzero((keys >= first) & (keys < last))
        piece = piece[np.argsort(keys[piece], kind="stable")]
        starts = np.cumsum(sizes[first:last]) - sizes[first:last]
        position = np.arange(len(piece)) - np.repeat(starts, sizes[first:last])
        piece = piece[position % 2 == 0]
        end = kept[last - 1]
        new_keys[end - len(piece) : end], new_values[end - len(piece) : end] = keys[piece], values[piece]
    return new_keys, new_values


def key_type(n_sets: int, n_features: int) -> np.dtype:
    """Return the smallest type for (set, column): 16-bit keys also sort in linear time."""
    return np.dtype(np.uint16 if n_sets * n_features <= 1 << 16 else np.uint32)


def count_rows(mask: NDArray[np.bool_], times: NDArray[np.float64] | None = None) -> NDArray[np.int64]:
    """Return how many rows (m, d) are true, by column, each so many ``times``."""
    if times is not None:  # whole numbers, whose sums a double holds
        return (times @ mask).astype(np.int64)
    ones, whole = mask.view(np.uint8), len(mask) // COUNT_ROWS
    some = ones[: whole * COUNT_ROWS].reshape(whole, COUNT_ROWS, mask.shape[1])
    counts = np.add.reduce(some, axis=1, dtype=np.uint8).sum(axis=0, dtype=np.int64)
    counts += np.add.reduce(ones[whole * COUNT_ROWS :], axis=0, dtype=np.uint8)
    return np.asarray(counts)
