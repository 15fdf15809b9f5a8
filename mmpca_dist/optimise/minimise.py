"""`minimise`: the one entrance to the fits of linear models with a projection penalty, each kind by its own passes.

| loss | penalty | by |
| --- | --- | --- |
| squared | l2 | the sums of one pass, whatever the number of alphas and reductions: `squares` |
| logistic, squared hinge | l2 | Newton's method and BFGS: `newton`, `descent` |
| squared, logistic, squared hinge | l1 | the proximal Newton method: `proximal_newton` |
| hinge | both | interior points whose rows move apart: `interior_point` |
| hinge, squared hinge: models that stall | both | interior points whose rows all stay positive: `interior_point` |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.optimise.interior_point import HingeFit, HingeSweep
from mmpca_dist.optimise.interior_rows import INTERIORS
from mmpca_dist.optimise.loss_sums import LOSSES, SumLosses
from mmpca_dist.optimise.model_sweeps import Minimum, ModelFit, ModelSweep
from mmpca_dist.optimise.newton import LinearFit, NewtonSweep
from mmpca_dist.optimise.penalties import SparsePenalty
from mmpca_dist.optimise.proximal_newton import SparseSweep
from mmpca_dist.optimise.squares import squares_by_fold
from mmpca_dist.passes.centred_rows import Array
from mmpca_dist.passes.label_terms import FoldTerms
from mmpca_dist.passes.sweeps import OnePass, SweepsTogether
from mmpca_dist.statistics.row_space import WorkingRows
from mmpca_dist.statistics.scatters import total_scatter

HESSIAN_BYTES = 256 << 20
"""Second derivatives of the models that are fitted together, at most, unless they are of a single one."""
MAX_HINGES, MAX_SMOOTH = 64, 1024
"""Models that are fitted together, at most: of hinge losses each keeps up to four numbers a row."""
LARGEST_HESSIAN = 64 << 20
"""Models whose second derivatives take more do without them, where they can."""
WIDEST = 8192
"""Columns of models that cannot: hinge losses, and absolute values."""
SMALL = 1e-6
"""Share of the largest coefficient that an interior point leaves of zeros, at most."""
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Models:
    """Models to be fitted that share a penalty."""

    penalty: Any  # SparsePenalty for l1, SubspacePenalty for l2
    terms: FoldTerms  # label terms of the rows for each model
    alphas: Array  # (m,)
    place: NDArray[np.intp] | None = None  # (m,): their numbers in a grid of fits

    def only(self, models: slice | NDArray[np.intp]) -> Models:
        """Return some of the models."""
        return Models(self.penalty, self.terms.only(models), self.alphas[models])


SweepOf = Callable[[str, Models], tuple[ModelSweep[Any, Any], ModelFit]]
"""Returns the passes by a name that fit models, and where these start."""


@dataclass(frozen=True)
class Problem:
    """Minimise sum_i L(a_i - b_i (w^T x_i + b)) + alpha J for every model, in passes over rows."""

    rows: WorkingRows
    name: str  # of the passes
    loss: str  # one of `LOSSES`
    models: Sequence[Models]  # all with a penalty of the same kind
    once: FoldTerms  # label terms of all models of a fold, fold by fold
    has_intercept: bool
    tol: float  # relative gaps at which models are done
    max_iter: int

    @property
    def is_sparse(self) -> bool:
        """Whether the penalty has absolute values."""
        return isinstance(self.models[0].penalty, SparsePenalty)

    def with_stalled(self, minima: list[Minimum]) -> list[Minimum]:
        """Return minima with those of stalled models by interior points whose rows all stay positive."""
        left = {
            i: np.flatnonzero(each.gaps > self.tol)
            for i, each in enumerate(minima)
            if each.longest < self.max_iter and (each.gaps > self.tol).any()
        }
        if not left:
            return minima
        rest = replace(
            self, name=f"{self.name}-inside", models=[self.models[i].only(some) for i, some in left.items()],
            max_iter=self.max_iter - max(minima[i].longest for i in left),
        )  # fmt: skip
        for (i, some), others in zip(left.items(), rest.in_turns(rest.interior, MAX_HINGES), strict=True):
            minima[i] = minima[i].followed_by(others, some)
        return minima

    def in_turns(self, sweep_of: SweepOf, most: int) -> list[Minimum]:
        """Return the minima by the sweeps that ``sweep_of`` returns, each for at most ``most`` models."""
        size = most_together(self.rows.width + 1, most)
        pieces = [
            (number, some.only(slice(start, start + size)))
            for number, some in enumerate(self.models)
            for start in range(0, len(some.alphas), size)
        ]
        turns, minima = _turns(pieces, size), [list[Minimum]() for _ in self.models]
        for turn, together in enumerate(turns, 1):
            job = f"{self.name}-{turn}" if len(turns) > 1 else self.name
            fits = self._in_passes([some for _, some in together], sweep_of, job)
            for (number, _), minimum in zip(together, fits, strict=True):
                minima[number].append(minimum)
        return [Minimum.joined(parts) for parts in minima]

    def _in_passes(self, models: Sequence[Models], sweep_of: SweepOf, name: str) -> list[Minimum]:
        """Fit models in passes that they share."""
        sweeps, starts = zip(*(sweep_of(name, some) for some in models), strict=True)
        fitted = self.rows.sweeper.run(SweepsTogether(name, sweeps), tuple(starts))
        fits: list[Any] = list(fitted)
        for number, (some, sweep) in enumerate(zip(models, sweeps, strict=True)):
            if isinstance(sweep, HingeSweep) and self.is_sparse:
                fits[number] = self._with_zeros(f"{name}-zeros-{number + 1}", some, fits[number])
        return [Minimum.of(fitted) for fitted in fits]

    def _shared(self, name: str, models: Models) -> dict[str, Any]:
        """Return what all kinds of passes for models are made of."""
        return {
            "name": name, "penalty": models.penalty, "alphas": models.alphas, "terms": models.terms,
            "units": self.rows.units(),
            "has_intercept": self.has_intercept, "tol": self.tol, "max_iter": self.max_iter,
        }  # fmt: skip

    def interior(self, name: str, models: Models, *, apart: bool = False) -> tuple[HingeSweep, HingeFit]:
        """Return the passes of interior points for models, whose rows may move apart, and where these start."""
        shared = self._shared(name, models)
        if self.is_sparse:
            shared["tol"] /= 10  # setting to zero what tends to it costs some
        sweep = HingeSweep(kind=INTERIORS[self.loss], apart=apart, ends_stalled=apart, **shared)
        return sweep, HingeFit.start_at(models.penalty, models.alphas)

    def smooth(self, name: str, models: Models) -> tuple[NewtonSweep, LinearFit]:
        """Return the passes of Newton's method for models of a smooth loss, and where these start."""
        loss, is_hinge = LOSSES[self.loss], self.loss in INTERIORS
        settings = {"loss": loss, "ends_stalled": is_hinge, **self._shared(name, models)}
        start = np.zeros((len(models.alphas), models.penalty.n_parameters + 1))
        if self.is_sparse:
            return SparseSweep(**settings), LinearFit.start_at(start)
        with_hessian = 8 * start.shape[1] ** 2 <= LARGEST_HESSIAN or is_hinge
        if models.penalty.is_free and not with_hessian:
            raise InputError(
                f"epsilon=0 with {start.shape[1] - 1:,} columns: nothing would tell how near the minimum is. "
                "Set epsilon above 0."
            )
        metric = self._metric(models) if with_hessian and loss.renewal > 1 else None
        return NewtonSweep(with_hessian=with_hessian, **settings), LinearFit.start_at(start, metric)

    def _with_zeros(self, name: str, models: Models, fitted: HingeFit) -> HingeFit:
        """Return the models with zeros for parameters that tend to zero; their objectives take a pass."""
        (m, _), penalty = fitted.best.shape, models.penalty
        sparse = penalty.n_sparse
        size = np.maximum(np.abs(fitted.best[:, :sparse]).max(axis=1, keepdims=True), TINY)
        small = np.abs(fitted.best[:, :sparse]) < SMALL * size
        tried = np.concatenate([fitted.best, fitted.best])
        tried[:, :sparse][np.concatenate([penalty.tends_to_zero(models.alphas, fitted.parts, size), small])] = 0
        step = SumLosses(
            penalty.coefficients(tried[:, :-1]), tried[:, -1], LOSSES[self.loss], models.terms,
            np.tile(np.arange(m), 2), self.rows.units(), np.empty(0, np.intp),
        )  # fmt: skip
        sums = self.rows.sweeper.run(OnePass(name, step), None)
        assert sums is not None  # noqa: S101  (it has passed)
        objectives = sums.loss + np.tile(models.alphas, 2) * penalty.values(tried[:, :-1])
        best, objective = fitted.best, fitted.objective
        for kind in (slice(m, 2 * m), slice(0, m)):  # the one with more zeros last
            is_good = objectives[kind] - fitted.objective <= self.tol * np.maximum(fitted.objective, TINY) / 2
            best = np.where(is_good[:, None], tried[kind], best)
            objective = np.where(is_good, objectives[kind], objective)
        return replace(fitted, best=best, objective=objective, n_passes=fitted.n_passes + 1)

    def _metric(self, models: Models) -> Array | None:
        """Return second derivatives at zero from the moments of all rows, those of held-out folds included."""
        statistics = self.rows.statistics
        if statistics.approximation is not None or self.rows.is_uncentred:
            return None
        n, r = statistics.moments.total, models.penalty.n_parameters
        scatter = total_scatter(statistics.moments).dense(statistics.moments)
        curvature = float(LOSSES[self.loss].values(np.ones(1)).curvature[0]) * n
        metric = np.zeros((len(models.alphas), r + 1, r + 1))
        metric[:, : len(scatter), : len(scatter)] = curvature * scatter
        metric[:, :r, :r] += 2 * models.alphas[:, None, None] * models.penalty.matrix()
        metric[:, r, r] = curvature
        return metric


