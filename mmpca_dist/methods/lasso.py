"""Columns that the lasso uses as a scikit-learn estimator."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.methods.class_regression import class_regression
from mmpca_dist.methods.column_selection import ColumnSelection, selection, unit_vectors
from mmpca_dist.methods.solution import Solution
from mmpca_dist.methods.specification import Method
from mmpca_dist.solvers.lasso_path import Change, Changes, Regression, changes_until, columns_with, lasso_path
from mmpca_dist.solvers.needs import Needs
from mmpca_dist.statistics.coordinates import ROUNDING, Statistics


class LassoSelection(ColumnSelection):
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

    _stored = ("path_",)

    def _needs(self) -> Needs:
        return Needs(whole=("lasso",), columns=True)

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


def lasso_changes(statistics: Statistics, n_components: int | None) -> Changes:
    """Return what enters and leaves the lasso until so many columns are in it.

    Columns are standardised, labels -1 and +1. Of several classes, each against the others has a path of its own, under
    one penalty, and a column is in the lasso that is in any of them. Constant columns never enter.

    Source: Efron et al. 2004, "Least angle regression".
    """
    regression = class_regression(statistics, "lasso")
    several = regression.cross.shape[1] > 1
    inverse = _inverse_deviations(statistics, regression.scatter)
    targets = (1 + several) * regression.cross  # an indicator is half of -1 and +1
    problems = _problems(statistics, regression.scatter, targets, inverse)
    epsilon = max(statistics.epsilon, ROUNDING)
    return changes_until([lasso_path(one, epsilon) for one in problems], n_components or statistics.n_features)


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
    return selection(columns, penalties, errors, float("nan"), limit, statistics.n_features)


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


def _problems(
    statistics: Statistics,
    scatter: NDArray[np.float64],
    targets: NDArray[np.float64],
    inverse: NDArray[np.float64],
) -> list[Regression]:
    """Return a regression for every target, shape (r, q), in working coordinates, onto standardised columns.

    Of more columns than rows it is in the span of the rows.
    """
    crosses = statistics.loadings(targets) * inverse
    if statistics.basis is None:
        gram = inverse[:, None] * scatter * inverse
        return [Regression(cross, gram=gram) for cross in crosses]
    with single_blas_thread():
        values, vectors = scipy.linalg.eigh(scatter, check_finite=False)
        spread = values > max(statistics.epsilon, ROUNDING) * values[-1]
        roots = np.sqrt(values[spread])
        factor = statistics.loadings(vectors[:, spread] * roots) * inverse
        seen = (vectors[:, spread].T @ targets) / roots[:, None]
    return [Regression(cross, factor=factor, target=one) for cross, one in zip(crosses, seen.T, strict=True)]


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
