"""LIBLINEAR on reduced rows: support vector machine and logistic regression, L2-regularised, with and without bias.

The minimum is unique: its primal or dual form, and the coordinates of the rows, are a matter of speed and of rounding.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

OPTIONS = ["intercept_scaling", "max_iter", "tol"]
"""Those of scikit-learn's classes that leave the problem what it is called."""

PRIMAL = {"tol": 1e-8, "max_iter": 1000}
DUAL = {"tol": 1e-6, "max_iter": 5000}
"""With scikit-learn's 1e-4 the primal form ends up to a tenth above the minimum where rows are separable (mushrooms,
prostate and leukemia at C = 10 and 100): such rows need the dual form, and rows nearly dependent the primal one, which
took 10 to 40 steps where 5,000 of the dual left a multiple of the minimum."""

fitting_alone = threading.Lock()
"""LIBLINEAR and LIBSVM draw from one generator a process, which every fit seeds: threads that fit at the same time
disturb each other's draws, and then results differ from run to run."""

_quiet_lock = threading.Lock()
_quiet: list[Any] = []


@contextmanager
def quiet_fits() -> Iterator[None]:
    """Keep warnings of no convergence, and of dask-glm's ways, unprinted while any thread is inside.

    Who fits counts what did not converge, by iterations: records of warnings mix those of several threads.
    """
    with _quiet_lock:
        if not _quiet:
            caught = warnings.catch_warnings()
            caught.__enter__()
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", "Dask configuration key 'fuse_ave_width'", FutureWarning)
            warnings.filterwarnings("ignore", "scipy.optimize: The `disp` and `iprint`", DeprecationWarning)
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


@dataclass(frozen=True)
class Solved:
    """A minimum: ``coef`` of shape (C, K), or (1, K) for two classes, intercepts, and how many problems had none."""

    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    unconverged: int


def solve(kind: str, Z: Any, codes: NDArray, C: float, bias: bool, options: dict[str, Any]) -> Solved:
    """Fit "svm" (L2-regularised L2-loss) or "logistic" to rows, of more than two classes each against the rest.

    Parameters
    ----------
    Z : array or CSR matrix of shape (n, K)
    codes : array of shape (n,)
        Of the classes, from 0.
    options : dict
        Some of ``OPTIONS``.
    """
    rows, basis = row_space(Z)
    if kind == "logistic":
        found = _logistic(rows, codes, C=C, fit_intercept=bias, **options)
    else:
        found = _svm(rows, codes, Z.shape[0] < Z.shape[1], C=C, fit_intercept=bias, **options)
    return found if basis is None else replace(found, coef=found.coef @ basis.T)


def _logistic(Z: Any, codes: NDArray, **settings: Any) -> Solved:
    """The primal form converges in some ten steps, of separable rows too."""
    model = LogisticRegression(solver="liblinear", **{**PRIMAL, **settings})
    return _solved((OneVsRestClassifier(model) if codes.max() > 1 else model), Z, codes)


def _svm(Z: Any, codes: NDArray, dual_first: bool, **settings: Any) -> Solved:
    """Solve one form, and where that does not converge the other; of two that do not, keep the lower objective."""
    found = [_svm_form(Z, codes, dual_first, settings)]
    if found[0].unconverged:
        found.append(_svm_form(Z, codes, not dual_first, settings))
    return min(found, key=lambda one: (one.unconverged > 0, _objective(one, Z, codes, settings)))


def _svm_form(Z: Any, codes: NDArray, dual: bool, settings: dict[str, Any]) -> Solved:
    return _solved(LinearSVC(dual=dual, random_state=0, **{**(DUAL if dual else PRIMAL), **settings}), Z, codes)


def _objective(found: Solved, Z: Any, codes: NDArray, settings: dict[str, Any]) -> float:
    """Return what ``svm`` minimises, summed over its problems."""
    signs = np.where(codes[:, None] == np.arange(len(found.coef)) + (len(found.coef) == 1), 1, -1)
    losses = np.maximum(0, 1 - signs * (np.asarray(Z @ found.coef.T) + found.intercept)) ** 2
    bias = found.intercept / settings.get("intercept_scaling", 1)
    return float((np.sum(found.coef**2) + np.sum(bias**2)) / 2 + settings["C"] * losses.sum())


def _solved(model: Any, Z: Any, codes: NDArray) -> Solved:
    with fitting_alone:
        model.fit(Z, codes)
    parts = model.estimators_ if isinstance(model, OneVsRestClassifier) else [model]
    coef = np.concatenate([np.atleast_2d(part.coef_) for part in parts]).astype(np.float64)
    intercept = np.concatenate([np.atleast_1d(part.intercept_) for part in parts]).astype(np.float64)
    return Solved(coef, np.broadcast_to(intercept, len(coef)).copy(), sum(unconverged(part) for part in parts))


def unconverged(model: Any) -> int:
    """Return how many of the problems behind a fitted estimator stopped at their largest number of iterations."""
    taken, most = getattr(model, "n_iter_", None), getattr(model, "max_iter", None)
    if taken is None or not isinstance(most, int) or most < 1:
        return 0
    return int(np.count_nonzero(np.asarray(taken) >= most))
