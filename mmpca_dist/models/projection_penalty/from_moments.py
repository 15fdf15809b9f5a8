"""Projection penalties with squared losses from moments: the sums, and the models that follow from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mmpca_dist.methods.base.choice_by_folds import Choice
from mmpca_dist.models.projection_penalty.reduction import GivenReduction, ReductionOf
from mmpca_dist.models.projection_penalty.results import PenalizedModels
from mmpca_dist.optimise.penalties import SubspacePenalty
from mmpca_dist.optimise.squares import Squares
from mmpca_dist.passes.centred_rows import Array
from mmpca_dist.statistics.coordinates import EPS, Statistics, tall_statistics
from mmpca_dist.statistics.fold_moments import training_moments
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.scatters import regression_of
from mmpca_dist.statistics.working_rows import coordinates_of


def squares_of(statistics: Statistics, *, is_centred: bool, has_intercept: bool) -> tuple[Squares, Array | None]:
    """Return the sums for the labels -1 and +1 of every class against the rest, and the basis of their coordinates.

    With numbers to predict, those for each of these, less its mean where the models have an intercept.
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
    if not is_centred:
        mean, scatter, cross = centre, scatter + n * np.outer(centre, centre), cross + np.outer(moves, centre)
    return Squares(n, scatter, n * mean, cross, moves, squares), basis


def choice_from_folds(
    folds: Sequence[ClassMoments],
    reduction: ReductionOf,
    sizes: Sequence[int],
    alphas: Sequence[float],
    *,
    epsilon: float,
    has_intercept: bool,
    standardize: bool,
) -> Choice:
    """Return the choice by squared errors in each fold of models for the rows of the others, from moments alone."""
    errors, gaps = np.zeros((len(sizes), len(alphas))), np.zeros((len(sizes), len(alphas)))
    for held_out, training in zip(folds, training_moments(folds), strict=True):
        statistics = tall_statistics(training, precision="double", standardize=standardize)
        held_out, targets = statistics.adjusted(held_out), statistics.moments.targets
        assert held_out.targets is not None and targets is not None  # noqa: S101  (rows have numbers to predict)
        squares, _ = squares_of(statistics, is_centred=has_intercept or standardize, has_intercept=has_intercept)
        for number, size in enumerate(sizes):
            penalty = SubspacePenalty.of(reduction.components(statistics, size), epsilon)
            for i, minimum in enumerate(squares.minimum(penalty, np.asarray(alphas), has_intercept=has_intercept)):
                w = minimum.parameters if statistics.scale is None else minimum.parameters / statistics.scale
                at_mean = minimum.intercept + minimum.parameters @ squares.total / squares.n_rows
                at_mean = at_mean + has_intercept * targets.mean - w @ (statistics.mean - held_out.mean)
                gaps[number, i] = max(gaps[number, i], minimum.gaps.max())
                errors[number, i] += held_out.targets.squared_errors(
                    w, at_mean, held_out.scatters[0], held_out.total
                ).sum()
    is_nested = not (isinstance(reduction, GivenReduction) and reduction.is_fitted_to_all)
    return Choice.of_least(sizes, alphas, errors, gaps, is_nested=is_nested, largest_first=True)


def models_of_squares(
    squares: Squares,
    P: Array,
    basis: Array | None,
    *,
    choice: Choice,
    epsilon: float,
    has_intercept: bool,
    rounding: float = EPS,
) -> PenalizedModels:
    """Return the models of squared losses for a reduction P (K, d), given sums in a basis, or else in the columns."""
    penalty = SubspacePenalty.of(P if basis is None else P @ basis, epsilon)
    (minimum,) = squares.minimum(
        penalty, np.array([choice.value]), has_intercept=has_intercept, rounding=rounding, is_rotated=basis is not None
    )
    return PenalizedModels.of(
        penalty, minimum.parameters, P, basis,
        intercept=minimum.intercept + minimum.parameters @ squares.total / squares.n_rows, choice=choice,
        objective=minimum.objective, gaps=minimum.gaps, n_passes=1, proved=bool(np.isfinite(minimum.gaps).all()),
    )  # fmt: skip
