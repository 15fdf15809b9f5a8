"""Squared losses with a projection penalty, for all weights of the penalty at once, from moments alone.

The coefficients (S + alpha R)^-1 c of every alpha follow from one generalised eigenproblem, R u = nu (S + a R) u with
some weight a at which S + a R is definite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.linalg

from mmpca_dist.errors import InputError
from mmpca_dist.solvers.penalties import SubspacePenalty
from mmpca_dist.statistics.centred_rows import Array


@dataclass(frozen=True)
class SquaresPath:
    """The solutions for one scatter of rows and all alphas.

    Attributes
    ----------
    vectors : array of shape (r, r)
        U, with U^T (S + a R) U = I and U^T R U = diag(shares).
    shares : array of shape (r,)
        nu.
    weight : float
        a.
    """

    vectors: Array
    shares: Array
    weight: float

    @classmethod
    def of(cls, scatter: Array, penalty: SubspacePenalty) -> Self:
        """Return the path for a scatter X^T X, shape (r, r).

        Raises
        ------
        InputError
            Where the rows do not determine the coefficients of directions that bear no penalty.
        """
        size = float(np.trace(scatter)) / len(scatter)
        weight = size if size > 0 else 1.0
        matrix = scatter + weight * penalty.matrix()
        factor, failed = scipy.linalg.lapack.dpotrf(matrix, lower=1, clean=1)
        if failed:
            raise InputError(
                "Rows do not vary along some direction of the reduction, whose coefficients bear no penalty, so that "
                "these are not determined: set epsilon above 0, or reduce to fewer components."
            )
        half = scipy.linalg.solve_triangular(factor, penalty.matrix(), lower=True, check_finite=False)
        turned = scipy.linalg.solve_triangular(factor, half.T, lower=True, check_finite=False)
        shares, vectors = scipy.linalg.eigh((turned + turned.T) / 2, check_finite=False)
        vectors = scipy.linalg.solve_triangular(factor, vectors, lower=True, trans="T", check_finite=False)
        return cls(vectors, np.clip(shares, 0, 1 / weight), weight)

    def coefficients(self, cross: Array, alphas: Array) -> Array:
        """Return (S + alpha R)^-1 c for every c, shape (m, r), with its own alpha (m,)."""
        factors = 1 + (alphas[:, None] - self.weight) * self.shares
        return np.asarray((cross @ self.vectors / factors) @ self.vectors.T)
