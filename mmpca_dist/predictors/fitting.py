"""Classifiers fitted to reduced rows, and what is linear of any classifier."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.datasets.labels import normalize_labels
from mmpca_dist.errors import InputError
from mmpca_dist.predictors import liblinear, out_of_core
from mmpca_dist.predictors.classifiers import DEFAULT_C, OUT_OF_CORE, ClassifierSection, is_from_moments
from mmpca_dist.predictors.imported import make_classifier
from mmpca_dist.predictors.linear import LinearRule
from mmpca_dist.predictors.rules import Rule


@dataclass(frozen=True)
class FittedRows:
    """A classifier fitted to reduced rows.

    Attributes
    ----------
    label : str
        What tables call it.
    classes : array of shape (C,)
        Sorted labels.
    model : LinearRule or scikit-learn estimator
        Its classes are the positions in ``classes``.
    unconverged : int
        How many of its optimisation problems stopped at their largest number of iterations.
    C : float or None
        The penalty, where one was given or chosen.
    """

    label: str
    classes: NDArray
    model: Any
    unconverged: int = 0
    C: float | None = None

    def predict(self, Z: Any) -> NDArray:
        """Return the class of each of the reduced rows ``Z``, shape (n, K), dense or CSR.

        Raises
        ------
        InputError
            For rows that the classifier cannot use.
        """
        with _refusals(self.label), single_blas_thread():
            return self.classes[np.asarray(self.model.predict(Z)).astype(np.intp)]


def fit_rows(
    spec: ClassifierSection,
    Z: Any,
    y: ArrayLike,
    C: float | None = None,
    on_pass: Callable[[], None] | None = None,
) -> FittedRows:
    """Fit a classifier to reduced rows, the same for the same rows whatever the threads.

    Parameters
    ----------
    spec : ClassifierSection
    Z : array or CSR matrix of shape (n, K); for ``incremental`` and ``dask-logistic`` also a Dask array
        Rows as they are: nothing is centred or scaled.
    y : array-like of shape (n,)
        Integers or strings.
    C : float, optional
        In place of ``C: auto`` and ``C: nested``.
    on_pass : callable, optional
        Called as ``incremental`` and ``dask-logistic`` begin a pass over the rows.

    Raises
    ------
    InputError
        For fewer than two classes, rows that the classifier refuses, and where C was to be chosen and is not given.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mmpca_dist.predictors import ClassifierSection, fit_rows, linear_parts
    >>> X, y = load_iris(return_X_y=True)
    >>> fitted = fit_rows(ClassifierSection(name="svm", C=10, bias=True), X, y)
    >>> round(float((fitted.predict(X) == y).mean()), 2), linear_parts(fitted)[0].shape
    (0.95, (3, 4))
    """
    if is_from_moments(spec):
        raise InputError(f"{spec.label} is made from moments: use fit_from_moments.")
    if isinstance(Z, da.Array) and spec.name not in OUT_OF_CORE:
        raise InputError(f"{spec.label} needs rows in memory; {' and '.join(OUT_OF_CORE)} take Dask arrays.")
    if not isinstance(Z, da.Array) and not issparse(Z):
        Z = np.asarray(Z)
    labels = normalize_labels(y, "the labels")
    if len(labels) != Z.shape[0]:
        raise InputError(f"There are {Z.shape[0]} rows and {len(labels)} labels.")
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"{spec.label} needs rows of at least two classes; there is {len(classes)}.")
    penalty = _penalty(spec, C)
    with _refusals(spec.label), liblinear.quiet_fits(), single_blas_thread():
        if spec.name in ("svm", "logistic"):
            return replace(_fit_liblinear(spec, Z, codes, classes, penalty or DEFAULT_C), C=penalty)
        if spec.name == "dask-logistic":
            parts = out_of_core.fit_logistic(
                Z, codes, len(classes), penalty or DEFAULT_C, spec.bias, spec.options, on_pass
            )  # fmt: skip
            return FittedRows(spec.label, classes, _rule(*parts), C=penalty)
        if spec.name == "incremental":
            model = out_of_core.fit_incremental(Z, codes, len(classes), spec.options, on_pass)
            return FittedRows(spec.label, classes, model)
        model = make_classifier(spec.name, {**spec.options, **({} if penalty is None else {"C": penalty})})
        with liblinear.fitting_alone:
            model.fit(Z, codes)
        return FittedRows(spec.label, classes, model, liblinear.unconverged(model), penalty)


def _penalty(spec: ClassifierSection, C: float | None) -> float | None:
    if C is not None:
        return C
    if isinstance(spec.C, str):
        raise InputError(f"C of {spec.label} is to be chosen: give what choose_C found.")
    return spec.C


def _fit_liblinear(spec: ClassifierSection, Z: Any, codes: NDArray, classes: NDArray, C: float) -> FittedRows:
    _check_finite(Z)
    found = liblinear.solve(spec.name, Z, codes, C, spec.bias, spec.options)
    return FittedRows(spec.label, classes, _rule(found.coef, found.intercept), found.unconverged)


def _check_finite(Z: Any) -> None:
    values = Z if isinstance(Z, np.ndarray) else Z.data
    if not np.isfinite(values).all():
        raise InputError("The reduced rows hold values that are not finite.")


def _rule(coef: NDArray[np.float64], intercept: NDArray[np.float64]) -> LinearRule:
    """Return the rule with these scores; of two classes, the second's less the first's."""
    if len(coef) == 1:
        coef, intercept = np.concatenate([0 * coef, coef]), np.concatenate([[0.0], intercept])
    return LinearRule(np.arange(len(coef)), np.zeros(coef.shape[1]), coef, intercept)


@contextmanager
def _refusals(label: str) -> Iterator[None]:
    """Turn what a classifier refuses into one sentence."""
    try:
        yield
    except InputError:
        raise
    except (ValueError, TypeError) as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise InputError(f"{label} cannot be fitted to these rows, or used on them: {reason}.") from error


def convergence_note(fitted: list[FittedRows]) -> str | None:
    """Return one sentence on the fits that did not converge, or None."""
    stopped = [one for one in fitted if one.unconverged]
    if not stopped:
        return None
    labels = ", ".join(dict.fromkeys(one.label for one in stopped))
    return (
        f"In a split, {len(stopped)} of {len(fitted)} fits ({labels}) stopped at their largest number of iterations; "
        "raise max_iter in the options, or lower C where there is one."
    )


def linear_parts(fitted: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the coefficients and intercepts of a classifier whose scores are linear in the rows.

    Parameters
    ----------
    fitted : Rule, FittedRows or fitted scikit-learn estimator

    Returns
    -------
    tuple of arrays or None
        ``coef`` of shape (C, K) and ``intercept`` of shape (C,): the largest of ``coef @ z + intercept`` decides. Of
        two classes (1, K) and (1,): the sign decides, positive for the second. None of a classifier that is not so.
    """
    model = fitted.model if isinstance(fitted, FittedRows) else fitted
    if isinstance(model, Rule):
        return _parts_of_rule(model) if isinstance(model, LinearRule) else None
    coef, intercept = getattr(model, "coef_", None), getattr(model, "intercept_", None)
    if coef is None or intercept is None or not hasattr(model, "decision_function"):
        return None
    coef = np.atleast_2d(np.asarray(coef, dtype=np.float64))
    intercept = np.broadcast_to(np.asarray(intercept, dtype=np.float64), len(coef)).copy()
    return (coef, intercept) if _is_linear(model, coef, intercept) else None


def _parts_of_rule(rule: LinearRule) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    coef, intercept = rule.coef, rule.intercept
    if len(rule.classes) == 2:
        coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
    return coef, intercept - coef @ rule.centre


def _is_linear(model: Any, coef: NDArray[np.float64], intercept: NDArray[np.float64]) -> bool:
    """Tell whether an estimator decides by these scores: those of pairs of classes, say, may be as many as classes."""
    n_classes = len(model.classes_)
    if coef.shape[0] != (1 if n_classes == 2 else n_classes):
        return False
    probes = np.concatenate(
        [np.zeros((1, coef.shape[1])), np.random.default_rng(0).standard_normal((7, coef.shape[1]))]
    )
    scores = (probes @ coef.T + intercept).reshape(len(probes), -1)
    found = np.asarray(model.decision_function(probes)).reshape(len(probes), -1)
    return found.shape == scores.shape and np.allclose(found, scores, rtol=1e-6, atol=1e-9 * np.abs(scores).max())
