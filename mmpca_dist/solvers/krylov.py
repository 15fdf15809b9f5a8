"""Orthonormal bases that leading eigenvectors lie in, grown by applying a scatter to blocks of vectors.

Block Krylov (Musco & Musco 2015) keeps every block and lets Rayleigh and Ritz choose among them all; subspace
iteration keeps the last one. Both know, without another pass, what the scatter moves out of the basis: the residuals
of all Ritz pairs follow from it. The Nystroem sketch (Tropp, Yurtsever, Udell & Cevher 2017) makes one pass and
does not know.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.panels import combinations, over_panels, products, take_out

NEGLIGIBLE = 1e-14
"""Of the length of images: what is left of one outside a basis that may be left out."""

LITTLE, MOST_TURNS = 4.0, 4
"""A stretch that leaves rounding small, and how often columns are taken out and turned again until it is no more."""

PRODUCTS_LOSE = 1e-12
"""Squared lengths, of those of the longest direction, that products of columns in double precision cannot tell."""


@dataclass(frozen=True)
class Projected:
    """A scatter G in a basis Q, shape (d, r), of orthonormal columns.

    Attributes
    ----------
    basis : array of shape (d, r)
    inside : array of shape (r, r)
        Q^T G Q.
    outside : array of shape (s, r) or None
        G Q - Q inside = N outside, with orthonormal columns N; None where it is not known.
    """

    basis: NDArray
    inside: NDArray[np.float64]
    outside: NDArray[np.float64] | None


class GrowingBasis:
    """A basis that grows by what the scatter makes of its last block.

    Parameters
    ----------
    start : array of shape (d, b)
        Orthonormal columns.
    capacity : int
        Columns there is room for.
    keep : bool
        Whether blocks are kept (block Krylov) or replaced by the next (subspace iteration).
    dtype : dtype
        Of the columns that are kept.
    """

    def __init__(self, start: NDArray, capacity: int, *, keep: bool, dtype: np.dtype) -> None:
        self._keep, self._width = keep, start.shape[1]
        self._image: NDArray | None = None
        self._size, self._unit = 0.0, 1.0
        self._basis = np.empty((len(start), min(capacity, len(start))), dtype, order="F")
        self._applied = self._count = 0
        self._inside = np.zeros((0, 0))
        self._rest = start
        self._append(start)

    @property
    def block(self) -> NDArray:
        """The vectors that the scatter is to be applied to next, shape (d, b)."""
        return self._basis[:, self._applied : self._count]

    def absorb(self, image: NDArray[np.float64]) -> None:
        """Take up what the scatter makes of ``block``; it is overwritten, for it may be as large as a basis."""
        r, b = self._applied, image.shape[1]
        column = np.zeros((self._count, b))
        if not self._applied:
            self._unit = _power_of_two(image)
        image /= self._unit
        self._rest = image = image.astype(self._basis.dtype, copy=False)
        self._image = None if self._keep else self._rest.copy()
        self._size = float(np.sqrt(np.einsum("ij,ij->j", self._rest, self._rest).max(initial=0.0)))
        for _ in range(2):  # what rounding leaves inside after the first time is gone after the second
            column += take_out(self._rest, self._basis[:, : self._count])
        inside = np.zeros((self._count, self._count))
        inside[:r, :r] = self._inside
        column *= self._unit
        inside[:, r:] = column
        inside[r:, :r] = column[:r].T
        inside[r:, r:] = (column[r:] + column[r:].T) / 2
        self._inside, self._applied = inside, self._count

    def grow(self, others: NDArray[np.float64] | None = None, sought: NDArray[np.float64] | None = None) -> bool:
        """Add a block, the image of the last one with ``others`` (d, m); False where that adds no direction.

        Where blocks are not kept, the leading vectors of ``sought`` are, a matrix in the basis: the scatter by default.
        """
        following = self._rest if self._keep else self._leading_image(self._inside if sought is None else sought)
        size, kept = self._size or 1.0, self._basis[:, : self._count if self._keep else 0]
        if others is not None and others.shape[1]:
            joining = (unit_columns(others) * size).astype(following.dtype)
            take_out(joining, kept)
            following = np.concatenate([joining, following], axis=1)
        block = orthonormal(following, kept, size, outside=True)
        if not block.shape[1]:
            return False
        if not self._keep:
            self._applied, self._count, self._inside = 0, 0, np.zeros((0, 0))
        self._append(block)
        self._rest = self._rest[:, :0].copy()  # of columns in great number: the next image brings its own
        return True

    def _leading_image(self, sought: NDArray[np.float64]) -> NDArray:
        """Return what the scatter makes of the leading vectors of the block, as many as there were at first."""
        assert self._image is not None  # noqa: S101  (a pass comes first, and it is kept)
        with single_blas_thread():
            _, turn = scipy.linalg.eigh(sought, check_finite=False)
        return combinations(self._image, turn[:, -self._width :].astype(self._image.dtype))

    def projected(self) -> Projected:
        """Return the scatter in the basis of all blocks that it was applied to."""
        r = self._applied
        with single_blas_thread():
            outside = self._root_of_rest() * self._unit
        padded = np.zeros((len(outside), r))
        padded[:, r - outside.shape[1] :] = outside
        return Projected(self._basis[:, :r], self._inside, padded)

    def _root_of_rest(self) -> NDArray[np.float64]:
        """Return R with R^T R the products of what the scatter moved outside."""
        if self._basis.dtype == np.float64:
            (root,) = scipy.linalg.qr(self._rest, mode="r", check_finite=False)
            return root[: self._rest.shape[1]]
        values, vectors = scipy.linalg.eigh(products(self._rest, self._rest, np.float64), check_finite=False)
        return np.sqrt(np.maximum(values, 0))[:, None] * vectors.T

    def _append(self, block: NDArray) -> None:
        room = self._basis.shape[1] - self._count
        added = block[:, :room]
        columns = slice(self._count, self._count + added.shape[1])

        def copy(rows: slice) -> None:
            self._basis[rows, columns] = added[rows]

        for _ in over_panels(len(added), copy):
            pass
        self._count += added.shape[1]


def _power_of_two(columns: NDArray) -> float:
    """Return about their largest value: divided by it, they fit into single precision."""
    _, exponent = np.frexp(max(float(columns.max(initial=0.0)), -float(columns.min(initial=0.0))))
    return float(np.ldexp(1.0, int(np.clip(exponent, -1000, 1000))))


def unit_columns(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the columns that are not zero, scaled to length 1."""
    lengths = np.linalg.norm(columns, axis=0)
    return columns[:, lengths > 0] / lengths[lengths > 0]


