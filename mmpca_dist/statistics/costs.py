"""Spans of the passes over the rows, and memory of units and moments."""

from __future__ import annotations

from mmpca_dist.limits import LIMITS
from mmpca_dist.tables.spans import Span

MIN_JOINED = 4
"""Tasks that are left where spans are joined: eight took 1.3 times the work of four, with 18 rows a class."""


def summary_bytes(n_classes: int, n_features: int, scatters: int) -> int:
    """Return the bytes of class moments with so many scatters."""
    return (scatters * n_features + n_classes) * n_features * 8


def use_pooled(n_classes: int, n_features: int) -> bool:
    """Tell whether class scatters are so large that only one or two weighted sums of them are kept."""
    return n_classes > 2 and n_classes * n_features**2 * 8 > LIMITS.pooled_bytes


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
