"""Classifiers of reduced rows that do not fit in memory; fitted models need no Dask.

``incremental`` is dask-ml's ``Incremental``. The package uses dask-ml for nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import dask
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from mmpca_dist import dask_arrays as da
from mmpca_dist.blas import alone
from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.predictors.by_import_name import classifier_class, make_classifier
from mmpca_dist.predictors.linear import LinearRule, rule_of_scores
from mmpca_dist.predictors.specification import (
    DEFAULT_C,
    ZERO_OR_MORE,
    Classifier,
    Training,
    check_options,
)

DEFAULT_ESTIMATOR = "sklearn.linear_model.SGDClassifier"
LOGISTIC_OPTIONS = {
    "max_iter": (lambda value: isinstance(value, int) and value >= 1, "a whole number, at least 1"),
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
    """
    Z, codes = _in_blocks(rows.Z, rows.codes)
    scheduler = None if isinstance(rows.Z, da.Array) else "synchronous"
    options = {**LOGISTIC_DEFAULTS, **rows.options}
    chunks = ((1,) * Z.numblocks[0], (Z.shape[1] + 2,))

    def objective(w: NDArray[np.float64], code: int) -> tuple[float, NDArray[np.float64]]:
        if rows.on_pass is not None:
            rows.on_pass()
        blocks = da.map_blocks(_losses, Z, codes[:, None], w, code, chunks=chunks, meta=np.empty((0, 0)))
        loss, *gradient = blocks.sum(axis=0).compute(scheduler=scheduler)
        gradient = w / C + gradient
        return loss + w @ w / (2 * C), gradient if rows.bias else np.append(gradient[:-1], 0)

    C, start = rows.C or DEFAULT_C, np.zeros(Z.shape[1] + 1)
    settings = {"maxiter": options["max_iter"], "gtol": options["tol"]}
    minima = [
        minimize(objective, start, (code,), "L-BFGS-B", jac=True, options=settings)
        for code in range(1 if rows.n_classes == 2 else 0, rows.n_classes)
    ]
    w = np.stack([minimum.x for minimum in minima])
    return rule_of_scores(w[:, :-1], w[:, -1]), sum(minimum.status == 1 for minimum in minima)


def _losses(Z: NDArray, codes: NDArray, w: NDArray, code: int) -> NDArray[np.float64]:
    """Return the sum of log(1 + exp(-s w^T [z; 1])), s = 1 for rows of ``code`` and else -1, and its gradient.

    Shape (1, K + 2).
    """
    signs = np.where(codes[:, 0] == code, 1.0, -1.0)
    margins = signs * (Z @ w[:-1] + w[-1])
    slopes = -signs * expit(-margins)
    return np.concatenate([[np.logaddexp(0, -margins).sum()], slopes @ Z, [slopes.sum()]])[None]


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
    "logistic regression of rows that do not fit in memory, by L-BFGS; takes C and bias",
    fit=fit_logistic,
    check_options=partial(check_options, "dask-logistic", LOGISTIC_OPTIONS),
    has_C=True,
    has_bias=True,
    linear=True,
    out_of_core=True,
    takes_weights=False,
    rotatable=True,
)