def orthonormal(columns: NDArray, basis: NDArray, size: float | None = None, *, outside: bool = False) -> NDArray:
    """Return an orthonormal basis of what columns add to an orthonormal basis, shape (d, k), in the latter's type.

    What they add is left out where it is rounding beside ``size``, by default the length of the longest of them;
    ``outside`` says that what they have in the basis was taken out before. Beside a basis in single precision products
    of columns decide (Stathopoulos & Wu 2002), which is several times faster than a factorisation with pivoting, and
    loses what is 10^-6 of the columns' lengths.
    """
    found = columns.astype(basis.dtype, copy=not outside)  # to take out in place
    turn = _turned if basis.dtype == np.float32 else _factored
    floor = NEGLIGIBLE * (float(np.linalg.norm(found, axis=0).max(initial=0.0)) if size is None else size)
    if not outside:
        take_out(found, basis)
    with single_blas_thread():
        found, stretched = turn(found, floor)
        if basis.shape[1]:
            stretched = np.inf  # however little: columns may have been long, and nearly in the basis
        # What was short is longer now, and so is what rounding had left of it in the basis, and between the columns.
        for _ in range(MOST_TURNS):
            if stretched <= LITTLE:
                break
            take_out(found, basis)
            found, stretched = turn(found, 0.5)  # columns were of length 1: those that are not any more were rounding
    return found[:, : len(columns) - basis.shape[1]]


def _factored(columns: NDArray[np.float64], floor: float) -> tuple[NDArray[np.float64], float]:
    """Return an orthonormal basis of columns, without directions shorter than ``floor``, and the largest stretch."""
    if not columns.shape[1]:
        return columns, 1.0
    found, triangle, _ = scipy.linalg.qr(columns, mode="economic", pivoting=True, check_finite=False)
    lengths = np.abs(np.diagonal(triangle))
    kept = lengths > floor
    return found[:, kept], float(1 / lengths[kept].min(initial=1.0))


def _turned(columns: NDArray, floor: float) -> tuple[NDArray, float]:
    """Return an orthonormal basis of columns, the longest directions first, from their products; and the stretch."""
    found = products(columns, columns, np.float64)
    lengths = np.sqrt(np.diagonal(found))
    long = lengths > floor
    if not long.any():
        return columns[:, :0], 1.0
    lengths = lengths[long]
    values, vectors = scipy.linalg.eigh(found[np.ix_(long, long)] / np.outer(lengths, lengths), check_finite=False)
    kept = np.flatnonzero(values > PRODUCTS_LOSE * values[-1])[::-1]
    turn = vectors[:, kept] / np.sqrt(values[kept]) / lengths[:, None]
    chosen = columns if long.all() else columns[:, long]
    return combinations(chosen, turn.astype(columns.dtype)), float(1 / np.sqrt(values[kept[-1]]))


def nystroem(
    vectors: NDArray[np.float64], image: NDArray[np.float64], others: NDArray[np.float64], epsilon: float
) -> Projected:
    """Return the Nystroem approximation of a scatter from what it makes of vectors (d, b), with ``others`` (d, m) in
    the basis; ``epsilon`` is the relative rounding error of the image.

    Source: Tropp, Yurtsever, Udell & Cevher 2017, "Fixed-rank approximation of a positive-semidefinite matrix from
    streaming data", algorithm 3.
    """
    with single_blas_thread():
        shift = np.sqrt(len(image)) * epsilon * np.linalg.norm(image)
        shifted = image + shift * vectors
        core = vectors.T @ shifted
        values, turn = scipy.linalg.eigh((core + core.T) / 2, check_finite=False)
        kept = values > values.max(initial=0.0) * len(values) * epsilon
        root = shifted @ (turn[:, kept] / np.sqrt(values[kept]))
        U, singular, _ = scipy.linalg.svd(root, full_matrices=False, check_finite=False)
        found = np.maximum(singular**2 - shift, 0)
        extra = orthonormal(unit_columns(others), U)
        basis = np.concatenate([U, extra], axis=1)
    inside = np.zeros((basis.shape[1],) * 2)
    inside[np.arange(len(found)), np.arange(len(found))] = found
    return Projected(basis, inside, None)
