"""The fit of BM2PCA by sweeps: where it starts, for which classes, and the choice of C."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.dataset import Dataset, Span
from mmpca_dist.datasets.labels import encode
from mmpca_dist.errors import InputError
from mmpca_dist.solvers.ritz import ritz_pairs
from mmpca_dist.statistics.census import count_labels
from mmpca_dist.statistics.coordinates import SpanStatistics, Statistics
from mmpca_dist.statistics.gather import rows_in_span
from mmpca_dist.statistics.margin_posterior import Array, Posterior, Setting
from mmpca_dist.statistics.margin_rows import BLOCK_ROWS, RowUnits, block_rows
from mmpca_dist.statistics.margin_sweep import ClassTerms, Fitted, LabelTerms, MarginSweep, TargetTerms
from mmpca_dist.statistics.rows import Rows
from mmpca_dist.statistics.scatters import WeightedScatter, full_rank
from mmpca_dist.statistics.serialization import storable
from mmpca_dist.statistics.sweeps import Sweeper, SweepRound, SweptNeed, sweep_spans
from mmpca_dist.statistics.units import read_units

MOST_FOLDS = 5
"""Of the choice of C; fewer where a class has fewer rows."""
EXPECTED = 15
"""Sweeps that a fit usually takes: 3 to 30 were seen."""
ARRAYS = 12
"""Arrays of latent coordinates that coexist while a block of rows is updated."""
SMALLEST_VARIANCE = 1e-200
"""Precisions, which are its inverse, and their products must not overflow."""
FLOOR = 1e-6
"""The noise variance at the start is at least this share of the mean variance of a column."""
GROUND = 1e-2
"""Loadings at the start have at least this share of the noise variance, lest a component never leaves zero."""


@storable
@dataclass(frozen=True)
class MarginModels:
    """BM2PCA of m variants, in (standardised) columns.

    Attributes
    ----------
    posterior : Posterior
        Of rows less ``centre``.
    centre : array of shape (d,)
    C : float
    bounds : array of shape (sweeps, m)
        The evidence bound after every sweep, in nats.
    converged : bool
        Whether the last sweep raised the bounds by no more than the tolerance.
    candidates, errors : arrays of shape (candidates,)
        Values of C that were tried, and rows that were misclassified while they were held out; empty for a given C.
    total : float
        Sum of the columns' variances.
    n_unlabelled : int
        Rows without a label.
    """

    posterior: Posterior
    centre: Array
    C: float
    bounds: Array
    converged: bool
    candidates: Array
    errors: Array
    total: float
    n_unlabelled: int = 0


def is_label(labels: NDArray, label: str | int) -> NDArray[np.bool_]:
    """Tell which labels are a certain one, be it given as text or as a number."""
    return np.asarray([str(each) == str(label) for each in labels.tolist()], bool)


@dataclass(frozen=True)
class MarginFit(SweptNeed):
    """BM2PCA as a need: all that determines the fit beside the rows and the number of components."""

    C: float | None
    candidates: tuple[float, ...]
    start: str
    seed: int
    tolerance: float
    max_sweeps: int
    unlabelled: Any
    epsilon: float | None = None
    targets: tuple[tuple[float, float], ...] = ()
    """Mean and deviation of each target, where they are continuous; ``epsilon`` is in deviations."""

    def fit(self, statistics: Statistics, sweeper: Sweeper, n_components: int) -> MarginModels:
        working = _Working.of(statistics, sweeper, targets=self.epsilon is not None)
        start = self._start(statistics, n_components, working)
        rows, C, n_unlabelled = working.sweeper.rows, self.C, 0
        errors: Array = np.empty(0)
        terms: LabelTerms
        if self.epsilon is not None:
            means, deviations = np.transpose(self.targets)
            n_variants, terms = len(self.targets), TargetTerms(self.epsilon, means, deviations)
        else:
            positive, unlabelled = self._classes(rows)
            n_variants = len(positive)
            n_unlabelled = int(rows.census.counts[unlabelled]) if unlabelled >= 0 else 0
            terms = ClassTerms(rows.census.classes, positive, unlabelled, np.full(n_variants, -1), 1, {})
            if C is None:
                errors = self._errors(working, start, positive, unlabelled)
                C = min(zip(errors.tolist(), self.candidates, strict=True))[1]  # of equal errors the smallest
        assert C is not None  # noqa: S101  (estimators of targets have one)
        sweep = self._sweep("sweep", working, terms, np.full(n_variants, C))
        fitted = working.sweeper.run(sweep, start.fitted(n_variants))
        return MarginModels(
            posterior=working.in_columns(fitted.posterior),
            centre=working.mean,
            C=float(C),
            bounds=fitted.bounds,
            converged=fitted.gain <= self.tolerance,
            candidates=np.asarray(self.candidates if len(errors) else (), np.float64),
            errors=np.asarray(errors, np.float64),
            total=start.total,
            n_unlabelled=n_unlabelled,
        )

    def rounds(self, n_classes: int, n_components: int) -> list[SweepRound]:
        variants = 1 if n_classes == 2 and self.epsilon is None else n_classes
        tried = [variants * len(self.candidates) * MOST_FOLDS] if self.C is None else []
        return [self._round(count, n_components) for count in [*tried, variants]]

    def _round(self, variants: int, k: int) -> SweepRound:
        columns, square = variants * k, variants * (k + 1) ** 2
        return SweepRound(
            most=self.max_sweeps,
            expected=min(self.max_sweeps, EXPECTED),
            columns=columns,
            state_bytes=8 * variants * (1 if self.epsilon is None else 2),
            sum_bytes=3 * 8 * square,
            block_bytes=8 * (ARRAYS * block_rows(columns) * (columns + 4 * variants) + 6 * square),
            row_operations=10.0 * square + 1500.0 * columns,  # visits of values, slow beside products
        )

    def _sweep(self, name: str, working: _Working, terms: LabelTerms, C: Array) -> MarginSweep:
        setting = Setting(C, working.centre, working.n_features)
        return MarginSweep(name, setting, terms, working.units(), self.tolerance, self.max_sweeps, working.keeps_sparse)

    def _classes(self, rows: Rows) -> tuple[NDArray[np.intp], int]:
        """Return the positions of the classes that variants tell from the rest, and that of rows without a class."""
        classes, missing = rows.census.classes, -1
        if self.unlabelled is not None:
            missing = next((i for i, is_none in enumerate(is_label(classes, self.unlabelled)) if is_none), -1)
        labelled = np.asarray([i for i in range(len(classes)) if i != missing], np.intp)
        if len(labelled) < 2:
            raise InputError(
                f"Beside {self.unlabelled!r}, which stands for no label, there is only the class "
                f"{classes[labelled[0]]!s}: there must be at least two."
            )
        return (labelled[1:] if len(labelled) == 2 else labelled), missing

    def _start(self, statistics: Statistics, k: int, working: _Working) -> _Start:
        """Return the loadings and noise of probabilistic PCA, or random ones.

        Source: Tipping & Bishop 1999, "Probabilistic principal component analysis", section 3.2, for the former, but
        that the noise is spread over the directions in which rows can vary: of n rows at most n - 1.
        """
        moments, d = statistics.moments, statistics.n_features
        counts = moments.counts.astype(np.float64)
        scatter = WeightedScatter(
            np.ones(len(counts)), moments.deviations, counts, float(moments.n_rows), full_rank(moments)
        )
        pairs = ritz_pairs(statistics, scatter, min(k, full_rank(moments)))
        total, mean_variance = pairs.total, pairs.total / d
        values, rank = pairs.values, min(d, moments.n_rows - 1)
        noise = max((total - values.sum()) / max(rank - k, 1), FLOOR * mean_variance)
        if not noise > SMALLEST_VARIANCE:
            raise InputError("All rows are equal, or differ too little for their squares: there is nothing to reduce.")
        width = len(working.centre)
        loadings = np.random.default_rng(self.seed).standard_normal((width, k))
        if self.start == "random":
            return _Start(loadings * np.sqrt(mean_variance), 1 / mean_variance, total, d)
        vectors = pairs.vectors if working.basis is not None else statistics.loadings(pairs.vectors).T
        lengths = np.sqrt(np.maximum(values - noise, GROUND * noise))
        loadings *= np.sqrt(GROUND * noise / width)  # of components beyond what the moments tell from rounding
        loadings[:, : len(values)] = 0
        loadings[: len(vectors), : len(values)] = vectors * lengths
        return _Start(loadings, 1 / noise, total, d)

    def _errors(
        self, working: _Working, start: _Start, positive: NDArray[np.intp], unlabelled: int
    ) -> NDArray[np.int64]:
        """Return how many rows every candidate for C misclassifies while they are held out."""
        rows, dataset = working.sweeper.rows, working.sweeper.rows.dataset
        counts = np.delete(rows.census.counts, unlabelled) if unlabelled >= 0 else rows.census.counts
        n_folds = min(MOST_FOLDS, int(counts.min()))
        if n_folds < 2:
            raise InputError(
                "C='auto' holds rows of every class out, and a class has a single row: give C as a number."
            )
        n_classes, grid = len(positive), len(self.candidates)
        shape = (grid, n_folds, n_classes)
        C, held_out, of_class = (
            np.broadcast_to(axis, shape).ravel()
            for axis in (
                np.asarray(self.candidates)[:, None, None],
                np.arange(n_folds)[None, :, None],
                positive[None, None, :],
            )
        )
        per_row = 8 * len(C)
        spans = sweep_spans(dataset, per_row)
        census = count_labels(dataset, spans, replace(rows, progress=None, checkpoint=None))
        before = _counts_before(census.units, rows.census.classes)
        terms = ClassTerms(rows.census.classes, of_class, unlabelled, held_out, n_folds, before)
        sweep = self._sweep("choose", working, terms, C.astype(np.float64))
        fitted = working.sweeper.run(sweep, start.fitted(len(C)))
        coef, intercept = fitted.posterior.decisions(working.n_features)
        task = _HeldOutErrors(dataset, terms, coef, intercept, working.units(), shape, working.keeps_sparse)
        rows.begins("held-out", dataset.n_bytes)
        return rows.run(task, spans, operator.add, "held-out", kept=False)


@dataclass(frozen=True)
class _Start:
    """Loadings (r, k), noise precision, and the sum of the columns' variances."""

    loadings: Array
    noise: float
    total: float
    n_features: int

    def fitted(self, n_variants: int) -> Fitted:
        """Return variants before their first sweep."""
        loadings = np.repeat(self.loadings[None], n_variants, axis=0)
        posterior = Posterior.start(loadings, np.full(n_variants, self.noise), self.n_features)
        return Fitted(posterior, None, np.empty((0, n_variants)))


