"""Drift: whether arriving rows of each class have the mean, the spread and the share of those that are stored.

Moments tell all of it: no old row is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.errors import InputError

SPREAD, ERRORS = 1.2, 3
"""A spread is another one where it is larger or smaller by this factor, and so many standard errors of normal rows."""
LISTED = 5
"""Columns that are named of a class."""


@dataclass(frozen=True)
class ClassDrift:
    """How a class of arriving rows differs from the stored one."""

    label: Any
    rows: float
    """Arriving."""
    distance: float
    """Between the means, in the metric of the scatter within: sqrt(d^T S^-1 d)."""
    statistic: float
    """F, of the test of equal means."""
    p: float
    """NaN where rows have weights."""
    adjusted: float
    """p after Holm's correction for all classes."""
    spread: float
    """Mean squared distance of the rows to their mean, in the metric, over that of the stored ones; NaN if unknown."""
    spreads_otherwise: bool
    """Whether the class is another one in spread."""
    direction: NDArray[np.float64]
    """S^-1 d in columns, shape (d,): the direction in which the means differ most for the spread."""
    columns: list[tuple[int, float]]
    """Those whose means differ most, and by how many standard deviations within classes."""


@dataclass(frozen=True)
class Drift:
    """How arriving rows differ from stored ones, class by class; shares of the classes; and classes that are new."""

    classes: list[ClassDrift]
    shares: float
    """p of equal shares of the classes, by a chi-squared test; NaN where rows have weights, or there is one class."""
    moved_share: float
    """The share of rows that would have to be of another class for equal shares."""
    new: list[Any]
    """Labels that no stored row has."""
    missing: list[Any]
    """Stored labels that no arriving row has."""

    def moved(self, alpha: float = 0.05) -> list[ClassDrift]:
        """Return the classes whose means differ, after Holm's correction."""
        return [one for one in self.classes if one.adjusted <= alpha]


def drift_between(stored: Any, arriving: Any, components: NDArray | None = None) -> Drift:
    """Compare arriving `ClassMoments` with stored ones of the same columns, in coordinates that were fixed before.

    ``components`` A (K, d) give these; by default all columns do. Where scatters of the classes are stored, the mean of
    each is compared by Hotelling's T2 with the scatter of both; where its spread is another one, by the unequal
    covariances; else with the scatter within all classes. Raises InputError for other columns, and for rows too few.

    Source: Hotelling 1931, "The generalization of Student's ratio"; for unequal covariances Nel & van der Merwe 1986,
    with the degrees of freedom of Krishnamoorthy & Yu 2004, "Modified Nel and Van der Merwe test".
    """
    from scipy.stats import f  # slow to import

    if stored.n_features != arriving.n_features:
        had, have = stored.n_features, arriving.n_features
        raise InputError(f"Stored moments have {had} columns, and those that arrive {have}.")
    matrix = np.eye(stored.n_features) if components is None else np.asarray(components, np.float64).T
    both = (stored, arriving)
    counted = all(np.array_equal(one.counts, one.sizes) for one in both)
    before, after = ({c: i for i, c in enumerate(one.classes.tolist()) if one.counts[i] > 0} for one in both)
    shared = [label for label in after if label in before]
    with single_blas_thread():
        within = sum(one.scatter(np.ones(len(one.counts))) for one in both)
        degrees = max(stored.total + arriving.total - len(before) - len(after), 1)
        deviations = np.sqrt(np.diag(within) / degrees)
        metric = np.linalg.pinv(matrix.T @ within @ matrix / degrees, hermitian=True)
        compared = partial(_compared, matrix=matrix, metric=metric, degrees=degrees, deviations=deviations)
        found = [compared(stored, before[c], arriving, after[c]) for c in shared]
    left = np.array([degrees_left for _, degrees_left in found])
    p_values = (
        f.sf([one.statistic for one, _ in found], matrix.shape[1], left) if counted else np.full(len(found), np.nan)
    )
    classes = [
        replace(one, p=float(p), adjusted=adjusted)
        for (one, _), p, adjusted in zip(found, p_values, holm(p_values), strict=True)
    ]
    here = [arriving.counts[after[c]] if c in after else 0.0 for c in before]
    counts = np.array([[stored.counts[i] for i in before.values()], here])
    shares, new = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1), [c for c in after if c not in before]
    p, moved_share = _shares(counts) if counted and any(here) else np.nan, np.abs(shares[0] - shares[1]).sum() / 2
    return Drift(classes, p, float(moved_share), new, [c for c in before if c not in after])


