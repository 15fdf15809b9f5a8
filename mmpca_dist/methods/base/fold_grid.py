"""Values of a parameter, each fitted without one fold of the rows after the other, in passes that all fits share."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.finite import or_infinite
from mmpca_dist.passes.centred_rows import Array, RowUnits
from mmpca_dist.passes.folds import folds_of, most_folds
from mmpca_dist.passes.label_terms import ClassTerms, FoldTerms, ResidualTerms
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.sweeps import sweep_spans
from mmpca_dist.passes.units import BLOCK_ROWS, read_units
from mmpca_dist.statistics.working_rows import WorkingRows
from mmpca_dist.tables.dataset import Dataset, Span

MOST_FOLDS = 5
"""Fewer where a class has fewer rows."""


@dataclass(frozen=True)
class FoldGrid:
    """The fits of m models, for every candidate and every fold that is held out: candidates x folds x m of them.

    Attributes
    ----------
    values : array of shape (fits,)
        The candidate of each fit.
    terms : FoldTerms
        Of the rows for all fits.
    shape : tuple of int
        Numbers of candidates, folds and models.
    per_row : int
        Bytes that a sweep keeps of a row for each fit.
    """

    values: Array
    terms: FoldTerms
    shape: tuple[int, int, int]
    per_row: int = 0

    @classmethod
    def of_classes(
        cls,
        working: WorkingRows,
        n_folds: int,
        candidates: Sequence[float] | Array,
        positive: NDArray[np.intp],
        unlabelled: int = -1,
        *,
        per_row: int = 0,
    ) -> Self:
        """Return the grid for models of classes, by their positions, after a pass over the labels."""
        rows, shape = working.sweeper.rows, (len(candidates), n_folds, len(positive))
        values, held_out = _axes(candidates, shape)
        of_class, folds = np.broadcast_to(positive, shape).ravel(), folds_of(rows, n_folds)
        return cls(values, ClassTerms(rows.census.classes, of_class, unlabelled, held_out, folds), shape, per_row)

    @classmethod
    def of_targets(cls, candidates: Sequence[float] | Array, n_folds: int, means: Array) -> Self:
        """Return the grid for models of continuous targets less their means, shape (q,)."""
        shape = (len(candidates), n_folds, len(means))
        values, held_out = _axes(candidates, shape)
        numbers = np.broadcast_to(np.arange(len(means)), shape).ravel()
        return cls(values, ResidualTerms(means, numbers, held_out, n_folds), shape)

    def numbers(self, n_groups: int) -> NDArray[np.intp]:
        """Return the numbers of the fits for groups of candidates in a row, shape (groups, candidates, folds, m)."""
        return np.arange(len(self.values)).reshape(n_groups, -1, *self.shape[1:])

    def errors(self, working: WorkingRows, coef: Array, intercept: Array) -> Array:
        """Return the errors of every candidate in held-out rows: wrong ones, or squared errors of targets.

        They are infinite where an output is not finite.

        Parameters
        ----------
        coef, intercept : arrays of shape (fits, r) and (fits,)
            Of fits to the rows that are not held out, in working coordinates.
        """
        rows = working.sweeper.rows
        task = _HeldOutErrors(
            rows.dataset, self.terms, coef, intercept, working.units(), self.shape, working.keeps_sparse
        )
        spans = sweep_spans(rows.dataset, self.per_row * len(self.values))
        rows.begins("held-out", rows.dataset.n_bytes)
        return or_infinite(rows.run(task, spans, operator.add, "held-out", kept=False))


def folds_of_classes(name: str, rows: Rows, unlabelled: int = -1) -> int:
    """Return the number of folds for the classes of rows, but for the one of the number ``unlabelled``.

    ``name`` is that of the parameter to be chosen.

    Raises
    ------
    InputError
        Where a class has a single row, or rows of a single group, which cannot be held out.
    """
    most = most_folds(rows)
    n_folds = min(MOST_FOLDS, int((np.delete(most, unlabelled) if unlabelled >= 0 else most).min()))
    if n_folds < 2:
        single = "a single row" if rows.groups is None else "rows of a single group"
        raise InputError(
            f"{name}='auto' holds rows of every class out, and a class has {single}: give {name} as a number."
        )
    return n_folds


def _axes(candidates: Sequence[float] | Array, shape: tuple[int, int, int]) -> tuple[Array, NDArray[np.intp]]:
    """Return the candidate, and the fold that is held out, of every fit."""
    values = np.broadcast_to(np.asarray(candidates, np.float64)[:, None, None], shape).ravel()
    return values, np.broadcast_to(np.arange(shape[1])[None, :, None], shape).ravel()


@dataclass(frozen=True)
class _HeldOutErrors:
    """The task: add up the errors of each candidate in rows whose fold is held out."""

    dataset: Dataset
    terms: FoldTerms
    coef: Array
    intercept: Array
    units: RowUnits
    shape: tuple[int, int, int]
    sparse: bool

    def __call__(self, span: Span) -> Array:
        errors = np.zeros(self.shape[0])
        for start, X in read_units(self.dataset, span, sparse=self.sparse):
            count = self.terms.error_counter(self.dataset, start, start + X.shape[0], self.shape[2])
            folds = self.terms.folds_of(self.dataset, start, start + X.shape[0])
            for block, rows in self.units.blocks(X, BLOCK_ROWS):
                scores = (rows.images(self.coef).T + self.intercept).reshape(-1, *self.shape)
                scores = np.take_along_axis(scores, folds[block, None, None, None], axis=2)[:, :, 0]
                errors += np.where(np.isfinite(scores).all(axis=(0, 2)), count(block, scores), np.inf)
        return errors
