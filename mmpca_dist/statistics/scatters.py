"""Scatters as weighted sums of class scatters and of outer products of offsets; products for regressions.

S = (sum_c w_c G_c + sum_o b_o D_o D_o^T) / divisor, with G_c the centred scatter of class c. A method is a choice of
the weights w and b and of the offsets D, which are differences of class means or medians. Two choices of w serve all
methods that are solved in passes: equal weights, and for every class the number of rows of the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.errors import InputError, NoComponentsError
from mmpca_dist.statistics.moments import ClassMoments


@dataclass(frozen=True)
class WeightedScatter:
    """S = (sum_c w_c G_c + sum_o b_o D_o D_o^T) / n_rows."""

    class_weights: NDArray[np.float64]  # (C,): w_c
    offsets: NDArray[np.float64]  # (m, d): D_o
    offset_weights: NDArray[np.float64]  # (m,): b_o
    n_rows: float  # difference rows that S is the mean outer product of
    max_rank: int  # what the structure allows at most, whatever the rows

    def dense(self, moments: ClassMoments) -> NDArray[np.float64]:
        """Return S as a matrix, shape (d, d)."""
        weighted = self.offsets * np.sqrt(self.offset_weights)[:, None]
        return (moments.scatter(self.class_weights) + weighted.T @ weighted) / self.n_rows


class ClassWeighting(Enum):
    """How much the scatter of each class counts."""

    EQUAL = "equal"
    """All equally: PCA, and what is made from the scatter within the classes."""
    OTHERS = "others"
    """By the share of rows of the other classes: M-PCA0."""

    def weights(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weight of each class, shape (C,)."""
        if self is ClassWeighting.EQUAL:
            return np.ones(len(counts))
        return others(counts) / counts.sum()

    def scatter(self, moments: ClassMoments) -> WeightedScatter:
        """Return the scatter of this weighting whose components tell a solver in passes when to end."""
        return total_scatter(moments) if self is ClassWeighting.EQUAL else all_pairs_scatter(moments)


def total_scatter(moments: ClassMoments) -> WeightedScatter:
    """Return the covariance of all rows: that of rows minus the mean of all."""
    counts, n = moments.counts, moments.total
    return WeightedScatter(np.ones(len(counts)), moments.deviations, counts, n, full_rank(moments))


def all_pairs_scatter(moments: ClassMoments) -> WeightedScatter:
    """Return the mean outer product of the differences of all pairs of rows of different classes."""
    at_least_two(moments.counts)
    unit = float(np.ldexp(1.0, -np.frexp(moments.total)[1]))  # a power of two: squares of weights may overflow
    counts, n, rest = moments.counts, moments.total * unit, others(moments.counts) * unit
    return WeightedScatter(rest, moments.deviations, n * counts, float(counts @ rest) / 2, full_rank(moments))


def others(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sums over the other classes for each class, shape (C, ...), of which a large class takes no digits."""
    before, after = np.cumsum(counts, axis=0), np.cumsum(counts[::-1], axis=0)[::-1]
    none = np.zeros_like(before[:1])
    return np.concatenate([none, before[:-1]]) + np.concatenate([after[1:], none])


def less_others(moments: ClassMoments) -> NDArray[np.float64]:
    """Return class means less the mean of the rows of the other classes, shape (C, d).

    They are deviations times n / (n - n_c), which would lose the digits of a class that has nearly all the weight.
    """
    shares, deviations = moments.counts / moments.total, moments.deviations
    return deviations - others(shares[:, None] * deviations) / others(shares)[:, None]


def full_rank(moments: ClassMoments) -> int:
    """Return the largest rank that centred rows can have."""
    return min(moments.n_features, moments.n_rows - 1)


def at_least_two(counts: NDArray) -> NDArray[np.intp]:
    """Return the positions of the classes with rows.

    Raises InputError for fewer than two.
    """
    present = np.flatnonzero(counts)
    if len(present) < 2:
        raise InputError(f"There is only {len(present)} class with rows: there must be at least two.")
    return present


NOTHING_SHARED = "The targets vary with none of the columns: what they share is zero up to rounding."


@dataclass(frozen=True)
class RegressionProducts:
    """Products for regressions of rows X, less their mean, onto targets Y, divided by the number of rows.

    Targets are numbers to predict, less their means; or the labels -1 and +1 of two classes, or an indicator (1 for its
    rows, else 0) of each of several.
    """

    scatter: NDArray[np.float64]  # (r, r): X^T X, the scatter of PCA
    cross: NDArray[np.float64]  # (r, q): X^T Y, of indicators n_c (m_c - m) for class c
    target_squares: float  # trace of Y^T Y


def regression_of(moments: ClassMoments) -> RegressionProducts:
    """Return the regression onto numbers to predict, or onto the classes that have rows.

    Raises InputError for fewer than two such classes.
    """
    scatter, targets = total_scatter(moments).dense(moments), moments.targets
    if targets is not None:
        return RegressionProducts(
            scatter, targets.cross / moments.total, float(np.trace(targets.squares)) / moments.total
        )
    present = np.flatnonzero(moments.counts)
    shares = moments.counts[present] / moments.total
    cross, squares = (moments.deviations[present] * shares[:, None]).T, float(shares @ (1 - shares))
    if len(present) == 2:  # y = +1 for the second class, -1 for the first: twice its indicator, less one
        cross, squares = 2 * cross[:, 1:], 2 * squares  # 4 times one of two equal terms
    return RegressionProducts(scatter, cross, squares)


def least_shared(moments: ClassMoments) -> float:
    """Return the size below which products of targets and columns are rounding errors.

    A sum of products is good to some units in the last place of |x| |y|, which it may be far smaller than, and means
    are known to a unit of themselves. Raises InputError where they are in fact smaller, all together.
    """
    targets = moments.targets
    assert targets is not None  # noqa: S101  (that is what these are products of)
    eps, n = float(np.finfo(np.float64).eps), moments.total
    rows = np.sqrt(moments.trace(np.ones(len(moments.counts))))
    spread = np.sqrt(np.trace(targets.squares))
    far = np.linalg.norm(moments.mean[moments.varies]) * spread + np.linalg.norm(targets.mean) * rows
    floor = float(max(10 * eps * rows * spread, eps * np.sqrt(n) * far))
    if not scipy.linalg.norm(targets.cross.ravel()) > floor:  # NumPy's squares under- or overflow
        raise NoComponentsError(NOTHING_SHARED)
    return floor


def pooled_weights(counts: NDArray, *, by_counts: bool = True) -> NDArray[np.float64]:
    """Return class weights whose scatters suffice for all methods: 1 and, for m-pca0 alone, n_c."""
    ones = np.ones((1, len(counts)))
    return np.concatenate([ones, counts[None]]) if by_counts else ones
