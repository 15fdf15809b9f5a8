"""Widened rows u = [x | g | z | y]: what stands behind the columns: gaps, covariates, and numbers to predict."""

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
    targets : tuple of t str
        What the numbers to predict are called.
    """

    n_columns: int
    gaps: NDArray[np.intp]
    fills: NDArray[np.float64]
    covariates: tuple[str, ...] = ()
    names: tuple[str, ...] | None = None
    targets: tuple[str, ...] = ()

    @property
    def filled(self) -> int:
        """Columns without covariates, d + g."""
        return self.n_columns + len(self.gaps)

    @property
    def width(self) -> int:
        """Columns of widened rows."""
        return self.filled + len(self.covariates) + len(self.targets)

    @property
    def z(self) -> slice:
        """Where covariates stand."""
        return slice(self.filled, self.filled + len(self.covariates))

    @property
    def y(self) -> slice:
        """Where targets stand."""
        return slice(self.z.stop, self.width)

    def rows(self, X: NDArray, Z: NDArray | None, Y: NDArray, out: NDArray) -> NDArray:
        """Fill ``out``, shape (n, d + g + q + t), with rows X (n, d), covariates Z and targets Y, and return it."""
        out[:, : self.n_columns] = X
        if len(self.gaps):
            some = out[:, self.gaps]
            missing = np.isnan(some)
            out[:, self.gaps] = np.where(missing, self.fills.astype(out.dtype), some)
            out[:, self.n_columns : self.filled] = missing
        if Z is not None:
            out[:, self.z] = Z
        out[:, self.y] = Y
        return out


def implied(precision: str, widening: Widening | None) -> str:
    """Return the precision of products: double with covariates or targets, whatever is asked for."""
    return "double" if widening is not None and (widening.covariates or widening.targets) else precision


def same_widening(left: Widening | None, right: Widening | None) -> bool:
    """Tell whether moments of rows that are widened in these ways merge; None stands for rows that are not."""
    if left is None or right is None:
        return left is right
    return all(
        np.array_equal(getattr(left, name), getattr(right, name))
        for name in ("n_columns", "gaps", "fills", "covariates", "targets")
    )
