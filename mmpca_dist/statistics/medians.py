"""Exact coordinate-wise medians of sets of classes, out of core.

A sample brackets every median. A pass (the moments pass itself) counts the values below a bracket and on its ends, and
keeps those strictly inside. If they fit a fixed budget of bytes, they contain the median. Otherwise they are thinned to
a sample of the bracket, which gives a far narrower bracket for another pass. A bracket that missed is replaced by the
side on which it missed. Every round narrows the brackets, so the last one is exact. The weight of a row is how often it
counts: a whole number of a unit of which a double holds the sum.

Source: Floyd & Rivest 1975, "Expected time bounds for selection", for brackets from a sample; Munro & Paterson 1980,
"Selection and sorting with limited storage", for passes that narrow them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.pilot import Pilot
from mmpca_dist.passes.rows import Rows, draw_sample, pass_over_sample, sample_rows, sample_spans
from mmpca_dist.passes.units import blocks, read_batches, rows_of_classes
from mmpca_dist.statistics.adjustment import Adjustment
from mmpca_dist.statistics.median_counts import Brackets, MedianCounts, key_type
from mmpca_dist.statistics.widened_rows import adjusted_rows
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import Span

PAIRINGS = ("one-vs-rest", "one-vs-one")
"""Whether a class faces all others together, or one after the other."""
SAMPLE_COLUMNS = 32
"""Columns of the sample that are partitioned at a time, from a copy in which the values of each are side by side."""

EXACT_BITS = 52
"""Weights are rounded to the sum of all, divided by 2 to this power."""
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


def by_pairing(medians: NDArray[np.float64] | None, pairings: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """Return the medians of `median_sets`, shape (P C, d), by pairing: shape (C, d) each."""
    return {} if medians is None else dict(zip(pairings, np.split(medians, len(pairings)), strict=True))


def _extremes(dtype: np.dtype) -> tuple[np.generic, np.generic]:
    """Return the least and the greatest value of a type of rows."""
    kind = np.dtype(np.uint8) if dtype.kind == "b" else dtype
    low, high = np.asarray([-np.inf, np.inf] if kind.kind == "f" else [np.iinfo(kind).min, np.iinfo(kind).max], kind)
    return low, high


def settle(brackets: Brackets, counts: MedianCounts) -> tuple[NDArray[np.float64], Brackets | None]:
    """Return the medians (T, d) that a pass has determined, and brackets for the others; None if there are none.

    Others are NaN, and brackets of determined ones are empty. The median of an even number is the mean of the middle
    two.
    """
    (n_sets, d), totals = brackets.low.shape, brackets.totals
    medians = np.full((n_sets, d), np.nan)
    low, high = brackets.low.copy(), brackets.high.copy()
    known = brackets.known or tuple(np.full(low.shape, end) for end in _extremes(low.dtype))
    least, greatest = (ends.copy() for ends in known)
    values, edges = counts.in_order(n_sets * d)
    for number in range(n_sets):
        ranks = np.asarray([totals[number] - 1, totals[number]]) // 2
        for column in range(d):
            at = number * d + column
            kept, upto = values[edges[at] : edges[at + 1]], None
            ends = low[number, column], high[number, column]
            below, at_low, inside, at_high = counts.counts[:, number, column].tolist()
            within = [rank for rank in (ranks - below - at_low).tolist() if 0 <= rank < inside]
            if brackets.unit is not None:
                kept = np.sort(kept, order="value")
                kept, upto = kept["value"], np.cumsum(kept["times"])
            elif len(kept) == inside and within:
                kept.partition(within)
            cell = _Cell(below, at_low, inside, at_high, *ends, kept, upto)
            least[number, column], greatest[number, column] = cell.known(
                ranks.tolist(), least[number, column], greatest[number, column]
            )
            middle = [cell.value_at(rank) for rank in ranks.tolist()]
            if None not in middle:
                medians[number, column] = (float(middle[0]) + float(middle[1])) / 2  # type: ignore[arg-type]
                # Nothing lies between the two: another pass keeps nothing and settles them again.
                low[number, column], high[number, column] = middle
            else:
                low[number, column], high[number, column] = cell.narrowed(
                    ranks.tolist(), least[number, column], greatest[number, column]
                )
    done = not np.isnan(medians).any()
    return medians, None if done else replace(brackets, low=low, high=high, known=(least, greatest), step=1)


@dataclass(frozen=True)
class _Cell:
    """One median: the counts and the ends of its bracket, and the values kept of its inside."""

    below: int
    at_low: int
    inside: int
    at_high: int
    low: np.generic
    high: np.generic
    kept: NDArray  # if it is all of the inside, each rank that is asked for is in its place
    upto: NDArray[np.int64] | None = None  # how often these, in order, and those before count; None: once each

    def value_at(self, rank: int) -> np.generic | None:
        """Return the value of this rank (from 0) in the set, or None if the pass does not determine it."""
        inner = rank - self.below - self.at_low
        if rank < self.below:
            return None
        if inner < 0:
            return self.low
        if inner < self.inside:
            if self.upto is None:
                return self.kept[inner] if len(self.kept) == self.inside else None
            whole = len(self.upto) and self.upto[-1] == self.inside
            return self.kept[np.searchsorted(self.upto, inner, side="right")] if whole else None
        return self.high if inner < self.inside + self.at_high else None

    def known(self, ranks: Sequence[int], least: np.generic, greatest: np.generic) -> tuple[np.generic, np.generic]:
        """Return what bounds these ranks, given what did before the pass."""
        under_high = self.below + self.at_low + self.inside
        least = self.high if ranks[0] >= under_high else self.low if ranks[0] >= self.below else least
        is_low = ranks[1] < self.below + self.at_low
        greatest = self.low if is_low else self.high if ranks[1] < under_high + self.at_high else greatest
        return least, greatest

    def narrowed(self, ranks: Sequence[int], least: np.generic, greatest: np.generic) -> tuple[np.generic, np.generic]:
        """Return a bracket for the next pass: the side on which it missed, or one around the ranks in the sample."""
        beyond = self.below + self.at_low + self.inside + self.at_high
        if ranks[0] < self.below or ranks[1] >= beyond:
            return least, greatest
        sample, size = np.sort(self.kept), len(self.kept)
        if not size:  # of the rows whose values are kept
            return self.low, self.high
        shares = np.asarray([(rank - self.below - self.at_low) / self.inside for rank in ranks])
        if self.upto is None:
            first, last = shares * size
            reach = min(MARGIN * np.sqrt(size) / 2 + 1, size / 4)
            start, stop = int(np.floor(first - reach)), int(np.ceil(last + reach))
        else:  # the more weights differ, the fewer rows of equal weight tell as much
            times = np.diff(self.upto, prepend=0).astype(np.float64)
            alike = times.sum() ** 2 / float(times @ times)
            reach = min(MARGIN / np.sqrt(alike) / 2 + 1 / alike, 1 / 4)
            around = np.asarray([shares[0] - reach, shares[0], shares[1] + reach])
            before, first, after = np.searchsorted(self.upto, around * times.sum())
            start, stop = before - 1, after + 1
        low = sample[start] if start >= 0 else self.low
        high = sample[stop] if stop < size else self.high
        if (low, high) == (self.low, self.high):
            # Too few values to enclose the median within: try one half, and the next pass knows which it is.
            pivot = sample[size // 2]
            return (low, pivot) if first < size / 2 else (pivot, high)
        return low, high


def first_brackets(rows: Rows, members: NDArray[np.bool_]) -> Brackets:
    """Bracket the medians of sets of classes, (T, C), from a sample; small data is kept whole and needs none.

    Where more values lie within than a pass keeps, whole units are counted against the brackets first, if a quarter of
    all narrows them enough.
    """
    dataset, census, shape = rows.dataset, rows.census, (len(members), rows.dataset.n_features)
    low, high = (np.full(shape, end) for end in _extremes(dataset.dtype))
    brackets = Brackets(members, census.sizes, low, high)
    weighted = brackets if census.totals is None else _weighted(rows, brackets)
    most = LIMITS.kept_bytes / (key_type(*shape).itemsize + weighted.kept_type.itemsize)
    if int(brackets.totals.sum()) * dataset.n_features <= most:
        return weighted
    sample, codes = draw_sample(rows, sample_rows(dataset.row_bytes))
    inside = narrow_by_sample(brackets, sample, codes)
    # Brackets narrow by the square root of the rows; a quarter more is for shares of classes that differ.
    n_units = math.ceil(1.25 * (inside / most) ** 2 * len(codes) / census.n_rows * len(census.units))
    if inside > most and n_units <= len(census.units) // 4:
        spans, held = sample_spans(census, n_units)
        sampled = replace(brackets, sizes=held.sum(axis=0))
        task = partial(_count_span, classes=census.classes, brackets=sampled)
        counts = pass_over_sample(rows, spans, task, MedianCounts.merge)
        inside = narrow_by_counts(brackets, counts, sampled.sizes)
    return replace(weighted, step=max(math.ceil(inside / most), 1))


def _weighted(rows: Rows, brackets: Brackets) -> Brackets:
    """Return the same brackets for rows with weights, rounded so that a double holds their sum in whole numbers."""
    assert rows.census.totals is not None  # noqa: S101
    unit = 2.0 ** (math.ceil(math.log2(float(rows.census.totals.sum()))) - EXACT_BITS)
    task = partial(_count_weights, classes=rows.census.classes, unit=unit)
    sizes = rows.pass_over_columns(task, np.add, "weights")
    return replace(brackets, sizes=sizes, unit=unit, rows=rows.census.n_rows)


def _count_weights(dataset: Dataset, span: Span, *, classes: NDArray, unit: float) -> NDArray[np.int64]:
    batch = dataset.batch(span.start, span.stop, X=False)
    assert batch.weight is not None  # noqa: S101
    return np.bincount(batch.codes(classes), np.rint(batch.weight / unit), len(classes)).astype(np.int64)


def narrow_by_sample(brackets: Brackets, sample: NDArray, codes: NDArray[np.intp]) -> float:
    """Narrow unbounded brackets, in place, by a sample of the rows, with codes of classes.

    They are wider by the difference between the shares of classes in all data and in the sample. Returns about how many
    values of all rows lie within.
    """
    inside, members, counts = 0.0, brackets.members, brackets.sizes
    sampled = np.bincount(codes, minlength=len(counts))
    ends = np.asarray([_sample_ranks(sampled[member], counts[member]) for member in members])
    for some in blocks(sample.shape[1], SAMPLE_COLUMNS):
        columns = np.ascontiguousarray(sample[:, some].T)
        for number, (member, ranks) in enumerate(zip(members, ends.tolist(), strict=True)):
            if known := [rank for rank in ranks if rank >= 0]:
                values = np.partition(np.compress(member[codes], columns, axis=1), known, axis=1)
                for bracket, rank in zip((brackets.low, brackets.high), ranks, strict=True):
                    if rank >= 0:
                        bracket[number, some] = values[:, rank]
                between = values[:, max(ranks[0], 0) : ranks[1] if ranks[1] >= 0 else None]
                low, high = brackets.low[number, some, None], brackets.high[number, some, None]
                n_inside = np.count_nonzero((between > low) & (between < high))
                inside += n_inside * brackets.totals[number] / values.shape[1]
    return inside


def narrow_by_counts(brackets: Brackets, counts: MedianCounts, sampled: NDArray[np.int64]) -> float:
    """Narrow brackets, in place, by the counts of more rows, of which ``sampled`` (C,) are of each class.

    Returns about how many values of all rows lie within.
    """
    (n_sets, d), expected = brackets.low.shape, 0.0
    values, edges = counts.in_order(n_sets * d)
    for number, member in enumerate(brackets.members):
        ends = _sample_ranks(sampled[member], brackets.sizes[member])
        growth = brackets.totals[number] / max(sampled[member].sum(), 1)
        for column in range(d):
            at = number * d + column
            below, at_low, inside, _ = counts.counts[:, number, column].tolist()
            kept = np.sort(values[edges[at] : edges[at + 1]])
            share = len(kept) / max(inside, 1)
            first, last = (int((end - below - at_low) * share) for end in ends)
            start, stop = (place if 0 <= place < len(kept) else None for place in (first, last))
            if start is not None:
                brackets.low[number, column] = kept[start]
            if stop is not None:
                brackets.high[number, column] = kept[stop]
            expected += len(kept[start:stop]) / max(share, 1e-9) * growth
    return expected


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


def weighted_median(values: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return where cumulative weights pass half of their sum, by column of (n, d); the mean of two that meet it."""
    order = np.argsort(values, axis=0, kind="stable")
    upto = np.cumsum(weights[order], axis=0)
    half, ordered = upto[-1] / 2, np.take_along_axis(values, order, axis=0)
    first, last = (np.argmax(reached, axis=0) for reached in (upto >= half, upto > half))
    columns = np.arange(values.shape[1])
    return (ordered[first, columns] + ordered[last, columns]) / 2


