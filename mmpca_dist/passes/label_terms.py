"""The label terms of rows: the numbers that a fit by sweeps uses for their labels, or for their continuous targets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.passes.folds import Folds
from mmpca_dist.tables.batch import Batch

Array = NDArray[np.float64]
Models = slice | NDArray[np.intp]
"""Positions of some of the models."""


@dataclass(frozen=True)
class Terms:
    """The label terms (a, b) of n rows for m variants, T to a row and variant, and which rows train each variant."""

    levels: Array  # (n, m, T): a; 0 where there is no term
    signs: Array  # (n, m, T): b; 0 where there is no term
    trains: Array | None = None  # (n, m): 1 for rows that train a variant, 0 for others; None where all do


class LabelTerms(ABC):
    """Makes the label terms of rows from what is stored with them."""

    @property
    @abstractmethod
    def per_row(self) -> int:
        """Terms a row."""

    @abstractmethod
    def of_unit(self, batch: Batch) -> Callable[[slice], Terms]:
        """Take the labels of a unit of rows; return a function that makes the terms of a block of them."""


ErrorCounter = Callable[[slice, Array], Array]
"""Takes a block of a unit's rows and their scores, shape (n, candidates, models); returns the errors of candidates."""


class FoldTerms(LabelTerms):
    """Label terms of models, each of which may hold a fold of the rows out: ``held_out`` (m,), -1 for none."""

    held_out: NDArray[np.intp]

    @abstractmethod
    def only(self, models: Models) -> Self:
        """Return the terms of some of the models."""

    @abstractmethod
    def folds_of(self, batch: Batch) -> NDArray[np.int64]:
        """Return the fold of each row of a unit."""

    @abstractmethod
    def error_counter(self, batch: Batch, n_models: int) -> ErrorCounter:
        """Take the labels of a unit of rows; return a function that counts the errors of candidates in a block."""


@dataclass(frozen=True)
class ClassTerms(FoldTerms):
    """One term a row and variant: whether the row is of the variant's class."""

    classes: NDArray  # (C,): sorted labels, that of rows without a class among them
    positive: NDArray[np.intp]  # (m,): position of each variant's class
    unlabelled: int  # position of the label of rows without a class; -1 where all have one
    held_out: NDArray[np.intp]  # (m,): the fold that is held out from a variant; -1 for none
    folds: Folds | None = None  # None where no rows are held out
    per_row = 1

    def of_unit(self, batch: Batch) -> Callable[[slice], Terms]:
        codes = batch.codes(self.classes)
        folds = None if self.folds is None else self.folds.of_rows(codes, batch.start)

        def terms(rows: slice) -> Terms:
            signs = np.where(codes[rows, None] == self.positive, 1.0, -1.0)
            is_labelled = codes[rows, None] != self.unlabelled
            signs = np.where(is_labelled, signs, 0.0)
            trains = None
            if folds is not None:
                trains = np.where((folds[rows, None] != self.held_out) | ~is_labelled, 1.0, 0.0)
            return Terms(np.abs(signs)[:, :, None], signs[:, :, None], trains)

        return terms

    def only(self, models: Models) -> Self:
        return replace(self, positive=self.positive[models], held_out=self.held_out[models])

    def folds_of(self, batch: Batch) -> NDArray[np.int64]:
        assert self.folds is not None  # noqa: S101  (called where there are folds)
        return self.folds.of_rows(batch.codes(self.classes), batch.start)

    def error_counter(self, batch: Batch, n_models: int) -> ErrorCounter:
        codes = batch.codes(self.classes)
        positive = self.positive[:n_models]

        def wrong(block: slice, scores: Array) -> Array:
            if n_models == 1:
                is_right = (scores[:, :, 0] > 0) == (codes[block] == positive[0])[:, None]
            else:
                is_right = positive[scores.argmax(axis=2)] == codes[block, None]
            return np.count_nonzero(~is_right[codes[block] != self.unlabelled], axis=0).astype(np.float64)

        return wrong


@dataclass(frozen=True)
class ResidualTerms(FoldTerms):
    """One term (y, 1) a row and model: its continuous target less a mean."""

    means: Array  # (q,)
    numbers: NDArray[np.intp]  # (m,): the target of each model
    # (m,): the fold that is held out from a model; -1 for none. Row i is in fold i modulo ``n_folds``
    held_out: NDArray[np.intp]
    n_folds: int
    per_row = 1

    def of_unit(self, batch: Batch) -> Callable[[slice], Terms]:
        targets = batch.targets - self.means
        folds = self.folds_of(batch) if (self.held_out >= 0).any() else None

        def terms(rows: slice) -> Terms:
            levels = targets[rows][:, self.numbers, None]
            trains = None if folds is None else np.where(folds[rows, None] != self.held_out, 1.0, 0.0)
            return Terms(levels, np.ones_like(levels), trains)

        return terms

    def only(self, models: Models) -> Self:
        return replace(self, numbers=self.numbers[models], held_out=self.held_out[models])

    def folds_of(self, batch: Batch) -> NDArray[np.int64]:
        return np.arange(batch.start, batch.stop) % self.n_folds

    def error_counter(self, batch: Batch, n_models: int) -> ErrorCounter:
        targets = batch.targets - self.means
        return lambda block, scores: ((scores - targets[block, None]) ** 2).sum(axis=(0, 2))


@dataclass(frozen=True)
class TargetTerms(LabelTerms):
    """Two terms a row and target, for the loss max(0, |y - f| - epsilon); none for targets that are NaN.

    Targets y are less their means (q,), over their deviations (q,).
    """

    epsilon: float
    means: Array
    deviations: Array
    per_row = 2

    def of_unit(self, batch: Batch) -> Callable[[slice], Terms]:
        targets = batch.targets
        has_target = ~np.isnan(targets)
        y = np.where(has_target, (targets - self.means) / self.deviations, 0.0)
        levels = np.where(has_target[:, :, None], np.stack([y - self.epsilon, -y - self.epsilon], axis=2), 0.0)
        signs = has_target[:, :, None] * np.array([1.0, -1.0])
        return lambda rows: Terms(levels[rows], signs[rows])
