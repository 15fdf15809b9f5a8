"""The lasso's path for several targets, by scikit-learn's LARS.

Source: Efron, Hastie, Johnstone & Tibshirani 2004, "Least angle regression", Annals of Statistics 32, section 3.1.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.blas import alone
from mmpca_dist.statistics.working_statistics import EPS

FIRST_STEPS = 32
"""Steps of the first attempt; each further one takes four times as many, until the path has enough columns."""


class Change(NamedTuple):
    """A column that becomes non-zero, or zero again, below a penalty."""

    penalty: float
    column: int
    enters: bool
    path: int = 0
    """Which of several paths under one penalty it is of."""


@dataclass(frozen=True)
class Regression:
    """Products of a target and of columns, which have unit variance or are zero."""

    cross: NDArray[np.float64]  # (d,): X^T y / n
    gram: NDArray[np.float64] | None = None  # (d, d): X^T X / n
    factor: NDArray[np.float64] | None = None  # (r, d): F with F^T F = X^T X / n, where that would be too large
    target: NDArray[np.float64] | None = None  # (r,): t with F^T t = X^T y / n

    def path(
        self, barred: NDArray[np.bool_], steps: int, least: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return penalties, shape (k,), and coefficients at them, shape (d, k); barred columns never enter."""
        from sklearn.linear_model import lars_path, lars_path_gram  # slow to import

        options = {"method": "lasso", "max_iter": steps, "alpha_min": least}
        kept = np.where(barred, 0.0, 1.0)
        with alone():  # it warns as it drops columns that depend on others
            if self.gram is not None:
                gram = kept[:, None] * self.gram * kept
                path = lars_path_gram(kept * self.cross, gram, n_samples=1, copy_Gram=False, **options)
            else:
                assert self.factor is not None and self.target is not None  # noqa: S101  (either is given)
                unit = np.sqrt(len(self.factor))  # scikit-learn divides by the number of rows
                path = lars_path(unit * self.factor * kept, unit * self.target, copy_X=False, **options)
        return path[0], path[2]

    def products(self, columns: list[int]) -> NDArray[np.float64]:
        """Return the products of some columns with each other."""
        if self.gram is not None:
            return self.gram[np.ix_(columns, columns)]
        assert self.factor is not None  # noqa: S101  (either is given)
        return self.factor[:, columns].T @ self.factor[:, columns]


def lasso_path(problem: Regression, epsilon: float) -> Iterator[Change]:
    """Yield the changes of the lasso's path, min |y - X b|^2 / (2 n) + penalty |b|_1, from large penalties to small.

    A column that depends on those in the model up to a hundred times ``epsilon``, the rounding error of the products,
    never enters.
    """
    floor = 100 * epsilon
    barred, n_yielded, steps = np.zeros(len(problem.cross), bool), 0, FIRST_STEPS
    least = floor * float(np.abs(problem.cross).max(initial=0.0))
    if least == 0:
        return
    while True:
        penalties, coefficients = problem.path(barred, steps, least)
        ended = len(penalties) <= steps
        changes = _changes(penalties, coefficients)
        dependent = _first_dependent(problem, changes, floor)
        if dependent is not None:
            barred[dependent] = True
            continue
        final = changes if ended else [change for change in changes if change.penalty > penalties[-1]]
        yield from final[n_yielded:]
        n_yielded = len(final)
        if ended:
            return
        steps *= 4


def _changes(penalties: NDArray[np.float64], coefficients: NDArray[np.float64]) -> list[Change]:
    """Return what enters and leaves between the penalties of a path."""
    used, changes = coefficients != 0, []
    # A coefficient that leaves is the sum of two numbers that cancel, up to their rounding.
    used[:, 1:] &= np.abs(coefficients[:, 1:]) > 4 * EPS * np.abs(coefficients[:, :-1])
    for k in range(len(penalties) - 1):
        left = np.flatnonzero(used[:, k] & ~used[:, k + 1])
        entered = np.flatnonzero(used[:, k + 1] & ~used[:, k])
        changes += [Change(float(penalties[k]), int(column), True) for column in entered]
        changes += [Change(float(penalties[k + 1]), int(column), False) for column in left]
    return changes


def _first_dependent(problem: Regression, changes: list[Change], floor: float) -> int | None:
    """Return the first column that enters although it is a combination of columns that are in, up to rounding."""
    active: list[int] = []
    for change in changes:
        if not change.enters:
            active.remove(change.column)
            continue
        products = problem.products([*active, change.column])
        row, square = products[-1, :-1], products[-1, -1]
        if active and square - row @ scipy.linalg.solve(products[:-1, :-1], row, assume_a="pos") <= floor * square:
            return change.column
        active.append(change.column)
    return None


def changes_until(paths: Iterable[Iterator[Change]], n_columns: int) -> list[Change]:
    """Return the changes of paths until so many columns are in any of them, or all changes if that never happens."""
    numbered = [zip(path, itertools.repeat(number)) for number, path in enumerate(paths)]
    merged = heapq.merge(*numbered, key=lambda numbered: -numbered[0].penalty)
    changes: list[Change] = []
    for change, inside in _followed(change._replace(path=number) for change, number in merged):
        changes.append(change)
        if len(inside) >= n_columns:
            break
    return changes


def columns_with(changes: Iterable[Change], n_columns: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the columns at the first point with so many, or with the most, and the penalties below which they came in.

    In the order in which they came in; one that left and came back counts from when it came back.
    """
    columns: dict[int, float] = {}
    for _, inside in _followed(changes):
        if len(inside) > len(columns):
            columns = inside.copy()
        if len(columns) == n_columns:
            break
    return np.asarray([*columns], np.intp), np.asarray([*columns.values()])


def _followed(changes: Iterable[Change]) -> Iterator[tuple[Change, dict[int, float]]]:
    """Yield changes, each with the columns that are in any path after it and the penalties at which they came in."""
    inside: dict[int, float] = {}
    paths = defaultdict[int, set[int]](set)
    for change in changes:
        of_column = paths[change.column]
        (of_column.add if change.enters else of_column.discard)(change.path)
        if not of_column:
            del inside[change.column]
        else:
            inside.setdefault(change.column, change.penalty)
        yield change, inside
