"""LIBLINEAR on reduced rows: support vector machine and logistic regression, L2-regularised, with and without bias.

The minimum is unique. The choice of the primal or dual form, and of coordinates of the rows, affects only speed and
rounding.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import issparse

from mmpca_dist.blas import alone
from mmpca_dist.errors import InputError
from mmpca_dist.finite import or_infinite
from mmpca_dist.predictors.linear import LinearRule, rule_of_scores
from mmpca_dist.predictors.specification import DEFAULT_C, Classifier, Training, check_names

OPTIONS = ["intercept_scaling", "max_iter", "tol"]
"""Options of scikit-learn's classes that do not turn the problem into another."""
PRIMAL = {"tol": 1e-8, "max_iter": 1000}
DUAL = {"tol": 1e-6, "max_iter": 5000}
"""With scikit-learn's tolerance of 1e-4 the primal form ends up to a tenth above the minimum if the rows are separable
(mushrooms, prostate and leukemia at C = 10 and 100): such rows need the dual form. Nearly dependent rows need the
primal form: it took 10 to 40 steps, and 5,000 steps of the dual form still ended at a multiple of the minimum."""


def fit_alone(model: Any, rows: Training) -> None:
    """Fit an estimator while no other thread of the process fits one."""
    with alone():
        model.fit(rows.Z, rows.codes, **({} if rows.weights is None else {"sample_weight": rows.weights}))


def unconverged(model: Any) -> int:
    """Return how many of the problems behind a fitted estimator stopped at their largest number of iterations."""
    iterations, max_iter = getattr(model, "n_iter_", None), getattr(model, "max_iter", None)
    if iterations is None or not isinstance(max_iter, int) or max_iter < 1:
        return 0
    return int(np.count_nonzero(np.asarray(iterations) >= max_iter))


def row_space(Z: NDArray) -> tuple[NDArray, NDArray | None]:
    """Return rows in coordinates of their span, and its orthonormal basis of shape (K, n); rows as they are if K <= n.

    Coefficients are combinations of rows, and neither products of rows nor norms of coefficients change: n columns
    give the same classifier as K.
    """
    if issparse(Z) or Z.shape[1] <= Z.shape[0]:
        return Z, None
    basis, triangle = scipy.linalg.qr(np.asarray(Z, dtype=np.float64).T, mode="economic", check_finite=False)
    return np.ascontiguousarray(triangle.T), basis


class LiblinearFit(NamedTuple):
    """Coefficients, shape (C, K), or (1, K) for two classes, intercepts, and the number of unconverged problems."""

    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    unconverged: int


def _fit(kind: str, rows: Training) -> tuple[LinearRule, int]:
    """Fit "svm" (L2-regularised L2-loss) or "logistic" to rows; of more than two classes, each against the rest."""
    if not np.isfinite(rows.Z if isinstance(rows.Z, np.ndarray) else rows.Z.data).all():
        raise InputError("The reduced rows hold values that are not finite.")
    is_wide, (Z, basis) = rows.Z.shape[0] < rows.Z.shape[1], row_space(rows.Z)
    rows = replace(rows, Z=Z)
    settings = {"C": rows.C or DEFAULT_C, "fit_intercept": rows.bias, **rows.options}
    if kind == "logistic":  # the primal form converges in some ten steps, for separable rows too
        from sklearn.linear_model import LogisticRegression  # slow to import

        model = LogisticRegression(solver="liblinear", random_state=0, **{**PRIMAL, **settings})
        minima = [_minimum(model, replace(rows, codes=target)) for target in _against_rest(rows.codes)]
        coefs, intercepts, left = zip(*minima, strict=True)
        coef, intercept, stopped = np.concatenate(coefs), np.concatenate(intercepts), sum(left)
    else:
        coef, intercept, stopped = _svm(rows, is_wide, settings)
    return rule_of_scores(coef if basis is None else coef @ basis.T, intercept), stopped


def _against_rest(codes: NDArray) -> list[NDArray]:
    """Return the codes of two classes, or for each of more classes whether a row is of it."""
    return [codes] if codes.max() < 2 else [(codes == code).astype(np.intp) for code in range(codes.max() + 1)]


def _svm(rows: Training, dual_first: bool, settings: dict[str, Any]) -> LiblinearFit:
    """Solve one form and, if it does not converge, the other; if neither does, keep the lower objective."""
    from sklearn.svm import LinearSVC  # slow to import

    minima = []
    for dual in (dual_first, not dual_first):
        model = LinearSVC(dual=dual, random_state=0, **{**(DUAL if dual else PRIMAL), **settings})
        minima.append(_minimum(model, rows))
        if not minima[-1].unconverged:
            return minima[-1]
    return min(minima, key=lambda minimum: float(or_infinite(_objective(minimum, rows, settings))))


def _objective(minimum: LiblinearFit, rows: Training, settings: dict[str, Any]) -> float:
    """Return what ``svm`` minimises, summed over its problems."""
    coef, intercept = minimum.coef, minimum.intercept
    signs = np.where(rows.codes[:, None] == np.arange(len(coef)) + (len(coef) == 1), 1, -1)
    losses = np.maximum(0, 1 - signs * (np.asarray(rows.Z @ coef.T) + intercept)) ** 2
    losses = losses if rows.weights is None else rows.weights @ losses
    bias = intercept / settings.get("intercept_scaling", 1)
    return float((np.sum(coef**2) + np.sum(bias**2)) / 2 + settings["C"] * losses.sum())


def _minimum(model: Any, rows: Training) -> LiblinearFit:
    fit_alone(model, rows)
    coef, intercept = (np.asarray(part, np.float64) for part in (np.atleast_2d(model.coef_), model.intercept_))
    return LiblinearFit(coef, np.broadcast_to(intercept, len(coef)).copy(), unconverged(model))


def _classifier(kind: str, problem: str) -> Classifier:
    return Classifier(
        kind,
        f"LIBLINEAR's {problem}, of each class against the rest; takes C (auto, nested, or a number; 1 by default) and "
        "bias (true by default)",
        fit=lambda rows: _fit(kind, rows),
        check_options=lambda options: check_names(options, OPTIONS, kind),
        has_C=True,
        has_bias=True,
        linear=True,
        rotatable=True,
    )


SVM = _classifier("svm", "support vector machine, L2-regularised L2-loss")
OWN = replace(
    SVM,
    name="own",
    description="the method's own classifier, where it has one, and svm with these settings after others",
    prefers_own=True,
)
LOGISTIC = _classifier("logistic", "L2-regularised logistic regression")
