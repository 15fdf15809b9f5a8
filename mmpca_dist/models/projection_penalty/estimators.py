"""Linear models with a projection penalty, as scikit-learn estimators: of classes, and of continuous targets."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.errors import InputError
from mmpca_dist.limits import COMPONENT_COUNTS
from mmpca_dist.methods.base.choice_by_folds import MOST_FOLDS, Choice
from mmpca_dist.methods.base.classifies_by_scores import ClassifiesByScores
from mmpca_dist.methods.base.parameters import Option, check_choice
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.methods.base.registry import Method
from mmpca_dist.methods.base.swept_reducer import SweptRegressor
from mmpca_dist.methods.base.target_reducer import TargetReducer
from mmpca_dist.models.projection_penalty.base import ALPHAS, ProjectionPenalty
from mmpca_dist.models.projection_penalty.from_moments import (
    choice_from_folds,
    class_squares,
    models_of_squares,
    target_squares,
)
from mmpca_dist.models.projection_penalty.reduction import GivenReduction, method_named
from mmpca_dist.models.projection_penalty.results import PenalizedModels
from mmpca_dist.passes.schedulers import Scheduler
from mmpca_dist.statistics.coordinates import Statistics, tall_statistics
from mmpca_dist.statistics.target_scatter import (
    CrossMoments,
    cross_moments,
    cross_moments_by_fold,
    training_folds,
)
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

    _options: ClassVar = ProjectionPenalty._options | {"loss": Option(example="hinge", description="What errors cost")}

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

    _rounds_moments = True

    def _models(self, statistics: Statistics) -> PenalizedModels:
        if not self._from_moments:
            return super()._models(statistics)
        size = self._reduction_size(statistics.moments.n_rows, statistics.n_features)
        P = self._described().components(statistics, size)
        squares, basis = class_squares(statistics, is_centred=self.fit_intercept or statistics.scale is not None)
        return models_of_squares(
            squares, P, basis, choice=Choice.given(len(P), float(self.alpha)), epsilon=self._own_epsilon,
            has_intercept=self.fit_intercept, rounding=statistics.epsilon,
        )  # fmt: skip

    def _check_parameters(self) -> None:
        check_choice("loss", self.loss, LOSSES)
        super()._check_parameters()


class ProjectionPenaltyRegressor(SweptRegressor, ProjectionPenalty):
    """Linear regression that is penalised only for what it uses outside of the subspace of a reduction.

    The loss is squared. Parameters and attributes are as in ``ProjectionPenaltyClassifier`` unless listed; of q targets
    there are q models.

    Parameters
    ----------
    reduction : as in ``ProjectionPenaltyClassifier``
        Methods of this project must take continuous targets, ``pls`` and ``hsic`` (``SupervisedPCA``), or none, ``pca``
        and ``random-projection``.
    alpha : float or "auto"
        With ``l2`` and given, moments suffice: one pass, and ``partial_fit`` extends the fit.

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

    def __init__(
        self, reduction: Any = "pls", *,
        n_components: int | Literal["auto"] | None = None, sizes: tuple[int, ...] = COMPONENT_COUNTS,
        alpha: float | Literal["auto"] = 1.0, alphas: tuple[float, ...] = ALPHAS, epsilon: float = 1e-3,
        penalty: Literal["l2", "l1"] = "l2", fit_intercept: bool = True, tol: float = 1e-5,
        max_iter: int = 500, scratch: str | None = None,
        standardize: bool = False, center: bool = False, precision: str = "single", solver: str = "auto",
    ) -> None:  # fmt: skip
        super().__init__(
            reduction, n_components=n_components, sizes=sizes, alpha=alpha, alphas=alphas, epsilon=epsilon,
            penalty=penalty, fit_intercept=fit_intercept, tol=tol, max_iter=max_iter, scratch=scratch,
            standardize=standardize, center=center, precision=precision, solver=solver,
        )  # fmt: skip

    def _reducer(self) -> MomentReducer | None:
        """Return the method of this project, not fitted, that the reduction is to be; None for others."""
        reducer: Any = self.reduction
        name = type(reducer).__name__
        if isinstance(reducer, str | dict):
            name = reducer if isinstance(reducer, str) else str(reducer.get("name"))
            reducer = method_named(reducer, **self._shared(), target="continuous")
        if not isinstance(reducer, MomentReducer) or hasattr(reducer, "components_"):
            return None
        if not (reducer._ignores_labels or (isinstance(reducer, TargetReducer) and reducer._continuous)):
            raise InputError(
                f"The reduction, {name}, takes classes, and y holds numbers: choose pls, hsic, pca, an estimator with "
                "target='continuous', a transformer of scikit-learn, or an array."
            )
        reducer._check_parameters()
        return clone(reducer).set_params(n_components=None, standardize=self.standardize)

    def _needs(self) -> Needs:
        self._from_parameters()  # refuses what is no reduction
        return Needs(swept=() if self._from_moments else (self._fit(),))

    @property
    def _from_moments(self) -> bool:
        return self.penalty == "l2"

    def _reduced_by(self, cross: CrossMoments, *, of_raw_columns: bool = False) -> GivenReduction:
        """Return the reduction, which, where it is of this project, is fitted to moments."""
        reducer = self._reducer()
        if reducer is None:
            described = self._described()
            assert isinstance(described, GivenReduction)  # noqa: S101  (fitted to rows beforehand)
            return described
        reducer.set_params(n_components=self._reduction_size(cross.n_rows, len(cross.mean)))
        if isinstance(reducer, TargetReducer):
            P = reducer._fit_cross(cross, at_most=True)._directions
        else:
            moments = cross.as_one_class()
            statistics = tall_statistics(moments, precision="double", standardize=self.standardize)
            P = reducer.fit_statistics(statistics, at_most=True)._directions
        return GivenReduction.of(P / cross.scale if of_raw_columns else P, of_raw_columns=of_raw_columns)

    def _fit_rows(self, dataset: Dataset, scheduler: Scheduler) -> Self:
        if self._from_moments and not self._chooses:
            return self._fit_cross(cross_moments(dataset, scheduler, with_rows=True))
        if self._from_moments:
            folds = cross_moments_by_fold(dataset, scheduler, min(MOST_FOLDS, dataset.n_rows))
            cross = functools.reduce(CrossMoments.merge, folds)
            return self._fit_cross(cross, choice=self._choice(cross, folds))
        if self._reducer() is not None:
            self._fitted_reduction = self._fitted_to_folds(dataset, scheduler)
        return super()._fit_rows(dataset, scheduler)

    def _fitted_to_folds(self, dataset: Dataset, scheduler: Scheduler) -> GivenReduction:
        """Return the reduction of all rows, with those of the rows that train where something is chosen."""
        if not self._chooses:
            return self._reduced_by(cross_moments(dataset, scheduler, with_rows=True))
        folds = cross_moments_by_fold(dataset, scheduler, min(MOST_FOLDS, dataset.n_rows))
        training = [self._reduced_by(each, of_raw_columns=self.standardize) for _, each in training_folds(folds)]
        return replace(self._reduced_by(functools.reduce(CrossMoments.merge, folds)), without_folds=tuple(training))

    def _choice(self, cross: CrossMoments, folds: Sequence[CrossMoments]) -> Choice:
        """Return what the errors in the folds are least with."""
        size = self._reduction_size(cross.n_rows, len(cross.mean))
        most = min(size, self._reduced_by(cross).n_components)
        sizes = [tried for tried in self._tried_sizes if tried <= most] or [size]
        alphas = tuple(dict.fromkeys(self.alphas)) if self.alpha == "auto" else (float(self.alpha),)
        with single_blas_thread():
            return choice_from_folds(
                folds, self._reduced_by, sizes, alphas, epsilon=self._own_epsilon,
                has_intercept=self.fit_intercept, standardize=self.standardize,
            )  # fmt: skip

    def _fit_cross(self, cross: CrossMoments, at_most: bool = False, choice: Choice | None = None) -> Self:
        scale = cross.scale if self.standardize else None
        choice = choice or Choice.given(self._reduction_size(cross.n_rows, len(cross.mean)), float(self.alpha))
        P = self._reduced_by(cross).matrix(len(cross.mean), scale, choice.n_components)
        with single_blas_thread():
            squares = target_squares(cross, scale, has_intercept=self.fit_intercept)
            models = models_of_squares(
                squares, P, None, choice=choice, epsilon=self._own_epsilon, has_intercept=self.fit_intercept
            )
            solution = self._solution(self._with_means(models, cross.target_mean))
        self._refuse_too_few(solution, cross.n_rows, len(cross.mean), "double")
        self._adopt(solution, cross.mean, scale)
        self._kept = self._unmergeable or cross
        return self

    def _with_means(self, models: PenalizedModels, means: NDArray[np.float64]) -> PenalizedModels:
        """Return the models of targets, given those of targets less their means where there is an intercept."""
        return replace(models, intercept=models.intercept + (means if self.fit_intercept else 0.0))

    def _models(self, statistics: Statistics) -> PenalizedModels:
        return self._with_means(super()._models(statistics), np.array([mean for mean, _ in self._units]))

    def _solvable(self, cross: CrossMoments) -> bool:
        return True

    @property
    def _unmergeable(self) -> str | None:
        if self._from_moments and not self._chooses:
            return super()._unmergeable
        return "alpha='auto', n_components='auto' and penalty='l1' need all rows at once"

    def _shaped(self, coef: NDArray[np.float64]) -> NDArray[np.float64]:
        return coef[0] if len(coef) == 1 else coef

    def _shaped_intercept(self, intercept: NDArray[np.float64]) -> Any:
        return float(intercept[0]) if len(intercept) == 1 else intercept


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
