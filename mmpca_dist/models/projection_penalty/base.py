"""The base of estimators with a projection penalty: parameters, the reduction, coefficients, and their two parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import dask
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from mmpca_dist.eigen.needs import Needs
from mmpca_dist.errors import InputError
from mmpca_dist.finite import or_infinite
from mmpca_dist.limits import COMPONENT_COUNTS, LIMITS
from mmpca_dist.methods.base.choice_by_folds import Choice, edge_remark
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.methods.base.solution import Solution
from mmpca_dist.methods.base.swept_reducer import SweptReducer
from mmpca_dist.methods.base.traits import Fitted, Option, check_choice, check_numbers
from mmpca_dist.models.projection_penalty.fit import PenalizedModels, PenaltyFit
from mmpca_dist.models.projection_penalty.reduction import (
    GivenReduction,
    MethodReduction,
    ReductionOf,
    components_of,
    is_fitted,
    is_transformer,
    method_named,
    with_features,
)
from mmpca_dist.passes.rows import Rows
from mmpca_dist.statistics.working_statistics import Statistics
from mmpca_dist.tables.covariates import BY_NAME
from mmpca_dist.tables.dataset import Dataset

DEFAULT_COMPONENTS = 10
LARGE_EPSILON = 0.5
SAMPLE_ROWS = 1000
"""Rows of a Dask array that tell how columns vary."""
ALPHAS = tuple(10.0**exponent for exponent in range(-8, 11, 2))
"""The grid of Zhang & Schneider 2010, section 3."""
LARGEST_ALPHA = 1e12
"""A larger alpha leaves no digits of the losses in sums."""
WIDE_SPREAD = 1e6
"""Columns whose scales differ by more leave few digits of the smaller ones in sums of products."""


class ProjectionPenalty(SweptReducer):
    """Base of the estimators with a projection penalty."""

    traits = SweptReducer.traits.extended({
        "n_components": Option(words=("auto",)),
        "reduction": Option(
            values="a method, or a mapping of its name and options",
            example={"name": "m-pca2", "search": "approximate"},
            description="The reduction whose subspace bears little or no penalty",
        ),
        "alpha": Option(
            words=("auto",),
            gt=0,
            le=LARGEST_ALPHA,
            values="a number above 0, or auto",
            example="auto",
            description="Weight of the penalty against the sum of losses; auto chooses among alphas by errors on rows "
            "held out",
        ),
        "alphas": Option(
            values="numbers above 0", example=[0.01, 1, 100], description="Values of alpha that auto chooses among"
        ),
        "epsilon": Option(ge=0, example=0, description="Weight of the penalty inside of the subspace; 0 for none"),
        "penalty": Option(
            example="l1", description="Whether coefficients outside of the subspace count by square or absolute value"
        ),
        "fit_intercept": Option(example=False, description="Whether the models have a constant, not penalised"),
        "tol": Option(
            gt=0, lt=1, example=1e-8, description="Passes end when objectives are within this share of their minima"
        ),
    }, stored=(
        "alpha_", "candidates_", "candidate_sizes_", "candidate_errors_", "candidate_gaps_", "fitted_by_fold_",
        "objective_", "gaps_", "n_iter_", "proved_", "weights_", "outputs_at_mean_",
    ))  # fmt: skip
    loss = "squared"
    n_components: int | Literal["auto"] | None
    _fitted_reduction: ReductionOf | None = None
    """The reduction of the rows of a fit, where parameters do not tell it."""
    _appended: Any = None
    """A fitted transformer whose features stand behind the columns of the rows, where it is not linear."""
    _column_spread = 1.0
    _chosen: Choice | None = None
    """The choice before the models are solved for, where moments suffice."""

    def __init__(
        self, reduction: Any = "pls", *,
        n_components: int | Literal["auto"] | None = None, sizes: tuple[int, ...] = COMPONENT_COUNTS,
        alpha: float | Literal["auto"] = 1.0, alphas: tuple[float, ...] = ALPHAS, epsilon: float = 1e-3,
        penalty: Literal["l2", "l1"] = "l2", fit_intercept: bool = True, tol: float = 1e-5,
        max_iter: int = 500, scratch: str | None = None,
        standardize: bool = False, center: bool = False, precision: str = "single", solver: str = "auto",
        missing: str = "refuse",
    ) -> None:  # fmt: skip
        super().__init__(
            n_components, tol=tol, max_iter=max_iter, scratch=scratch,  # type: ignore[arg-type]
            standardize=standardize, center=center, precision=precision, solver=solver, missing=missing,
        )  # fmt: skip
        self.reduction, self.sizes, self.alpha, self.alphas = reduction, sizes, alpha, alphas
        self.epsilon, self.penalty, self.fit_intercept = epsilon, penalty, fit_intercept

    def _fit(self) -> PenaltyFit:
        return PenaltyFit(
            reduction=self._fitted_reduction or self._from_parameters(),
            alpha=None if self.alpha == "auto" else self.alpha,
            candidates=tuple(dict.fromkeys(self.alphas)), epsilon=self._own_epsilon, loss=self.loss,
            penalty=self.penalty, fit_intercept=bool(self.fit_intercept), tol=self.tol,
            max_iter=self.max_iter, targets=self._units,
            sizes=tuple(sorted(set(self.sizes))) if self.n_components == "auto" else (),
        )  # fmt: skip

    def _from_parameters(self) -> ReductionOf:
        """Return where the rows of P come from, as far as parameters tell."""
        if isinstance(self.reduction, str | dict):
            return MethodReduction.of(method_named(self.reduction, precision=self.precision, scratch=self.scratch))
        if isinstance(self.reduction, MomentReducer) and not is_fitted(self.reduction):
            if self.reduction.standardize and not self.standardize:
                raise InputError(
                    "standardize=True of the reduction, but not here: both share the statistics of the rows. Set it "
                    "here, too, or fit the reduction first."
                )
            return MethodReduction.of(self.reduction)
        if is_transformer(self.reduction):
            return ReductionOf(name=type(self.reduction).__name__)
        return GivenReduction.of(self.reduction)

    @property
    def _serving_reduction(self) -> bool:
        """Whether the reduction is of use where there are numbers to predict."""
        reduction = self._from_parameters()
        return not isinstance(reduction, MethodReduction) or reduction.reducer(None).serves_targets

    def _reduction_size(self, n: int, d: int) -> int:
        reduction = self._fitted_reduction or self._from_parameters()
        if self.n_components == "auto":
            return min(max(self.sizes), reduction.largest(d))
        if isinstance(reduction, GivenReduction):
            return self.n_components or reduction.largest(d)
        own = reduction.n_components if isinstance(reduction, MethodReduction) else None
        return self.n_components or own or min(DEFAULT_COMPONENTS, d, max(n - 1, 1))

    def _prepared(self, X: Any, y: Any) -> Any:
        """Fit the reduction where it is no method of this project, and return rows with what is appended to them."""
        self._fitted_reduction = self._appended = None
        transformer = self.reduction
        if not is_transformer(transformer):
            return X
        if isinstance(transformer, MomentReducer):
            if is_fitted(transformer):
                scale = 1.0 if transformer.scale_ is None else transformer.scale_
                self._fitted_reduction = GivenReduction.of(transformer.fitted().directions / scale, of_raw_columns=True)
            return X
        name = type(transformer).__name__
        if isinstance(X, Dataset):
            raise InputError(
                f"The reduction, a {name}, is none of this project, whose methods alone read a Dataset: give its "
                "matrix, such as pca.components_, as the reduction."
            )
        is_lazy = dask.is_dask_collection(X)
        if is_lazy and not is_fitted(transformer):
            raise InputError(
                f"The reduction, a {name}, is not fitted, and it cannot read a Dask array piece by piece: fit it to "
                "some rows first, or name a method of this project, such as reduction='pca'."
            )
        was_fitted = is_fitted(transformer)
        fitted = transformer if was_fitted else clone(transformer).fit(X, y)
        P = components_of(fitted, X[:SAMPLE_ROWS].compute() if is_lazy else X)
        if P is not None:
            self._fitted_reduction = replace(GivenReduction.of(P, of_raw_columns=True), is_fitted_to_all=not was_fitted)
            return X
        if self.n_components == "auto":
            raise InputError(
                f"n_components='auto' is for reductions that are linear, and {name} is not: choose its own parameters, "
                "for example by scikit-learn's GridSearchCV."
            )
        if self.standardize:
            raise InputError(
                "standardize=True is for reductions that are linear: put a StandardScaler in front of this estimator."
            )
        self._appended = fitted
        extended = self._extended(X, self._appended_gain)
        picked = GivenReduction.of(np.eye(extended.shape[1])[X.shape[1] :])
        self._fitted_reduction = replace(picked, appended=True, is_fitted_to_all=not was_fitted)
        return extended

    @property
    def unmergeable_reason(self) -> str | None:
        reduction = self.reduction
        if is_transformer(reduction) and not isinstance(reduction, MomentReducer) and not is_fitted(reduction):
            return "its reduction would be fitted to every part of the rows anew: fit it first"
        return super().unmergeable_reason

    def _extended(self, X: Any, gain: float = 1.0) -> Any:
        """Return rows with the features of a reduction that is not linear behind them: [x; phi(x)]."""
        return X if self._appended is None else with_features(X, self._appended, gain)

    @property
    def _appended_gain(self) -> float:
        """The factor of appended features in a fit: epsilon may be too large for P = [0 I]."""
        is_large = self._appended is not None and self.penalty == "l2" and self.epsilon > LARGE_EPSILON
        return 1 / np.sqrt(2 * self.epsilon) if is_large else 1.0

    @property
    def _own_epsilon(self) -> float:
        """The epsilon of P.

        Coefficients u of appended features have P = [0 I], with which min (u - v)^2 + e v^2 = e / (1 + e) u^2: for a
        penalty of epsilon u^2, e is epsilon / (1 - epsilon), or 1 for features whose gain makes epsilon a half.
        """
        if self._appended is None or self.penalty == "l1":
            return self.epsilon
        return 1.0 if self.epsilon > LARGE_EPSILON else self.epsilon / (1 - self.epsilon)

    @property
    def _from_moments(self) -> bool:
        """Whether moments suffice: of squared losses and lengths, where nothing is chosen."""
        return self.loss == "squared" and self.penalty == "l2" and not self._chooses

    @property
    def _chooses(self) -> bool:
        """Whether alpha or the number of components is chosen."""
        return self.alpha == "auto" or self.n_components == "auto"

    def needs(self) -> Needs:
        own = Needs(full_scatter=("projection-penalty",)) if self._from_moments else super().needs()
        return Needs.of_all((self._from_parameters().needs, own))

    def _count(self, rows: Rows) -> int:
        return self._reduction_size(rows.dataset.n_rows, rows.dataset.n_features)

    def _adopt(self, solution: Solution, mean: NDArray[np.float64], scale: NDArray[np.float64] | None) -> None:
        gain = self._appended_gain
        if gain != 1:
            factors = np.ones(len(mean))
            factors[-self.weights_.shape[1] :] = gain
            solution, mean = replace(solution, components=solution.components * factors), mean / factors
        super()._adopt(solution, mean, scale)

    def _project(self, X: Any) -> NDArray:
        return super()._project(self._extended(X))

    def _solve(self, statistics: Statistics) -> Solution:
        self._note_spread(statistics)
        models: PenalizedModels
        if self._from_moments:
            size = self._reduction_size(statistics.moments.n_rows, statistics.n_features)
            models = self._fit().from_moments(statistics, self._chosen or Choice.given(size, float(self.alpha)))
        else:
            models = self._swept(statistics)
        targets, choice = statistics.moments.targets, models.choice
        self.alpha_, self.fitted_by_fold_ = choice.value, choice.is_nested
        self.candidates_, self.candidate_sizes_ = choice.values, choice.sizes
        self.candidate_errors_, self.candidate_gaps_ = choice.errors, choice.gaps
        if self.n_components != "auto":
            self.candidate_errors_, self.candidate_gaps_ = choice.errors.ravel(), choice.gaps.ravel()
        self.objective_, self.gaps_ = models.objective, models.gaps
        self.n_iter_, self.proved_ = models.n_passes, models.proved
        self.weights_ = models.weights
        if self._appended is not None:
            self.weights_ = self._appended_gain * (models.inside + models.outside)[:, -models.weights.shape[1] :]
        self.outputs_at_mean_ = models.intercept
        if targets is not None and self.fit_intercept:  # the models are of numbers less their means
            self.outputs_at_mean_ = models.intercept + targets.mean
        components = np.concatenate([models.inside, models.outside])
        values = np.einsum("kd,kd->k", components, components)
        return Solution.of_models(components, values, float("nan"), "that of its reduction")

    def _note_spread(self, statistics: Statistics) -> None:
        """Keep how many times the largest standard deviation of a column is the smallest, where these are known."""
        if statistics.scale is None and statistics.knows_columns:
            squares = statistics.column_totals()
            squares = squares[squares > 0]
            self._column_spread = float(np.sqrt(squares.max() / squares.min())) if len(squares) else 1.0

    def _refuse_too_few(self, solution: Solution, statistics: Statistics) -> None:
        count = self.n_components_
        if isinstance(self.n_components, int | np.integer) and count < self.n_components:
            raise InputError(f"n_components={self.n_components} is more than the {count} that the reduction has.")

    @property
    def n_components_(self) -> int:
        """The number of components of the reduction, that is of rows of P."""
        return self.weights_.shape[1]

    def _parts(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return coefficients inside and outside, each (m, d), for rows in their own units."""
        components = self.components_ if self.scale_ is None else self.components_ / self.scale_
        inside, outside = np.split(components, 2)
        return inside, outside

    @property
    def coef_inside_(self) -> NDArray[np.float64]:
        """P^T v, the part of ``coef_`` inside of the subspace of the reduction, of the same shape."""
        return self._shaped(self._parts()[0])

    @property
    def coef_outside_(self) -> NDArray[np.float64]:
        """The part of ``coef_`` outside of the subspace, w - P^T v, of the same shape."""
        return self._shaped(self._parts()[1])

    @property
    def coef_(self) -> NDArray[np.float64]:
        """w, in the columns of the rows, and behind these in what a reduction that is not linear appends."""
        inside, outside = self._parts()
        return self._shaped(inside + outside)

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """b, the output for a row of zeros."""
        inside, outside = self._parts()
        return self._shaped(self.outputs_at_mean_ - (inside + outside) @ self.mean_)

    def _shaped(self, coef: NDArray[np.float64]) -> NDArray[np.float64]:
        return coef

    def _outputs(self, X: Any, covariates: Any = BY_NAME) -> Any:
        """Return w^T x + b of every model, shape (n, m); lazy for rows that are read piece by piece."""
        parts = self._transformed(X, covariates, center=True)  # products of a mean far from zero cancel digits
        m = len(self.outputs_at_mean_)
        return parts[:, :m] + parts[:, m:] + self.outputs_at_mean_.astype(parts.dtype)

    def fitted(self) -> Fitted:
        m, (inside, outside) = len(self.outputs_at_mean_), self._parts()
        given = self.scale_ is not None or self.center
        intercept = self.outputs_at_mean_ if given else self.outputs_at_mean_ - (inside + outside) @ self.mean_
        leak = (
            "the rows that were held out to choose alpha took part in the fit of its reduction, which is for more than "
            f"{LIMITS.direct_bytes >> 20} MiB of rows: the choice errs towards a large alpha."
        )
        return replace(
            super().fitted(), used=self.n_components_, classifier=(np.hstack([np.eye(m), np.eye(m)]), intercept),
            unconverged=self._unconverged(), remarks=[leak] if self._chooses and not self.fitted_by_fold_ else [],
            edges=self._edges(),
        )  # fmt: skip

    def _edges(self) -> list[str]:
        if not self._chooses:
            return []
        alpha, size, sizes = self.alpha_, self.n_components_, self.candidate_sizes_.tolist()
        errors = self.candidate_errors_.reshape(len(sizes), len(self.candidates_))
        chosen = sizes.index(size) if self.n_components == "auto" else 0
        of_alpha = dict(zip(self.candidates_.tolist(), errors[chosen].tolist(), strict=True))
        remarks = edge_remark("alpha", alpha, of_alpha, "alphas")
        if self.n_components == "auto" and size == max(self.sizes):  # fewer are the limit of the reduction
            of_size = dict(zip(sizes, errors[:, list(of_alpha).index(alpha)].tolist(), strict=True))
            remarks += edge_remark("n_components", size, of_size, "sizes")
        return remarks

    def _unconverged(self) -> list[str]:
        if or_infinite(self.gaps_).max(initial=0.0) <= self.tol:
            return []
        word = "is proved" if self.proved_ else "seems"
        advice = (
            "raise max_iter" if self.n_iter_ >= self.max_iter and not self._from_moments else "raise alpha or epsilon"
        )
        if self._from_moments and not self._continuous and self.precision == "single":
            advice = "set precision to double, or raise alpha or epsilon"
        if self._column_spread > WIDE_SPREAD:
            advice = (
                f"standardise the columns, whose scales differ by a factor of {self._column_spread:.0e}, or {advice}"
            )
        return [
            f"its objective {word} to be within {self.gaps_.max():.2g} of the minimum, relative to it, but not within "
            f"the tolerance of {self.tol:g}: {advice}."
        ]

    def check_parameters(self) -> None:
        check_choice("penalty", self.penalty, ("l2", "l1"))
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise InputError(f"fit_intercept={self.fit_intercept!r} must be True or False.")
        check_numbers("alphas", self.alphas, "a value among alphas", {"gt": 0, "le": LARGEST_ALPHA}, integral=False)
        super().check_parameters()
        if self.n_components != "auto":
            return
        check_numbers("sizes", self.sizes, "a value among sizes", {"ge": 1}, integral=True)
        reduction = self._from_parameters()
        if isinstance(reduction, MethodReduction) and not reduction.estimator.traits.nested:
            raise InputError(
                f"n_components='auto' is for reductions whose first components are a smaller reduction; those of "
                f"{reduction.estimator.__name__} are not: give n_components as a number."
            )
