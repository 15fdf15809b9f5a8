"""Columns that the lasso uses as a scikit-learn estimator."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.eigen.needs import Needs
from mmpca_dist.methods.base.column_selection import ColumnSelection, unit_vectors
from mmpca_dist.methods.base.registry import Method
from mmpca_dist.methods.base.solution import Solution
from mmpca_dist.methods.base.target_reducer import TargetReducer
from mmpca_dist.optimise.lasso_path import Change, Regression, changes_until, columns_with, lasso_path
from mmpca_dist.statistics.column_units import ROUNDING
from mmpca_dist.statistics.scatters import regression_of
from mmpca_dist.statistics.working_statistics import Statistics


class LassoSelection(TargetReducer, ColumnSelection):
    """The columns that the lasso uses: those of the first point of its path with K coefficients that are not zero.

    Columns are standardised, labels are -1 and +1, and the intercept is free. With several classes, each against all
    others has a lasso; all share one penalty, as in scikit-learn's ``Lasso`` with several targets, and a column counts
    that any of them uses. Constant columns never enter. Parameters that are not listed are as in ``MarginPCA``, and so
    are the other attributes.

    Parameters
    ----------
    n_components : int, optional
        By default as many as there are at the fullest point of the path.
    target : {"classes", "continuous"}
        What y holds: labels, or numbers of shape (n,) or (n, q), of which each has a lasso.
    standardize : bool
        Divide columns by their standard deviation in ``transform``. The choice standardises them in any case.
    solver : {"auto", "dense", "dual"}
        As in ``MarginPCA``. The whole scatter is needed: there is no solver in passes.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        Unit vectors.
    columns_ : array of shape (K,)
        The columns that these pick, in the order in which they came in. For a smaller K they are not always the first
        of these, because a column may leave again; ``load_model(output, "lasso", K)`` follows the path anew.
    eigenvalues_ : array of shape (K,)
        Penalties below which the columns came in: ``alpha`` of scikit-learn's ``Lasso``.
    path_ : array of shape (changes, 4)
        The path so far: penalty, column, 1 where it comes in or 0 where it leaves, position of the class.
    residuals_ : array of shape (K,)
        NaN: the components are no eigenvectors.

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

    traits = TargetReducer.traits.extended(stored=("path_",), shares=False)

    def needs(self) -> Needs:
        return Needs(full_scatter=("lasso",), columns=True)

    def _solve(self, statistics: Statistics) -> Solution:
        d = statistics.n_features
        count = self.n_components or d
        paths = [lasso_path(problem, max(statistics.epsilon, ROUNDING)) for problem in _problems(statistics)]
        changes = changes_until(paths, count)
        self.path_ = np.asarray(changes, np.float64).reshape(-1, 4)
        columns, penalties = columns_with(changes, count)
        errors = np.full(len(columns), statistics.epsilon)
        largest = min(d, statistics.moments.n_rows - 1)
        limit = f"the columns that its paths take in, each at most min(n_features, n_samples - 1) = {largest}"
        return Solution.of_directions(unit_vectors(columns, d), penalties, errors, float("nan"), limit)

    def shorten(self, n_components: int) -> None:
        super().shorten(n_components)
        changes = (Change(float(p), int(column), bool(enters), int(path)) for p, column, enters, path in self.path_)
        columns, self.eigenvalues_ = columns_with(changes, n_components)
        self.components_ = unit_vectors(columns, self.components_.shape[1])


def _problems(statistics: Statistics) -> list[Regression]:
    """Return a regression for every target onto standardised columns; of more columns than rows in their span."""
    moments, regression = statistics.moments, regression_of(statistics.moments)
    scatter, cross = regression.scatter, regression.cross
    of_indicators = moments.targets is None and cross.shape[1] > 1
    targets = 2 * cross if of_indicators else cross  # an indicator is half of -1 and +1
    inverse = _inverse_deviations(statistics, scatter)
    crosses = statistics.loadings(targets) * inverse
    if statistics.basis is None:
        gram = inverse[:, None] * scatter * inverse
        return [Regression(cross, gram=gram) for cross in crosses]
    values, vectors = scipy.linalg.eigh(scatter, check_finite=False)
    spread = values > max(statistics.epsilon, ROUNDING) * values[-1]
    roots = np.sqrt(values[spread])
    factor = statistics.loadings(vectors[:, spread] * roots) * inverse
    seen = (vectors[:, spread].T @ targets) / roots[:, None]
    return [Regression(cross, factor=factor, target=target) for cross, target in zip(crosses, seen.T, strict=True)]


def _inverse_deviations(statistics: Statistics, scatter: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what columns in working units are multiplied by to have unit variance; 0 for constant ones, shape (d,)."""
    deviations = np.sqrt(statistics.column_totals() / statistics.moments.counts.sum())
    usable = deviations > ROUNDING * np.abs(statistics.mean)
    units = deviations if statistics.scale is None else deviations / statistics.scale
    if statistics.basis is not None:  # the basis knows a column up to a rounding of the largest
        usable &= units > statistics.epsilon * np.sqrt(np.trace(scatter))
    return np.divide(1.0, units, out=np.zeros_like(units), where=usable)


METHOD = Method(
    "lasso",
    "Lasso",
    "columns",
    "single columns: those of the first point of the lasso's path with so many",
    "min(d, n - 1) for each class",
    LassoSelection,
    ordered=False,
    scale_free=True,
    values="penalties below which the columns came in",
)
