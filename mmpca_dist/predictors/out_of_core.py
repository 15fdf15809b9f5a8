"""Classifiers of reduced rows that do not fit in memory, by dask-ml; what is fitted needs neither dask-ml nor Dask."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import dask
import dask.array as da
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from mmpca_dist.errors import InputError
from mmpca_dist.predictors.imported import check_known, classifier_class, make_classifier

DEFAULT_ESTIMATOR = "sklearn.linear_model.SGDClassifier"
LOGISTIC_OPTIONS = ["max_iter", "tol"]
LOGISTIC_TOLERANCE, LOGISTIC_ITERATIONS = 1e-4, 1000
BLOCK_ROWS = 65_536
"""Rows in memory are cut into blocks of so many, so that results do not depend on where they come from."""

_settings_lock = threading.Lock()
_settings: list[dict[str, Any]] = []
_users: list[Any] = []


@contextmanager
def computing_on(scheduler: Any, num_workers: int | None = None) -> Iterator[None]:
    """Let Dask collections be computed by a scheduler while the caller is inside.

    Dask's settings are those of the whole process: where threads overlap, the one that came last and is still inside
    decides, and the user's settings are back once all have left, in whatever order.
    """
    own = {"scheduler": scheduler, "num_workers": num_workers}
    with _settings_lock:
        replaced = dask.config.set(own)
        if not _settings:
            _users.append(replaced)
        _settings.append(own)
    try:
        yield
    finally:
        with _settings_lock:
            _settings[:] = [one for one in _settings if one is not own]
            if _settings:
                dask.config.set(_settings[-1])
            else:
                _users.pop().__exit__(None, None, None)


def make_incremental(options: dict[str, Any]) -> Any:
    """Return the estimator that learns block by block: ``options["estimator"]``, by import name, with the others.

    Raises
    ------
    InputError
        For a class that has no ``partial_fit``, and for options that it does not know.
    """
    settings = {**options}
    name = settings.pop("estimator", DEFAULT_ESTIMATOR)
    if not isinstance(name, str):
        raise InputError(f"The option estimator of incremental must be an import name (found {name!r}).")
    if not hasattr(classifier_class(name), "partial_fit"):
        raise InputError(f"{name} has no partial_fit, so that it cannot learn block by block.")
    return make_classifier(name, settings)


def fit_incremental(
    Z: Any, codes: Any, n_classes: int, options: dict[str, Any], on_pass: Callable[[], None] | None = None
) -> Any:
    """Fit an estimator in one pass over blocks of rows, in their order.

    Parameters
    ----------
    Z : array or Dask array of shape (n, K)
    codes : array of shape (n,)
        Of the classes, 0 to ``n_classes`` - 1.
    on_pass : callable, optional
        Called as a pass over the rows begins.
    """
    from dask_ml.wrappers import Incremental  # takes seconds to import

    rows, labels = _in_blocks(Z, codes)
    model = Incremental(make_incremental(options), shuffle_blocks=False, assume_equal_chunks=True)
    if on_pass is not None:
        on_pass()
    # One block at a time: threads that are waiting for the estimator would read blocks ahead without a bound.
    with computing_on("synchronous"):
        model.fit(rows, labels, classes=np.arange(n_classes))
    return model.estimator_


def check_logistic(options: dict[str, Any]) -> None:
    """Refuse options of logistic regression that it has not, or of no use.

    Raises
    ------
    InputError
        In one sentence.
    """
    check_known(options, LOGISTIC_OPTIONS, "dask-logistic")
    most, tol = options.get("max_iter", LOGISTIC_ITERATIONS), options.get("tol", LOGISTIC_TOLERANCE)
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise InputError(f"The option max_iter of dask-logistic must be a whole number, at least 1 (found {most!r}).")
    if isinstance(tol, bool) or not isinstance(tol, int | float) or not 0 <= tol < np.inf:
        raise InputError(f"The option tol of dask-logistic must be a number, zero or more (found {tol!r}).")


def fit_logistic(
    Z: Any,
    codes: Any,
    n_classes: int,
    C: float,
    bias: bool,
    options: dict[str, Any],
    on_pass: Callable[[], None] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return coefficients, shape (C, K), or (1, K) for two classes, and intercepts of logistic regression.

    It is the minimum that LIBLINEAR finds, with its penalised bias; of more than two classes each is told from the
    rest. L-BFGS makes a pass or two an iteration; ``on_pass`` is called as each begins.

    Notes
    -----
    Of dask-ml (2025.1), the solvers newton and gradient_descent leave the penalty out, labels must be 0 and 1 and are
    not checked, and columns are divided by their standard deviations unless ``normalize`` says not to, which is another
    problem: hence one solver, codes, and that setting. Its own losses keep all rows in memory.
    """
    rows, labels = _in_blocks(Z, codes)
    settings = {"tol": LOGISTIC_TOLERANCE, "max_iter": LOGISTIC_ITERATIONS, **options}
    coef, intercept = [], []
    for code in range(1 if n_classes == 2 else 0, n_classes):
        model = _logistic_class(on_pass)(
            C=C, fit_intercept=bias, solver="lbfgs", solver_kwargs={"normalize": False}, **settings
        )
        with nullcontext() if isinstance(Z, da.Array) else computing_on("synchronous"):
            model.fit(rows, (labels == code).astype(np.float64))
        coef.append(np.asarray(model.coef_, dtype=np.float64))
        intercept.append(float(model.intercept_))
    return np.stack(coef), np.asarray(intercept)


def _logistic_class(on_pass: Callable[[], None] | None) -> Any:
    """Return dask-ml's logistic regression with losses of which a task holds a block of rows, and then leaves it."""
    from dask_ml.linear_model import LogisticRegression  # takes seconds to import

    class OutOfCore(LogisticRegression):
        family = _BlockLosses(on_pass)

    return OutOfCore


@dataclass(frozen=True)
class _BlockLosses:
    """Sum of log(1 + exp(-s b^T z)), s = 1 for label 1 and -1 for label 0, and its gradient, block by block.

    L-BFGS asks for both, the loss first, and computes them together, in one pass.
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
        Z = da.from_array(np.asarray(Z, dtype=np.float64), chunks=(BLOCK_ROWS, -1))
    elif np.isnan(Z.shape[0]):
        Z = copy.copy(Z).compute_chunk_sizes()
    if len(Z.chunks[1]) > 1:
        Z = Z.rechunk({1: -1})
    return Z, da.from_array(np.asarray(codes), chunks=(Z.chunks[0],))