def _compared(
    stored: Any, before: int, arriving: Any, after: int, *, matrix: NDArray, metric: NDArray, degrees: float,
    deviations: NDArray,
) -> tuple[ClassDrift, float]:  # fmt: skip
    """Compare a class, which has its position in either of both; return the second degrees of freedom of F, too.

    ``metric`` is that of the scatter within all classes, which has so many ``degrees`` of freedom.
    """
    n, m, q = float(stored.counts[before]), float(arriving.counts[after]), matrix.shape[1]
    apart = arriving.means[after] - stored.means[before]
    d, spread, otherwise, freedom = matrix.T @ apart, np.nan, False, degrees
    known = not (stored.pooled or arriving.pooled)
    if known and n + m - q - 1 > 0:
        scatters = [matrix.T @ each @ matrix for each in (stored.scatters[before], arriving.scatters[after])]
        freedom = n + m - 2
        metric = np.linalg.pinv((scatters[0] + scatters[1]) / freedom, hermitian=True)
    distance = float(d @ metric @ d)
    squares = n * m / (n + m) * distance
    if known and n + m - q - 1 > 0 and min(n, m) > 1:
        each = [scatters[0] / (n - 1), scatters[1] / (m - 1)]
        traces = [float(np.sum(metric * one)) for one in each]
        spread = traces[1] / traces[0] if traces[0] > 0 else np.nan
        change = abs(np.log(spread)) if spread > 0 else np.inf  # rows that are all the same
        otherwise = bool(change > np.log(SPREAD) + ERRORS * np.sqrt(2 / q * (1 / n + 1 / m)))
        if otherwise and min(n, m) > q:
            each = [each[0] / n, each[1] / m]
            metric = np.linalg.pinv(each[0] + each[1], hermitian=True)
            freedom, squares = _freedom(each, metric, [n - 1, m - 1]), float(d @ metric @ d)
    left = freedom - q + 1
    if left <= 0:
        raise InputError(f"There are too few rows to compare means in {q} coordinates. Take fewer components.")
    value, size = (
        squares * left / (freedom * q),
        np.divide(apart, deviations, out=np.zeros_like(apart), where=deviations > 0),
    )
    largest = np.argsort(-np.abs(size), kind="stable")[:LISTED].tolist()
    return ClassDrift(
        arriving.classes[after].item(), m, float(np.sqrt(max(distance, 0))), value, np.nan, np.nan, spread, otherwise,
        matrix @ (metric @ d), [(j, float(size[j])) for j in largest],
    ), left  # fmt: skip


def _freedom(each: Sequence[NDArray], metric: NDArray, degrees: Sequence[float]) -> float:
    """Return the degrees of freedom of a sum of covariances of means, whatever the units of the coordinates are."""
    q, shares = len(metric), [one @ metric for one in each]
    squares = [float(np.trace(one @ one) + np.trace(one) ** 2) / n for one, n in zip(shares, degrees, strict=True)]
    return (q + q**2) / sum(squares)


def _shares(counts: NDArray) -> float:
    from scipy.stats import chi2_contingency

    return float(chi2_contingency(counts).pvalue) if counts.shape[1] > 1 else np.nan


def holm(p_values: Sequence[float] | NDArray) -> list[float]:
    """Return p-values after Holm's correction for as many tests, in the same order; NaN stays and counts for none.

    Source: Holm 1979, "A simple sequentially rejective multiple test procedure".
    """
    p = np.asarray(p_values, float)
    order = np.argsort(p, kind="stable")
    count = int(np.count_nonzero(~np.isnan(p)))
    adjusted = np.full(len(p), np.nan)
    adjusted[order[:count]] = np.minimum(np.maximum.accumulate(p[order[:count]] * np.arange(count, 0, -1)), 1)
    return adjusted.tolist()
