"""Spans and memory of the passes over the rows."""

from __future__ import annotations

from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.rows import SAMPLE_BYTES
from mmpca_dist.passes.units import BLOCK_ROWS
from mmpca_dist.statistics.medians import PIECE_VALUES, key_type
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import Span

MIN_JOINED = 4
"""Tasks that are left where spans are joined: eight took 1.3 times the work of four, with 18 rows a class."""


def largest_unit(dataset: Dataset, spans: list[Span]) -> tuple[int, int]:
    """Return the rows of the largest reading unit, and the bytes a thread holds while it reads one."""
    rows = max(stop - start for span in spans for start, stop in span.units)
    return rows, dataset.reading_bytes(rows)


def reading_wide(dataset: Dataset, spans: list[Span], rank: int, scatters: int) -> int:
    """Return the bytes of few rows and of the problem in their span, of ``rank`` dimensions.

    Rows in float64 as read, joined, centred, turned for the factorisation, and its basis; then ``scatters`` bytes of
    scatters of the classes, or of sums of them, besides buffers and the eigenproblem.
    """
    solving = scatters + 8 * rank**2 * 8 + 3 * BLOCK_ROWS * rank * 8
    return dataset.n_rows * dataset.n_features * 8 * 5 + largest_unit(dataset, spans)[1] + solving


def summary_bytes(n_classes: int, n_features: int, scatters: int) -> int:
    """Return the bytes of class moments with so many scatters."""
    return (scatters * n_features + n_classes) * n_features * 8


def moments_spans(spans: list[Span], n_classes: int, n_features: int, scatters: int) -> list[Span]:
    """Return the spans of a pass for moments: so long that rows take more time than what spans leave."""
    return join_spans(spans, LIMITS.class_rows * n_classes + min(LIMITS.scatter_rows, n_features // 2) * scatters)


def join_spans(spans: list[Span], n_rows: int) -> list[Span]:
    """Join neighbouring spans until they have about ``n_rows`` rows, or only four would be left."""
    size = min(n_rows * len(spans) // (spans[-1].stop - spans[0].start), len(spans) // MIN_JOINED)
    if size < 2:
        return spans
    groups = (spans[at : at + size] for at in range(0, len(spans), size))
    edges = ((group[0].start, *(edge for span in group for edge in span.edges[1:])) for group in groups)
    return [Span(i, of_group) for i, of_group in enumerate(edges)]


def reducing(
    dataset: Dataset,
    spans: list[Span],
    *,
    n_classes: int,
    scatters: int,
    item: int,
    threads: int,
    median_rows: int = 0,
    all_sampled: bool = False,
) -> int:
    """Return the bytes that a process holds while it takes moments, and medians if asked for.

    Parameters
    ----------
    scatters : int
        Scatters that moments keep: one of each class, or fewer that are weighted sums.
    item : int
        Bytes of a number in products.
    threads : int
        That share the process.
    median_rows : int
        Rows in all sets of classes that need medians, together.
    all_sampled : bool
        Whether the sample behind the brackets has all rows: then no values lie inside them.
    """
    d, c = dataset.n_features, n_classes
    unit_rows, unit = largest_unit(dataset, spans)
    indices = unit_rows * 24  # row numbers by class, labels and codes
    # Rows as read, relative to their centres, and weighted; centres; and offsets in double precision.
    kernel = BLOCK_ROWS * d * (dataset.dtype.itemsize + 3 * item + 3 * 8) + d * d * (item + 2 * 8)
    spans = moments_spans(spans, c, d, scatters)
    span_rows = max(span.stop - span.start for span in spans)

    def summary(n_spans: int) -> int:
        """Pooled moments know the classes that their rows have, and their weights, the others all."""
        seen = min(c, n_spans * span_rows)
        return summary_bytes(seen, d, scatters) + 8 * scatters * seen if scatters < c else summary_bytes(c, d, scatters)

    # Sums and centres of each thread; a result of every depth of the merge tree, and what the last two merge into.
    adding = threads * (summary(1) + min(c, span_rows) * d * 8)
    depth = (len(spans) - 1).bit_length()
    waiting = sum(summary(2**level) for level in range(depth)) + summary(len(spans))
    census = 16 * sum(min(c, stop - start) for span in spans for start, stop in span.units)
    reducing = threads * (unit + indices + kernel) + adding + waiting + census
    if not median_rows:
        return reducing
    waiting = depth + 3
    sets = c * d * (2 * dataset.dtype.itemsize + 5 * 8)
    members = 3 * c * c  # which classes each set has, while it is made
    # Where the last two halves meet, both are held with their union, which is as large as both, and a thinner one.
    values, entry = median_rows * d, key_type(c, d).itemsize + dataset.dtype.itemsize
    inside = 0 if all_sampled and values * entry > LIMITS.kept_bytes else min(LIMITS.kept_bytes, values * entry)
    kept = 6 * inside + threads * 40 * min(PIECE_VALUES, values)
    sampling = threads * unit + 3 * SAMPLE_BYTES
    return max(reducing + (threads + waiting) * sets + members + kept, sampling)
