"""Extend orthonormal bases by columns."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.blas import combinations, products, single_blas_thread, take_out

NEGLIGIBLE = 1e-14
"""Remainders of images outside a basis are dropped below this fraction of the images' length."""

LITTLE, MAX_TURNS = 4.0, 4
"""Largest stretch that leaves rounding small, and the limit on repetitions of the projection until it is reached."""

PRODUCTS_LOSE = 1e-12
"""Squared lengths below this fraction of the longest are rounding errors of products in double precision."""


def unit_columns(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the columns that are not zero, scaled to length 1."""
    lengths = np.linalg.norm(columns, axis=0)
    return columns[:, lengths > 0] / lengths[lengths > 0]


def orthonormal(columns: NDArray, basis: NDArray, size: float | None = None, *, outside: bool = False) -> NDArray:
    """Return an orthonormal basis of what columns add to an orthonormal basis, shape (d, k), in the latter's type.

    What they add is left out where it is rounding compared with ``size``, by default the length of the longest of them;
    ``outside`` says that what they have in the basis was taken out before. With a basis in single precision, products
    of columns decide (Stathopoulos & Wu 2002), which is several times faster than a factorisation with pivoting, and
    loses what is 10^-6 of the columns' lengths.
    """
    vectors = columns.astype(basis.dtype, copy=not outside)  # to take out in place
    turn = _turned if basis.dtype == np.float32 else _factored
    floor = NEGLIGIBLE * (float(np.linalg.norm(vectors, axis=0).max(initial=0.0)) if size is None else size)
    if not outside:
        take_out(vectors, basis)
    with single_blas_thread():
        vectors, stretched = turn(vectors, floor)
        if basis.shape[1]:
            stretched = np.inf  # however little: columns may have been long, and nearly in the basis
        # What was short is longer now, and so is what rounding had left of it in the basis, and between the columns.
        for _ in range(MAX_TURNS):
            if stretched <= LITTLE:
                break
            take_out(vectors, basis)
            # Columns were of length 1: those that are not any more were rounding.
            vectors, stretched = turn(vectors, 0.5)
    return vectors[:, : len(columns) - basis.shape[1]]


def _factored(columns: NDArray[np.float64], floor: float) -> tuple[NDArray[np.float64], float]:
    """Return an orthonormal basis of columns, without directions shorter than ``floor``, and the largest stretch."""
    if not columns.shape[1]:
        return columns, 1.0
    vectors, triangle, _ = scipy.linalg.qr(columns, mode="economic", pivoting=True, check_finite=False)
    lengths = np.abs(np.diagonal(triangle))
    kept = lengths > floor
    return vectors[:, kept], float(1 / lengths[kept].min(initial=1.0))


def _turned(columns: NDArray, floor: float) -> tuple[NDArray, float]:
    """Return an orthonormal basis of columns, the longest directions first, from their products; and the stretch."""
    gram = products(columns, columns, np.float64)
    lengths = np.sqrt(np.diagonal(gram))
    long = lengths > floor
    if not long.any():
        return columns[:, :0], 1.0
    lengths = lengths[long]
    values, vectors = scipy.linalg.eigh(gram[np.ix_(long, long)] / np.outer(lengths, lengths), check_finite=False)
    kept = np.flatnonzero(values > PRODUCTS_LOSE * values[-1])[::-1]
    turn = vectors[:, kept] / np.sqrt(values[kept]) / lengths[:, None]
    chosen = columns if long.all() else columns[:, long]
    return combinations(chosen, turn.astype(columns.dtype)), float(1 / np.sqrt(values[kept[-1]]))
