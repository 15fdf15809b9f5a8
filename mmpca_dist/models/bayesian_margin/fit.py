"""The fit of BM2PCA by sweeps: where it starts, for which classes, and the choice of C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.eigen.certificate import ritz_pairs
from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.choice_by_folds import MAX_FOLDS, STEP, Choice, FoldGrid, beyond, folds_of_classes
from mmpca_dist.models.bayesian_margin.posterior import PRIOR, Array, Constants, Posterior, Prior, transposed
from mmpca_dist.models.bayesian_margin.sweep import MarginSweep, SweptVariants
from mmpca_dist.passes.folds import folds_of
from mmpca_dist.passes.label_terms import ClassTerms, LabelTerms, TargetTerms
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.sweeps import Sweeper, SweptNeed
from mmpca_dist.statistics.row_space import WorkingRows
from mmpca_dist.statistics.scatters import WeightedScatter, full_rank
from mmpca_dist.statistics.working_statistics import Statistics

LARGEST_C = 1e9
"""The squares of a larger C leave no digits of the other terms."""
MAX_STEPS = 6
"""Values of C, at most, that are tried beyond the first ones."""
SMALLEST_VARIANCE = 1e-200
"""Precisions, which are its inverse, and their products must not overflow."""
FLOOR = 1e-6
"""The noise variance at the start is at least this share of the mean variance of a column."""
GROUND = 1e-2
"""Loadings at the start have at least this share of the noise variance, so that a component can leave zero."""


Start = Callable[[int], SweptVariants]
"""Returns so many variants before their first sweep."""


@storable
@dataclass(frozen=True)
class MarginModels:
    """BM2PCA of m variants, in (standardised) columns."""

    posterior: Posterior  # of rows less ``centre``
    centre: Array  # (d,)
    choice: Choice  # of C, with what ``auto`` tried in this order
    bounds: Array  # (sweeps, m): the evidence bound after every sweep, in nats
    converged: bool  # whether the last sweep raised the bounds by no more than the tolerance
    total: float  # sum of the columns' variances
    n_unlabelled: int = 0  # rows without a label


def is_label(labels: NDArray, label: str | int) -> NDArray[np.bool_]:
    """Tell which labels are a certain one, be it given as text or as a number."""
    return np.asarray([str(each) == str(label) for each in labels.tolist()], bool)


@dataclass(frozen=True)
class MarginFit(SweptNeed):
    """BM2PCA as a need: all that determines the fit but the rows and the number of components."""

    C: float | Literal["auto"] | None  # None for ``per_column`` times the number of columns
    per_column: float
    candidates: tuple[float, ...]
    """Values of C that ``auto`` tries; empty for the default, a tenth and ten times as much, and what is beyond."""
    start: str
    seed: int
    tol: float
    max_iter: int
    unlabelled: Any
    epsilon: float | None = None  # in deviations of the targets
    targets: tuple[tuple[float, float], ...] = field(default=(), compare=False)  # mean and deviation of each
    prior: Prior = PRIOR

    def fit(self, statistics: Statistics, sweeper: Sweeper, n_components: int) -> MarginModels:
        working = WorkingRows.of(statistics, sweeper)
        start, total = self._start(statistics, n_components, working)
        rows, n_unlabelled = working.sweeper.rows, 0
        default = min(self.per_column * working.n_features, LARGEST_C)
        choice = Choice.given(n_components, default if self.C is None or self.C == "auto" else self.C)
        terms: LabelTerms
        if self.epsilon is not None:
            means, deviations = np.transpose(self.targets)
            n_variants, terms = len(self.targets), TargetTerms(self.epsilon, means, deviations)
        else:
            positive, unlabelled = self._classes(rows)
            n_variants = len(positive)
            n_unlabelled = int(rows.census.sizes[unlabelled]) if unlabelled >= 0 else 0
            terms = ClassTerms(rows.census.classes, positive, unlabelled, np.full(n_variants, -1))
            if self.C == "auto":
                errors = self._errors(working, start, terms)
                choice = Choice.of_least((n_components,), tuple(errors), np.asarray([list(errors.values())]))
        sweep = self._sweep("sweep", working, terms, np.full(n_variants, choice.value))
        fitted = working.sweeper.run(sweep, start(n_variants))
        return MarginModels(
            posterior=replace(
                fitted.posterior,
                location=working.in_columns(fitted.posterior.location),
                loadings=transposed(working.in_columns(transposed(fitted.posterior.loadings))),
            ),
            centre=working.mean,
            choice=choice,
            bounds=fitted.bounds,
            converged=bool(sweep.gain(fitted) <= self.tol),
            total=total,
            n_unlabelled=n_unlabelled,
        )

    def largest(self, statistics: Statistics) -> int:
        return full_rank(statistics.moments) if statistics.approximation is None else statistics.n_features

    def state_bytes(self, n_classes: int, n_components: int, n_features: int) -> int:
        variants = 1 if n_classes == 2 and self.epsilon is None else n_classes
        if self.C == "auto":
            variants *= MAX_FOLDS * len(self.candidates or self._first(n_features))
        return 8 * variants * (1 if self.epsilon is None else 2)

    def _sweep(self, name: str, working: WorkingRows, terms: LabelTerms, C: Array) -> MarginSweep:
        constants = Constants(C, working.centre, working.n_features, self.prior)
        return MarginSweep(name, constants, terms, working.units(), self.tol, self.max_iter)

    def _classes(self, rows: Rows) -> tuple[NDArray[np.intp], int]:
        """Return the positions of the classes that variants tell from the rest, and that of rows without a class."""
        classes, missing = rows.census.classes, -1
        if self.unlabelled is not None:
            missing = next((i for i, is_none in enumerate(is_label(classes, self.unlabelled)) if is_none), -1)
        labelled = np.asarray([i for i in range(len(classes)) if i != missing], np.intp)
        if len(labelled) < 2:
            raise InputError(
                f"Apart from {self.unlabelled!r}, which stands for no label, there is only the class "
                f"{classes[labelled[0]]!s}: there must be at least two."
            )
        return (labelled[1:] if len(labelled) == 2 else labelled), missing

    def _start(self, statistics: Statistics, k: int, working: WorkingRows) -> tuple[Start, float]:
        """Return where variants start, and the sum of the columns' variances: at probabilistic PCA, or at random.

        Source: Tipping & Bishop 1999, "Probabilistic principal component analysis", section 3.2, for the former, but
        that the noise is spread over the directions in which rows can vary: of n rows at most n - 1.
        """
        moments, d = statistics.moments, statistics.n_features
        counts = moments.counts.astype(np.float64)
        scatter = WeightedScatter(np.ones(len(counts)), moments.deviations, counts, moments.total, full_rank(moments))
        pairs = ritz_pairs(statistics, scatter, min(k, full_rank(moments)))
        total, mean_variance = pairs.total, pairs.total / d
        values, rank = pairs.values, min(d, moments.n_rows - 1)
        noise = max((total - values.sum()) / max(rank - k, 1), FLOOR * mean_variance)
        if not noise > SMALLEST_VARIANCE:
            raise InputError("All rows are equal, or differ too little for their squares: there is nothing to reduce.")
        width = len(working.centre)
        loadings = np.random.default_rng(self.seed).standard_normal((width, k))
        if self.start == "random":
            loadings, noise = loadings * np.sqrt(mean_variance), mean_variance
        else:
            vectors = pairs.vectors if working.basis is not None else statistics.loadings(pairs.vectors).T
            lengths = np.sqrt(np.maximum(values - noise, GROUND * noise))
            loadings *= np.sqrt(GROUND * noise / width)  # of components beyond what the moments tell from rounding
            loadings[:, : len(values)] = 0
            loadings[: len(vectors), : len(values)] = vectors * lengths

        def start(n_variants: int) -> SweptVariants:
            repeated = np.repeat(loadings[None], n_variants, axis=0)
            posterior = Posterior.start(repeated, np.full(n_variants, 1 / noise), d, self.prior)
            return SweptVariants(posterior, None, np.empty((0, n_variants)))

        return start, total

    def _first(self, n_features: int) -> tuple[float, ...]:
        """Return the values of C that are tried first where none are given: the default, and one on each side."""
        default = min(self.per_column * n_features, LARGEST_C / STEP)
        return (default, default / STEP, default * STEP)

    def _errors(self, working: WorkingRows, start: Start, terms: ClassTerms) -> dict[float, float]:
        """Return how many rows every value of C that is tried misclassifies while they are held out.

        Where no values are given, the search goes on beyond the smallest or the largest one as long as that errs least.
        """
        n_folds = folds_of_classes("C", working.sweeper.rows, terms.unlabelled)
        terms = replace(terms, folds=folds_of(working.sweeper.rows, n_folds))
        errors: dict[float, float] = {}
        candidates: Sequence[float] = self.candidates or self._first(working.n_features)
        for number in range(1 + MAX_STEPS):
            grid = FoldGrid.of(terms, candidates, n_folds, per_row=8)
            sweep = self._sweep(f"choose-{number}" if number else "choose", working, grid.terms, grid.values)
            fitted = working.sweeper.run(sweep, start(len(grid.values)))
            wrong = grid.errors(working, *fitted.posterior.decisions(working.n_features))
            errors |= dict(zip(candidates, wrong.tolist(), strict=True))
            further = None if self.candidates else beyond(errors, LARGEST_C)
            if further is None or further in errors:
                break
            candidates = (further,)
        return errors
