"""Fit classifiers to reduced rows, and extract the coefficients of linear ones."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.datasets.labels import normalize_labels
from mmpca_dist.errors import InputError
from mmpca_dist.predictors.classifiers import ClassifierSection
from mmpca_dist.predictors.linear import LinearRule
from mmpca_dist.predictors.specification import CLASSIFIERS, Training


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
        It predicts positions in ``classes``.
    unconverged : int
        How many of its optimisation problems stopped at their largest number of iterations.
    C : float or None
        The penalty; None for the classifier's default.
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
    """Fit a classifier to reduced rows. The result does not depend on the number of threads.

    Parameters
    ----------
    spec : ClassifierSection
    Z : array or CSR matrix of shape (n, K); for ``incremental`` and ``dask-logistic`` also a Dask array
        Rows as they are: nothing is centred or scaled.
    y : array-like of shape (n,)
        Integers or strings.
    C : float, optional
        Replaces the classifier's own; required for ``C: auto`` and ``C: nested``.
    on_pass : callable, optional
        Called when ``incremental`` or ``dask-logistic`` begins a pass over the rows.

    Raises
    ------
    InputError
        For fewer than two classes, rows that the classifier refuses, and a missing C.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mmpca_dist.predictors.classifiers import ClassifierSection
    >>> from mmpca_dist.predictors.fits import fit_rows, linear_parts
    >>> X, y = load_iris(return_X_y=True)
    >>> fitted = fit_rows(ClassifierSection(name="svm", C=10, bias=True), X, y)
    >>> round(float((fitted.predict(X) == y).mean()), 2), linear_parts(fitted)[0].shape
    (0.97, (3, 4))
    """
    classifier = spec.classifier
    if classifier.fit is None:
        raise InputError(f"{spec.label} is made from moments: use fit_from_moments.")
    if isinstance(Z, da.Array) and not classifier.out_of_core:
        names = " and ".join(entry.name for entry in CLASSIFIERS.values() if entry.out_of_core)
        raise InputError(f"{spec.label} needs rows in memory; {names} take Dask arrays.")
    if not isinstance(Z, da.Array) and not issparse(Z):
        Z = np.asarray(Z)
    labels = normalize_labels(y, "the labels")
    if len(labels) != Z.shape[0]:
        raise InputError(f"There are {Z.shape[0]} rows and {len(labels)} labels.")
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"{spec.label} needs rows of at least two classes; there is {len(classes)}.")
    penalty = spec.C if C is None else C
    if isinstance(penalty, str):
        raise InputError(f"C of {spec.label} is to be chosen: give the value that choose_C returns.")
    rows = Training(Z, codes, len(classes), penalty, spec.bias, spec.options, on_pass)
    with _refusals(spec.label), _quiet_fits(), single_blas_thread():
        model, unconverged = classifier.fit(rows)
    return FittedRows(spec.label, classes, model, unconverged, penalty)


_quiet_lock = threading.Lock()
_quiet: list[ExitStack] = []
"""One entry for each thread that fits; the first restores the warnings."""


@contextmanager
def _quiet_fits() -> Iterator[None]:
    """Suppress warnings of no convergence, and dask-glm's warnings, while any thread is inside.

    Fits count what did not converge by iterations (`liblinear.unconverged`): recorded warnings would mix threads.
    """
    with _quiet_lock:
        _quiet.append(ExitStack())
        if len(_quiet) == 1:
            _quiet[0].enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", "Dask configuration key 'fuse_ave_width'", FutureWarning)
            warnings.filterwarnings("ignore", "scipy.optimize: The `disp` and `iprint`", DeprecationWarning)
    try:
        yield
    finally:
        with _quiet_lock:
            # The last to leave restores the warnings, whichever thread suppressed them.
            _quiet.pop().close()


@contextmanager
def _refusals(label: str) -> Iterator[None]:
    """Turn the errors of a classifier into `InputError` with one sentence."""
    try:
        yield
    except InputError:
        raise
    except (ValueError, TypeError) as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise InputError(f"{label} cannot be fitted to these rows, or used on them: {reason}.") from error


def convergence_note(fitted: list[FittedRows]) -> str | None:
    """Return one sentence on the fits that did not converge, or None."""
    labels = [fit.label for fit in fitted if fit.unconverged]
    if not labels:
        return None
    return (
        f"In a split, {len(labels)} of {len(fitted)} fits ({', '.join(dict.fromkeys(labels))}) stopped at their "
        "largest number of iterations; raise max_iter in the options, or lower C where there is one."
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
        two classes (1, K) and (1,): the sign decides, positive for the second. None for other classifiers.
    """
    model = fitted.model if isinstance(fitted, FittedRows) else fitted
    if isinstance(model, LinearRule):
        coef, intercept = model.coef, model.intercept
        if len(model.classes) == 2:
            coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
        return coef, intercept - coef @ model.centre
    if any(getattr(model, name, None) is None for name in ("coef_", "intercept_", "decision_function")):
        return None
    coef = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    intercept = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), len(coef)).copy()
    return (coef, intercept) if _is_linear(model, coef, intercept) else None


def _is_linear(model: Any, coef: NDArray[np.float64], intercept: NDArray[np.float64]) -> bool:
    """Tell whether an estimator decides by these scores: one for each pair of classes, say, may be as many."""
    n_classes = len(model.classes_)
    if coef.shape[0] != (1 if n_classes == 2 else n_classes):
        return False
    probes = np.vstack([np.zeros(coef.shape[1]), np.random.default_rng(0).standard_normal((7, coef.shape[1]))])
    scores = (probes @ coef.T + intercept).reshape(len(probes), -1)
    decisions = np.asarray(model.decision_function(probes)).reshape(len(probes), -1)
    tolerance = 1e-9 * np.abs(scores).max()
    return decisions.shape == scores.shape and np.allclose(decisions, scores, rtol=1e-6, atol=tolerance)
