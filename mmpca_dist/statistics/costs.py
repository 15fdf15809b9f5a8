"""Memory of the passes over the rows."""

from __future__ import annotations

import math

from mmpca_dist.datasets.dataset import Dataset, Span
from mmpca_dist.limits import LIMITS
from mmpca_dist.statistics.medians import key_type
from mmpca_dist.statistics.moments import BLOCK_ROWS
from mmpca_dist.statistics.rows import SAMPLE_BYTES


def largest_unit(dataset: Dataset, spans: list[Span]) -> tuple[int, int]:
    """Return the rows of the largest reading unit, and the bytes a thread holds while it reads one."""
    rows = max(stop - start for span in spans for start, stop in span.units)
    return rows, dataset.reading_bytes(rows)


def reading_wide(dataset: Dataset, spans: list[Span], rank: int, scatters: int) -> int:
    """Return the bytes of few rows and of the problem in their span, of ``rank`` dimensions.

    Rows in float64 as read, joined, centred, turned for the factorisation, and its basis; then ``scatters`` bytes of
    scatters of the classes, or of sums of them, beside buffers and the eigenproblem.
    """
    solving = scatters + 8 * rank**2 * 8 + 3 * BLOCK_ROWS * rank * 8
    return dataset.n_rows * dataset.n_features * 8 * 5 + largest_unit(dataset, spans)[1] + solving


def summary_bytes(n_classes: int, n_features: int, pooled: bool) -> int:
    """Return the bytes of class moments."""
    return ((2 if pooled else n_classes) * n_features + n_classes) * n_features * 8


def reducing(
    dataset: Dataset, spans: list[Span], *, n_classes: int, pooled: bool, medians: bool, item: int, threads: int
) -> int:
    """Return the bytes that a process holds while it takes moments, and medians if asked for.

    Parameters
    ----------
    item : int
        Bytes of a number in products.
    threads : int
        That share the process.
    """
    d, c = dataset.n_features, n_classes
    unit_rows, unit = largest_unit(dataset, spans)
    indices = unit_rows * 24  # row numbers by class, labels and codes
    summary = summary_bytes(c, d, pooled)
    kernel = BLOCK_ROWS * d * (dataset.dtype.itemsize + item) + d * d * (item + 8 * (2 if pooled else 1))
    waiting = math.ceil(math.log2(len(spans) + 1)) + 2
    summaries = min(threads + waiting, len(spans) + 1)  # one a span, and one that two of them merge into
    reducing = threads * (unit + indices + kernel) + summaries * summary
    if not medians:
        return reducing
    sets = c * d * (2 * dataset.dtype.itemsize + 5 * 8)
    # Where the last two halves meet, both are held beside their union, and one of them may have to be thinned: a
    # sorted copy of it, and four 8-byte numbers for every value that place it among those of its median.
    entry = key_type(c, d).itemsize + dataset.dtype.itemsize
    kept = 2 * LIMITS.kept_bytes + LIMITS.kept_bytes // 2 * (entry + 4 * 8) // entry
    sampling = threads * unit + 3 * SAMPLE_BYTES
    return max(reducing + (threads + waiting) * sets + kept, sampling)
