"""Estimators that choose single columns: Fisher score and lasso."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.reducers.base import MomentReducer
from mmpca_dist.reducers.choosing import (
    lasso_changes,
    lasso_columns,
    solve_fisher_score,
    solve_lasso,
    unit_vectors,
)
from mmpca_dist.reducers.solving import Solution
from mmpca_dist.solvers.lasso_path import Change
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.working import Statistics


class _Selection(MomentReducer):
    """A reducer whose components are single columns."""

    def __init__(
        self,
        n_components: int | None = None,
        *,
        standardize: bool = False,
        center: bool = False,
        precision: str = "single",
        solver: str = "auto",
    ) -> None:
        self.n_components = n_components
        self.standardize = standardize
        self.center = center
        self.precision = precision
        self.solver = solver

    @classmethod
    def from_moments(cls, moments: ClassMoments, n_components: int | None = None, **parameters: Any) -> Self:
        """Return the reducer that follows from stored class moments, with no look at the rows."""
        return cls._from_moments(moments, None, n_components=n_components, **parameters)

    @property
    def columns_(self) -> NDArray[np.intp]:
        """Positions of the columns that are chosen, in the order of the components, shape (K,)."""
        return np.argmax(self.components_, axis=1)


class FisherScore(_Selection):
    """The columns in which class means differ most for their spread: a ranking of the features one by one.

    The score of a column is ((m_1 - m)^2 + (m_2 - m)^2) / (s_1^2 + s_2^2) for two classes, whatever their sizes, and
    sum n_c (m_c - m)^2 / sum n_c s_c^2 for several: m is the mean of all rows, m_c and s_c^2 are the mean and the
    variance (the sum of squares divided by n_c) of class c.

    Parameters
    ----------
    n_components : int, optional
        By default all columns with a score above zero. Equal scores go by column order. A column that is the same in
        all rows has the score zero, and one that is constant in every class, but not between them, an infinite one.
    standardize, center, precision
        As in ``MarginPCA``. Standardising does not change scores.
    solver : {"auto", "dense", "dual", "krylov", "subspace", "nystroem"}
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
    mean_, classes_, moments_, n_features_in_, imprecise_
        As in ``MarginPCA``.

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

    _scatters = frozenset({"columns"})

    def _solve(self, statistics: Statistics, n_components: int | None) -> Solution:
        return solve_fisher_score(statistics, n_components)


class LassoSelection(_Selection):
    """The columns that the lasso uses: those of the first point of its path with K coefficients that are not zero.

    Columns are standardised, labels are -1 and +1, and the intercept is free. Of several classes, each against all
    others has a lasso; all share one penalty, as in scikit-learn's ``Lasso`` with several targets, and a column counts
    that any of them uses.

    Parameters
    ----------
    n_components : int, optional
        By default as many as there are at the fullest point of the path.
    standardize : bool
        Divide columns by their standard deviation in ``transform``. The choice standardises them in any case.
    center, precision
        As in ``MarginPCA``.
    solver : {"auto", "dense", "dual"}
        As in ``MarginPCA``. The whole scatter is needed: there is no solver in passes.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        Unit vectors.
    columns_ : array of shape (K,)
        The columns that these pick, in the order in which they came in. Those for a smaller K are not always the first
        of them, because a column may leave again; ``load_model(output, "lasso", K)`` follows the path anew.
    eigenvalues_ : array of shape (K,)
        Penalties below which the columns came in: ``alpha`` of scikit-learn's ``Lasso``.
    path_ : array of shape (changes, 4)
        The path so far: penalty, column, 1 where it comes in or 0 where it leaves, position of the class.
    residuals_ : array of shape (K,)
        NaN: the components are no eigenvectors.
    mean_, classes_, moments_, n_features_in_, imprecise_
        As in ``MarginPCA``.

    References
    ----------
    Efron, Hastie, Johnstone & Tibshirani 2004, "Least angle regression", Annals of Statistics 32; Luo & Durrant 2017,
    section 4, which compares with it.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from mmpca_dist import LassoSelection
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> LassoSelection(n_components=3).fit(X, y).columns_.tolist()
    [27, 22, 20]
    """

    _scatters = frozenset({"plain", "formed", "columns"})
    _stored = ("path_",)

    def _solve(self, statistics: Statistics, n_components: int | None) -> Solution:
        changes = lasso_changes(statistics, n_components)
        self.path_ = np.asarray([(*change, number) for change, number in changes], np.float64).reshape(-1, 4)
        return solve_lasso(statistics, changes, n_components)

    def _shorten(self, n_components: int) -> None:
        super()._shorten(n_components)
        changes = [
            (Change(float(penalty), int(column), bool(enters)), int(number))
            for penalty, column, enters, number in self.path_
        ]
        columns, self.eigenvalues_ = lasso_columns(changes, n_components)
        self.components_ = unit_vectors(columns, self.components_.shape[1])