def _counts_before(units: Sequence[Any], classes: NDArray) -> dict[int, NDArray[np.int64]]:
    """Return, by the first row of each unit, how many rows of every class come before it."""
    counts, before = np.zeros(len(classes), np.int64), {}
    for start, _, labels, numbers in sorted(units, key=lambda unit: unit[0]):
        before[start] = counts.copy()
        counts[np.searchsorted(classes, labels)] += numbers
    return before


@dataclass(frozen=True)
class _HeldOutErrors:
    """The task: count the rows that the variants of each candidate misclassify while their fold is held out."""

    dataset: Dataset
    terms: ClassTerms
    coef: Array
    intercept: Array
    units: RowUnits
    shape: tuple[int, int, int]
    sparse: bool

    def __call__(self, span: Span) -> NDArray[np.int64]:
        errors = np.zeros(self.shape[0], np.int64)
        positive = self.terms.positive[: self.shape[2]]
        for start, X in read_units(self.dataset, span, sparse=self.sparse):
            codes = encode(self.dataset.read_labels(start, start + X.shape[0]), self.terms.classes, self.dataset.uri)
            folds = self.terms.folds(codes, start)
            assert folds is not None  # noqa: S101  (there are folds to choose by)
            for first in range(0, len(codes), BLOCK_ROWS):
                block = slice(first, first + BLOCK_ROWS)
                scores = (self.units(X[block]).images(self.coef).T + self.intercept).reshape(-1, *self.shape)
                scores = np.take_along_axis(scores, folds[block, None, None, None], axis=2)[:, :, 0]
                if len(positive) == 1:
                    is_right = (scores[:, :, 0] > 0) == (codes[block] == positive[0])[:, None]
                else:
                    is_right = positive[scores.argmax(axis=2)] == codes[block, None]
                errors += np.count_nonzero(~is_right[codes[block] != self.terms.unlabelled], axis=0)
        return errors


