"""Regressions onto the classes as scikit-learn estimators: partial least squares and ridge."""

from __future__ import annotations

from typing import Any, Self

from mmpca_dist.errors import InputError
from mmpca_dist.reducers.base import MomentReducer
from mmpca_dist.reducers.regressing import DEFAULT_ALPHA, solve_pls, solve_pls_targets, solve_ridge
from mmpca_dist.reducers.solving import Solution
from mmpca_dist.reducers.targets import TargetReducer
from mmpca_dist.statistics.cross import CrossMoments
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.working import Statistics


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

    _scatters = frozenset({"plain", "formed"})
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
        self.n_components = n_components
        self.target = target
        self.standardize = standardize
        self.center = center
        self.precision = precision
        self.solver = solver

    @classmethod
    def from_moments(cls, moments: ClassMoments, n_components: int | None = None, **parameters: Any) -> Self:
        """Return the reducer that follows from stored class moments, with no look at the rows."""
        return cls._from_moments(moments, None, n_components=n_components, **parameters)

    def _solve(self, statistics: Statistics, n_components: int | None) -> Solution:
        self._refuse_continuous()
        return solve_pls(statistics, n_components)

    def _solve_targets(self, cross: CrossMoments) -> Solution:
        return solve_pls_targets(cross, self.n_components, standardize=self.standardize)


class RidgeDirections(MomentReducer):
    """Directions of the coefficients of a ridge regression onto the classes.

    For two classes the component is ``coef_`` of scikit-learn's ``Ridge(alpha)`` for labels -1 and +1, up to its sign.
    For several, with an indicator of each as target, the components are their coefficients W turned by an orthogonal
    V, the principal axes of what they fit: W V. They span what the coefficients span, the strongest come first, and
    fitted values along them are uncorrelated.

    Parameters
    ----------
    n_components : int, optional
        At most the number of classes less one, which is the default.
    alpha : float
        Of the penalty alpha |w|^2 beside the sum of squared errors, as in scikit-learn. 0 is least squares, where
        columns do not depend on each other.
    standardize, center, precision
        As in ``MarginPCA``.
    solver : {"auto", "dense", "dual"}
        As in ``MarginPCA``. The whole scatter is needed: there is no solver in passes.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        In the units of coefficients, not orthonormal, so ``inverse_transform`` goes by the pseudo-inverse.
    eigenvalues_ : array of shape (K,)
        Variance of the fitted values along each component, decreasing. ``total_`` is the variance of the targets.
    residuals_ : array of shape (K,)
        NaN: the components are no eigenvectors of a scatter.
    mean_, classes_, moments_, n_features_in_, imprecise_
        As in ``MarginPCA``.

    References
    ----------
    Hoerl & Kennard 1970, "Ridge regression", Technometrics 12.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from mmpca_dist import RidgeDirections
    >>> X, y = load_wine(return_X_y=True)
    >>> RidgeDirections(alpha=0.1).fit(X, y).components_.shape
    (2, 13)
    """

    _scatters = frozenset({"plain", "formed"})
    _by_classes = True

    def __init__(
        self,
        n_components: int | None = None,
        *,
        alpha: float = DEFAULT_ALPHA,
        standardize: bool = False,
        center: bool = False,
        precision: str = "single",
        solver: str = "auto",
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.standardize = standardize
        self.center = center
        self.precision = precision
        self.solver = solver

    @classmethod
    def from_moments(cls, moments: ClassMoments, n_components: int | None = None, **parameters: Any) -> Self:
        """Return the reducer that follows from stored class moments, with no look at the rows."""
        return cls._from_moments(moments, None, n_components=n_components, **parameters)

    def _solve(self, statistics: Statistics, n_components: int | None) -> Solution:
        return solve_ridge(statistics, n_components, alpha=self.alpha)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not 0 <= self.alpha < float("inf"):
            raise InputError(f"alpha={self.alpha!r} must be a number of at least 0.")