def all_medians(rows: Rows, brackets: Brackets, counts: MedianCounts | None = None) -> NDArray[np.float64]:
    """Return all medians (T, d), from ``counts`` of a first pass where there are any, and as many more as it takes."""
    medians, left = np.full(brackets.low.shape, np.nan), brackets
    for _ in range(200):  # halving the values of a 64-bit type takes 64
        if counts is None:
            task = partial(_count_span, classes=rows.census.classes, brackets=left)
            counts = rows.pass_over(task, MedianCounts.merge, "medians")
        if isinstance(rows.scheduler, Pilot):  # two units do not tell the medians of all
            return np.zeros(medians.shape)
        settled, narrower = settle(left, counts)
        medians, counts = np.where(np.isnan(medians), settled, medians), None
        if narrower is None:
            return medians
        left = narrower
    raise InputError(f"200 passes do not settle the medians of {rows.dataset.uri}: each reads other rows.")


def _count_span(dataset: Dataset, span: Span, *, classes: NDArray, brackets: Brackets) -> MedianCounts:
    """Count what lies below the brackets in a span, and keep what lies inside."""
    counter = brackets.counter(span)
    for batch in read_batches(dataset, span, by_blocks=True):
        for block in batch.blocks(rows_of_classes(len(classes), dataset.n_features)):
            counter.add(block.X, block.codes(classes), block.weight)
    return counter.result()


def column_medians(
    rows: Rows, adjustment: Adjustment | None, pairings: Sequence[str]
) -> dict[str, NDArray[np.float64]]:
    """Return the coordinate-wise medians of (adjusted) rows by pairing, shape (C, d) each, without any moments."""
    sets = median_sets(len(rows.census.classes), *pairings)
    if sets is None:
        return {}
    rows = adjusted_rows(rows, adjustment)
    return by_pairing(all_medians(rows, first_brackets(rows, sets)), pairings)
