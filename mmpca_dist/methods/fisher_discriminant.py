"""Fisher's discriminant directions as a scikit-learn estimator."""

from __future__ import annotations

from typing import Literal

import numpy as np

from mmpca_dist.eigen.discriminants import discriminants
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.methods.base.reducer import BlockReducer
from mmpca_dist.methods.base.registry import BETWEEN_CLASSES, Method
from mmpca_dist.methods.base.shrinkage import chosen_shrinkage
from mmpca_dist.methods.base.solution import Solution, class_limit
from mmpca_dist.methods.base.traits import Option, Traits
from mmpca_dist.statistics.class_weights import ClassWeight
from mmpca_dist.statistics.scatters import at_least_two
from mmpca_dist.statistics.working_statistics import Statistics

TELLING = 0.25
"""Share of the criterion from which on that of a single column counts."""


class FisherDiscriminant(BlockReducer):
    """Directions that maximise the scatter between the classes over that within them.

    They solve B v = l W_g v, W_g = (1 - g) W / n + g tr(W) / (n d) I. Parameters that are not listed are as in
    ``MarginPCA``, and so are the other attributes.

    Parameters
    ----------
    n_components : int or float, optional
        At most the number of classes less one, which is the default.
    shrinkage : float or "auto"
        g, from 0 to 1. Above 0 (by default 0.001), singular scatters, constant columns and fewer rows than columns do
        no harm. With ``"auto"`` rows held out are most likely as Gaussian classes, from moments of folds in one pass.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        v with v^T W_g v = 1; not orthonormal, so ``inverse_transform`` goes by the pseudo-inverse.
    eigenvalues_ : array of shape (K,)
        Fisher's criterion.
    residuals_ : array of shape (K,)
        ||L^-1 (B v - l W_g v)||, W_g = L L^T: each eigenvalue has one of the problem within its residual. Upper bounds
        where a solver in passes was used; NaN where it proves nothing.
    certificate_ : dict
        Where a solver in passes was used, what share of the criterion that is possible the components reach
        (``criterion``: at least; ``estimate``: about), and how far they may be off; see ``eigen.discriminants``. For
        ``shrinkage="auto"`` it has g, ``shrinkage``.

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

    traits = Traits({
        "shrinkage": Option(words=("auto",), ge=0, le=1, example=0.01,
                            description="Share of the identity in the scatter within classes; auto: by rows held out"),
    }, by_classes=True)  # fmt: skip

    def __init__(
        self, n_components: float | None = None, *, shrinkage: float | Literal["auto"] = 1e-3,
        standardize: bool = False, center: bool = False, precision: str = "single", solver: str = "auto",
        class_weight: ClassWeight = None, missing: str = "refuse",
        oversampling: int = 10, passes: int = 4, tolerance: float = 1e-4,
    ) -> None:  # fmt: skip
        super().__init__(
            n_components, standardize=standardize, center=center, precision=precision, solver=solver,
            class_weight=class_weight, missing=missing, oversampling=oversampling, passes=passes, tolerance=tolerance,
        )  # fmt: skip
        self.shrinkage = shrinkage

    def needs(self) -> Needs:
        auto = Needs(full_scatter=("shrinkage: auto",), shrinkages=(("within", "", self.standardize),))
        return auto if self.shrinkage == "auto" else super().needs()

    def _solve(self, statistics: Statistics) -> Solution:
        moments, n = statistics.moments, statistics.moments.total
        present = at_least_two(moments.counts)
        between = moments.deviations[present] * np.sqrt(moments.counts[present] / n)[:, None]
        count = self._at_most(min(len(present) - 1, moments.n_features))
        shrinkage = chosen_shrinkage(self.shrinkage, statistics, self.needs().shrinkages)
        pairs, certificate = discriminants(statistics, between, count, shrinkage)
        self._cautions = self._cautions_of(statistics, float(pairs.values.max(initial=0)), shrinkage)
        return Solution.of_pairs(statistics, pairs, class_limit(len(present)), certificate)

    def _cautions_of(self, statistics: Statistics, criterion: float, shrinkage: float) -> list[str]:
        """Return what shrinkage takes from columns that tell of the classes: it may drown their own variance."""
        moments = statistics.moments
        if not statistics.knows_columns or shrinkage == 0:
            return []
        scale = 1 if statistics.scale is None else statistics.scale
        within = statistics.column_squares(np.ones(len(moments.counts))) / np.square(scale)
        drowned = (within > 0) & (within < shrinkage * within.mean())
        ratios = (moments.counts @ (statistics.column_deviations() / scale) ** 2)[drowned] / within[drowned]
        if ratios.max(initial=0) <= TELLING * criterion:
            return []
        return [
            f"shrinkage adds more to {drowned.sum()} of {len(within)} columns than their own variance within the "
            "classes, so that what these tell is lost. Set standardize to true, or lower shrinkage."
        ]


METHOD = Method(
    "fisher",
    "Fisher discriminant",
    "classes",
    "scatter between classes over scatter within",
    BETWEEN_CLASSES,
    FisherDiscriminant,
    settable=("shrinkage",),
    orthonormal=False,
    scale_free=True,
    residuals="in units of the scatter within classes, at most",
)
