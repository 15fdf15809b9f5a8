"""LIBLINEAR on reduced rows: support vector machine and logistic regression, L2-regularised, with and without bias.

The minimum is unique: its primal or dual form, and the coordinates of the rows, are a matter of speed and of rounding.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

OPTIONS = ["class_weight", "dual", "intercept_scaling", "max_iter", "random_state", "tol"]
"""Those of scikit-learn's classes that leave the problem what it is called."""

TOLERANCE, MAX_ITERATIONS = 1e-6, 5000
"""With scikit-learn's 1e-4 and 1,000, the norm of coefficients of separable rows (mushrooms and prostate, C = 100) is 3
to 4% off."""

fitting_alone = threading.Lock()
"""LIBLINEAR and LIBSVM draw from one generator a process: threads that fit at the same time disturb each other's draws,
and then results differ from run to run. (The primal solvers draw nothing.)"""

_quiet_lock = threading.Lock()
_quiet: list[Any] = []


@contextmanager
def quiet_fits() -> Iterator[None]:
    """Keep warnings of no convergence, and of dask-glm's setting of Dask, unprinted while any thread is inside.

    Who fits counts what did not converge, by iterations: records of warnings would mix those of several threads.
    """
    with _quiet_lock:
        if not _quiet:
            caught = warnings.catch_warnings()
            caught.__enter__()
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", "Dask configuration key 'fuse_ave_width'", FutureWarning)
            _quiet.append(caught)
        _quiet.append(None)
    try:
        yield
    finally:
        with _quiet_lock:
            _quiet.pop()
            if len(_quiet) == 1:
                _quiet.pop().__exit__(None, None, None)


def row_space(Z: NDArray) -> tuple[NDArray, NDArray | None]:
    """Return rows in coordinates of their span and an orthonormal basis of it, shape (K, n), where that is smaller.

    Coefficients are combinations of rows, and neither products of rows nor norms of coefficients change: the same
    classifier is found from n columns in place of K.
    """
    if issparse(Z) or Z.shape[1] <= Z.shape[0]:
        return Z, None
    basis, triangle = scipy.linalg.qr(np.asarray(Z, dtype=np.float64).T, mode="economic", check_finite=False)
    return np.ascontiguousarray(triangle.T), basis


def make_linear(
    kind: str, shape: tuple[int, int], n_classes: int, C: float, bias: bool, options: dict[str, Any]
) -> Any:
    """Return scikit-learn's estimator, for rows of this shape before ``row_space``.

    ``kind`` is "svm" (L2-regularised L2-loss) or "logistic". The dual form is solved where rows are fewer than columns.
    Of more than two classes each is told from the rest.
    """
    settings = {
        "C": C, "fit_intercept": bias, "dual": shape[0] < shape[1], "tol": TOLERANCE, "max_iter": MAX_ITERATIONS,
        "random_state": 0, **options,
    }  # fmt: skip
    if kind == "svm":
        return LinearSVC(**settings)
    model = LogisticRegression(solver="liblinear", **settings)
    return OneVsRestClassifier(model) if n_classes > 2 else model


def coefficients(model: Any, basis: NDArray | None = None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return coefficients, shape (C, K), or (1, K) for two classes, and intercepts of a fitted ``make_linear``."""
    parts = model.estimators_ if isinstance(model, OneVsRestClassifier) else [model]
    coef = np.concatenate([np.atleast_2d(part.coef_) for part in parts]).astype(np.float64)
    intercept = np.concatenate([np.atleast_1d(part.intercept_) for part in parts]).astype(np.float64)
    return coef if basis is None else coef @ basis.T, np.broadcast_to(intercept, len(coef)).copy()


def unconverged(model: Any) -> int:
    """Return how many of the problems behind a fitted estimator stopped at their largest number of iterations."""
    parts = getattr(model, "estimators_", None) if isinstance(model, OneVsRestClassifier) else [model]
    return sum(_stopped(part) for part in parts or [])


def _stopped(model: Any) -> int:
    taken, most = getattr(model, "n_iter_", None), getattr(model, "max_iter", None)
    if taken is None or not isinstance(most, int) or most < 1:
        return 0
    return int(np.count_nonzero(np.asarray(taken) >= most))
