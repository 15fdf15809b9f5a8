"""Linear models that passes over the rows fit side by side: what tells when they are done, and how far they may be off.

Each minimises sum_i L(a_i - b_i (w^T x_i + b)) + alpha J, with J as in `penalties`. A point of the dual problem proves
how far it is from the minimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.finite import or_infinite
from mmpca_dist.optimise.penalties import Penalty
from mmpca_dist.passes.centred_rows import Array, RowUnits
from mmpca_dist.passes.label_terms import LabelTerms
from mmpca_dist.passes.sweeps import Sweep, describe_models

STANDSTILL, LEAST_GAIN = 12, 1e-12
"""Fits end after so many passes that gain less than this share of an objective and less than 1% of the gap."""
SETBACKS = 6
"""Models are stalled once more passes than these have set them back: fits that go well have 4 or fewer."""
LEAST_SCALE = 1e-3
"""Gaps are relative to the objective, or to this share of the objective at the start where that is more."""


class Reached:
    """The best points so far of m models."""

    objective: Array  # (m,)
    best: Array  # (m, n + 1): the penalty's parameters and b


@dataclass(frozen=True, kw_only=True)
class ModelFit(Reached):
    """m models that are being fitted."""

    bound: Array  # (m,): a lower bound of the minimum
    start: Array  # (m,): the objective at the first point
    is_done: NDArray[np.bool_]  # (m,)
    idle: NDArray[np.int64]  # (m,): consecutive passes without progress
    setbacks: NDArray[np.int64]  # (m,): passes that have set a model back
    n_passes: int = 0

    @property
    def gaps(self) -> Array:
        """Bounds on how far the objectives lie above their minima, shape (m,): see `relative_gaps`."""
        return relative_gaps(self.objective, self.bound, self.start)


def relative_gaps(objective: Array, bound: Array, start: Array) -> Array:
    """Return how far objectives may lie above their minima, relative to them or to a thousandth of the start."""
    with np.errstate(invalid="ignore"):
        return relative(objective - bound, objective, start)


def relative(missed: Array, objective: Array, start: Array) -> Array:
    """Return what objectives may miss, relative to them or to a thousandth of the start; infinite where unknown."""
    is_known = np.isfinite(objective) & np.isfinite(start)
    with np.errstate(invalid="ignore"):
        scale = np.maximum(objective, LEAST_SCALE * start)
        gaps = np.maximum(or_infinite(missed), 0) / np.where(scale > 0, scale, 1)
    return np.where(is_known, or_infinite(gaps), np.inf)


@dataclass(frozen=True)
class Minimum:
    """Parameters (m, n) and b (m,) of models, what they reach, (m,), and passes: of all turns, and of the longest."""

    parameters: Array
    intercept: Array
    objective: Array
    gaps: Array
    n_passes: int = 1
    longest: int = 0

    @classmethod
    def of(cls, fitted: ModelFit) -> Minimum:
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


M = TypeVar("M", bound=ModelFit)
S = TypeVar("S", bound=Any)


@dataclass(frozen=True, kw_only=True)
class ModelSweep(Sweep[M, S]):
    """Passes for m models until every gap is at most ``tol``."""

    name: str
    penalty: Penalty
    alphas: Array  # (m,): weights of the penalty
    terms: LabelTerms
    units: RowUnits
    has_intercept: bool
    tol: float
    max_iter: int
    ends_stalled: bool = False  # whether models end that more than ``SETBACKS`` passes have set back

    def is_done(self, fitted: M) -> bool:
        return fitted.n_passes >= self.max_iter or bool(fitted.is_done.all())

    def describe(self, fitted: M) -> str:
        return describe_models(fitted.is_done, fitted.gaps)

    def _dual_bound(self, before: M, sums: Any) -> Array:
        """Return the largest lower bound of the minima so far, (m,), given sums of multipliers and of dual terms."""
        moves = sums.moves if self.has_intercept else np.zeros_like(sums.moves)
        return np.maximum(before.bound, self.penalty.dual_bound(self.alphas, moves, sums.cross, sums.duals))

    def _hold_intercept(self, metric: Array, *gradients: Array) -> None:
        """Let Newton's step leave b at zero where models have no intercept: change derivatives by it, in place."""
        if not self.has_intercept:
            metric[:, -1, :-1] = metric[:, :-1, -1] = 0
            metric[:, -1, -1] = 1
            for gradient in gradients:
                gradient[:, -1] = 0

    def _judged(self, before: M, after: M, left: tuple[Array, Array]) -> M:
        """Return a fit after a pass, and the models that are done; ``left`` (m,) is what was to go before and after."""
        with np.errstate(invalid="ignore"):
            gained = before.objective - after.objective > LEAST_GAIN * np.abs(after.objective)
            gained |= left[1] < 0.99 * left[0]
        idle = np.where(gained, 0, before.idle + 1)
        is_done = before.is_done | (after.gaps <= self.tol) | (idle >= STANDSTILL)
        if self.ends_stalled:
            is_done |= after.setbacks > SETBACKS
        return replace(after, idle=idle, is_done=is_done)
