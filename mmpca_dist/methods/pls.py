"""Partial least squares onto the classes, or onto numbers, as a scikit-learn estimator."""

from __future__ import annotations

import numpy as np

from mmpca_dist.errors import InputError
from mmpca_dist.methods.class_regression import EPS, class_regression
from mmpca_dist.methods.solution import Solution, unknown_residuals
from mmpca_dist.methods.specification import FULL_RANK, Method
from mmpca_dist.methods.target_reducer import TargetReducer
from mmpca_dist.solvers.dense import fix_signs
from mmpca_dist.solvers.kernel_pls import kernel_pls
from mmpca_dist.solvers.needs import Needs
from mmpca_dist.statistics.coordinates import Statistics
from mmpca_dist.statistics.target_scatter import CrossMoments


class PLS(TargetReducer):
    """Directions of largest covariance with the target, one after the other: partial least squares.

    The components are ``x_rotations_`` of scikit-learn's ``PLSRegression(scale=False)`` for an indicator of each
    class, up to their signs. For two classes one column of -1 and +1 is used; two indicators give the same components.

    Parameters
    ----------
    n_components : int, optional
        By default all there are.
    target : {"classes", "continuous"}
        What y holds: labels, or numbers of shape (n,) or (n, q).
    standardize
        As in ``MarginPCA``.
    precision : {"single", "double"}
        As in ``MarginPCA``. No matter for continuous targets, whose products are always double.
    center : bool
        Subtract the mean in ``transform``, which then returns the scores X R; else V^T x, as the other methods.
    solver : {"auto", "dense", "dual"}
        As in ``MarginPCA``. The whole scatter is needed: there is no solver in passes. For continuous targets it is
        d x d in any case, of 1 GiB at most.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        Rows of R^T; not orthonormal, so ``inverse_transform`` goes by the pseudo-inverse. The loading of largest
        magnitude is positive.
    eigenvalues_ : array of shape (K,)
        Variance of the targets that each component explains; not sorted. ``total_`` is all of it.
    residuals_ : array of shape (K,)
        NaN: the components are no eigenvectors.
    classes_ : array of shape (C,)
        Only of classes.
    moments_ : ClassMoments or CrossMoments
        Of all rows so far, which ``partial_fit`` extends.
    mean_, n_features_in_, imprecise_
        As in ``MarginPCA``.

    References
    ----------
    Dayal & MacGregor 1997, "Improved PLS algorithms", Journal of Chemometrics 11.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mmpca_dist import PLS
    >>> X, y = load_digits(return_X_y=True)
    >>> PLS(n_components=12).fit(X, y).components_.shape
    (12, 64)

    >>> from sklearn.datasets import load_diabetes
    >>> X, progression = load_diabetes(return_X_y=True)
    >>> PLS(n_components=3, target="continuous").fit(X, progression).components_.shape
    (3, 10)
    """

    _needs_rows = True

    def __init__(
        self,
        n_components: int | None = None,
        *,
        target: str = "classes",
        standardize: bool = False,
        center: bool = False,
        precision: str = "single",
        solver: str = "auto",
    ) -> None:
        super().__init__(n_components, standardize=standardize, center=center, precision=precision, solver=solver)
        self.target = target

    def _needs(self) -> Needs:
        return Needs(whole=("pls",))

    def _solve(self, statistics: Statistics, n_components: int | None) -> Solution:
        self._refuse_continuous()
        return solve_pls(statistics, n_components)

    def _solve_targets(self, cross: CrossMoments) -> Solution:
        return solve_pls_targets(cross, self.n_components, standardize=self.standardize)


def solve_pls(statistics: Statistics, n_components: int | None) -> Solution:
    """Partial least squares onto the classes; values are the variance of the targets that each component explains.

    Source: Dayal & MacGregor 1997, "Improved PLS algorithms".
    """
    problem = class_regression(statistics, "pls")
    most = min(statistics.n_features, statistics.moments.n_rows - 1)
    total = float(np.trace(problem.targets))
    wanted = most if n_components is None else min(n_components, most)
    found = kernel_pls(problem.scatter, problem.cross, total, wanted, statistics.epsilon)
    limit = f"the rank of its rows, at most min(n_features, n_samples - 1) = {most}"
    components = fix_signs(statistics.loadings(found.vectors))
    return Solution(components, found.explained, unknown_residuals(components), found.relative_errors, total, limit)


def solve_pls_targets(cross: CrossMoments, n_components: int | None, *, standardize: bool = False) -> Solution:
    """Partial least squares onto continuous targets; values are the variance of the targets that components explain.

    Source: Dayal & MacGregor 1997, "Improved PLS algorithms".
    """
    assert cross.rows is not None  # noqa: S101  (asked for)
    n, d, scale = cross.n_rows, len(cross.mean), cross.scale if standardize else np.ones(len(cross.mean))
    most, total = min(d, n - 1), float(cross.target_squares.sum()) / n
    found = kernel_pls(
        cross.rows / (n * scale[:, None] * scale), cross.scatter / (n * scale[:, None]), total,
        most if n_components is None else min(n_components, most), EPS,
    )  # fmt: skip
    if not len(found.explained):
        raise InputError("The targets vary with none of the columns: what they share is zero up to rounding.")
    limit = f"the rank of its rows, at most min(n_features, n_samples - 1) = {most}"
    components = fix_signs(np.ascontiguousarray(found.vectors.T))
    return Solution(components, found.explained, unknown_residuals(components), found.relative_errors, total, limit)


METHOD = Method(
    "pls",
    "PLS",
    "regressions",
    "covariance with the classes, one direction after the other (partial least squares)",
    FULL_RANK,
    PLS,
    orthonormal=False,
    ordered=False,
    values="variance of the class indicators that each component explains",
    shares="variance of the class indicators, explained",
)
