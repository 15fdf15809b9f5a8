"""The penalty C of classifiers, chosen once for all methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedKFold

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.datasets.labels import normalize_labels
from mmpca_dist.errors import InputError
from mmpca_dist.predictors.classifiers import ClassifierSection
from mmpca_dist.predictors.fitting import fit_rows
from mmpca_dist.predictors.liblinear import row_space
from mmpca_dist.statistics.working import column_units, in_units

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
    """Choose C for the classifiers that ask for it (``C: auto`` or ``C: nested``) by cross-validation.

    Parameters
    ----------
    specs : sequence of ClassifierSection
    X : array or CSR matrix of shape (n, d)
        Of ``C: auto`` all rows, in their original columns: the same C then serves every method, size and split. Of
        ``C: nested`` the reduced rows that train, of one method, size and split.
    y : array-like of shape (n,)
    grid : sequence of float
    folds : int
        Stratified; as many as the smallest class has rows, where that is fewer.
    seed : int
        Of the folds.
    standardize : bool
        Whether columns are less their means and divided by their standard deviations first, as reductions may be; CSR
        rows are only divided.
    progress : callable, optional
        Called after each fit with how many are done, and of how many.

    Returns
    -------
    dict
        C by label. Of values with equally many errors it is the smallest.

    Raises
    ------
    InputError
        For a class with one row, a grid without positive numbers, or rows that a classifier refuses.

    Notes
    -----
    Source: Luo & Durrant 2017, section 5, for ``auto``. There the rows that are held out later take part in the choice
    of C, so that errors may be too low; of ``nested`` they do not.
    """
    wanted = [spec for spec in specs if spec.C in ("auto", "nested")]
    if not wanted:
        return {}
    values = sorted(float(C) for C in grid)
    if not values or not 0 < values[0] <= values[-1] < np.inf:
        raise InputError(f"The grid of C is {list(grid)}; it must hold positive numbers.")
    labels = normalize_labels(y, "the labels")
    parts = _folds(labels, folds, seed)
    count = _counter(len(wanted) * len(values) * len(parts), progress)
    if standardize:
        X = in_units(X, *column_units(X))
    with single_blas_thread():
        rows, _ = row_space(X)
    return {spec.label: _best(spec, X if _by_columns(spec) else rows, labels, values, parts, count) for spec in wanted}


def fits_of(spec: ClassifierSection) -> int:
    """Return how many times a classifier is fitted, at most, for each method, size and part held out."""
    return 1 + len(GRID) * INNER_FOLDS if spec.C == "nested" else 1


def _by_columns(spec: ClassifierSection) -> bool:
    """Tell whether a classifier would differ in other coordinates of the rows' span."""
    return spec.name not in ("svm", "logistic", "dask-logistic")


def _counter(total: int, progress: Callable[[int, int], None] | None) -> Callable[[int], None]:
    """Return what counts fits as they are done, or left out, and tells so."""
    done = 0

    def count(fits: int) -> None:
        nonlocal done
        done += fits
        if progress is not None:
            progress(done, total)

    return count


def _folds(y: NDArray, folds: int, seed: int) -> Folds:
    classes, counts = np.unique(y, return_counts=True)
    if counts.min() < 2:
        raise InputError(
            f"C cannot be chosen by cross-validation: class {classes[counts.argmin()]!s} has one row. Give C a number, "
            "or leave the class out."
        )
    if folds < 2:
        raise InputError(f"C is chosen with {folds} folds; there must be at least 2.")
    made = StratifiedKFold(min(folds, int(counts.min())), shuffle=True, random_state=seed)
    return list(made.split(np.zeros(len(y)), y))


def _best(
    spec: ClassifierSection, X: Any, y: NDArray, values: list[float], folds: Folds, count: Callable[[int], None]
) -> float:
    errors: list[int] = []
    for C in values:
        errors.append(0)
        for train, test in folds:
            errors[-1] += _errors(spec, X, y, C, train, test)
            count(1)
        if not errors[-1]:  # none can be better, and of equal ones the smallest counts
            count(len(folds) * (len(values) - len(errors)))
            break
    return values[int(np.argmin(errors))]


def _errors(
    spec: ClassifierSection, X: Any, y: NDArray, C: float, train: NDArray[np.intp], test: NDArray[np.intp]
) -> int:
    fitted = fit_rows(spec, X[train], y[train], C)
    return int(np.count_nonzero(fitted.predict(X[test]) != y[test]))
