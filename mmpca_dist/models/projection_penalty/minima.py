"""The minima of linear models with a projection penalty, each kind by its own passes over the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.working_rows import WorkingRows
from mmpca_dist.optimise.hinge_sums import INTERIORS
from mmpca_dist.optimise.interior_penalties import SparseInterior, SubspaceInterior
from mmpca_dist.optimise.interior_point import HingeFit, HingeSweep
from mmpca_dist.optimise.linear_models import LinearFit, LinearSweep, LossPass, ModelSweep
from mmpca_dist.optimise.losses import LOSSES
from mmpca_dist.optimise.penalized_squares import Squares, SquaresFit, SquaresMinimum, SquaresPass
from mmpca_dist.optimise.penalties import SubspacePenalty
from mmpca_dist.optimise.sparse_models import SparseSweep
from mmpca_dist.passes.centred_rows import Array
from mmpca_dist.passes.label_terms import FoldTerms
from mmpca_dist.passes.sweeps import Sweep
from mmpca_dist.passes.sweeps_together import FitsTogether, SweepsTogether
from mmpca_dist.statistics.coordinates import Statistics
from mmpca_dist.statistics.scatters import total_scatter

HESSIAN_BYTES = 256 << 20
"""Second derivatives of the models that are fitted together, at most, unless they are of a single one."""
MOST_HINGES, MOST_SMOOTH = 64, 1024
"""Models that are fitted together, at most: of hinge losses each keeps up to four numbers a row."""
LARGEST_HESSIAN = 64 << 20
"""Models whose second derivatives take more do without them, where they can."""
WIDEST = 8192
"""Columns of models that cannot: hinge losses, and absolute values."""
SMALL = 1e-6
"""Of the largest coefficient: those that an interior point leaves of zeros, at most."""
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Models:
    """Models to be fitted that share a penalty.

    Attributes
    ----------
    penalty : SparsePenalty or SubspacePenalty
        For l1 or l2.
    terms : FoldTerms
        Of the rows for each model.
    alphas : array of shape (m,)
    place : int array of shape (m,) or None
        Their numbers in a grid of fits.
    """

    penalty: Any
    terms: FoldTerms
    alphas: Array
    place: NDArray[np.intp] | None = None

    def only(self, models: slice | NDArray[np.intp]) -> Models:
        """Return some of the models."""
        return Models(self.penalty, self.terms.only(models), self.alphas[models])


SweepOf = Callable[[str, Models], tuple[Sweep[Any, Any], LinearFit | HingeFit]]
"""Returns the passes by a name that fit models, and where these start."""


@dataclass(frozen=True)
class Minimum:
    """Parameters (m, n) and b (m,) of models, what they reach, (m,), and passes: of all turns, and of the longest."""

    parameters: Array
    intercept: Array
    objective: Array
    gaps: Array
    n_passes: int
    longest: int = 0

    @classmethod
    def of(cls, fitted: LinearFit | HingeFit) -> Minimum:
        """Return what passes have reached."""
        best, passes = fitted.best, fitted.n_passes
        return cls(best[:, :-1], best[:, -1], fitted.objective, fitted.gaps, passes, longest=passes)

    @classmethod
    def joined(cls, parts: Sequence[Minimum]) -> Minimum:
        """Return the models of several fits, one after the other."""
        names = ("parameters", "intercept", "objective", "gaps")
        arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        n_passes, longest = sum(part.n_passes for part in parts), max(part.longest for part in parts)
        return cls(**arrays, n_passes=n_passes, longest=longest)

    def followed_by(self, others: Minimum, models: NDArray[np.intp]) -> Minimum:
        """Return the models with those of further passes for some of them, where these have smaller gaps."""
        kept = others.gaps < self.gaps[models]
        arrays = {name: value.copy() for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        for name, value in arrays.items():
            value[models[kept]] = getattr(others, name)[kept]
        return replace(self, **arrays, n_passes=self.n_passes + others.n_passes)  # type: ignore[arg-type]


def most_together(width: int, most: int) -> int:
    """Return how many models are fitted together, of ``width`` parameters each, ``most`` at most."""
    return min(max(1, HESSIAN_BYTES // (8 * width**2)), most)


@dataclass(frozen=True)
class Minimizer:
    """Fits models to rows; settings are those of the estimators."""

    loss: str
    penalty: str
    fit_intercept: bool
    tol: float
    max_iter: int
    statistics: Statistics
    working: WorkingRows

    def minima(self, name: str, models: Sequence[Models], once: FoldTerms, n_models: int) -> list[Minimum]:
        """Return the minima of models; ``once`` are the label terms of ``n_models`` models for each fold.

        As many models share their passes as second derivatives of which fit in memory.
        """
        self._refuse_wide()
        if self.loss == "squared" and self.penalty == "l2":
            return self._least_squares(name, models, once, n_models)
        first = self._apart if self.loss == "hinge" else self._smooth
        minima = self._in_turns(name, models, first, MOST_HINGES if self.loss == "hinge" else MOST_SMOOTH)
        return self._with_stalled(f"{name}-inside", models, minima) if self.loss in INTERIORS else minima

    def _with_stalled(self, name: str, models: Sequence[Models], minima: list[Minimum]) -> list[Minimum]:
        """Return minima with those of stalled models by interior points whose rows all stay positive."""
        left = {
            i: np.flatnonzero(each.gaps > self.tol)
            for i, each in enumerate(minima)
            if each.longest < self.max_iter and (each.gaps > self.tol).any()
        }
        if not left:
            return minima
        rest = replace(self, max_iter=self.max_iter - max(minima[i].longest for i in left))
        inside = rest._in_turns(name, [models[i].only(some) for i, some in left.items()], rest._interior, MOST_HINGES)
        for (i, some), others in zip(left.items(), inside, strict=True):
            minima[i] = minima[i].followed_by(others, some)
        return minima

    def _in_turns(self, name: str, models: Sequence[Models], sweep_of: SweepOf, most: int) -> list[Minimum]:
        """Return the minima by the sweeps that ``sweep_of`` returns, each for at most ``most`` models."""
        size = most_together(self.working.width + 1, most)
        pieces = [
            (number, some.only(slice(start, start + size)))
            for number, some in enumerate(models)
            for start in range(0, len(some.alphas), size)
        ]
        turns, minima = _turns(pieces, size), [list[Minimum]() for _ in models]
        for turn, together in enumerate(turns, 1):
            job = f"{name}-{turn}" if len(turns) > 1 else name
            fits = self._in_passes([some for _, some in together], sweep_of, job)
            for (number, _), minimum in zip(together, fits, strict=True):
                minima[number].append(minimum)
        return [Minimum.joined(parts) for parts in minima]

    def _refuse_wide(self) -> None:
        hinge, d = self.loss in INTERIORS, self.working.width
        if (hinge or self.penalty == "l1") and d + 1 > WIDEST:
            what = f"loss={self.loss!r}" if hinge else "penalty='l1'"
            raise InputError(
                f"{what} takes a matrix of {d:,} x {d:,} a model; {WIDEST:,} columns are the most. Use the logistic "
                "loss with penalty='l2', or choose columns first."
            )

    def _least_squares(self, name: str, models: Sequence[Models], once: FoldTerms, n_models: int) -> list[Minimum]:
        """Return the minima from the sums of one pass, whatever the number of alphas and penalties."""
        sweep = SquaresPass(name, once, n_models, self.working.units(), self.working.keeps_sparse)
        squares = self.working.sweeper.run(sweep, SquaresFit()).squares
        folds = dict(zip(once.held_out[::n_models].tolist(), squares, strict=True))
        return [self._from_squares(folds, some, n_models) for some in models]

    def _from_squares(self, folds: dict[int, Squares], models: Models, n_models: int) -> Minimum:
        """Return the minima from sums over the rows that train; models come by alpha, then by fold."""
        values = models.alphas[np.sort(np.unique(models.alphas, return_index=True)[1])]
        held_out = models.terms.held_out[: len(models.alphas) // len(values) : n_models].tolist()
        settings = {"has_intercept": self.fit_intercept, "is_rotated": self.working.basis is not None}
        by_fold = [folds[fold].minimum(models.penalty, values, **settings) for fold in held_out]
        coef, intercept, objective, gaps = (
            np.concatenate([np.asarray(getattr(minima[i], part)) for i in range(len(values)) for minima in by_fold])
            for part in SquaresMinimum._fields
        )
        return Minimum(coef, intercept, objective, gaps, 1)

    def _in_passes(self, models: Sequence[Models], sweep_of: SweepOf, name: str) -> list[Minimum]:
        """Fit models in passes that they share."""
        sweeps, starts = zip(*(sweep_of(name, some) for some in models), strict=True)
        run = self.working.sweeper.run
        if len(models) == 1:
            fits = [run(sweeps[0], starts[0])]
        else:
            fits = list(run(SweepsTogether(name, sweeps), FitsTogether(starts)).fits)
        for number, (some, sweep) in enumerate(zip(models, sweeps, strict=True)):
            if isinstance(sweep, HingeSweep) and isinstance(sweep.interior, SparseInterior):
                fits[number] = self._with_zeros(f"{name}-zeros-{number + 1}", some, sweep.interior, fits[number])
        return [Minimum.of(fitted) for fitted in fits]

    def _shared(self, name: str, models: Models) -> dict[str, Any]:
        """Return what all kinds of passes for models are made of."""
        return {
            "name": name, "terms": models.terms, "units": self.working.units(), "has_intercept": self.fit_intercept,
            "tolerance": self.tol, "max_sweeps": self.max_iter, "keeps_sparse": self.working.keeps_sparse,
        }  # fmt: skip

    def _apart(self, name: str, models: Models) -> tuple[HingeSweep, HingeFit]:
        """Return the passes of interior points whose rows move apart, and where these start."""
        sweep, start = self._interior(name, models)
        return replace(sweep, apart=True), start

    def _interior(self, name: str, models: Models) -> tuple[HingeSweep, HingeFit]:
        """Return the passes of interior points for models, and where these start."""
        shared, is_sparse = self._shared(name, models), self.penalty == "l1"
        interior = (SparseInterior if is_sparse else SubspaceInterior)(models.penalty, models.alphas)
        if is_sparse:
            shared["tolerance"] /= 10  # setting to zero what tends to it costs some
        return HingeSweep(kind=INTERIORS[self.loss], interior=interior, **shared), HingeFit.start_at(interior)

    def _smooth(self, name: str, models: Models) -> tuple[ModelSweep, LinearFit]:
        """Return the passes of Newton's method for models of a smooth loss, and where these start."""
        loss = LOSSES[self.loss]
        settings = {
            "loss": loss, "penalty": models.penalty, "alphas": models.alphas, "ends_stalled": self.loss in INTERIORS,
            **self._shared(name, models),
        }  # fmt: skip
        start = np.zeros((len(models.alphas), models.penalty.n_parameters + 1))
        if self.penalty == "l1":
            return SparseSweep(**settings), LinearFit.start_at(start)
        with_hessian = 8 * start.shape[1] ** 2 <= LARGEST_HESSIAN or self.loss in INTERIORS
        if models.penalty.is_free and not with_hessian:
            raise InputError(
                f"epsilon=0 with {start.shape[1] - 1:,} columns: nothing would tell how near the minimum is. "
                "Set epsilon above 0."
            )
        metric = self._metric(models.penalty, models.alphas) if with_hessian and loss.renewal > 1 else None
        return LinearSweep(with_hessian=with_hessian, **settings), LinearFit.start_at(start, metric)

    def _with_zeros(self, name: str, models: Models, interior: SparseInterior, fitted: HingeFit) -> HingeFit:
        """Return the models with zeros for parameters that tend to zero; their objectives take a pass."""
        m, sparse = len(fitted.best), interior.penalty.n_sparse
        size = np.maximum(np.abs(fitted.best[:, :sparse]).max(axis=1, keepdims=True), TINY)
        small = np.abs(fitted.best[:, :sparse]) < SMALL * size
        tried = np.concatenate([fitted.best, fitted.best])
        tried[:, :sparse][np.concatenate([interior.tends_to_zero(fitted.parts, size), small])] = 0
        sweep = LossPass(
            name, LOSSES[self.loss], interior.penalty.coefficients(tried[:, :-1]), tried[:, -1], models.terms,
            np.tile(np.arange(m), 2), self.working.units(), self.working.keeps_sparse,
        )  # fmt: skip
        losses = self.working.sweeper.run(sweep, np.empty(0))
        objectives = losses + np.tile(interior.alphas, 2) * interior.penalty.values(tried[:, :-1])
        best, objective = fitted.best, fitted.objective
        for kind in (slice(m, 2 * m), slice(0, m)):  # the one with more zeros last
            is_good = objectives[kind] - fitted.objective <= self.tol * np.maximum(fitted.objective, TINY) / 2
            best = np.where(is_good[:, None], tried[kind], best)
            objective = np.where(is_good, objectives[kind], objective)
        return replace(fitted, best=best, objective=objective, n_passes=fitted.n_passes + 1)

    def _metric(self, penalty: SubspacePenalty, alphas: Array) -> Array | None:
        """Return second derivatives at zero from the moments of all rows, those of held-out folds included."""
        if self.statistics.approximation is not None or self.working.is_uncentred:
            return None
        n, r = self.statistics.moments.n_rows, penalty.n_parameters
        scatter = total_scatter(self.statistics.moments).dense(self.statistics.moments)
        curvature = float(LOSSES[self.loss](np.ones(1)).curvature[0]) * n
        metric = np.zeros((len(alphas), r + 1, r + 1))
        metric[:, : len(scatter), : len(scatter)] = curvature * scatter
        metric[:, :r, :r] += 2 * alphas[:, None, None] * penalty.matrix()
        metric[:, r, r] = curvature
        return metric


def _turns(pieces: Sequence[tuple[int, Models]], size: int) -> list[list[tuple[int, Models]]]:
    """Return pieces in a row, as many together as have at most ``size`` models."""
    turns: list[list[tuple[int, Models]]] = [[]]
    for piece in pieces:
        if turns[-1] and sum(len(some.alphas) for _, some in [*turns[-1], piece]) > size:
            turns.append([])
        turns[-1].append(piece)
    return turns
