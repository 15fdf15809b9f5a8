"""Linear models with a projection penalty, as scikit-learn estimators: of classes, and of continuous targets."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin, clone

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.errors import InputError, did_you_mean
from mmpca_dist.limits import COMPONENT_COUNTS
from mmpca_dist.methods.base.classifies_by_scores import ClassifiesByScores
from mmpca_dist.methods.base.fold_grid import MOST_FOLDS
from mmpca_dist.methods.base.parameters import Option
from mmpca_dist.methods.base.reducer import Mergeable, MomentReducer
from mmpca_dist.methods.base.registry import Method
from mmpca_dist.methods.base.solution import Solution
from mmpca_dist.methods.base.statistics_for import class_statistics, with_sweeps
from mmpca_dist.methods.base.target_reducer import TargetReducer
from mmpca_dist.models.projection_penalty.base import ALPHAS, ProjectionPenalty
from mmpca_dist.models.projection_penalty.from_moments import (
    choice_from_folds,
    class_squares,
    models_of_squares,
    target_squares,
)
from mmpca_dist.models.projection_penalty.reduction import FoldedReduction, GivenReduction, ReductionOf, method_named
from mmpca_dist.models.projection_penalty.results import Choice, PenalizedModels
from mmpca_dist.passes.dask_rows import unlabelled_rows
from mmpca_dist.passes.schedulers import Scheduler
from mmpca_dist.statistics.coordinates import Statistics, tall_statistics
from mmpca_dist.statistics.target_scatter import (
    CrossMoments,
    cross_moments,
    cross_moments_by_fold,
    target_units,
    training_folds,
)
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.foreign import check_rows
from mmpca_dist.tables.given_labels import GivenLabels, as_targets
from mmpca_dist.tables.readers.memory import rows_in_memory

LOSSES = ("logistic", "hinge", "squared hinge", "squared")


class ProjectionPenaltyClassifier(ClassifiesByScores, ProjectionPenalty):
    """A linear classifier that is penalised only for what it uses outside of the subspace of a reduction.

    It minimises sum_i L(y_i, w^T x_i + b) + alpha min_v [J(w - P^T v) + epsilon |v|^2] with labels y = -1 and +1, where
    rows of P are the components of the reduction: directions that it keeps cost little or nothing, those that it drops
    cost alpha. Of two classes there is one model; of more, one for each class against the rest. Parameters that are not
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
    tolerance, max_sweeps : float, int
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
        Passes over the rows for the final models; 0 where moments sufficed.
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
        penalty: Literal["l2", "l1"] = "l2", fit_intercept: bool = True, tolerance: float = 1e-5,
        max_sweeps: int = 500, scratch: str | None = None,
        standardize: bool = False, center: bool = False, precision: str = "single", solver: str = "auto",
    ) -> None:  # fmt: skip
        super().__init__(
            reduction, n_components=n_components, sizes=sizes, alpha=alpha, alphas=alphas, epsilon=epsilon,
            penalty=penalty, fit_intercept=fit_intercept, tolerance=tolerance, max_sweeps=max_sweeps, scratch=scratch,
            standardize=standardize, center=center, precision=precision, solver=solver,
        )  # fmt: skip
        self.loss = loss

    _rounds_moments = True

    def _solve(self, statistics: Statistics) -> Solution:
        self._note_spread(statistics)
        return self._solution(self._models(statistics))

    def _models(self, statistics: Statistics) -> PenalizedModels:
        if self._from_moments:
            wanted = self._reduction_size(statistics.moments.n_rows, statistics.n_features)
            P = self._described().components(statistics, wanted)
            is_centred = self.fit_intercept or statistics.scale is not None
            squares, basis = class_squares(statistics, is_centred=is_centred)
            return models_of_squares(
                squares,
                P,
                basis,
                choice=Choice.given(len(P), float(self.alpha)),
                epsilon=self._own_epsilon,
                has_intercept=self.fit_intercept,
                rounding=statistics.epsilon,
            )
        fits = {size: fit for (need, size), fit in statistics.fits.items() if need == self._fit()}
        models = fits.get(self.n_components) if isinstance(self.n_components, int) else next(iter(fits.values()), None)
        if models is None:
            raise InputError(
                f"{type(self).__name__} passes over the rows several times: class moments do not suffice. Use fit."
            )
        return models

    def _check_parameters(self) -> None:
        if self.loss not in LOSSES:
            meant = did_you_mean(str(self.loss).replace("_", " "), LOSSES)
            raise InputError(f"loss={self.loss!r} must be one of {', '.join(LOSSES)}.{meant}")
        super()._check_parameters()


