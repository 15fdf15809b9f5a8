"""Widened rows u = [x | g], their moments, and the map v = A^T u + b back to the columns, known once these are merged.

x are d columns whose missing values are filled with a fixed value, and g indicators of gaps in some of them. Means,
and so A and b, follow from the moments of u: fold by fold, and for rows that come later, nothing is read again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.passes.serialization import storable

if TYPE_CHECKING:
    from mmpca_dist.statistics.moments import ClassMoments


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
    names : tuple of str or None
        Names of these columns.
    """

    n_columns: int
    gaps: NDArray[np.intp]
    fills: NDArray[np.float64]
    names: tuple[str, ...] | None = None

    @property
    def width(self) -> int:
        """Columns of widened rows."""
        return self.n_columns + len(self.gaps)

    def rows(self, X: NDArray, out: NDArray) -> NDArray:
        """Fill ``out``, shape (n, d + g), with rows X (n, d), and return it."""
        out[:, : self.n_columns] = X
        some = out[:, self.gaps]
        missing = np.isnan(some)
        out[:, self.gaps] = np.where(missing, self.fills, some)
        out[:, self.n_columns :] = missing
        return out


@storable
@dataclass(frozen=True)
class Adjustment:
    """The map v = A^T u: missing values become the mean of those that are there.

    Source: with p_j the share of missing values of column j and m_j the mean of its filled values, the mean of the
    others is (m_j - p_j c_j) / (1 - p_j), c_j being the fixed value.

    Attributes
    ----------
    widening : Widening
    deltas : array of shape (g,)
        Mean of the values of a column less its fixed value.
    """

    widening: Widening
    deltas: NDArray[np.float64]

    @classmethod
    def of_mean(cls, widening: Widening, mean: NDArray[np.float64]) -> Self:
        """Return the map of rows with this mean, shape (d + g,).

        Raises
        ------
        InputError
            For a column without any value.
        """
        shares, filled = mean[widening.n_columns :], mean[widening.gaps]
        if (shares >= 1).any():
            empty = int(np.argmax(shares >= 1))
            name = "" if widening.names is None else f" ({widening.names[empty]!r})"
            raise InputError(f"Column {widening.gaps[empty]}{name} has no value in any row that is fitted to: drop it.")
        return cls(widening, (filled - widening.fills) / (1 - shares))

    @property
    def means(self) -> NDArray[np.float64]:
        """Means of the values of the columns with gaps, shape (g,)."""
        return self.widening.fills + self.deltas

    def rows(self, u: NDArray) -> NDArray:
        """Return adjusted rows, shape (n, d)."""
        v = u[:, : self.widening.n_columns].copy()
        v[:, self.widening.gaps] += u[:, self.widening.n_columns :] * self.deltas
        return v

    def loadings(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return A M for M of shape (d, K): what projects widened rows as M does adjusted ones."""
        return np.concatenate([matrix, self.deltas[:, None] * matrix[self.widening.gaps]])

    def moments(self, widened: ClassMoments) -> ClassMoments:
        """Return the moments of adjusted rows."""
        d, gaps = self.widening.n_columns, self.widening.gaps
        means = self.rows(widened.means)
        scatters = np.empty((len(widened.scatters), d, d))
        for scatter, G in zip(scatters, widened.scatters, strict=True):
            both = G[:, :d].copy()
            both[:, gaps] += G[:, d:] * self.deltas
            scatter[...] = both[:d]
            scatter[gaps] += both[d:] * self.deltas[:, None]
        return replace(widened, means=means, scatters=scatters, widening=None)


def adjustment_of(moments: ClassMoments) -> Adjustment | None:
    """Return the map that moments of widened rows tell; None of rows that are not widened."""
    return None if moments.widening is None else Adjustment.of_mean(moments.widening, moments.mean)


def adjusted(moments: ClassMoments) -> ClassMoments:
    """Return the moments of adjusted rows; of rows that are not widened as they are."""
    adjustment = adjustment_of(moments)
    return moments if adjustment is None else adjustment.moments(moments)


def same_widening(left: Widening | None, right: Widening | None) -> bool:
    """Tell whether moments of rows that are widened in these ways merge; None stands for rows that are not."""
    if left is None or right is None:
        return left is right
    return all(np.array_equal(getattr(left, name), getattr(right, name)) for name in ("n_columns", "gaps", "fills"))
