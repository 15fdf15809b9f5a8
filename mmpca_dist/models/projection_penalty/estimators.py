"""Linear models with a projection penalty, as scikit-learn estimators: of classes, and of continuous targets."""

from __future__ import annotations

import functools
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.limits import COMPONENT_COUNTS
from mmpca_dist.methods.base.choice_by_folds import MAX_FOLDS
from mmpca_dist.methods.base.registry import Method
from mmpca_dist.methods.base.swept_reducer import ClassifiesByScores, SweptRegressor
from mmpca_dist.methods.base.traits import Option, check_choice
from mmpca_dist.models.projection_penalty.base import ALPHAS, ProjectionPenalty
from mmpca_dist.passes.folds import folds_of
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Scheduler
from mmpca_dist.statistics.fold_moments import class_fold_moments
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.working_statistics import Statistics, tall_statistics
from mmpca_dist.tables.dataset import Dataset

LOSSES = ("logistic", "hinge", "squared hinge", "squared")


class ProjectionPenaltyClassifier(ClassifiesByScores, ProjectionPenalty):
    """A linear classifier that is penalised only for what it uses outside of the subspace of a reduction.

    It minimises sum_i L(y_i, w^T x_i + b) + alpha min_v [J(w - P^T v) + epsilon |v|^2] with labels y = -1 and +1, where
    rows of P are the components of the reduction: directions that it keeps cost little or nothing, those that it drops
    cost alpha. Two classes have one model; more have one for each class against the rest. Parameters that are not
    listed are as in ``MarginPCA``.

    Parameters
    ----------
    reduction : str, dict, array of shape (K, n_features), or estimator
        A method by name (``m-pca2``), with options as ``{"name": "m-pca1a", "pairing": "one-vs-one"}``; P itself, for
        (standardised) columns; an estimator of this project, whose passes are shared where it is not fitted; or any
        transformer of scikit-learn. One that is not linear appends its features phi(x): the model is one of [x;
        phi(x)], whose coefficients of phi(x) are v.
    n_components : int or "auto", optional
        Rows of P, by default at most 10; all of an array or of a transformer. ``auto`` chooses among ``sizes`` as
        ``alpha="auto"`` does, together with it; of equal errors the fewest.
    sizes : tuple of int
        By default 1, 2, 3, 4, 6, ..., 64.
    alpha : float or "auto"
        Weight of the penalty. ``auto`` chooses among ``alphas`` by errors on held-out rows of up to five folds, in
        passes that all share; of equal errors the largest. Reductions are fitted without the rows held out: see
        ``fitted_by_fold_``.
    alphas : tuple of float
        By default the paper's, 1e-8, 1e-6, ..., 1e10.
    epsilon : float
        Weight of the penalty inside of the subspace. With 0 it is free, so that there must be too many rows for P alone
        to tell the classes apart.
    loss : {"logistic", "hinge", "squared hinge", "squared"}
        log(1 + exp(-y f)), max(0, 1 - y f), its square, or (y - f)^2. Moments suffice for the last (``l2``, given
        alpha): there is no further pass, and ``partial_fit`` extends the fit.
    penalty : {"l2", "l1"}
        J: the squared length, or the sum of absolute values.
    fit_intercept : bool
    tol, max_iter : float, int
        Passes end when ``gaps_`` are at most the tolerance, or after so many.

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (m, n_features) and (m,)
        w and b, of m = 1 model for two classes, else of one for each class.
    coef_inside_, coef_outside_ : arrays of shape (m, n_features)
        P^T v and w - P^T v, which add up to w.
    weights_ : array of shape (m, K)
        v.
    n_components_ : int
        K.
    components_ : array of shape (2 m, n_features)
        The parts inside, then those outside, in (standardised) columns: ``transform`` gives each model's two terms.
    alpha_ : float
    candidates_, candidate_sizes_, candidate_errors_ : arrays
        Values of alpha and numbers of components that were tried, and the held-out rows that each alpha got wrong, or,
        with ``n_components="auto"``, each pair, shape (sizes, alphas).
    candidate_gaps_ : array
        The largest gap of the fits behind each of these errors, which end at 1e-3 or the tolerance.
    fitted_by_fold_ : bool
        False where the rows held out took part in the fit of the reduction: where it is none of class moments, and the
        rows exceed 512 MiB, or where it is a transformer of scikit-learn that was not fitted before.
    objective_, gaps_ : arrays of shape (m,)
        The objectives, and by how much they may lie above their minima, relative to themselves or to a thousandth of
        the objective at zero, whichever is more: proved by a point of the dual problem. With epsilon 0 it is an
        estimate, ``proved_`` False: what a Newton step would gain.
    n_iter_ : int
        Passes over the rows for the final models; 1 where moments sufficed.
    classes_ : array of shape (C,)

    References
    ----------
    Zhang & Schneider 2010, "Projection Penalties: Dimension Reduction without Loss", ICML, sections 2.1, 2.2 and 2.5.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mmpca_dist import ProjectionPenaltyClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = ProjectionPenaltyClassifier("pca", n_components=8, alpha=100).fit(X[::2], y[::2])
    >>> model.coef_.shape, model.transform(X).shape, round(model.score(X[1::2], y[1::2]), 2)
    ((10, 64), (1797, 20), 0.94)
    """

    traits = ProjectionPenalty.traits.extended({"loss": Option(example="hinge", description="What errors cost")})

    def __init__(
        self, reduction: Any = "m-pca0", *,
        n_components: int | Literal["auto"] | None = None, sizes: tuple[int, ...] = COMPONENT_COUNTS,
        alpha: float | Literal["auto"] = 1.0, alphas: tuple[float, ...] = ALPHAS, epsilon: float = 1e-3,
        loss: Literal["logistic", "hinge", "squared hinge", "squared"] = "logistic",
        penalty: Literal["l2", "l1"] = "l2", fit_intercept: bool = True, tol: float = 1e-5,
        max_iter: int = 500, scratch: str | None = None,
        standardize: bool = False, center: bool = False, precision: str = "single", solver: str = "auto",
        missing: str = "refuse",
    ) -> None:  # fmt: skip
        super().__init__(
            reduction, n_components=n_components, sizes=sizes, alpha=alpha, alphas=alphas, epsilon=epsilon,
            penalty=penalty, fit_intercept=fit_intercept, tol=tol, max_iter=max_iter, scratch=scratch,
            standardize=standardize, center=center, precision=precision, solver=solver, missing=missing,
        )  # fmt: skip
        self.loss = loss

    @property
    def serves_targets(self) -> bool:
        return self._from_moments and self._serving_reduction

    def for_numbers(self) -> ProjectionPenaltyRegressor:
        parameters = self.get_params(deep=False)
        del parameters["loss"]
        return ProjectionPenaltyRegressor(**parameters)

    def check_parameters(self) -> None:
        check_choice("loss", self.loss, LOSSES)
        super().check_parameters()


