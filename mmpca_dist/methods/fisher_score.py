"""Columns by their Fisher scores as a scikit-learn estimator."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.eigen.needs import Needs
from mmpca_dist.methods.base.column_selection import ColumnSelection, unit_vectors
from mmpca_dist.methods.base.registry import Method
from mmpca_dist.methods.base.solution import Solution
from mmpca_dist.statistics.column_units import ROUNDING
from mmpca_dist.statistics.scatters import at_least_two
from mmpca_dist.statistics.working_statistics import Statistics


class FisherScore(ColumnSelection):
    """The columns in which class means differ most for their spread: a ranking of the features one by one.

    The score of a column is ((m_1 - m)^2 + (m_2 - m)^2) / (s_1^2 + s_2^2) for two classes, whatever their sizes, and
    sum n_c (m_c - m)^2 / sum n_c s_c^2 for several: m is the mean of all rows, m_c and s_c^2 are the mean and the
    variance (the sum of squares divided by n_c) of class c. Standardising does not change scores. Parameters that are
    not listed are as in ``MarginPCA``, and so are the other attributes.

    Parameters
    ----------
    n_components : int or float, optional
        By default all columns with a score above zero. Equal scores go by column order. A column that is the same in
        all rows has the score zero, and one that is constant in every class, but not between them, an infinite one.
    solver : {"auto", "dense", "dual", "krylov", "arpack"}
        As in ``MarginPCA``; of many columns, one pass takes means and variances, which are all that is needed.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        Unit vectors.
    columns_ : array of shape (K,)
        The columns that these pick, the best first.
    eigenvalues_ : array of shape (K,)
        Their scores. ``total_`` is the sum over all columns, NaN where some are infinite.
    residuals_ : array of shape (K,)
        NaN: the components are no eigenvectors.

    References
    ----------
    STAT 841, Fisher score.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mmpca_dist import FisherScore
    >>> X, y = load_iris(return_X_y=True)
    >>> FisherScore(n_components=2).fit(X, y).columns_.tolist()
    [2, 3]
    """

    def needs(self) -> Needs:
        return Needs(scatters=frozenset(), columns=True)

    def _solve(self, statistics: Statistics) -> Solution:
        scores = _scores(statistics)
        ranked = np.argsort(-scores, kind="stable")[: np.count_nonzero(scores)]
        columns = ranked[: self.asked]
        with np.errstate(divide="ignore"):
            errors = statistics.epsilon * (1 + 1 / np.sqrt(scores[columns]))
        total = float(scores.sum()) if np.isfinite(scores).all() else float("nan")
        limit = f"the number of columns that differ between the class means, {len(ranked)}"
        return Solution.of_directions(
            unit_vectors(columns, statistics.n_features), scores[columns], errors, total, limit
        )


def _scores(statistics: Statistics) -> NDArray[np.float64]:
    """Return the score of every column, shape (d,). Deviations that are zero up to rounding are zero."""
    counts = statistics.moments.counts
    present = at_least_two(counts)
    weights, shares = np.zeros(len(counts)), np.zeros(len(counts))
    weights[present] = 1.0 if len(present) == 2 else counts[present]
    shares[present] = weights[present] / counts[present]
    spread = np.sqrt(np.maximum(statistics.column_squares(shares), 0))
    unit = 1.0 if len(present) == 2 else np.sqrt(counts.sum())  # sums of squares of all rows, not a variance
    spread[spread <= ROUNDING * unit * np.abs(statistics.mean)] = 0
    deviations = np.abs(statistics.column_deviations())
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(deviations > 0, deviations / spread, 0.0)
    return np.asarray(weights @ ratios**2)


METHOD = Method(
    "fisher-score",
    "Fisher score",
    "columns",
    "single columns: those whose class means differ most for their spread",
    "d",
    FisherScore,
    ordered=False,
    scale_free=True,
    values="scores of the columns",
    shares="sum of scores",
)
