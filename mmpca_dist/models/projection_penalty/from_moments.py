"""Projection penalties with squared losses from moments: the sums, and the models that follow from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mmpca_dist.methods.base.choice_by_folds import Choice
from mmpca_dist.models.projection_penalty.reduction import GivenReduction
from mmpca_dist.models.projection_penalty.results import PenalizedModels
from mmpca_dist.optimise.penalties import SubspacePenalty
from mmpca_dist.optimise.squares import Squares
from mmpca_dist.passes.centred_rows import Array
from mmpca_dist.statistics.coordinates import EPS, Statistics
from mmpca_dist.statistics.scatters import class_regression
from mmpca_dist.statistics.target_scatter import CrossMoments, training_folds
from mmpca_dist.statistics.working_rows import coordinates_of


def class_squares(statistics: Statistics, *, is_centred: bool) -> tuple[Squares, Array | None]:
    """Return the sums for the labels -1 and +1 of every class against the rest, and the basis of their coordinates."""
    moments = statistics.moments
    n, regression = moments.total, class_regression(moments)
    counts = moments.counts[moments.counts > 0]
    of_two = len(counts) == 2
    centre, basis, _ = coordinates_of(statistics)
    scatter, cross = n * regression.scatter, n * (1 if of_two else 2) * regression.cross.T
    moves = 2 * (counts[1:] if of_two else counts) - n
    spare = len(centre) - len(scatter)  # coordinates of the mean, along which centred rows do not vary
    scatter, cross = np.pad(scatter, (0, spare)), np.pad(cross, ((0, 0), (0, spare)))
    mean = np.zeros_like(centre)
    if not is_centred:
        mean, scatter, cross = centre, scatter + n * np.outer(centre, centre), cross + np.outer(moves, centre)
    return Squares(n, scatter, n * mean, cross, moves, np.full(len(cross), n)), basis


def target_squares(cross: CrossMoments, scale: Array | None, *, has_intercept: bool) -> Squares:
    """Return the sums for continuous targets in (scaled) columns.

    Targets of models with an intercept are less their means; so are their rows, and scaled ones in any case.
    """
    assert cross.rows is not None  # noqa: S101  (asked for)
    n, units = cross.n_rows, np.ones(len(cross.mean)) if scale is None else scale
    rows, shared, squares = (
        cross.rows / np.outer(units, units),
        (cross.scatter / units[:, None]).T,
        cross.target_squares,
    )
    nothing, no_moves = np.zeros_like(units), np.zeros(len(shared))
    if has_intercept:
        return Squares(n, rows, nothing, shared, no_moves, squares)
    targets = cross.target_mean
    if scale is not None:
        return Squares(n, rows, nothing, shared, n * targets, squares + n * targets**2)
    mean = cross.mean / units
    return Squares(
        n, rows + n * np.outer(mean, mean), n * mean, shared + n * np.outer(targets, mean), n * targets,
        squares + n * targets**2,
    )  # fmt: skip


def choice_from_folds(
    folds: Sequence[CrossMoments],
    reduced: Callable[[CrossMoments], GivenReduction],
    sizes: Sequence[int],
    alphas: Sequence[float],
    *,
    epsilon: float,
    has_intercept: bool,
    standardize: bool,
) -> Choice:
    """Return the choice by squared errors in each fold of models for the rows of the others, from moments alone.

    ``reduced`` returns the reduction that moments of training rows determine.
    """
    errors, gaps = np.zeros((len(sizes), len(alphas))), np.zeros((len(sizes), len(alphas)))
    for held_out, training in training_folds(folds):
        scale = training.scale if standardize else None
        squares = target_squares(training, scale, has_intercept=has_intercept)
        reduction = reduced(training)
        for number, size in enumerate(sizes):
            penalty = SubspacePenalty.of(reduction.matrix(len(training.mean), scale, size), epsilon)
            for i, minimum in enumerate(squares.minimum(penalty, np.asarray(alphas), has_intercept=has_intercept)):
                w = minimum.coef if scale is None else minimum.coef / scale
                at_mean = minimum.intercept + minimum.coef @ squares.total / squares.n_rows
                at_mean = at_mean + training.target_mean if has_intercept else at_mean
                gaps[number, i] = max(gaps[number, i], minimum.gaps.max())
                errors[number, i] += held_out.squared_error(w, at_mean - w @ (training.mean - held_out.mean))
    is_nested = not reduction.is_fitted_to_all
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
        penalty, minimum.coef, P, basis,
        intercept=minimum.intercept + minimum.coef @ squares.total / squares.n_rows, choice=choice,
        objective=minimum.objective, gaps=minimum.gaps, n_passes=1, proved=bool(np.isfinite(minimum.gaps).all()),
    )  # fmt: skip
