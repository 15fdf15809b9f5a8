"""From statistics to single columns: one function a method. Components are unit vectors, the best column first."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.reducers.regressing import class_regression
from mmpca_dist.reducers.solving import Solution, at_least_two
from mmpca_dist.solvers.lasso_path import Changes, changes_until, columns_with, lasso_path
from mmpca_dist.statistics.working import ROUNDING, Statistics


def solve_fisher_score(statistics: Statistics, n_components: int | None) -> Solution:
    """Choose the columns of the largest Fisher scores; equal scores go by column order, and a score of zero never.

    A column that is constant within the classes, and not between them, has an infinite score.

    Source: STAT 841, Fisher score.
    """
    scores = fisher_scores(statistics)
    ranked = np.argsort(-scores, kind="stable")[: np.count_nonzero(scores)]
    limit = f"the number of columns that differ between the class means, {len(ranked)}"
    taken = ranked if n_components is None else ranked[:n_components]
    with np.errstate(divide="ignore"):
        errors = statistics.epsilon * (1 + 1 / np.sqrt(scores[taken]))
    total = float(scores.sum()) if np.isfinite(scores).all() else float("nan")
    return _columns(taken, scores[taken], errors, total, limit, statistics.n_features)


def fisher_scores(statistics: Statistics) -> NDArray[np.float64]:
    """Return the Fisher score of every column, shape (d,).

    Two classes: ((m_1 - m)^2 + (m_2 - m)^2) / (s_1^2 + s_2^2); several: sum n_c (m_c - m)^2 / sum n_c s_c^2; with m the
    mean of all rows and s_c^2 the mean of (x - m_c)^2. Deviations that are zero up to rounding are zero.
    """
    counts = statistics.moments.counts
    present = at_least_two(counts)
    weights, shares = np.zeros(len(counts)), np.zeros(len(counts))
    weights[present] = 1.0 if len(present) == 2 else counts[present]
    shares[present] = weights[present] / counts[present]
    spread = np.sqrt(np.maximum(statistics.column_squares(shares), 0))
    spread[spread <= ROUNDING * np.abs(statistics.mean)] = 0
    deviations = np.abs(statistics.column_deviations())
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(deviations > 0, deviations / spread, 0.0)
    return np.asarray(weights @ ratios**2)


def lasso_changes(statistics: Statistics, n_components: int | None) -> Changes:
    """Return what enters and leaves the lasso until so many columns are in it.

    Columns are standardised, labels -1 and +1. Of several classes, each against the others has a path of its own, under
    one penalty, and a column is in the lasso that is in any of them. Constant columns never enter.

    Source: Efron et al. 2004, "Least angle regression".
    """
    problem = class_regression(statistics, "lasso")
    several = problem.cross.shape[1] > 1
    inverse = _inverse_deviations(statistics, problem.scatter)
    cross = statistics.loadings((1 + several) * problem.cross) * inverse  # an indicator is half of -1 and +1
    gram_row = partial(_gram_row, statistics, problem.scatter, inverse)
    epsilon = max(statistics.epsilon, ROUNDING)
    return changes_until([lasso_path(gram_row, one, epsilon) for one in cross], n_components or statistics.n_features)


def lasso_columns(changes: Changes, n_components: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the columns at the first point of the path with so many, and the penalties below which they came in."""
    found = columns_with(changes, n_components)
    return np.asarray([column for column, _ in found], np.intp), np.asarray([penalty for _, penalty in found])


def solve_lasso(statistics: Statistics, changes: Changes, n_components: int | None) -> Solution:
    """Choose the columns of the lasso at the first point of its path with so many; values are their penalties."""
    columns, penalties = lasso_columns(changes, n_components or statistics.n_features)
    most = min(statistics.n_features, statistics.moments.n_rows - 1)
    limit = f"the columns that its path takes in, of each class at most min(n_features, n_samples - 1) = {most}"
    errors = np.full(len(columns), statistics.epsilon)
    return _columns(columns, penalties, errors, float("nan"), limit, statistics.n_features)


def unit_vectors(columns: NDArray[np.intp], n_features: int) -> NDArray[np.float64]:
    """Return components that pick single columns, shape (K, d)."""
    components = np.zeros((len(columns), n_features))
    components[np.arange(len(columns)), columns] = 1
    return components


def _columns(
    columns: NDArray[np.intp], values: NDArray[np.float64], errors: NDArray[np.float64], total: float, limit: str,
    n_features: int,
) -> Solution:  # fmt: skip
    unknown = np.full(len(columns), np.nan)
    return Solution(unit_vectors(columns, n_features), values, unknown, errors, total, limit)


def _inverse_deviations(statistics: Statistics, scatter: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what columns in working units are multiplied by to have unit variance; 0 for constant ones, shape (d,)."""
    counts = statistics.moments.counts
    between = counts @ statistics.column_deviations() ** 2
    own = np.sqrt((statistics.column_squares(np.ones(len(counts))) + between) / counts.sum())
    usable = own > ROUNDING * np.abs(statistics.mean)
    units = own if statistics.scale is None else own / statistics.scale
    if statistics.basis is not None:  # the basis knows a column up to a rounding of the largest
        usable &= units > statistics.epsilon * np.sqrt(np.trace(scatter))
    return np.divide(1.0, units, out=np.zeros_like(units), where=usable)


def _gram_row(
    statistics: Statistics, scatter: NDArray[np.float64], inverse: NDArray[np.float64], column: int
) -> NDArray[np.float64]:
    """Return the correlations of a column with all, shape (d,)."""
    if statistics.basis is None:
        row = scatter[column]
    else:
        row = statistics.loadings((scatter @ statistics.basis[column])[:, None])[0]
    return row * (inverse * inverse[column])
