"""Classifiers of reduced rows that do not fit in memory, by dask-ml; fitted models need neither dask-ml nor Dask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.predictors.by_import_name import classifier_class, make_classifier
from mmpca_dist.predictors.liblinear import alone
from mmpca_dist.predictors.linear import LinearRule, rule_of_scores
from mmpca_dist.predictors.specification import (
    DEFAULT_C,
    ZERO_OR_MORE,
    Classifier,
    NumberOption,
    Training,
    check_options,
)

DEFAULT_ESTIMATOR = "sklearn.linear_model.SGDClassifier"
LOGISTIC_OPTIONS = {
    "max_iter": NumberOption(lambda value: isinstance(value, int) and value >= 1, "a whole number, at least 1"),
    "tol": ZERO_OR_MORE,
}
LOGISTIC_DEFAULTS = {"max_iter": 1000, "tol": 1e-4}


@contextmanager
def computing_on(scheduler: Any, num_workers: int | None = None) -> Iterator[None]:
    """Compute Dask collections on a scheduler while the caller is inside, alone: the settings are of the process."""
    with alone(), dask.config.set(scheduler=scheduler, num_workers=num_workers):
        yield


def make_incremental(options: dict[str, Any]) -> Any:
    """Return the estimator that learns block by block: ``options["estimator"]``, by import name, with the others.

    Raises InputError for a class without ``partial_fit``, and for options that the class does not have.
    """
    settings = {**options}
    name = settings.pop("estimator", DEFAULT_ESTIMATOR)
    if not isinstance(name, str):
        raise InputError(f"The option estimator of incremental must be an import name (found {name!r}).")
    if not hasattr(classifier_class(name), "partial_fit"):
        raise InputError(f"{name} has no partial_fit, so that it cannot learn block by block.")
    return make_classifier(name, settings)


def fit_incremental(rows: Training) -> tuple[Any, int]:
    """Fit an estimator in one pass over blocks of rows, in their order."""
    from dask_ml.wrappers import Incremental  # takes seconds to import

    Z, labels = _in_blocks(rows.Z, rows.codes)
    model = Incremental(make_incremental(rows.options), shuffle_blocks=False, assume_equal_chunks=True)
    if rows.on_pass is not None:
        rows.on_pass()
    # One block at a time: threads that are waiting for the estimator would read blocks ahead without a bound.
    with computing_on("synchronous"):
        model.fit(Z, labels, classes=np.arange(rows.n_classes))
    return model.estimator_, 0


def fit_logistic(rows: Training) -> tuple[LinearRule, int]:
    """Fit logistic regression; of more than two classes, each against the rest.

    It is the minimum that LIBLINEAR finds, with its penalised bias. L-BFGS makes a pass or two an iteration.

    In dask-ml (2025.1), the solvers newton and gradient_descent omit the penalty, labels must be 0 and 1 and are not
    checked, and without ``normalize=False`` columns are divided by their standard deviations, which is another problem:
    hence one solver, codes, and that setting. The losses of dask-ml keep all rows in memory; `_BlockLosses` hold one
    block.
    """
    from dask_ml.linear_model import LogisticRegression  # takes seconds to import

    class OutOfCore(LogisticRegression):
        family = _BlockLosses(rows.on_pass)

    Z, labels = _in_blocks(rows.Z, rows.codes)
    settings = {**LOGISTIC_DEFAULTS, **rows.options, "C": rows.C or DEFAULT_C, "fit_intercept": rows.bias}
    coef, intercept = [], []
    for code in range(1 if rows.n_classes == 2 else 0, rows.n_classes):
        model = OutOfCore(solver="lbfgs", solver_kwargs={"normalize": False}, **settings)
        with alone() if isinstance(rows.Z, da.Array) else computing_on("synchronous"):
            model.fit(Z, (labels == code).astype(np.float64))
        coef.append(np.asarray(model.coef_, dtype=np.float64))
        intercept.append(float(model.intercept_))
    return rule_of_scores(np.stack(coef), np.asarray(intercept)), 0


@dataclass(frozen=True)
class _BlockLosses:
    """Sum of log(1 + exp(-s b^T z)), s = 1 for label 1 and -1 for label 0, and its gradient, block by block.

    L-BFGS builds the loss, then the gradient, and computes both together in one pass.
    """

    on_pass: Callable[[], None] | None

    def pointwise_loss(self, beta: Any, X: Any, y: Any) -> Any:
        if self.on_pass is not None:
            self.on_pass()
        blocks = da.map_blocks(_loss, X, y[:, None], beta, chunks=((1,) * X.numblocks[0], (1,)), dtype=np.float64)
        return blocks.sum()

    @staticmethod
    def pointwise_gradient(beta: Any, X: Any, y: Any) -> Any:
        blocks = da.map_blocks(_gradient, X, y[:, None], beta, chunks=((1,) * X.numblocks[0], X.chunks[1]), dtype=float)
        return blocks.sum(axis=0)


def _loss(Z: NDArray, y: NDArray, beta: NDArray) -> NDArray[np.float64]:
    scores = (2 * y[:, 0] - 1) * (Z @ beta)
    return np.logaddexp(0, -scores).sum().reshape(1, 1)


def _gradient(Z: NDArray, y: NDArray, beta: NDArray) -> NDArray[np.float64]:
    return ((expit(Z @ beta) - y[:, 0]) @ Z)[None]


def _in_blocks(Z: Any, codes: Any) -> tuple[Any, Any]:
    """Return rows as a Dask array with known blocks of whole rows, and labels in the same blocks."""
    if not isinstance(Z, da.Array):
        Z = da.from_array(np.asarray(Z, dtype=np.float64), chunks=(LIMITS.training_block_rows, -1))
    if len(Z.chunks[1]) > 1:
        Z = Z.rechunk({1: -1})
    return Z, da.from_array(np.asarray(codes), chunks=(Z.chunks[0],))


INCREMENTAL = Classifier(
    "incremental",
    "dask-ml's Incremental: one pass of partial_fit over rows that do not fit in memory",
    fit=fit_incremental,
    check_options=make_incremental,
    out_of_core=True,
    takes_weights=False,
)

DASK_LOGISTIC = Classifier(
    "dask-logistic",
    "dask-ml's logistic regression of rows that do not fit in memory; takes C and bias",
    fit=fit_logistic,
    check_options=partial(check_options, "dask-logistic", LOGISTIC_OPTIONS),
    has_C=True,
    has_bias=True,
    linear=True,
    out_of_core=True,
    takes_weights=False,
    rotatable=True,
)
