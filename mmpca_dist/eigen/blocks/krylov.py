"""Block Krylov (Musco & Musco 2015): Rayleigh and Ritz choose from the blocks of all passes.

The residuals of all Ritz pairs follow from what the last image has outside the basis, without another pass.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.blas import over_panels, products, single_blas_thread, take_out
from mmpca_dist.eigen.block_solver import BlockSolver, Projected
from mmpca_dist.eigen.orthonormal import orthonormal, unit_columns


class KrylovBasis:
    """A basis that grows by what the scatter makes of its last block.

    It begins with ``start`` (d, b), orthonormal columns of its type, and has room for ``capacity`` of them.
    """

    def __init__(self, start: NDArray, capacity: int) -> None:
        self._size, self._unit = 0.0, 1.0
        self._basis = np.empty((len(start), min(capacity, len(start))), start.dtype, order="F")
        self._applied = self._count = 0
        self._inside = np.zeros((0, 0))
        self._rest = start
        self._append(start)

    @property
    def block(self) -> NDArray:
        """The vectors that the scatter is to be applied to next, shape (d, b)."""
        return self._basis[:, self._applied : self._count]

    def absorb(self, image: NDArray[np.float64]) -> None:
        """Take in the image of ``block``; it is overwritten, because it may be as large as a basis."""
        r, b = self._applied, image.shape[1]
        column = np.zeros((self._count, b))
        if not self._applied:
            self._unit = _power_of_two(image)
        image /= self._unit
        self._rest = image = image.astype(self._basis.dtype, copy=False)
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

    def grow(self, others: NDArray[np.float64] | None = None) -> bool:
        """Add a block, the image of the last one with ``others`` (d, m); return False if that adds no direction."""
        following, size, kept = self._rest, self._size or 1.0, self._basis[:, : self._count]
        if others is not None and others.shape[1]:
            joining = (unit_columns(others) * size).astype(following.dtype)
            take_out(joining, kept)
            following = np.concatenate([joining, following], axis=1)
        block = orthonormal(following, kept, size, outside=True)
        if not block.shape[1]:
            return False
        self._append(block)
        self._rest = self._rest[:, :0].copy()  # of columns in great number: the next image brings its own
        return True

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


def _begin(start: NDArray, image: NDArray[np.float64], others: NDArray[np.float64], passes: int) -> KrylovBasis:
    basis = KrylovBasis(start, (start.shape[1] + others.shape[1]) * passes)
    basis.absorb(image)
    return basis


KRYLOV = BlockSolver(
    name="krylov",
    description="block Krylov: keeps the blocks of all passes",
    begin=_begin,
)