@dataclass(frozen=True)
class _Working:
    """The coordinates that sweeps work in: the columns, or those in the span of few rows and of their mean.

    Attributes
    ----------
    centre : array of shape (r,)
        What is subtracted from rows, in working coordinates and (standardised) units: the prior of the location is
        about it.
    origin : array of shape (r,)
        What has yet to be subtracted from rows as they are read, in their units.
    scale : array of shape (d,) or None
        Standard deviations that rows have yet to be divided by.
    basis : array of shape (d, r) or None
    mean : array of shape (d,)
        ``centre`` in the columns.
    keeps_sparse : bool
        Whether CSR rows are read as they are: where solvers in passes do so. Else their bits are those of dense rows.
    """

    sweeper: Sweeper
    centre: Array
    origin: Array
    scale: Array | None
    basis: Array | None
    mean: Array
    keeps_sparse: bool = False

    @classmethod
    def of(cls, statistics: Statistics, sweeper: Sweeper, *, targets: bool) -> Self:
        mean = statistics.mean if statistics.scale is None else statistics.mean / statistics.scale
        if not isinstance(statistics, SpanStatistics):
            sparse = sweeper.rows.dataset.sparse and statistics.approximation is not None
            return cls(sweeper, mean, statistics.mean, statistics.scale, None, mean, sparse)
        inside = statistics.basis.T @ mean
        outside = mean - statistics.basis @ inside
        length = float(np.linalg.norm(outside))
        basis = np.column_stack([statistics.basis, outside / length if length > 0 else outside])
        rows = rows_in_span(statistics, sweeper.rows, extra=1, targets=targets)
        centre = np.append(inside, length)
        return cls(replace(sweeper, rows=rows), centre, np.zeros_like(centre), None, basis, mean)

    @property
    def n_features(self) -> int:
        return len(self.mean)

    def units(self) -> RowUnits:
        """Return what brings rows as they are read to working units."""
        return RowUnits(self.origin, self.scale)

    def in_columns(self, posterior: Posterior) -> Posterior:
        if self.basis is None:
            return posterior
        return replace(posterior, location=posterior.location @ self.basis.T, loadings=self.basis @ posterior.loadings)
