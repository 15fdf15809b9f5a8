"""The fit of linear models with a projection penalty: from moments where these suffice, else in passes over rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np

from mmpca_dist.methods.base.choice_by_folds import MAX_FOLDS, Choice, FoldGrid, folds_of_classes
from mmpca_dist.models.projection_penalty.reduction import ReductionOf
from mmpca_dist.optimise.interior_rows import INTERIORS
from mmpca_dist.optimise.minimise import MAX_HINGES, Models, Problem, minimise, most_together
from mmpca_dist.optimise.penalties import Penalty, SparsePenalty, SubspacePenalty
from mmpca_dist.optimise.squares import Squares
from mmpca_dist.passes.centred_rows import Array
from mmpca_dist.passes.folds import folds_of
from mmpca_dist.passes.label_terms import ClassTerms, FoldTerms, ResidualTerms
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.sweeps import Sweeper, SweptNeed
from mmpca_dist.statistics.fold_moments import training_moments
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.row_space import WorkingRows, coordinates_of
from mmpca_dist.statistics.scatters import regression_of
from mmpca_dist.statistics.working_statistics import Statistics, tall_statistics

ROUGH = 1e-3
"""The tolerance of fits that alpha is chosen by."""


@storable
@dataclass(frozen=True)
class PenalizedModels:
    """m linear models f = (inside + outside)^T (x - mean) + intercept, in d (standardised) columns."""

    inside: Array  # (m, d): the part of the coefficients inside of the subspace of the reduction, P^T v
    outside: Array  # (m, d): w - P^T v
    weights: Array  # (m, K): v
    intercept: Array  # (m,)
    choice: Choice  # of alpha and the number of components
    objective: Array  # (m,): the minimum
    gaps: Array  # (m,): by how much it may be missed, relative to it
    n_passes: int  # over the rows, for these models
    proved: bool  # whether the gaps are finite and proved; else they are estimated

    @classmethod
    def of(cls, penalty: Penalty, parameters: Array, P: Array, basis: Array | None, **results: Any) -> Self:
        """Return the models of parameters (m, n) for a reduction P (K, d), in a basis (d, r) or in the columns."""
        weights = penalty.weights(parameters)
        outside = penalty.coefficients(parameters) - weights @ (P if basis is None else P @ basis)
        outside = outside if basis is None else outside @ basis.T
        return cls(inside=weights @ P, outside=outside, weights=weights, **results)


@dataclass(frozen=True)
class PenaltyFit(SweptNeed):
    """A projection penalty as a need: all that determines the fit but the rows and the number of components."""

    reduction: ReductionOf  # as parameters tell, or rows where they had to
    alpha: float | None  # None to choose among ``candidates``
    candidates: tuple[float, ...]
    epsilon: float
    loss: str
    penalty: str
    fit_intercept: bool
    tol: float
    max_iter: int
    sizes: tuple[int, ...] = ()  # numbers of components to choose among; empty where it is given
    targets: tuple[tuple[float, float], ...] = field(default=(), compare=False)  # mean and deviation of each

    def fit(self, statistics: Statistics, sweeper: Sweeper, n_components: int) -> PenalizedModels:
        working = WorkingRows.of(statistics, sweeper, by_column=self.penalty == "l1")
        if not self.fit_intercept:
            working = working.uncentred()
        choice = self._choice(statistics, sweeper.rows, working, self.sizes or (n_components,))
        P = self.reduction.components(statistics, choice.n_components)
        penalty = self._penalty(working, P)
        if isinstance(penalty, SubspacePenalty) and penalty.is_free and statistics.approximation is None:
            squares_of(statistics, self.fit_intercept)[0].refuse_undetermined(penalty)
        terms = self._terms(working)
        models = Models(penalty, terms, np.full(len(terms.held_out), choice.value))
        problem = Problem(working, "sweep", self.loss, [models], terms, self.fit_intercept, self.tol, self.max_iter)
        (minimum,) = minimise(problem)
        intercept = minimum.intercept  # the outputs for the mean of the rows
        if working.is_uncentred:
            intercept = intercept + penalty.coefficients(minimum.parameters) @ working.centre
        return PenalizedModels.of(
            penalty, minimum.parameters, P, working.basis,
            intercept=intercept, choice=choice,
            objective=minimum.objective, gaps=minimum.gaps, n_passes=minimum.n_passes,
            proved=(self._is_least_squares or not penalty.is_free) and bool(np.isfinite(minimum.gaps).all()),
        )  # fmt: skip

    def largest(self, statistics: Statistics) -> int:
        return self.reduction.largest(statistics.n_features)

    def _choice(self, statistics: Statistics, rows: Rows, working: WorkingRows, sizes: tuple[int, ...]) -> Choice:
        """Return the number of components and alpha with the least errors in rows held out, unless both are given."""
        if self.alpha is not None and not self.sizes:
            return Choice.given(sizes[0], self.alpha)
        name = "alpha" if self.alpha is None else "n_components"
        n_folds = min(MAX_FOLDS, rows.dataset.n_rows) if self.targets else folds_of_classes(name, rows)
        reductions, is_nested = self.reduction.by_fold(statistics, rows, n_folds, sizes)
        alphas = self._alphas
        grid = FoldGrid.of(self._terms(working, n_folds), np.tile(alphas, len(reductions)), n_folds)
        # of each size, (alphas, folds, models); a single reduction is for all folds
        numbers = np.arange(len(grid.values)).reshape(len(reductions), -1, *grid.shape[1:])
        models = [
            Models(self._penalty(working, P), grid.terms.only(place), grid.values[place], place)
            for folds, of_size in zip(reductions.values(), numbers, strict=True)
            for P, place in zip(folds, map(np.ravel, np.split(of_size, len(folds), axis=1)), strict=True)
        ]
        once = grid.terms.only(slice(0, grid.shape[1] * grid.shape[2]))
        tol = max(self.tol, ROUGH)
        minima = minimise(Problem(working, "choose", self.loss, models, once, self.fit_intercept, tol, self.max_iter))
        coef, intercept = np.empty((len(grid.values), working.width)), np.empty(len(grid.values))
        gaps = np.empty(len(grid.values))
        for some, minimum in zip(models, minima, strict=True):
            coef[some.place] = some.penalty.coefficients(minimum.parameters)
            intercept[some.place], gaps[some.place] = minimum.intercept, minimum.gaps
        errors = grid.errors(working, coef, intercept).reshape(-1, len(alphas))
        largest = gaps.reshape(*errors.shape, -1).max(axis=2)
        return Choice.of_least(tuple(reductions), alphas, errors, largest, is_nested=is_nested, largest_first=True)

    def from_moments(self, statistics: Statistics, choice: Choice) -> PenalizedModels:
        """Return the models of squared losses and a squared penalty, which moments determine."""
        P = self.reduction.components(statistics, choice.n_components)
        squares, basis = squares_of(statistics, self.fit_intercept)
        penalty = SubspacePenalty.of(P if basis is None else P @ basis, self.epsilon)
        (minimum,) = squares.minimum(
            penalty, np.array([choice.value]), has_intercept=self.fit_intercept, rounding=statistics.epsilon,
            is_rotated=basis is not None,
        )  # fmt: skip
        return PenalizedModels.of(
            penalty, minimum.parameters, P, basis,
            intercept=minimum.intercept + minimum.parameters @ squares.total / squares.n_rows, choice=choice,
            objective=minimum.objective, gaps=minimum.gaps, n_passes=1, proved=bool(np.isfinite(minimum.gaps).all()),
        )  # fmt: skip

    def choice_from_moments(self, folds: Sequence[ClassMoments], most: int, *, standardize: bool) -> Choice:
        """Return the choice, of ``most`` components at most, by squared errors in each fold of models for the others.

        Moments of the folds, whose rows have numbers to predict, suffice.
        """
        sizes, alphas = [size for size in self.sizes if size <= most] or [most], self._alphas
        errors, gaps = np.zeros((len(sizes), len(alphas))), np.zeros((len(sizes), len(alphas)))
        for held_out, training in zip(folds, training_moments(folds), strict=True):
            statistics = tall_statistics(training, precision="double", standardize=standardize)
            held_out, targets = statistics.adjusted(held_out), statistics.moments.targets
            assert held_out.targets is not None and targets is not None  # noqa: S101  (rows have numbers to predict)
            squares, _ = squares_of(statistics, self.fit_intercept)
            for number, size in enumerate(sizes):
                penalty = SubspacePenalty.of(self.reduction.components(statistics, size), self.epsilon)
                minima = squares.minimum(penalty, np.asarray(alphas), has_intercept=self.fit_intercept)
                for i, minimum in enumerate(minima):
                    coef = minimum.parameters
                    w = coef if statistics.scale is None else coef / statistics.scale
                    at_mean = minimum.intercept + coef @ squares.total / squares.n_rows
                    at_mean = at_mean + self.fit_intercept * targets.mean - w @ (statistics.mean - held_out.mean)
                    gaps[number, i] = max(gaps[number, i], minimum.gaps.max())
                    errors[number, i] += held_out.targets.squared_errors(
                        w, at_mean, held_out.scatters[0], held_out.total
                    ).sum()
        is_nested = not self.reduction.is_fitted_to_all
        return Choice.of_least(sizes, alphas, errors, gaps, is_nested=is_nested, largest_first=True)

    @property
    def _alphas(self) -> tuple[float, ...]:
        return self.candidates if self.alpha is None else (self.alpha,)

    def _terms(self, working: WorkingRows, n_folds: int = 1) -> FoldTerms:
        """Return the label terms of the models, of rows in so many folds, none of which is held out yet."""
        if self.targets:  # less their means, where there is an intercept to take these up
            means = np.array([mean if self.fit_intercept else 0.0 for mean, _ in self.targets])
            return ResidualTerms(means, np.arange(len(means)), np.full(len(means), -1), n_folds)
        rows = working.sweeper.rows
        classes = rows.census.classes
        positive = np.arange(1, 2) if len(classes) == 2 else np.arange(len(classes))  # of two the second
        folds = folds_of(rows, n_folds) if n_folds > 1 else None
        return ClassTerms(classes, positive, -1, np.full(len(positive), -1), folds)

    def _penalty(self, working: WorkingRows, P: Array) -> Penalty:
        """Return the penalty for a reduction P (K, d), which may pick appended columns, the last ones."""
        P = working.coordinates(P)
        if self.penalty == "l1":
            return SparsePenalty(P, self.epsilon, len(P) if self.reduction.appended else 0)
        return SubspacePenalty.of(P, self.epsilon)

    def state_bytes(self, n_classes: int, n_components: int, n_features: int) -> int:
        if self.loss not in INTERIORS:
            return 0
        fits = len(self.targets) or (1 if n_classes == 2 else n_classes)
        if self.alpha is None or self.sizes:
            fits *= MAX_FOLDS * len(self._alphas) * max(len(self.sizes), 1)
        return 8 * len(fields(INTERIORS[self.loss])) * min(fits, most_together(n_features + 1, MAX_HINGES))

    @property
    def _is_least_squares(self) -> bool:
        """Whether sums of one pass serve all fits."""
        return self.loss == "squared" and self.penalty == "l2"

    @property
    def takes_rows(self) -> bool:
        return (self.alpha is None or bool(self.sizes)) and self.reduction.takes_rows


def squares_of(statistics: Statistics, has_intercept: bool) -> tuple[Squares, Array | None]:
    """Return the sums for the labels -1 and +1 of every class against the rest, and the basis of their coordinates.

    With numbers to predict, those for each of these, less its mean where the models have an intercept. The mean of the
    rows stays in them without an intercept, unless they are standardised.
    """
    moments = statistics.moments
    n, regression, targets = moments.total, regression_of(moments), moments.targets
    counts = moments.counts[moments.counts > 0]
    of_labels = 1 if targets is not None or len(counts) == 2 else 2  # an indicator is half of -1 and +1
    centre, basis, _ = coordinates_of(statistics)
    scatter, cross = n * regression.scatter, n * of_labels * regression.cross.T
    if targets is None:
        moves = 2 * (counts[1:] if len(counts) == 2 else counts) - n
        squares = np.full(len(cross), n)
    else:
        moves = n * (np.zeros(len(cross)) if has_intercept else targets.mean)
        squares = np.diagonal(targets.squares) + moves**2 / n
    spare = len(centre) - len(scatter)  # coordinates of the mean, along which centred rows do not vary
    scatter, cross = np.pad(scatter, (0, spare)), np.pad(cross, ((0, 0), (0, spare)))
    mean = np.zeros_like(centre)
    if not has_intercept and statistics.scale is None:
        mean, scatter, cross = centre, scatter + n * np.outer(centre, centre), cross + np.outer(moves, centre)
    return Squares(n, scatter, n * mean, cross, moves, squares), basis
