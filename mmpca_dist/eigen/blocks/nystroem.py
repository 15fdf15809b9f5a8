"""The Nystroem sketch (Tropp, Yurtsever, Udell & Cevher 2017): one pass, after which no residuals are known."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.eigen.block_solver import BlockSolver, Projected
from mmpca_dist.eigen.orthonormal import orthonormal, unit_columns


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
        eigenvalues = np.maximum(singular**2 - shift, 0)
        extra = orthonormal(unit_columns(others), U)
        basis = np.concatenate([U, extra], axis=1)
    inside = np.zeros((basis.shape[1],) * 2)
    inside[np.arange(len(eigenvalues)), np.arange(len(eigenvalues))] = eigenvalues
    return Projected(basis, inside, None)


class _Sketch:
    """A basis that one pass has completed."""

    def __init__(
        self, start: NDArray, image: NDArray[np.float64], others: NDArray[np.float64], epsilon: float, _: int
    ) -> None:
        self._projected = nystroem(start, image, others, epsilon)

    @property
    def block(self) -> NDArray:
        return self._projected.basis[:, :0]

    def absorb(self, image: NDArray[np.float64]) -> None:
        pass

    def grow(self, others: NDArray[np.float64] | None = None) -> bool:
        return False

    def projected(self) -> Projected:
        return self._projected


NYSTROEM = BlockSolver(
    name="nystroem",
    description="Nystroem's sketch: a single pass, with estimated errors",
    begin=_Sketch,
    basis_bytes=lambda _, width, __: 2 * width * 8,
    one_pass=True,
)
