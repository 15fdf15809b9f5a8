"""The columns that the lasso takes in, and lets go, as its penalty falls: the path of LARS with the lasso's changes.

Source: Efron, Hastie, Johnstone & Tibshirani 2004, "Least angle regression", Annals of Statistics 32, section 3.1.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

GramRow = Callable[[int], NDArray[np.float64]]


class Change(NamedTuple):
    """A column that becomes non-zero, or zero again, below a penalty."""

    penalty: float
    column: int
    enters: bool


def lasso_path(gram_row: GramRow, cross: NDArray[np.float64], epsilon: float) -> Iterator[Change]:
    """Yield the changes of the lasso's path, min |y - X b|^2 / (2 n) + penalty |b|_1, from large penalties to small.

    Parameters
    ----------
    gram_row : callable
        Returns row j of X^T X / n, shape (d,); columns have unit variance, or are zero and never enter.
    cross : array of shape (d,)
        X^T y / n.
    epsilon : float
        Rounding error of both; a column that depends on those in the model up to a hundred times that never enters.
    """
    d, floor = len(cross), 100 * epsilon
    active: list[int] = []
    rows, signs, coefficients = np.empty((0, d)), np.empty(0), np.empty(0)
    shut, left = np.zeros(d, bool), None
    penalty = float(np.abs(cross).max(initial=0.0))
    least = floor * penalty
    while penalty > least:
        correlations = cross - coefficients @ rows
        slopes, direction = np.zeros(d), np.empty(0)
        if active:
            direction = scipy.linalg.solve(rows[:, active], signs, assume_a="pos", check_finite=False)
            slopes = direction @ rows
        step, column = _next_to_enter(correlations, slopes, penalty, [*active, *np.flatnonzero(shut)], left, floor)
        leaving, number = _next_to_leave(coefficients, direction)
        if min(step, leaving) >= penalty:
            return
        left = None
        if leaving <= step:
            penalty -= leaving
            coefficients = np.delete(coefficients + leaving * direction, number)
            rows, signs = np.delete(rows, number, axis=0), np.delete(signs, number)
            left = active.pop(number)
            yield Change(penalty, left, False)
            continue
        penalty, coefficients = penalty - step, coefficients + step * direction
        row = gram_row(column)
        if _depends(rows[:, active], row[active], row[column], floor):
            shut[column] = True
            continue
        active.append(column)
        sign = np.sign(correlations[column] - step * slopes[column])
        rows, signs, coefficients = np.vstack([rows, row]), np.append(signs, sign), np.append(coefficients, 0.0)
        yield Change(penalty, column, True)


def _next_to_enter(
    correlations: NDArray[np.float64], slopes: NDArray[np.float64], penalty: float, barred: list[int],
    left: int | None, floor: float,
) -> tuple[float, int]:  # fmt: skip
    """Return how far the penalty falls until another column's correlation is as large as it, and which column.

    One that has just ``left`` is as large now: it may enter only after it was smaller.
    """
    steps = np.full(len(correlations), np.inf)
    for sign in (1.0, -1.0):
        rates = 1 - sign * slopes
        distances = penalty - sign * correlations
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            found = np.where(rates > floor, np.maximum(distances, 0.0) / rates, np.inf)
        if left is not None and distances[left] <= floor * penalty:
            found[left] = np.inf
        steps = np.minimum(steps, found)
    steps[barred] = np.inf
    column = int(np.argmin(steps))
    return float(steps[column]), column


def _next_to_leave(coefficients: NDArray[np.float64], direction: NDArray[np.float64]) -> tuple[float, int]:
    """Return how far the penalty falls until a coefficient is zero again, and its number."""
    if not len(coefficients):
        return np.inf, -1
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        steps = np.where(coefficients * direction < 0, -coefficients / direction, np.inf)
    number = int(np.argmin(steps))
    return float(steps[number]), number


def _depends(among: NDArray[np.float64], row: NDArray[np.float64], square: float, floor: float) -> bool:
    """Tell whether a column is a combination of others, from their Gram matrix, its products with them and itself."""
    if not len(among):
        return False
    return bool(square - row @ scipy.linalg.solve(among, row, assume_a="pos", check_finite=False) <= floor * square)


Changes = list[tuple[Change, int]]
"""Changes of several paths under one penalty, each with the number of its path."""


def changes_until(paths: Iterable[Iterator[Change]], n_columns: int) -> Changes:
    """Return the changes of several paths until so many columns are in any of them, or all where that never is."""
    numbered = [_numbered(path, number) for number, path in enumerate(paths)]
    changes: Changes = []
    inside = _Inside()
    for change, number in heapq.merge(*numbered, key=lambda found: -found[0].penalty):
        changes.append((change, number))
        inside.follow(change, number)
        if len(inside.columns) >= n_columns:
            break
    return changes


def columns_with(changes: Changes, n_columns: int) -> list[tuple[int, float]]:
    """Return the columns at the first point with so many (or with the most), and the penalties they came in at.

    In the order in which they came in; one that left and came back counts from when it came back.
    """
    inside, most = _Inside(), 0
    found: list[tuple[int, float]] = []
    for change, number in changes:
        inside.follow(change, number)
        if len(inside.columns) > most:
            most, found = len(inside.columns), list(inside.columns.items())
        if most == n_columns:
            break
    return found


class _Inside:
    """The columns that are in any of several paths, each with the penalty that it came in at."""

    def __init__(self) -> None:
        self.columns: dict[int, float] = {}
        self._paths: dict[int, set[int]] = {}

    def follow(self, change: Change, number: int) -> None:
        paths = self._paths.setdefault(change.column, set())
        (paths.add if change.enters else paths.discard)(number)
        if not paths:
            del self.columns[change.column]
        elif change.column not in self.columns:
            self.columns[change.column] = change.penalty


def _numbered(path: Iterator[Change], number: int) -> Iterator[tuple[Change, int]]:
    return ((change, number) for change in path)
