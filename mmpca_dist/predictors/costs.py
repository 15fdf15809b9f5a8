"""Operations of classifiers by kind, and their expected time."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Self

EIGEN_RATE = 4e9
"""Symmetric eigenproblems of d columns, d^3 a second a thread: measured for 1,024 and 2,048 columns."""
NUMBER_RATE = 3e8
"""Numbers a second a thread that a NumPy operation reads, changes and writes: a guess on the slow side."""
LIBLINEAR_RATE = 4e6
"""Rows x columns x problems a second, of a fit by LIBLINEAR: measured, 4e6 to 1e7 for 500 to 4,000 rows."""
NEARLY_SQUARE = 10
"""LIBLINEAR takes so many times as long if there are more rows than columns, but less than four times as many. 5 to 30
times were measured."""
OTHER_RATE = 1e7
"""Rows x columns a second, of a fit by any other classifier: a guess."""


@dataclass(frozen=True)
class Work:
    """Operations by kind; each kind has its own rate."""

    products: float = 0.0  # multiply-adds of matrix products
    eigen: float = 0.0  # d^3 for every symmetric eigenproblem of d columns
    numbers: float = 0.0  # numbers that NumPy operations visit
    # rows x columns x problems of LIBLINEAR and of other classifiers, which one thread of a process uses at a time
    alone: float = 0.0

    def __add__(self, other: Self) -> Work:
        return Work(*map(operator.add, vars(self).values(), vars(other).values()))

    def __mul__(self, times: float) -> Work:
        return Work(*(times * value for value in vars(self).values()))

    @property
    def operations(self) -> float:
        """Operations of all kinds."""
        return sum(vars(self).values())

    def seconds(self, product_rate: float, threads: int = 1, processes: int = 1) -> float:
        """Return the expected time: threads share most of the work, and processes share the work done alone."""
        shared = self.products / product_rate + self.eigen / EIGEN_RATE + self.numbers / NUMBER_RATE
        return shared / threads + self.alone / LIBLINEAR_RATE / processes


def eigen_fit(n_rows: int, n_columns: int, n_classes: int) -> Work:
    """Return the operations of a fit that solves one symmetric eigenproblem of all columns."""
    return Work(eigen=float(n_columns) ** 3)


def liblinear_fit(n_rows: int, n_columns: int, n_classes: int) -> Work:
    """Return the operations of a fit by LIBLINEAR, or of one as large."""
    problems = 1 if n_classes == 2 else n_classes
    rank = min(n_rows, n_columns)  # few rows are rotated to coordinates of their span
    times = NEARLY_SQUARE if n_columns < n_rows < 4 * n_columns else 1
    return Work(
        products=2.0 * n_columns * n_rows**2 * (n_rows < n_columns), alone=1.0 * times * problems * n_rows * rank
    )


def other_fit(n_rows: int, n_columns: int, n_classes: int) -> Work:
    """Return a guess at the operations of a fit by any other classifier."""
    return Work(alone=LIBLINEAR_RATE / OTHER_RATE * n_rows * n_columns)


def linear_use(n_rows: int, n_columns: int, n_classes: int) -> Work:
    """Return the operations of linear scores of rows."""
    return Work(products=float(n_rows) * n_columns * n_classes)


def linear_bytes(n_rows: int, n_columns: int, n_classes: int) -> int:
    """Return the bytes of a fitted linear classifier."""
    return 16 * n_classes * n_columns


def liblinear_bytes(n_rows: int, n_columns: int) -> int:
    """Return the bytes that LIBLINEAR adds to rows in double precision: an index and a number for each value."""
    return 16 * n_rows * (n_columns + 1)
