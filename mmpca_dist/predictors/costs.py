"""Bytes of fits of classifiers."""

from __future__ import annotations


def linear_bytes(n_rows: int, n_columns: int, n_classes: int) -> int:
    """Return the bytes of a fitted linear classifier."""
    return 16 * n_classes * n_columns


def liblinear_bytes(n_rows: int, n_columns: int) -> int:
    """Return the bytes that LIBLINEAR adds to rows in double precision: an index and a number for each value."""
    return 16 * n_rows * (n_columns + 1)
