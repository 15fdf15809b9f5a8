"""Partial least squares as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, Self

from mmpca_dist.reducers.base import MomentReducer
from mmpca_dist.reducers.regressing import solve_pls
from mmpca_dist.reducers.solving import Solution
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.working import Statistics


class PLS(MomentReducer):
    """Directions of largest covariance with the classes, one after the other: partial least squares.

    The components are ``x_rotations_`` of scikit-learn's ``PLSRegression(scale=False)`` for an indicator of each
    class, up to their signs. For two classes one column of -1 and +1 is used; two indicators give the same components.

    Parameters
    ----------
    n_components : int, optional
        By default all there are.
    standardize, precision
        As in ``MarginPCA``.
    center : bool
        Subtract the mean in ``transform``, which then returns the scores X R; else V^T x, as the other methods.
    solver : {"auto", "dense", "dual"}
        As in ``MarginPCA``. The whole scatter is needed: there is no solver in passes.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        Rows of R^T; not orthonormal, so ``inverse_transform`` goes by the pseudo-inverse. The loading of largest
        magnitude is positive.
    eigenvalues_ : array of shape (K,)
        Variance of the targets that each component explains; not sorted. ``total_`` is all of it.
    residuals_ : array of shape (K,)
        NaN: the components are no eigenvectors.
    mean_, classes_, moments_, n_features_in_, imprecise_
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
    """

    _scatters = frozenset({"plain", "formed"})

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

    def _solve(self, statistics: Statistics, n_components: int | None) -> Solution:
        return solve_pls(statistics, n_components)
