"""Estimators with a parameter ``reduction``: what it may be, and what rows are appended where it is not linear."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import dask.array as da
import numpy as np
from scipy.sparse import csr_array, hstack, issparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.methods.base.swept_reducer import SweptReducer
from mmpca_dist.models.projection_penalty.reduction import (
    GivenReduction,
    MethodReduction,
    ReductionOf,
    components_of,
    method_named,
)
from mmpca_dist.tables.dataset import Dataset

DEFAULT_COMPONENTS = 10
LARGE_EPSILON = 0.5
SAMPLE_ROWS = 1000
"""Rows of a Dask array that tell how columns vary."""


class TakesReduction(SweptReducer):
    """Base of estimators that are about the subspace of a reduction."""

    n_components: int | Literal["auto"] | None  # type: ignore[assignment]
    reduction: Any
    epsilon: float
    penalty: str
    sizes: tuple[int, ...]
    _fitted_reduction: ReductionOf | None = None
    """The reduction of the rows of a fit, where parameters do not tell it."""
    _appended: Any = None
    """A fitted transformer whose features stand behind the columns of the rows, where it is not linear."""

    def _described(self) -> ReductionOf:
        """Return where the rows of P come from, as far as parameters, and rows seen so far, tell."""
        return self._fitted_reduction or self._from_parameters()

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
        reduction = self._described()
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
        is_lazy = isinstance(X, da.Array)
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
        appended = self._appended
        if appended is None:
            return X
        if isinstance(X, da.Array):
            X = X.rechunk({1: -1})
            k = appended.transform(X[:1].compute()).shape[1]
            return da.map_blocks(_joined, X, appended, gain, dtype=np.float64, chunks=(X.chunks[0], (X.shape[1] + k,)))
        return _joined(X, appended, gain)

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


def is_transformer(reduction: Any) -> bool:
    """Tell whether a reduction is a transformer; raise InputError for a class of them."""
    if isinstance(reduction, type):
        name = reduction.__name__
        raise InputError(f"The reduction is the class {name}: give an instance, {name}(...).")
    return hasattr(reduction, "fit") and hasattr(reduction, "transform")


def is_fitted(estimator: Any) -> bool:
    """Tell whether an estimator is fitted."""
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def _joined(X: Any, transformer: Any, gain: float) -> Any:
    features = transformer.transform(X) * gain
    if issparse(X):
        return csr_array(hstack([X, csr_array(features)], format="csr"))
    return np.hstack([np.asarray(X, np.float64), np.asarray(features, np.float64)])
