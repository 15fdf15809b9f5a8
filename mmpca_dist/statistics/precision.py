"""Precision of products of rows: their type, provisional centres, and powers of two."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.faults import Fault
from mmpca_dist.tables.batch import Batch

LARGE, PANEL_ROWS = 128, 64
"""Columns from which scatters are added class by class, so many rows at a time: outer products of 1,000 columns take a
quarter of the time."""

CENTRE_ROWS = 64
"""Rows of a class, evenly spaced, whose mean is subtracted from all before any product: their mean is within an eighth
of a standard deviation of the class's, so that nothing is lost to cancellation however far the mean is from zero."""

DOUBLE = np.dtype(np.float64)

SAFE_EXPONENT = 20
"""Columns beyond 2^20 or below 2^-20 are scaled by a power of two, or their single-precision squares would overflow or
vanish."""

SMALLEST_SQUARE = 2.0**-80
"""Sums of smaller squares, or of squares as large, lose digits of single precision."""

SMALLEST = {
    "single": (float(np.finfo(np.float32).tiny), "single precision; set precision: double, or scale them up"),
    "double": (float(np.sqrt(np.finfo(np.float64).tiny / np.finfo(np.float64).eps)), "double precision; scale them up"),
}
"""Squares of smaller differences vanish; in single precision rows are scaled before they are squared."""


def work_type(precision: str) -> np.dtype:
    """Return the type of products: of "single" or "double" precision."""
    return np.dtype(np.float32 if precision == "single" else np.float64)


@functools.cache
def single_of_half() -> NDArray[np.float32]:
    """Return what every number of half precision is in single, by its bits: looked up, it takes half of the time."""
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)


def refuse_too_large(scatters: NDArray, work: np.dtype) -> None:
    """Raise InputError for scatters (k, d, d) that overflowed."""
    if not np.isfinite(np.einsum("kii->k", scatters)).all():
        raise InputError(too_large(work))


def refuse_vanished(differences: NDArray[np.float64], variance: float, precision: str) -> None:
    """Raise InputError where rows differ, but by so little that nothing is left of their squares."""
    smallest, advice = SMALLEST[precision]
    if 0 < np.abs(differences).max(initial=0.0) < smallest and variance <= smallest**2:
        raise InputError(f"The rows vary by less than {smallest:.0e}, whose squares are zero in {advice}.")


def provisional_centre(X: NDArray, rows: NDArray | None = None) -> NDArray[np.float64]:
    """Return column means of a few rows; for a constant column exactly its value, so that its scatter is zero."""
    sample = X[_few(np.arange(len(X)) if rows is None else rows)]
    with np.errstate(invalid="ignore"):
        mean = sample.mean(axis=0, dtype=np.float64)
    return np.where((sample == sample[0]).all(axis=0), sample[0], mean)


def _few(rows: NDArray) -> NDArray:
    return rows[:: -(-len(rows) // CENTRE_ROWS)]


def safe_scale(X: NDArray, work: np.dtype) -> NDArray | None:
    """Return powers of two, by column, that bring squares into the range of single precision; None if not needed."""
    if work != np.float32 or X.dtype.itemsize < 4 or not len(X):
        return None
    sample = X[_few(np.arange(len(X)))].astype(np.float64)
    with np.errstate(invalid="ignore"):
        spread = np.abs(sample - sample.mean(axis=0)).max(axis=0)
    return _scale(spread, work)


def scale_of_squares(squares: NDArray, rows: NDArray) -> NDArray | None:
    """Return powers of two as `safe_scale` does, of all rows (n, d), given the sums of their squares (d,)."""
    if rows.dtype != np.float32:
        return None
    vanished = np.flatnonzero(squares < SMALLEST_SQUARE)
    safe = np.all(squares < 1 / SMALLEST_SQUARE) and not rows[:, vanished].any()
    return None if safe else _scale(np.abs(rows).max(axis=0), rows.dtype)


def _scale(spread: NDArray, work: np.dtype) -> NDArray | None:
    """Return powers of two that bring the ``spread`` of columns beyond the safe range to about 1."""
    _, exponent = np.frexp(spread)
    unsafe = (np.abs(exponent) > SAFE_EXPONENT) & np.isfinite(spread)
    # Powers of two that single precision can hold; what lies beyond them is refused as too large, or is zero.
    return np.where(unsafe, np.ldexp(1.0, np.clip(-exponent, -126, 126)), 1.0).astype(work) if unsafe.any() else None


def explain_not_finite(X: NDArray, work: np.dtype, batch: Batch) -> Fault | str:
    """Return a fault that names the first value of a batch, read as X, that is not finite.

    Without any, it says that products overflowed.
    """
    bad = np.argwhere(~np.isfinite(X))
    if len(bad):
        row, column = bad[0].tolist()
        return batch.not_finite(row, column, float(X[row, column]))
    return too_large(work)


def too_large(work: np.dtype) -> str:
    """Return the message for squares that a type cannot hold."""
    if work == np.float32:
        return "The rows hold values whose squares are too large for single precision; set precision: double."
    return "The rows hold values whose squares are too large even for double precision; scale them down."
