"""Exact coordinate-wise medians of sets of classes, out of core.

A sample brackets every median. A pass (the moments pass itself) counts the values below a bracket and on its ends, and
keeps those strictly inside. If they fit a fixed budget of bytes, they contain the median. Otherwise they are thinned to
a sample of the bracket, which gives a far narrower bracket for another pass. A bracket that missed is replaced by the
side on which it missed. Every round narrows the brackets, so the last one is exact.

Source: Floyd & Rivest 1975, "Expected time bounds for selection", for brackets from a sample; Munro & Paterson 1980,
"Selection and sorting with limited storage", for passes that narrow them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.serialization import storable
from mmpca_dist.tables.spans import Span

PAIRINGS = ("one-vs-rest", "one-vs-one")
"""Whether a class faces all others together, or one after the other."""

COUNT_ROWS = 252
"""Rows counted at once: their counts fit in a byte, which adds up 20 times faster than wider integers."""

ARRAY_BYTES = 128
"""Bytes that an array takes in addition to its values."""

PIECE_VALUES = 1 << 20
"""Values that are thinned at a time, about: it takes some 40 bytes for each."""

MARGIN = 5.0
"""Half-width of a bracket in standard deviations of the sample's median rank: one in two million misses."""


def median_sets(n_classes: int, *pairings: str) -> NDArray[np.bool_] | None:
    """Return the sets of classes whose medians are needed, shape (P C, C), or None without any pairing.

    For every pairing these are the complements of the classes (one-vs-rest), or the classes (one-vs-one).
    """
    if not pairings:
        return None
    each = np.eye(n_classes, dtype=bool)
    return np.concatenate([~each if pairing == "one-vs-rest" else each for pairing in pairings])


def median_rows(counts: NDArray[np.int64], pairings: Iterable[str]) -> int:
    """Return the rows of all sets of `median_sets` together."""
    return sum(int(counts.sum()) * (len(counts) - 1 if pairing == "one-vs-rest" else 1) for pairing in pairings)


