"""Partial least squares from X^T X and X^T Y alone.

Source: Dayal & MacGregor 1997, "Improved PLS algorithms", Journal of Chemometrics 11, the second kernel algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Rotations:
    """What partial least squares projects centred rows onto, in the order in which it finds it.

    Attributes
    ----------
    vectors : array of shape (d, K)
        R = W (P^T W)^-1, with weights W of length one and loadings P: the scores are X R.
    explained : array of shape (K,)
        Sum of squares of the targets that each score explains.
    relative_errors : array of shape (K,)
        What rounding of the products may be, over what the component comes from. At 1 nothing of it is known.
    """

    vectors: NDArray[np.float64]
    explained: NDArray[np.float64]
    relative_errors: NDArray[np.float64]


def kernel_pls(
    scatter: NDArray[np.float64], cross: NDArray[np.float64], target_squares: float, n_components: int, epsilon: float
) -> Rotations:
    """Return the rotations of partial least squares: fewer than asked for where the others are rounding errors.

    Parameters
    ----------
    scatter : array of shape (d, d)
        X^T X of centred rows.
    cross : array of shape (d, q)
        X^T Y with centred targets.
    target_squares : float
        Trace of Y^T Y.
    epsilon : float
        Relative rounding error of the products: of their entry i, j over the lengths of columns i and j.
    """
    d = len(scatter)
    total, epsilon = float(np.trace(scatter)), max(epsilon, 10 * d * EPS)
    loadings, found = np.empty((0, d)), np.empty((0, d))
    explained: list[float] = []
    errors: list[float] = []
    cross = cross.copy()
    noise = epsilon * np.sqrt(total * target_squares)
    with single_blas_thread():
        while len(found) < min(n_components, d):
            size = float(np.linalg.norm(cross))
            if not size > noise:
                break
            weights = leading_direction(cross)
            rotation = weights
            for _ in range(2):  # the second time takes out what rounding left of the first
                rotation = rotation - (loadings @ rotation) @ found
            image = scatter @ rotation
            square, length = float(rotation @ image), float(np.linalg.norm(rotation))
            floor = epsilon * total * length**2
            if not square > floor:
                break
            slopes = cross.T @ rotation / square
            cross -= np.outer(image, slopes)
            loadings, found = np.concatenate([loadings, image[None] / square]), np.concatenate([found, rotation[None]])
            explained.append(square * float(slopes @ slopes))
            errors.append(max(noise / size, floor / square))
            noise += epsilon * total * length * float(np.linalg.norm(slopes))
    return Rotations(found.T, np.asarray(explained), np.asarray(errors))


def leading_direction(cross: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the leading left singular vector, shape (d,): that of the largest covariance with the targets."""
    if cross.shape[1] == 1:
        return cross[:, 0] / np.linalg.norm(cross)
    left, _, _ = scipy.linalg.svd(cross, full_matrices=False, check_finite=False)
    return np.ascontiguousarray(left[:, 0])