class ProjectionPenaltyRegressor(RegressorMixin, ProjectionPenalty):
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
        penalty: Literal["l2", "l1"] = "l2", fit_intercept: bool = True, tolerance: float = 1e-5,
        max_sweeps: int = 500, scratch: str | None = None,
        standardize: bool = False, center: bool = False, precision: str = "single", solver: str = "auto",
    ) -> None:  # fmt: skip
        super().__init__(
            reduction, n_components=n_components, sizes=sizes, alpha=alpha, alphas=alphas, epsilon=epsilon,
            penalty=penalty, fit_intercept=fit_intercept, tolerance=tolerance, max_sweeps=max_sweeps, scratch=scratch,
            standardize=standardize, center=center, precision=precision, solver=solver,
        )  # fmt: skip

    def _means_of_targets(self) -> tuple[float, ...]:
        return getattr(self, "_target_means", (0.0,))

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
            return self._fit_cross(cross, self._choice(cross, folds))
        if self._reducer() is not None:
            self._fitted_reduction = self._fitted_to_folds(dataset, scheduler)
        return super()._fit_rows(dataset, scheduler)

    def _fitted_to_folds(self, dataset: Dataset, scheduler: Scheduler) -> ReductionOf:
        """Return the reduction of all rows, with those of the rows that train where something is chosen."""
        if not self._chooses:
            return self._reduced_by(cross_moments(dataset, scheduler, with_rows=True))
        folds = cross_moments_by_fold(dataset, scheduler, min(MOST_FOLDS, dataset.n_rows))
        training = [self._reduced_by(each, of_raw_columns=self.standardize) for _, each in training_folds(folds)]
        return FoldedReduction(self._reduced_by(functools.reduce(CrossMoments.merge, folds)), tuple(training))

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

    def _fit_cross(self, cross: CrossMoments, choice: Choice | None = None) -> Self:
        scale = cross.scale if self.standardize else None
        size = self._reduction_size(cross.n_rows, len(cross.mean))
        choice = choice or Choice.given(size, float(self.alpha))
        P = self._reduced_by(cross).matrix(len(cross.mean), scale, choice.n_components)
        with single_blas_thread():
            squares = target_squares(cross, scale, has_intercept=self.fit_intercept)
            models = models_of_squares(
                squares, P, None, choice=choice, epsilon=self._own_epsilon, has_intercept=self.fit_intercept
            )
            self._adopt_models(models, cross.mean, scale, cross.target_mean)
        self._kept = self._unmergeable or cross
        return self

    def _adopt_models(
        self, models: PenalizedModels, mean: NDArray, scale: NDArray | None, target_means: NDArray
    ) -> None:
        """Keep models of targets less their means, where there is an intercept."""
        offset = target_means if self.fit_intercept else 0.0
        solution = self._solution(replace(models, intercept=models.intercept + offset))
        self._refuse_too_few(solution, 0, len(mean), "double")
        self._adopt(solution, mean, scale)

    def _statistics(self, dataset: Dataset, scheduler: Scheduler) -> Statistics:
        rows, plain = unlabelled_rows(dataset, scheduler, self.scratch)
        self._target_means = tuple(mean for mean, _ in target_units(rows.dataset, rows.spans, rows))
        size, fit = self._reduction_size(dataset.n_rows, dataset.n_features), self._fit()
        needs = Needs(scatters=frozenset(), swept=(fit,), n_components=size)
        statistics = class_statistics(
            plain, needs, self._solver_options(), precision=self.precision, standardize=self.standardize
        )
        return with_sweeps(statistics, rows, fit, [size])

    def fit_statistics(self, statistics: Statistics, at_most: bool = False) -> Self:
        if not statistics.fits:
            raise InputError("Class moments know nothing of continuous targets: fit the rows themselves.")
        (models,) = statistics.fits.values()
        self._note_spread(statistics)
        self._adopt_models(models, statistics.mean, statistics.scale, np.asarray(self._target_means))
        self._kept = self._unmergeable
        return self

    def _solve(self, statistics: Statistics) -> Solution:
        raise NotImplementedError  # `fit_statistics` needs none

    @Mergeable
    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> Self:
        """Fit to these rows together with all earlier ones; exact."""
        self._check_parameters()
        if classes is not None:
            raise InputError("There are no classes where the target is continuous.")
        stored = self._extendable()
        arrived = cross_moments(*self._rows(X, y, reset=stored is None, least=1), with_rows=True)
        self._kept = arrived if stored is None else stored.merge(arrived)
        return self._fit_cross(self._kept)

    @property
    def _unmergeable(self) -> str | None:
        if self._from_moments and not self._chooses:
            return super()._unmergeable
        return "alpha='auto', n_components='auto' and penalty='l1' need all rows at once"

    def _rows(self, X: Any, y: Any, reset: bool, least: int = 2) -> tuple[Dataset, Scheduler]:
        if y is None and isinstance(X, Dataset):
            raise InputError("The labels of a Dataset are classes: give continuous targets as y.")
        return super()._rows(X, y, reset, least)

    def _check_rows(self, X: Any, y: Any, reset: bool, least: int = 2) -> Dataset:
        X, y = check_rows(self, X, y, reset=reset, ensure_min_samples=least, multi_output=True, y_numeric=True)
        return GivenLabels(rows_in_memory(self._prepared(X, y), None, "X"), as_targets(y, "y"))

    def _shaped(self, coef: NDArray[np.float64]) -> NDArray[np.float64]:
        return coef[0] if len(coef) == 1 else coef

    def _shaped_intercept(self, intercept: NDArray[np.float64]) -> Any:
        return float(intercept[0]) if len(intercept) == 1 else intercept

    def predict(self, X: Any) -> Any:
        """Return the outputs, shape (n_samples,), or (n_samples, q) of several targets; lazy for Dask input."""
        outputs = self._outputs(X)
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


METHOD = Method(
    "projection-penalty",
    "Projection penalty",
    "regressions",
    "what a linear classifier uses inside of the subspace of another reduction, and what outside",
    "that of its reduction",
    ProjectionPenaltyClassifier,
    settable=("reduction", "alpha", "alphas", "epsilon", "loss", "penalty", "fit_intercept", "tolerance", "max_sweeps"),
    orthonormal=False,
    ordered=False,
    values="squared lengths of the coefficients",
    blocks=lambda n_components, n_classes, _: -(-2 * (1 if n_classes == 2 else n_classes) // n_components),
    sections=("choice", "penalty"),
)
