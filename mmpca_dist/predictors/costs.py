"""Bytes of fits of classifiers."""

from __future__ import annotations

from mmpca_dist.limits import LIMITS

SCORE_BYTES = 3 * 8
"""Bytes of the scores of a row for one class, during predictions and measurements of distances."""


def scored_rows(n_classes: int) -> int:
    """Return how many rows are scored at once."""
    return max(LIMITS.score_bytes // (SCORE_BYTES * n_classes), 1)


def scoring_bytes(n_rows: int, n_classes: int) -> int:
    """Return the bytes of scores while so many rows are scored."""
    return SCORE_BYTES * n_classes * min(n_rows, scored_rows(n_classes))


def linear_bytes(n_rows: int, n_columns: int, n_classes: int) -> int:
    """Return the bytes of a fitted linear classifier."""
    return 16 * n_classes * n_columns


def liblinear_bytes(n_rows: int, n_columns: int) -> int:
    """Return the bytes that LIBLINEAR adds to rows in double precision: an index and a number for each value."""
    return 16 * n_rows * (n_columns + 1)
