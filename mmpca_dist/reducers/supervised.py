"""Fisher discriminants, supervised PCA and LOL, as scikit-learn estimators."""

from __future__ import annotations

from typing import Any, Self

from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.reducers.base import MomentReducer
from mmpca_dist.reducers.solving import DEFAULT_SHRINKAGE, Solution, solve_fisher, solve_hsic, solve_lol
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.working import Statistics


class FisherDiscriminant(MomentReducer):
    """Directions that maximise the scatter between the classes over that within them.

    Parameters
    ----------
    n_components : int, optional
        At most the number of classes less one, which is the default.
    shrinkage : float
        g in W_g = (1 - g) W / n + g tr(W) / (n d) I, from 0 to 1. Above 0 (by default 0.001), singular scatters,
        constant columns and fewer rows than columns do no harm.
    standardize, center, precision
        As in ``MarginPCA``.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        v with v^T W_g v = 1; not orthonormal, so ``inverse_transform`` goes by the pseudo-inverse.
    eigenvalues_ : array of shape (K,)
        Fisher's criterion.
    mean_, classes_, n_features_in_, residuals_, imprecise_
        As in ``MarginPCA``.

    References
    ----------
    STAT 841, Fisher discriminant analysis.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from mmpca_dist import FisherDiscriminant
    >>> X, y = load_wine(return_X_y=True)
    >>> FisherDiscriminant().fit(X, y).components_.shape
    (2, 13)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        shrinkage: float = DEFAULT_SHRINKAGE,
        standardize: bool = False,
        center: bool = False,
        precision: str = "single",
    ) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage
        self.standardize = standardize
        self.center = center
        self.precision = precision

    @classmethod
    def from_moments(cls, moments: ClassMoments, n_components: int | None = None, **parameters: Any) -> Self:
        """Return the discriminant that follows from stored class moments, with no look at the rows."""
        return cls._from_moments(moments, None, n_components=n_components, **parameters)

    def _solve(self, statistics: Statistics, n_components: int | None) -> Solution:
        return solve_fisher(statistics, n_components, shrinkage=self.shrinkage)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not 0 <= self.shrinkage <= 1:
            raise InputError(f"shrinkage={self.shrinkage!r} must lie between 0 and 1.")


class SupervisedPCA(MomentReducer):
    """Directions whose projection depends most on the class, by the Hilbert-Schmidt independence criterion.

    Parameters
    ----------
    n_components : int, optional
        At most the number of classes less one, which is the default.
    kernel : {"delta", "linear"} or array of shape (C, C)
        Similarity of the classes: 1 for equal ones, the product of numeric labels, or any positive semidefinite
        matrix in the order of the sorted classes.
    standardize, center, precision
        As in ``MarginPCA``.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        Orthonormal.
    eigenvalues_ : array of shape (K,)
        Of X^T H L H X, which grows with n^2.
    mean_, classes_, n_features_in_, residuals_, imprecise_
        As in ``MarginPCA``.

    References
    ----------
    STAT 841, supervised PCA.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mmpca_dist import SupervisedPCA
    >>> X, y = load_digits(return_X_y=True)
    >>> SupervisedPCA(n_components=2).fit_transform(X, y).shape
    (1797, 2)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        kernel: str | NDArray = "delta",
        standardize: bool = False,
        center: bool = False,
        precision: str = "single",
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.standardize = standardize
        self.center = center
        self.precision = precision

    @classmethod
    def from_moments(cls, moments: ClassMoments, n_components: int | None = None, **parameters: Any) -> Self:
        """Return the reducer that follows from stored class moments, with no look at the rows."""
        return cls._from_moments(moments, None, n_components=n_components, **parameters)

    def _solve(self, statistics: Statistics, n_components: int | None) -> Solution:
        return solve_hsic(statistics, n_components, kernel=self.kernel)


class LOL(MomentReducer):
    """Linear optimal low-rank projection: differences of class means first, then directions of scatter within classes.

    Parameters
    ----------
    n_components : int, optional
    standardize, center, precision
        As in ``MarginPCA``.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        Orthonormal: means of the classes, by decreasing size, less that of the largest; then leading eigenvectors.
    eigenvalues_ : array of shape (K,)
        Variance within the classes along each component; not sorted.
    residuals_ : array of shape (K,)
        NaN: the components are no eigenvectors, so there is no equation for them to miss.
    mean_, classes_, n_features_in_, imprecise_
        As in ``MarginPCA``.

    References
    ----------
    Vogelstein et al. 2021, "Supervised dimensionality reduction for big data", Nature Communications 12.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mmpca_dist import LOL
    >>> X, y = load_digits(return_X_y=True)
    >>> LOL(n_components=12).fit(X, y).components_.shape
    (12, 64)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        standardize: bool = False,
        center: bool = False,
        precision: str = "single",
    ) -> None:
        self.n_components = n_components
        self.standardize = standardize
        self.center = center
        self.precision = precision

    @classmethod
    def from_moments(cls, moments: ClassMoments, n_components: int | None = None, **parameters: Any) -> Self:
        """Return the reducer that follows from stored class moments, with no look at the rows."""
        return cls._from_moments(moments, None, n_components=n_components, **parameters)

    def _solve(self, statistics: Statistics, n_components: int | None) -> Solution:
        return solve_lol(statistics, n_components)
