"""``TargetSums``: what class moments know of numbers to predict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.passes.serialization import storable


@storable
@dataclass(frozen=True)
class TargetSums:
    """Means and sums of products of t targets y, with rows x in d columns; weights of rows count."""

    names: tuple[str, ...]
    mean: NDArray[np.float64]  # (t,)
    cross: NDArray[np.float64]  # (d, t): X^T H Y: the sum of (x - mean) (y - mean)^T
    squares: NDArray[np.float64]  # (t, t): Y^T H Y

    @classmethod
    def of(cls, names: tuple[str, ...], X: NDArray, Y: NDArray, weights: NDArray[np.float64] | None) -> Self:
        """Return the sums of rows X (n, d), less their mean, and targets Y (n, t)."""
        mean = np.average(Y, axis=0, weights=weights)
        y = Y - mean
        weighted = y if weights is None else y * weights[:, None]
        return cls(names, mean, X.T @ weighted, y.T @ weighted)

    def scaled(self, factors: NDArray) -> Self:
        """Return the sums of the rows with column j multiplied by ``factors[j]``."""
        return replace(self, cross=self.cross * factors[:, None])

    def squared_errors(
        self, coef: NDArray[np.float64], at_mean: NDArray[np.float64], scatter: NDArray[np.float64], total: float
    ) -> NDArray[np.float64]:
        """Return the sum of squared errors of the linear model of each target, shape (t,).

        Parameters
        ----------
        coef : array of shape (t, d)
        at_mean : array of shape (t,)
            Outputs for the mean row.
        scatter : array of shape (d, d)
            X^T H X.
        total : float
            Sum of the weights of the rows.
        """
        explained = 2 * np.einsum("td,dt->t", coef, self.cross) - np.einsum("td,de,te->t", coef, scatter, coef)
        return np.diagonal(self.squares) - explained + total * (self.mean - at_mean) ** 2
