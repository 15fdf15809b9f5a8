"""Fisher's discriminant directions as a scikit-learn estimator."""

from __future__ import annotations

import numpy as np

from mmpca_dist.errors import InputError
from mmpca_dist.methods.base import MomentReducer
from mmpca_dist.methods.solution import Solution, solution_of
from mmpca_dist.methods.specification import BETWEEN_CLASSES, Method, MethodOptions
from mmpca_dist.settings import setting
from mmpca_dist.solvers.discriminants import discriminants
from mmpca_dist.statistics.coordinates import Statistics
from mmpca_dist.statistics.scatters import at_least_two

DEFAULT_SHRINKAGE = 1e-3


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

    def _solve(self, statistics: Statistics, n_components: int | None) -> Solution:
        return solve_fisher(statistics, n_components, shrinkage=self.shrinkage)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not 0 <= self.shrinkage <= 1:
            raise InputError(f"shrinkage={self.shrinkage!r} must lie between 0 and 1.")


def solve_fisher(statistics: Statistics, n_components: int | None, *, shrinkage: float = DEFAULT_SHRINKAGE) -> Solution:
    """Fisher's discriminant directions: B v = l W_g v, W_g = (1 - g) W / n + g tr(W) / (n d) I.

    Source: STAT 841, Fisher discriminant analysis.
    """
    moments, n = statistics.moments, statistics.moments.n_rows
    present = at_least_two(moments.counts)
    between = moments.deviations[present] * np.sqrt(moments.counts[present] / n)[:, None]
    most = min(len(present) - 1, moments.n_features)
    wanted = most if n_components is None else min(n_components, most)
    pairs, certificate = discriminants(statistics, between, wanted, shrinkage)
    limit = f"the number of classes less one, {len(present) - 1}"
    return solution_of(statistics, pairs, limit, certificate)


class _Options(MethodOptions):
    shrinkage: float = setting(
        DEFAULT_SHRINKAGE, ge=0, le=1, example=0.01, description="Share of the identity in the scatter within classes"
    )


METHOD = Method(
    "fisher",
    "Fisher discriminant",
    "classes",
    "scatter between classes over scatter within",
    BETWEEN_CLASSES,
    FisherDiscriminant,
    options=_Options,
    orthonormal=False,
    scale_free=True,
    residuals="in units of the scatter within classes, at most",
)