class ProjectionPenaltyRegressor(SweptRegressor, ProjectionPenalty):
    """Linear regression that is penalised only for what it uses outside of the subspace of a reduction.

    The loss is squared. Parameters and attributes are as in ``ProjectionPenaltyClassifier`` unless listed; of q targets
    there are q models.

    Parameters
    ----------
    reduction : as in ``ProjectionPenaltyClassifier``
        Methods of this project must take continuous targets, such as ``pls``, or no labels, such as ``pca``.
    alpha : float or "auto"
        With ``l2``, moments suffice: one pass, and ``partial_fit`` extends the fit where alpha is given.

    Attributes
    ----------
    coef_, coef_inside_, coef_outside_ : arrays of shape (n_features,), or (q, n_features)
    intercept_ : float, or array of shape (q,)
    candidate_errors_ : array
        Squared errors of held-out rows, all targets together.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from mmpca_dist import ProjectionPenaltyRegressor
    >>> X, progression = load_diabetes(return_X_y=True)
    >>> model = ProjectionPenaltyRegressor("pls", n_components=1, alpha=1.0, standardize=True).fit(X, progression)
    >>> round(model.score(X, progression), 2)
    0.52
    """

    traits = ProjectionPenalty.traits.extended(takes_targets=True)

    @property
    def _from_moments(self) -> bool:
        return self.penalty == "l2"

    @property
    def unmergeable_reason(self) -> str | None:
        if self._from_moments and not self._chooses:
            return super().unmergeable_reason
        return "alpha='auto', n_components='auto' and penalty='l1' need all rows at once"

    def _statistics(self, dataset: Dataset, scheduler: Scheduler) -> Statistics:
        self._chosen = None
        if not (self._from_moments and self._chooses):
            return super()._statistics(dataset, scheduler)
        rows = Rows.of(dataset, scheduler)
        parts = class_fold_moments(rows, folds_of(rows, min(MAX_FOLDS, dataset.n_rows)), precision="double")
        whole = functools.reduce(ClassMoments.merge, parts)
        statistics = tall_statistics(whole, precision="double", standardize=self.standardize)
        most, fit = self._reduction_size(dataset.n_rows, statistics.n_features), self._fit()
        most = min(most, len(fit.reduction.components(statistics, most)))
        self._chosen = fit.choice_from_moments(parts, most, standardize=self.standardize)
        return statistics

    def check_parameters(self) -> None:
        super().check_parameters()
        if not self._serving_reduction:
            raise InputError(
                f"The reduction, {self.reduction}, takes classes, and y holds numbers: choose pls, hsic, ridge, lasso, "
                "pca, a transformer of scikit-learn, or an array."
            )

    def _solvable(self, moments: ClassMoments) -> bool:
        return True

    def _shaped(self, coef: NDArray[np.float64]) -> NDArray[np.float64]:
        return coef[0] if len(coef) == 1 else coef


METHOD = Method(
    "projection-penalty",
    "Projection penalty",
    "regressions",
    "what a linear classifier uses inside of the subspace of another reduction, and what outside",
    "that of its reduction",
    ProjectionPenaltyClassifier,
    settable=("reduction", "alpha", "alphas", "epsilon", "loss", "penalty", "fit_intercept", "tol", "max_iter"),
    orthonormal=False,
    ordered=False,
    values="squared lengths of the coefficients",
    blocks=lambda n_components, n_classes, _: -(-2 * (1 if n_classes == 2 else n_classes) // n_components),
    sections=("choice", "penalty"),
)
