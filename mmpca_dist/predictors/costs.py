"""What classifiers cost: the operations of a fit and of its use, and what stays in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from mmpca_dist.predictors.classifiers import ClassifierSection, is_from_moments

EIGEN_RATE = 4e9
"""Of symmetric eigenproblems of d columns, d^3 a second a thread: measured for 1,024 and 2,048 columns."""

NUMBER_RATE = 3e8
"""Numbers a second a thread that are read, changed and written by one NumPy operation: a guess on the slow side."""

LIBLINEAR_RATE = 4e6
"""Rows x columns x problems a second, of a fit by LIBLINEAR: measured, 4e6 to 1e7 for 500 to 4,000 rows."""

NEARLY_SQUARE = 10
"""LIBLINEAR takes so many times as long where rows are more than columns, but not four times as many: measured, 5 to
30 times."""

OTHER_RATE = 1e7
"""Rows x columns a second, of a fit by any other classifier: a guess."""


@dataclass(frozen=True)
class Work:
    """Operations by their kind, for each has a rate of its own.

    Attributes
    ----------
    products : float
        Multiply-adds of matrix products.
    eigen : float
        d^3 for every symmetric eigenproblem of d columns.
    numbers : float
        Numbers that are visited one by one.
    alone : float
        Rows x columns x problems of LIBLINEAR, which one thread of a process uses at a time, and of other classifiers.
    """

    products: float = 0.0
    eigen: float = 0.0
    numbers: float = 0.0
    alone: float = 0.0

    def __add__(self, other: Self) -> Work:
        return Work(
            self.products + other.products,
            self.eigen + other.eigen,
            self.numbers + other.numbers,
            self.alone + other.alone,
        )

    def __mul__(self, times: float) -> Work:
        return Work(times * self.products, times * self.eigen, times * self.numbers, times * self.alone)

    @property
    def operations(self) -> float:
        return self.products + self.eigen + self.numbers + self.alone

    def seconds(self, product_rate: float, threads: int = 1, processes: int = 1) -> float:
        """Return how long it takes: most of it shared by threads, and what is done alone by processes."""
        shared = self.products / product_rate + self.eigen / EIGEN_RATE + self.numbers / NUMBER_RATE
        return shared / threads + self.alone / LIBLINEAR_RATE / processes


def fit_work(spec: ClassifierSection, n_rows: int, n_columns: int, n_classes: int) -> Work:
    """Return the operations of fitting a classifier to reduced rows, or to their moments."""
    cube = float(n_columns) ** 3
    if spec.name == "qda":
        return Work(eigen=n_classes * cube)
    if spec.name == "naive-bayes":
        return Work(numbers=8.0 * n_classes * n_columns)
    if is_from_moments(spec):
        return Work(eigen=cube)
    if spec.name not in ("svm", "logistic", "dask-logistic"):
        return Work(alone=LIBLINEAR_RATE / OTHER_RATE * n_rows * n_columns)
    problems = 1 if n_classes == 2 else n_classes
    turned = min(n_rows, n_columns)  # few rows are turned into coordinates of their span
    times = NEARLY_SQUARE if n_columns < n_rows < 4 * n_columns else 1
    return Work(
        products=2.0 * n_columns * n_rows**2 * (n_rows < n_columns), alone=1.0 * times * problems * n_rows * turned
    )


def use_work(spec: ClassifierSection, n_rows: int, n_columns: int, n_classes: int) -> Work:
    """Return the operations of naming the classes of reduced rows."""
    decided = float(n_rows) * n_columns * n_classes
    if spec.name == "qda":
        return Work(products=decided * n_columns, numbers=2 * decided)
    if spec.name == "naive-bayes":
        return Work(numbers=4 * decided)
    return Work(products=decided)


def kept_bytes(spec: ClassifierSection, n_rows: int, n_columns: int, n_classes: int) -> int:
    """Return what a fitted classifier keeps; any that is not known here may keep the rows, and as much again."""
    parts = 16 * n_classes * n_columns
    if spec.name == "qda":
        return parts + 8 * n_classes * n_columns**2
    known = is_from_moments(spec) or spec.name in ("svm", "logistic", "dask-logistic", "incremental")
    return parts if known else parts + 16 * n_rows * n_columns


def liblinear_bytes(n_rows: int, n_columns: int) -> int:
    """Return what LIBLINEAR takes beside rows in double precision: an index and a number for each of their numbers."""
    return 16 * n_rows * (n_columns + 1)