def minimise(problem: Problem) -> list[Minimum]:
    """Return the minimum of each of the problem's models.

    As many models share their passes as second derivatives of which fit in memory. Raises InputError for more columns
    than the loss or the penalty allows, and where nothing would tell how near a minimum is.
    """
    is_hinge, d = problem.loss in INTERIORS, problem.rows.width
    if (is_hinge or problem.is_sparse) and d + 1 > WIDEST:
        what = f"loss={problem.loss!r}" if is_hinge else "penalty='l1'"
        raise InputError(
            f"{what} takes a matrix of {d:,} x {d:,} a model; {WIDEST:,} columns are the most. Use the logistic "
            "loss with penalty='l2', or choose columns first."
        )
    if problem.loss == "squared" and not problem.is_sparse:
        return _least_squares(problem)
    if problem.loss == "hinge":
        minima = problem.in_turns(partial(problem.interior, apart=True), MAX_HINGES)
    else:
        minima = problem.in_turns(problem.smooth, MAX_SMOOTH)
    return problem.with_stalled(minima) if is_hinge else minima


def most_together(width: int, most: int) -> int:
    """Return how many models are fitted together, of ``width`` parameters each, ``most`` at most."""
    return min(max(1, HESSIAN_BYTES // (8 * width**2)), most)


def _least_squares(problem: Problem) -> list[Minimum]:
    """Return the minima from the sums of one pass over the rows that train; models come by alpha, then by fold."""
    folds, minima = squares_by_fold(problem.rows, problem.name, problem.once), []
    settings = {"has_intercept": problem.has_intercept, "is_rotated": problem.rows.basis is not None}
    for models in problem.models:
        alphas = np.array([*dict.fromkeys(models.alphas.tolist())])
        by_fold = [
            folds[fold].minimum(models.penalty, alphas, **settings)
            for fold in dict.fromkeys(models.terms.held_out.tolist())
        ]
        minima.append(replace(Minimum.joined([*chain.from_iterable(zip(*by_fold, strict=True))]), n_passes=1))
    return minima


def _turns(pieces: Sequence[tuple[int, Models]], size: int) -> list[list[tuple[int, Models]]]:
    """Return pieces in a row, as many together as have at most ``size`` models."""
    turns: list[list[tuple[int, Models]]] = [[]]
    for piece in pieces:
        if turns[-1] and sum(len(some.alphas) for _, some in [*turns[-1], piece]) > size:
            turns.append([])
        turns[-1].append(piece)
    return turns
