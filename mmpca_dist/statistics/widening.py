"""Widened rows u = [x | g | z]: what stands beside the columns of rows with missing values and covariates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.passes.serialization import storable


@storable
@dataclass(frozen=True)
class Widening:
    """What stands beside d columns of widened rows.

    Attributes
    ----------
    n_columns : int
        d.
    gaps : int array of shape (g,)
        The columns that have an indicator of missing values, ascending.
    fills : array of shape (g,)
        What their missing values are filled with: of about their mean, single precision loses nothing.
    covariates : tuple of q str
        What the numbers of covariates are called; of a category "batch=b".
    names : tuple of str or None
        Names of the columns with gaps.
    """

    n_columns: int
    gaps: NDArray[np.intp]
    fills: NDArray[np.float64]
    covariates: tuple[str, ...] = ()
    names: tuple[str, ...] | None = None

    @property
    def filled(self) -> int:
        """Columns without covariates, d + g."""
        return self.n_columns + len(self.gaps)

    @property
    def width(self) -> int:
        """Columns of widened rows."""
        return self.filled + len(self.covariates)

    def rows(self, X: NDArray, Z: NDArray | None, out: NDArray) -> NDArray:
        """Fill ``out``, shape (n, d + g + q), with rows X (n, d) and covariates Z (n, q), and return it."""
        out[:, : self.n_columns] = X
        if len(self.gaps):
            missing = np.isnan(np.take(X, self.gaps, axis=1))
            rows, columns = np.divmod(np.flatnonzero(missing), len(self.gaps))
            out[rows, self.gaps[columns]] = self.fills[columns]
            out[:, self.n_columns : self.filled] = missing
        if Z is not None:
            out[:, self.filled :] = Z
        return out


def implied(precision: str, widening: Widening | None) -> str:
    """Return the precision of products: double where covariates are removed, whatever is asked for."""
    return "double" if widening is not None and widening.covariates else precision


def same_widening(left: Widening | None, right: Widening | None) -> bool:
    """Tell whether moments of rows that are widened in these ways merge; None stands for rows that are not."""
    if left is None or right is None:
        return left is right
    return all(
        np.array_equal(getattr(left, name), getattr(right, name))
        for name in ("n_columns", "gaps", "fills", "covariates")
    )
