"""Choose the penalty C by cross-validation."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.datasets.labels import normalize_labels
from mmpca_dist.errors import InputError
from mmpca_dist.predictors.classifiers import ClassifierSection
from mmpca_dist.predictors.fits import fit_rows
from mmpca_dist.predictors.liblinear import row_space
from mmpca_dist.statistics.coordinates import column_units, in_units

GRID = tuple(10.0**power for power in range(-3, 3))

INNER_FOLDS = 5

Folds = list[tuple[NDArray[np.intp], NDArray[np.intp]]]


def choose_C(  # noqa: N802
    specs: Sequence[ClassifierSection],
    X: Any,
    y: ArrayLike,
    grid: Sequence[float] = GRID,
    folds: int = INNER_FOLDS,
    seed: int = 0,
    standardize: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, float]:
    """Choose C by cross-validation, for classifiers with ``C: auto`` or ``C: nested``.

    Parameters
    ----------
    specs : sequence of ClassifierSection
    X : array or CSR matrix of shape (n, d)
        For ``C: auto`` all rows, in their original columns: one C then serves every method, size and split. For
        ``C: nested`` the reduced rows that train, of one method, size and split.
    y : array-like of shape (n,)
    grid : sequence of float
    folds : int
        Stratified; at most the number of rows of the smallest class.
    seed : int
        Of the folds.
    standardize : bool
        Whether to subtract the means of columns and divide by their standard deviations first; CSR rows are only
        divided.
    progress : callable, optional
        Called after each fit with the number of fits done and of all.

    Returns
    -------
    dict
        C by label; of values with equally many errors the smallest.

    Raises
    ------
    InputError
        For a class with one row, a grid without positive numbers, or rows that a classifier refuses.

    Notes
    -----
    Source: Luo & Durrant 2017, section 5, for ``auto``. There the rows that are held out later take part in the choice
    of C, so that errors may be too low. With ``nested`` they do not.
    """
    unset = [spec for spec in specs if spec.C in ("auto", "nested")]
    if not unset:
        return {}
    values = sorted(float(C) for C in grid)
    if not values or not 0 < values[0] <= values[-1] < np.inf:
        raise InputError(f"The grid of C is {list(grid)}; it must hold positive numbers.")
    labels = normalize_labels(y, "the labels")
    splits = _folds(labels, folds, seed)
    numbers, n_fits = itertools.count(1), len(unset) * len(values) * len(splits)

    def on_fit() -> None:
        if progress is not None:
            progress(next(numbers), n_fits)

    if standardize:
        X = in_units(X, *column_units(X))
    with single_blas_thread():
        rotated, _ = row_space(X)
    chosen = {}
    for spec in unset:
        rows = rotated if spec.classifier.rotatable else X
        search = GridSearchCV(
            _WithPenalty(spec, on_fit), {"C": values}, scoring=_correct, cv=splits, refit=False, error_score="raise"
        )
        chosen[spec.label] = float(search.fit(rows, labels).cv_results_["params"][search.best_index_]["C"])
    return chosen


def fits_of(spec: ClassifierSection) -> int:
    """Return how many times a classifier is fitted, at most, for each method, size and part held out."""
    return 1 + len(GRID) * INNER_FOLDS if spec.C == "nested" else 1


def _folds(y: NDArray, folds: int, seed: int) -> Folds:
    classes, counts = np.unique(y, return_counts=True)
    if counts.min() < 2:
        raise InputError(
            f"C cannot be chosen by cross-validation: class {classes[counts.argmin()]!s} has one row. Give C a number, "
            "or leave the class out."
        )
    if folds < 2:
        raise InputError(f"C is chosen with {folds} folds; there must be at least 2.")
    splitter = StratifiedKFold(min(folds, int(counts.min())), shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros(len(y)), y))


class _WithPenalty(ClassifierMixin, BaseEstimator):
    """A classifier with C as a parameter, for scikit-learn's grid search."""

    def __init__(self, spec: ClassifierSection, on_fit: Callable[[], None], C: float = 1.0) -> None:
        self.spec, self.on_fit, self.C = spec, on_fit, C

    def fit(self, X: Any, y: NDArray) -> Self:
        self.fitted_ = fit_rows(self.spec, X, y, self.C)
        self.classes_ = np.unique(y)
        self.on_fit()
        return self

    def predict(self, X: Any) -> NDArray:
        return self.fitted_.predict(X)


def _correct(fitted: _WithPenalty, X: Any, y: NDArray) -> int:
    """Count correct rows: every row then weighs the same, whatever the size of its fold."""
    return int(np.count_nonzero(fitted.predict(X) == y))
