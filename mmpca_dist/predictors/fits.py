"""Fit classifiers to reduced rows, choose their penalty C, and extract the coefficients of linear ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.errors import InputError, instead_of
from mmpca_dist.passes.folds import deal_groups, group_table, groups_of_classes
from mmpca_dist.predictors.classifiers import ClassifierSection, refuse_weights
from mmpca_dist.predictors.liblinear import row_space
from mmpca_dist.predictors.linear import LinearRule
from mmpca_dist.predictors.specification import Rule, Training, in_blocks
from mmpca_dist.statistics.column_units import column_units, in_units
from mmpca_dist.tables.labels import normalize_labels

GRID = tuple(10.0**power for power in range(-3, 3))
INNER_FOLDS = 5


@dataclass(frozen=True)
class FittedRows:
    """A classifier fitted to reduced rows."""

    label: str  # what tables call it
    classes: NDArray  # (C,): sorted labels
    model: Any  # it predicts positions in ``classes``
    unconverged: int = 0  # how many of its optimisation problems stopped at their largest number of iterations
    C: float | None = None  # the penalty; None for the classifier's default

    def predict(self, Z: Any) -> NDArray:
        """Return the class of each reduced row; raise InputError for rows that the classifier cannot use."""
        with _refusals(self.label), single_blas_thread():
            codes = in_blocks(lambda rows: np.asarray(self.model.predict(rows)).astype(np.intp), Z, len(self.classes))
            return self.classes[codes]


FittedClassifier = Rule | FittedRows


def fit_rows(
    spec: ClassifierSection,
    Z: Any,
    y: ArrayLike,
    C: float | None = None,
    weights: NDArray | None = None,
    on_pass: Callable[[], None] | None = None,
) -> FittedRows:
    """Fit a classifier to reduced rows ``Z`` and labels ``y``. The result does not depend on the number of threads.

    Rows, as in `Training`, are neither centred nor scaled. ``C`` replaces the classifier's own, and is required for
    ``C: auto`` and ``C: nested``. Raises InputError for fewer than two classes, rows that the classifier refuses, and a
    missing C.
    """
    classifier = spec.classifier
    assert classifier.fit is not None  # noqa: S101  (others are made from moments)
    classes, codes = np.unique(normalize_labels(y, "the labels"), return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"{spec.label} needs rows of at least two classes; there is {len(classes)}.")
    penalty = spec.C if C is None else C
    if isinstance(penalty, str):
        raise InputError(f"C of {spec.label} is to be chosen: give the value that choose_C returns.")
    if weights is not None:
        refuse_weights([spec])
    rows = Training(Z, codes, len(classes), penalty, spec.bias, spec.options, weights, on_pass)
    with _refusals(spec.label), single_blas_thread():
        model, unconverged = classifier.fit(rows)
    return FittedRows(spec.label, classes, model, unconverged, penalty)


def _refusals(label: str) -> AbstractContextManager[None]:
    """Turn the errors of a classifier into `InputError` with one sentence."""
    text = f"{label} cannot be fitted to these rows, or used on them: {{reason}}."
    return instead_of((ValueError, TypeError), InputError, text)


def convergence_notes(models: Iterable[FittedClassifier]) -> list[str]:
    """Return one sentence on the fits to rows that did not converge, where there are any."""
    fitted = [model for model in models if isinstance(model, FittedRows)]
    labels = [fit.label for fit in fitted if fit.unconverged]
    if not labels:
        return []
    return [
        f"In a split, {len(labels)} of {len(fitted)} fits ({', '.join(dict.fromkeys(labels))}) stopped at their "
        "largest number of iterations; raise max_iter in the options, or lower C where there is one."
    ]


def linear_parts(fitted: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the coefficients and intercepts of a rule or fitted classifier whose scores are linear in the rows.

    Of ``coef`` (C, K) and ``intercept`` (C,), the largest of ``coef @ z + intercept`` decides. For two classes they are
    (1, K) and (1,), and the sign decides, positive for the second. Other classifiers have None.
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


def choose_C(  # noqa: N802
    specs: Sequence[ClassifierSection],
    X: Any,
    y: ArrayLike,
    groups: NDArray | None = None,
    weights: NDArray | None = None,
    *,
    seed: int = 0,
    standardize: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, float]:
    """Choose C by cross-validation, for classifiers with ``C: auto`` or ``C: nested``, and return it by their labels.

    For ``auto``, ``X`` (n, d), dense or CSR, has all rows, in their original columns: one C then serves every method,
    size and split. For ``nested`` it has the reduced rows that train, of one method, size and split. Of values with
    equally many errors the smallest is chosen. The stratified folds are `INNER_FOLDS`, but at most the rows, or the
    groups, of the smallest class. ``groups``, whose rows are held out together, are dealt in the same way for any seed.
    With ``standardize`` columns are standardised first, of CSR rows only divided. ``progress`` is called after each fit
    with the number of fits done and of all. Raises InputError for a class with one row, or rows of one group, or rows
    that a classifier refuses.

    Source: Luo & Durrant 2017, section 5, for ``auto``. There the rows that are held out later take part in the choice
    of C, so that errors may be too low. With ``nested`` they do not.
    """
    unset = [spec for spec in specs if spec.C in ("auto", "nested")]
    if not unset:
        return {}
    labels = normalize_labels(y, "the labels")
    splits = _folds(labels, groups, seed)
    if standardize:
        X = in_units(X, *column_units(X))
    with single_blas_thread():
        rotated, _ = row_space(X)
    n_fits, chosen = len(unset) * len(GRID) * len(splits), {}
    for number, spec in enumerate(unset):
        rows = rotated if spec.classifier.rotatable else X
        correct = np.zeros(len(GRID))  # counts: every row weighs the same, whatever the size of its fold
        for fit, (candidate, (train, test)) in enumerate(itertools.product(range(len(GRID)), splits), 1):
            own = None if weights is None else weights[train]
            right = fit_rows(spec, rows[train], labels[train], GRID[candidate], own).predict(rows[test]) == labels[test]
            correct[candidate] += right.sum() if weights is None else weights[test] @ right
            if progress is not None:
                progress(number * len(GRID) * len(splits) + fit, n_fits)
        chosen[spec.label] = GRID[np.argmax(correct)]
    return chosen


def fits_of(spec: ClassifierSection) -> int:
    """Return how many times a classifier is fitted, at most, for each method, size and part held out."""
    return 1 + len(GRID) * INNER_FOLDS if spec.C == "nested" else 1


def _folds(y: NDArray, groups: NDArray | None, seed: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    if groups is not None:
        numbers = np.unique(groups, return_inverse=True)[1]
        table = group_table(numbers, codes, (int(numbers.max()) + 1, len(classes)))
        counts = groups_of_classes(table)
    if counts.min() < 2:
        alone = "one row" if groups is None else "rows of one group"
        raise InputError(
            f"C cannot be chosen by cross-validation: class {classes[counts.argmin()]!s} has {alone}. Give C a number, "
            "or leave the class out."
        )
    if groups is not None:
        folds = deal_groups(table, min(INNER_FOLDS, int(counts.min())))[numbers]
        return [(np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)) for fold in range(folds.max() + 1)]
    from sklearn.model_selection import StratifiedKFold  # slow to import

    splitter = StratifiedKFold(min(INNER_FOLDS, int(counts.min())), shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros(len(y)), y))
