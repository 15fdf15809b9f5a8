"""Fisher discriminants, supervised PCA and LOL, as scikit-learn estimators."""

from __future__ import annotations

from typing import Any, Self

from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.reducers.base import MomentReducer
from mmpca_dist.reducers.solving import (
    DEFAULT_SHRINKAGE,
    Solution,
    solve_fisher,
    solve_hsic,
    solve_lol,
    solve_targets,
)
from mmpca_dist.reducers.targets import TargetReducer
from mmpca_dist.statistics.cross import CrossMoments
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
    standardize, center, precision, solver, oversampling, passes, tolerance
        As in ``MarginPCA``.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        v with v^T W_g v = 1; not orthonormal, so ``inverse_transform`` goes by the pseudo-inverse.
    eigenvalues_ : array of shape (K,)
        Fisher's criterion.
    residuals_ : array of shape (K,)
        ||L^-1 (B v - l W_g v)||, W_g = L L^T: each eigenvalue has one of the problem within its residual. Upper bounds
        where a solver in passes was used; NaN where none is known (``nystroem``).
    certificate_ : dict
        Where a solver in passes was used, what share of the criterion that is possible the components reach
        (``criterion``: at least; ``estimate``: about), and how far they may be off; see ``solvers.discriminants``.
    mean_, classes_, moments_, n_features_in_, imprecise_
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

    _by_classes = True

    def __init__(
        self,
        n_components: int | None = None,
        *,
        shrinkage: float = DEFAULT_SHRINKAGE,
        standardize: bool = False,
        center: bool = False,
        precision: str = "single",
        solver: str = "auto",
        oversampling: int = 10,
        passes: int = 4,
        tolerance: float = 1e-4,
    ) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage
        self.standardize = standardize
        self.center = center
        self.precision = precision
        self.solver = solver
        self.oversampling = oversampling
        self.passes = passes
        self.tolerance = tolerance

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


class SupervisedPCA(TargetReducer):
    """Directions whose projection depends most on the target, by the Hilbert-Schmidt independence criterion.

    Parameters
    ----------
    n_components : int, optional
        At most the number of classes less one, or of continuous targets, which is the default.
    target : {"classes", "continuous"}
        What y holds: labels, or numbers of shape (n,) or (n, q).
    kernel : {"delta", "linear"} or array of shape (C, C), optional
        Similarity of the classes: 1 for equal ones (the default), the product of numeric labels, or any positive
        semidefinite matrix in the order of the sorted classes. That of continuous targets is their inner product,
        "linear", and no other.
    standardize, center
        As in ``MarginPCA``.
    precision : {"single", "double"}
        As in ``MarginPCA``. No matter for continuous targets, whose few products are always double.
    solver : {"auto", "dense", "dual", "krylov"}
        As in ``MarginPCA``; of many columns, one pass takes the class means, which are all that is needed.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        Orthonormal.
    eigenvalues_ : array of shape (K,)
        Of X^T H L H X, which grows with n^2.
    classes_ : array of shape (C,)
        Only of classes.
    moments_ : ClassMoments or CrossMoments
        Of all rows so far, which ``partial_fit`` extends.
    mean_, n_features_in_, residuals_, imprecise_
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

    >>> from sklearn.datasets import load_diabetes
    >>> X, progression = load_diabetes(return_X_y=True)
    >>> SupervisedPCA(target="continuous").fit(X, progression).components_.shape
    (1, 10)
    """

    _by_classes = True

    def __init__(
        self,
        n_components: int | None = None,
        *,
        target: str = "classes",
        kernel: str | NDArray | None = None,
        standardize: bool = False,
        center: bool = False,
        precision: str = "single",
        solver: str = "auto",
    ) -> None:
        self.n_components = n_components
        self.target = target
        self.kernel = kernel
        self.standardize = standardize
        self.center = center
        self.precision = precision
        self.solver = solver

    @classmethod
    def from_moments(cls, moments: ClassMoments, n_components: int | None = None, **parameters: Any) -> Self:
        """Return the reducer that follows from stored class moments, with no look at the rows."""
        return cls._from_moments(moments, None, n_components=n_components, **parameters)

    @property
    def _scatters(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset()

    def _solve(self, statistics: Statistics, n_components: int | None) -> Solution:
        self._refuse_continuous()
        return solve_hsic(statistics, n_components, kernel="delta" if self.kernel is None else self.kernel)

    def _solve_targets(self, cross: CrossMoments) -> Solution:
        return solve_targets(cross, self.n_components, standardize=self.standardize)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if (
            self._continuous
            and self.kernel is not None
            and not (isinstance(self.kernel, str) and self.kernel == "linear")
        ):
            raise InputError("kernel must be left out, or 'linear', where the target is continuous.")


class LOL(MomentReducer):
    """Linear optimal low-rank projection: differences of class means first, then directions of scatter within classes.

    Parameters
    ----------
    n_components : int, optional
    standardize, center, precision, solver, oversampling, passes, tolerance
        As in ``MarginPCA``.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        Orthonormal: means of the classes, by decreasing size, less that of the largest; then leading eigenvectors.
    eigenvalues_ : array of shape (K,)
        Variance within the classes along each component; not sorted.
    residuals_ : array of shape (K,)
        NaN: the components are no eigenvectors, so there is no equation for them to miss.
    certificate_ : dict
        Where a solver in passes was used, as in ``MarginPCA``, of the eigenvectors that follow the ``means``, which are
        exact; see ``solvers.ritz``.
    mean_, classes_, moments_, n_features_in_, imprecise_
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
        solver: str = "auto",
        oversampling: int = 10,
        passes: int = 4,
        tolerance: float = 1e-4,
    ) -> None:
        self.n_components = n_components
        self.standardize = standardize
        self.center = center
        self.precision = precision
        self.solver = solver
        self.oversampling = oversampling
        self.passes = passes
        self.tolerance = tolerance

    @classmethod
    def from_moments(cls, moments: ClassMoments, n_components: int | None = None, **parameters: Any) -> Self:
        """Return the reducer that follows from stored class moments, with no look at the rows."""
        return cls._from_moments(moments, None, n_components=n_components, **parameters)

    def _solve(self, statistics: Statistics, n_components: int | None) -> Solution:
        return solve_lol(statistics, n_components)
