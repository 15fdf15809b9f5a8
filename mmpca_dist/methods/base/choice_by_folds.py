"""Choices of parameters by folds: the fits of all values without one fold after the other, their errors, the least."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from mmpca_dist.eigen.needs import Needs
from mmpca_dist.eigen.options import SolverOptions
from mmpca_dist.errors import InputError
from mmpca_dist.finite import or_infinite
from mmpca_dist.limits import LIMITS
from mmpca_dist.methods.base.statistics_for import statistics_for
from mmpca_dist.passes.centred_rows import Array, RowUnits
from mmpca_dist.passes.folds import folds_of, most_folds
from mmpca_dist.passes.label_terms import FoldTerms
from mmpca_dist.passes.rows import Rows, collect_rows
from mmpca_dist.passes.schedulers import OnRows, Threads
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.sweeps import sweep_spans
from mmpca_dist.passes.units import BLOCK_ROWS, read_batches
from mmpca_dist.statistics.costs import use_pooled
from mmpca_dist.statistics.fold_moments import class_fold_moments, training_moments
from mmpca_dist.statistics.row_space import WorkingRows
from mmpca_dist.statistics.widened_rows import widened_by_targets
from mmpca_dist.statistics.working_statistics import RowSpaceStatistics, Statistics, tall_statistics
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.readers.memory import rows_in_memory, with_targets
from mmpca_dist.tables.spans import Span

MAX_FOLDS = 5
"""Fewer where a class has fewer rows."""
STEP = 10.0
"""Factor between values that are tried."""


@storable
@dataclass(frozen=True)
class Choice:
    """The number of components and the value of a parameter in use, and what was tried."""

    n_components: int
    value: float
    sizes: Array  # (S,): numbers of components that were tried; empty, as are values, where both were given
    values: Array  # (A,)
    errors: Array  # (S, A): in rows held out
    gaps: Array  # (S, A): the largest of the objectives of the fits behind them
    # whether what the fits start from, such as a reduction, was fitted without the rows held out, too
    is_nested: bool = True

    @classmethod
    def given(cls, n_components: int, value: float) -> Self:
        """Return the choice where there is none."""
        return cls(n_components, float(value), np.empty(0), np.empty(0), np.empty((0, 0)), np.empty((0, 0)))

    @classmethod
    def of_least(
        cls, sizes: Sequence[int], values: Sequence[float], errors: Array, gaps: Array | None = None, *,
        is_nested: bool = True, largest_first: bool = False,
    ) -> Self:  # fmt: skip
        """Return the pair with the least errors; of equal ones that of the first (largest) value, then of the size."""
        errors = or_infinite(errors)
        ranks = np.negative(values) if largest_first else np.arange(len(values))
        pairs = [(errors[i, j], ranks[j], size, j) for i, size in enumerate(sizes) for j in range(len(values))]
        _, _, size, best = min(pairs)
        gaps = np.zeros(errors.shape) if gaps is None else gaps
        tried = (np.asarray(sizes, np.float64), np.asarray(values, np.float64), errors, gaps)
        return cls(size, float(values[best]), *tried, is_nested=is_nested)


def beyond(errors: Mapping[float, float], largest: float) -> float | None:
    """Return the next value beyond the edge that errs least, at most ``largest``; None where no edge does."""
    best = Choice.of_least((0,), tuple(errors), np.asarray([list(errors.values())])).value
    if best == max(errors):
        return best * STEP if best * STEP <= largest else None
    return best / STEP if best == min(errors) else None


def edge_remark(name: str, value: float, errors: Mapping[float, float], option: str) -> list[str]:
    """Say that a choice ended on an edge of the values that were tried, where it errs less than the value next to it.

    ``option`` is where further values can be given.
    """
    tried = sorted(errors)
    if len(tried) < 2 or value not in (tried[0], tried[-1]):
        return []
    is_first = value == tried[0]
    neighbor, edge, further = (tried[1], "smallest", "smaller") if is_first else (tried[-2], "largest", "larger")
    if errors[neighbor] <= errors[value]:
        return []
    return [
        f"{name} = {value:g} errs least on rows held out, and is the {edge} value that was tried: {further} ones may "
        f"err less still. Give some in {option}."
    ]


@dataclass(frozen=True)
class FoldGrid:
    """The fits of m models, for every candidate and every fold that is held out: candidates x folds x m of them."""

    values: Array  # (fits,): the candidate of each fit
    terms: FoldTerms  # label terms of the rows for all fits
    shape: tuple[int, int, int]  # numbers of candidates, folds and models
    per_row: int = 0  # bytes that a sweep keeps of a row for each fit

    @classmethod
    def of(cls, terms: FoldTerms, candidates: Sequence[float] | Array, n_folds: int, *, per_row: int = 0) -> Self:
        """Return the grid for models with these label terms, from which no fold is held out yet."""
        axes = np.asarray(candidates, np.float64), np.arange(n_folds), np.arange(len(terms.held_out))
        of_fits: list[Any] = [axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")]
        values, held_out, models = of_fits
        terms = replace(terms.only(models), held_out=held_out)  # type: ignore[type-var]
        return cls(values, terms, (len(axes[0]), n_folds, len(axes[2])), per_row)

    def errors(self, working: WorkingRows, coef: Array, intercept: Array) -> Array:
        """Return the errors of every candidate in held-out rows: wrong ones, or squared errors of targets.

        They are infinite where an output is not finite. ``coef`` (fits, r) and ``intercept`` (fits,), in working
        coordinates, are from fits to the rows that are not held out.
        """
        rows = working.sweeper.rows
        task = partial(
            self._errors_of, coef=coef, intercept=intercept, units=working.units(), sparse=working.sweeper.keeps_sparse
        )
        spans = sweep_spans(rows.dataset, self.per_row * len(self.values))
        rows.begins("held-out", rows.dataset.n_bytes)
        return or_infinite(rows.run(OnRows(rows.dataset, task), spans, operator.add, "held-out", kept=False))

    def _errors_of(
        self, dataset: Dataset, span: Span, *, coef: Array, intercept: Array, units: RowUnits, sparse: bool
    ) -> Array:
        """Add up the errors of each candidate in rows of a span whose fold is held out."""
        errors = np.zeros(self.shape[0])
        for batch in read_batches(dataset, span, sparse=sparse, by_blocks=True):
            count, folds = self.terms.error_counter(batch, self.shape[2]), self.terms.folds_of(batch)
            for block, rows in units.blocks(batch, BLOCK_ROWS):
                scores = (rows.images(coef).T + intercept).reshape(-1, *self.shape)
                scores = np.take_along_axis(scores, folds[block, None, None, None], axis=2)[:, :, 0]
                errors += np.where(np.isfinite(scores).all(axis=(0, 2)), count(block, scores), np.inf)
        return errors


def folds_of_classes(name: str, rows: Rows, unlabelled: int = -1) -> int:
    """Return the number of folds for the classes of rows, but for the one of the number ``unlabelled``.

    ``name`` is that of the parameter to be chosen. Raises InputError where a class has a single row, or rows of a
    single group, which cannot be held out.
    """
    most = most_folds(rows)
    n_folds = min(MAX_FOLDS, int((np.delete(most, unlabelled) if unlabelled >= 0 else most).min()))
    if n_folds < 2:
        single = "a single row" if rows.groups is None else "rows of a single group"
        raise InputError(
            f"{name}='auto' holds rows of every class out, and a class has {single}: give {name} as a number."
        )
    return n_folds


def training_statistics(rows: Rows, n_folds: int, needs: Needs, whole: Statistics) -> Iterator[Statistics] | None:
    """Return what is needed of the rows that train, fold by fold, given the statistics of all rows.

    Moments of the folds come from one pass where they suffice; else rows are taken into memory. None where there are
    too many of them.
    """
    if _moments_suffice(rows, n_folds, needs, whole):
        return _from_moments(rows, n_folds, whole)
    if isinstance(whole, RowSpaceStatistics) or rows.dataset.n_bytes <= LIMITS.direct_bytes:
        return _from_rows(rows, n_folds, needs, whole)
    return None


def _moments_suffice(rows: Rows, n_folds: int, needs: Needs, whole: Statistics) -> bool:
    dataset, census = rows.dataset, rows.census
    if needs.searches or needs.swept or needs.medians or whole.approximation is not None:
        return False
    training = dataset.n_rows - -(-dataset.n_rows // n_folds) - len(census.classes)  # at least
    return training >= dataset.n_features and not use_pooled(len(census.classes) * n_folds, dataset.n_features)


def _from_moments(rows: Rows, n_folds: int, whole: Statistics) -> Iterator[Statistics]:
    rows = replace(rows, checkpoint=None)
    parts = class_fold_moments(widened_by_targets(rows), folds_of(rows, n_folds), precision=whole.precision)
    for moments in training_moments(parts):
        yield tall_statistics(moments, None, precision=whole.precision, standardize=whole.scale is not None)


def _from_rows(rows: Rows, n_folds: int, needs: Needs, whole: Statistics) -> Iterator[Statistics]:
    uri, targets, batch = rows.dataset.uri, rows.dataset.targets, collect_rows(rows.dataset, rows.spans, rows)
    folds = folds_of(rows, n_folds).of_rows(batch.codes(rows.census.classes), 0)
    for fold in range(n_folds):
        kept = folds != fold
        some = batch.take(kept)
        part = rows_in_memory(batch.X[kept], None if targets else some.label, uri)
        part = with_targets(part, some.targets, targets) if targets else part
        training = widened_by_targets(Rows.of(part, Threads(), scratch=rows.scratch))
        yield statistics_for(
            training, needs, SolverOptions(), precision=whole.precision, standardize=whole.scale is not None
        )