def by_pairing(medians: NDArray[np.float64] | None, pairings: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """Return the medians of `median_sets`, shape (P C, d), by pairing: shape (C, d) each."""
    return {} if medians is None else dict(zip(pairings, np.split(medians, len(pairings)), strict=True))


@dataclass(frozen=True)
class Brackets:
    """Where the medians of T sets of classes lie, column by column."""

    members: NDArray[np.bool_]  # (T, C): the classes of each set
    low: NDArray  # (T, d), of the type of the rows: the end of the bracket, which belongs to it
    high: NDArray  # (T, d): the other end

    @classmethod
    def unbounded(cls, members: NDArray[np.bool_], n_features: int, dtype: np.dtype) -> Brackets:
        """Return brackets that hold every value."""
        shape = (len(members), n_features)
        if dtype.kind == "f":
            return cls(members, np.full(shape, -np.inf, dtype), np.full(shape, np.inf, dtype))
        limits = np.iinfo(np.uint8 if dtype.kind == "b" else dtype)
        return cls(members, np.full(shape, limits.min, limits.dtype), np.full(shape, limits.max, limits.dtype))


@storable
@dataclass
class MedianCounts:
    """Counts of one pass for every bracket."""

    counts: NDArray[np.int64]  # (4, T, d): below the bracket, at its low end, inside, and at its high end
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

    @classmethod
    def of_span(cls, brackets: Brackets, span: Span, n_rows: int) -> MedianCounter:
        """Return the counter of a span, whose budget is its share of ``n_rows``."""
        return cls(brackets, int(LIMITS.kept_bytes * (span.stop - span.start) / n_rows))

    def __post_init__(self) -> None:
        shape = self.brackets.low.shape
        self._counts = np.zeros((4, *shape), np.int64)
        self._counts_below, self._upto_low, self._under_high, self._upto_high = self._counts
        self._key_type = key_type(*shape)
        self._thinned = self._kept(0, self.budget)
        self._pending = 0

    def add(self, X: NDArray, codes: NDArray) -> None:
        """Count rows (n, d), given the position of each one's class."""
        X = X.view(np.uint8) if X.dtype == bool else X
        order = np.argsort(codes, kind="stable")  # rows of a block are then in the same sets, or nearly
        for start in range(0, len(X), COUNT_ROWS):
            rows = order[start : start + COUNT_ROWS]
            self._count_block(X[rows], self.brackets.members[:, codes[rows]])
            if self._pending > max(self.budget, LIMITS.kept_floor):
                self._collect()

    def _count_block(self, block: NDArray, members: NDArray[np.bool_]) -> None:
        """Count rows (m, d) for the sets, of all T, that each is in, shape (T, m)."""
        d, whole = block.shape[1], np.all(members, axis=1)
        for number in np.flatnonzero(members.any(axis=1)):
            low, high = self.brackets.low[number], self.brackets.high[number]
            rows = block if whole[number] else block[members[number]]
            upto_low, under_high = rows <= low, rows < high
            self._counts_below[number] += _count(rows < low)
            self._upto_low[number] += _count(upto_low)
            self._under_high[number] += _count(under_high)
            self._upto_high[number] += _count(rows <= high)
            inside = np.flatnonzero(under_high & ~upto_low)
            if len(inside):
                self._kept_keys.append((inside % d + number * d).astype(self._key_type))
                self._kept_values.append(rows.reshape(-1)[inside])
                self._pending += len(inside) * (self._key_type.itemsize + rows.itemsize) + 2 * ARRAY_BYTES

    def _kept(self, *thinning: int) -> MedianCounts:
        """Return counts of nothing, with what was kept since the last time."""
        zeros = np.zeros_like(self._counts)
        keys = np.concatenate([np.empty(0, self._key_type), *self._kept_keys])
        values = np.concatenate([np.empty(0, self.brackets.low.dtype), *self._kept_values])
        return MedianCounts(zeros, keys, values, *thinning)

    def _collect(self) -> None:
        """Bring what was kept since the last time within the budget."""
        pending = self._kept()
        self._kept_keys, self._kept_values, self._pending = [], [], 0
        self._thinned = self._thinned.merge(pending)

    def result(self) -> MedianCounts:
        """Return what the span found."""
        self._collect()
        # In place. Where both ends are one value, everything at it counts as the low end.
        self._upto_high -= np.maximum(self._under_high, self._upto_low)
        np.maximum(self._under_high - self._upto_low, 0, out=self._under_high)
        self._upto_low -= self._counts_below
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


def _count(mask: NDArray[np.bool_]) -> NDArray[np.uint8]:
    return np.add.reduce(mask.view(np.uint8), axis=0, dtype=np.uint8)


def settle(
    brackets: Brackets, counts: MedianCounts, totals: NDArray[np.int64]
) -> tuple[NDArray[np.float64], Brackets | None]:
    """Return the medians (T, d) that a pass has determined, and brackets for the others; None if there are none.

    Others are NaN, and brackets of determined ones are empty. The median of an even number is the mean of the middle
    two. ``totals`` (T,) are the rows in each set of classes.
    """
    n_sets, d = brackets.low.shape
    medians = np.full((n_sets, d), np.nan)
    low, high = brackets.low.copy(), brackets.high.copy()
    order = np.argsort(counts.keys, kind="stable")
    keys, values = counts.keys[order], counts.values[order]
    edges = np.searchsorted(keys, np.arange(n_sets * d + 1))
    for number in range(n_sets):
        ranks = ((totals[number] - 1) // 2, totals[number] // 2)
        for column in range(d):
            at = number * d + column
            kept = values[edges[at] : edges[at + 1]]
            ends = low[number, column], high[number, column]
            below, at_low, inside, at_high = counts.counts[:, number, column].tolist()
            cell = _Cell(below, at_low, inside, at_high, *ends, kept)
            middle = [cell.value_at(int(rank)) for rank in ranks]
            if None not in middle:
                medians[number, column] = (float(middle[0]) + float(middle[1])) / 2  # type: ignore[arg-type]
                # Nothing lies between the two: another pass keeps nothing and settles them again.
                low[number, column], high[number, column] = middle
            else:
                low[number, column], high[number, column] = cell.narrowed(ranks, brackets)
    done = not np.isnan(medians).any()
    return medians, None if done else Brackets(brackets.members, low, high)


@dataclass(frozen=True)
class _Cell:
    """One median: the counts and the ends of its bracket, and the values kept of its inside."""

    below: int
    at_low: int
    inside: int
    at_high: int
    low: np.generic
    high: np.generic
    kept: NDArray

    def value_at(self, rank: int) -> np.generic | None:
        """Return the value of this rank (from 0) in the set, or None if the pass does not determine it."""
        inner = rank - self.below - self.at_low
        if rank < self.below:
            return None
        if inner < 0:
            return self.low
        if inner < self.inside:
            return np.partition(self.kept, inner)[inner] if len(self.kept) == self.inside else None
        return self.high if inner < self.inside + self.at_high else None

    def narrowed(self, ranks: tuple[int, int], brackets: Brackets) -> tuple[np.generic, np.generic]:
        """Return a bracket for the next pass: the side on which it missed, or one around the ranks in the sample."""
        under_high = self.below + self.at_low + self.inside
        beyond = under_high + self.at_high
        if ranks[0] < self.below or ranks[1] >= beyond:
            unbounded = Brackets.unbounded(brackets.members[:1], 1, brackets.low.dtype)
            low = self.high if ranks[0] >= under_high else self.low
            high = self.low if ranks[1] < self.below + self.at_low else self.high
            return (
                unbounded.low[0, 0] if ranks[0] < self.below else low,
                unbounded.high[0, 0] if ranks[1] >= beyond else high,
            )
        sample, size = np.sort(self.kept), len(self.kept)
        first, last = ((rank - self.below - self.at_low) / self.inside * size for rank in ranks)
        reach = min(MARGIN * np.sqrt(size) / 2 + 1, size / 4)
        start, stop = int(np.floor(first - reach)), int(np.ceil(last + reach))
        low = sample[start] if start >= 0 else self.low
        high = sample[stop] if stop < size else self.high
        if (low, high) == (self.low, self.high):
            # Too few values to enclose the median within: try one half, and the next pass knows which it is.
            pivot = sample[size // 2]
            return (low, pivot) if first < size / 2 else (pivot, high)
        return low, high


def brackets_from_sample(
    rows: NDArray, codes: NDArray[np.intp], counts: NDArray[np.int64], members: NDArray[np.bool_]
) -> Brackets:
    """Bracket the medians of the sets ``members`` (T, C) of classes from a sample of the rows, with codes of classes.

    ``counts`` (C,) are the rows of each class in all data: brackets are wider by the difference between its shares and
    the sample's.
    """
    brackets = Brackets.unbounded(members, rows.shape[1], rows.dtype)
    sampled = np.bincount(codes, minlength=len(counts))
    ends = np.asarray([_sample_ranks(sampled[member], counts[member]) for member in members])
    for column in range(rows.shape[1]):
        order = np.argsort(rows[:, column])
        values, sources = rows[order, column], codes[order]
        for number, (member, (first, last)) in enumerate(zip(members, ends, strict=True)):
            if first < 0 and last < 0:
                continue
            of_set = values[member[sources]]
            if first >= 0:
                brackets.low[number, column] = of_set[first]
            if last >= 0:
                brackets.high[number, column] = of_set[last]
    return brackets


def _sample_ranks(sampled: NDArray[np.int64], counts: NDArray[np.int64]) -> tuple[int, int]:
    """Return the ranks, in a sample of some classes, of the ends of a bracket; -1 for what lies beyond the sample.

    In a sample of all rows they are the ranks of the median.
    """
    size = int(sampled.sum())
    if size == 0:
        return -1, -1
    if size == counts.sum():
        return (size - 1) // 2, size // 2
    difference = np.abs(sampled / size - counts / counts.sum()).sum() / 2
    reach = MARGIN * np.sqrt(size) / 2 + difference * size + 1
    first, last = int(np.floor((size - 1) / 2 - reach)), int(np.ceil(size / 2 + reach))
    return max(first, -1), last if last < size else -1


def foreseen_rounds(values: float, entry_bytes: int, n_medians: int, sample_rows: int) -> int:
    """Predict the number of passes for medians, on rows in random order and if no bracket misses.

    The medians, all together, are of so many ``values``, each with its key of ``entry_bytes``; the first brackets come
    from so many ``sample_rows``.
    """
    inside, rounds = values * _bracket_share(sample_rows, 1.0), 1
    # What is kept is thinned by halves until it fits, and is then at least half of the budget.
    thinned = LIMITS.kept_bytes / 2 / entry_bytes / n_medians
    while inside * entry_bytes > LIMITS.kept_bytes:
        inside *= _bracket_share(thinned, 0.5)
        rounds += 1
    return rounds


def _bracket_share(sample_size: float, limit: float) -> float:
    """Return the share of the values that a bracket made from a sample holds."""
    return min((MARGIN * np.sqrt(sample_size) + 2) / max(sample_size, 1), limit)
