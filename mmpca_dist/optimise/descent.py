"""Minimises m functions side by side by line search and limited-memory BFGS; a pass evaluates all of them once.

Any pass may also sum second derivatives, which cost more. They are the initial matrix of BFGS (Nocedal & Wright 2006,
"Numerical optimization", algorithms 7.4 and 3.1). The step right after them is Newton's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.passes.centred_rows import Array
from mmpca_dist.passes.serialization import storable

MEMORY = 10
"""Steps that BFGS remembers."""
SUFFICIENT = 1e-4
"""Share of the linear decrease that a step must reach."""
SLACK = 1e-13
"""The rounding error of a value, relative to it."""
JITTER = 1e-13
"""Added to a diagonal of ones to make a singular matrix of second derivatives definite."""
S = TypeVar("S", bound=Any)


@storable
@dataclass(frozen=True)
class Descent:
    """The state of m minimisations in p parameters."""

    point: Array  # (m, p): the best so far
    value: Array  # (m,): the function there, infinite before the first pass
    gradient: Array  # (m, p)
    direction: Array  # (m, p): of the search
    step: Array  # (m,): the length of the trial's
    metric: Array  # (m, p, p): second derivatives near the point, where a pass has brought some; else (0, p, p)
    moved: Array  # (m, MEMORY, p): earlier steps, the newest first; zeros where there are none
    turned: Array  # (m, MEMORY, p): changes of the gradient with them

    @classmethod
    def start(cls, point: Array, metric: Array | None = None) -> Self:
        """Return the start from a point, shape (m, p), which is evaluated first."""
        m, p = point.shape
        zeros = np.zeros_like(point)
        metric = np.empty((0, p, p)) if metric is None else metric
        pairs = np.zeros((m, MEMORY, p))
        return cls(point, np.full(m, np.inf), zeros, zeros, np.ones(m), metric, pairs, pairs)

    @property
    def trial(self) -> Array:
        """The point to evaluate next, shape (m, p)."""
        return self.toward(1.0)

    def toward(self, fraction: float) -> Array:
        """Return the point after a fraction of the trial step, shape (m, p)."""
        return self.point + fraction * self.step[:, None] * self.direction

    @property
    def slope(self) -> Array:
        """The gradient along the direction, shape (m,)."""
        return np.asarray(np.einsum("mp,mp->m", self.gradient, self.direction))

    def accepts(self, value: Array, slope: Array) -> NDArray[np.bool_]:
        """Return whether each trial, with these values, decreases its function enough.

        ``slope`` (m,) is the linear decrease of a whole step.
        """
        with np.errstate(invalid="ignore"):
            limit = self.value + SUFFICIENT * self.step * np.minimum(slope, 0) + SLACK * np.abs(self.value)
        return np.asarray(np.isinf(self.value) | (value <= limit))

    def moved_to(
        self,
        accepted: NDArray[np.bool_],
        value: Array,
        gradient: Array,
        metric: Array,
        direction_of: Callable[[Descent], Array],
        shorter: Array | None = None,
    ) -> Descent:
        """Return the state at the accepted trials, and with shorter steps at the others.

        ``metric`` (m, p, p), or (0, p, p), are second derivatives at the trials, ``direction_of`` returns the next
        direction (m, p) from a state, and ``shorter`` (m,) are fractions of steps to try next.
        """
        at, is_later = accepted[:, None], (np.isfinite(self.value) & accepted)[:, None]
        step = np.where(is_later, self.step[:, None] * self.direction, 0.0)
        turn = np.where(is_later, gradient - self.gradient, 0.0)
        curved = np.einsum("mp,mp->m", step, turn) > 1e-12 * np.linalg.norm(step, axis=1) * np.linalg.norm(turn, axis=1)
        moved = _with_newest(self.moved, step, curved)
        turned = _with_newest(self.turned, turn, curved)
        kept = self.metric
        if len(metric):
            kept = metric if not len(kept) else np.where(accepted[:, None, None], metric, kept)
            moved, turned = (np.where(at[:, None], 0.0, pairs) for pairs in (moved, turned))
        new = replace(
            self,
            point=np.where(at, self.trial, self.point),
            value=np.where(accepted, value, self.value),
            gradient=np.where(at, gradient, self.gradient),
            metric=kept,
            moved=moved,
            turned=turned,
        )
        return replace(
            new,
            direction=np.where(at, direction_of(new), self.direction),
            step=np.where(accepted, 1.0, self._shorter(value) if shorter is None else self.step * shorter),
        )

    def _shorter(self, value: Array) -> Array:
        """Return steps to the minimum of the parabola through both values and the slope, shortened 2 to 10 times."""
        slope = self.slope * self.step
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            lowest = -slope / (2 * (value - self.value - slope))
        return self.step * np.clip(np.where(np.isfinite(lowest), lowest, 0.1), 0.1, 0.5)

    def quasi_newton_direction(self) -> Array:
        """Return -H^-1 g for BFGS's H, shape (m, p)."""
        q, shares = self.gradient.copy(), []
        products = np.einsum("mhp,mhp->mh", self.moved, self.turned)
        inverse = np.divide(1.0, products, out=np.zeros_like(products), where=products > 0)
        steps = list(zip(*(np.moveaxis(pairs, 1, 0) for pairs in (self.moved, self.turned, inverse)), strict=True))
        for moved, turned, one in steps:
            share = one * np.einsum("mp,mp->m", moved, q)
            q -= share[:, None] * turned
            shares.append(share)
        q = self._first(q, products[:, 0])
        for (moved, turned, one), share in zip(reversed(steps), reversed(shares), strict=True):
            q += (share - one * np.einsum("mp,mp->m", turned, q))[:, None] * moved
        return -q

    def _first(self, q: Array, newest: Array) -> Array:
        """Return H0^-1 q, with the metric as H0, or else with the curvature along the newest step."""
        if len(self.metric):
            return np.stack([solve_definite(metric, each) for metric, each in zip(self.metric, q, strict=True)])
        lengths = np.einsum("mp,mp->m", self.turned[:, 0], self.turned[:, 0])
        sizes = np.linalg.norm(self.gradient, axis=1)
        first = np.divide(1.0, sizes, out=np.ones_like(sizes), where=sizes > 0)
        scale = np.divide(newest, lengths, out=first, where=lengths > 0)
        return q * scale[:, None]


def _with_newest(pairs: Array, newest: Array, is_used: Array) -> Array:
    """Return pairs with the newest in front, for the functions that use it."""
    shifted = np.concatenate([newest[:, None], pairs[:, :-1]], axis=1)
    return np.where(is_used[:, None, None], shifted, pairs)


def some_of(state: S, models: NDArray[np.bool_]) -> S:
    """Return the state of some of m models, whose arrays, of nested states, too, have models along their first axis."""
    values = vars(state).items()
    parts = {name: some_of(value, models) for name, value in values if isinstance(value, Descent)}
    arrays = {name: value[models] for name, value in values if isinstance(value, np.ndarray) and len(value)}
    return replace(state, **arrays, **parts)


def with_some(state: S, models: NDArray[np.bool_], some: S) -> S:
    """Return the state with that of ``some`` of the models."""
    merged: dict[str, Any] = {}
    for name, new in vars(some).items():
        old = getattr(state, name)
        if isinstance(new, Descent):
            merged[name] = with_some(old, models, new)
        elif isinstance(new, np.ndarray) and len(new):
            merged[name] = old.copy() if len(old) else np.zeros((len(models), *new.shape[1:]))
            merged[name][models] = new
    return replace(some, **merged)


def solve_definite(matrix: Array, right: Array) -> Array:
    """Return A^-1 B for a positive semidefinite A, shape (p, p), scaled to a diagonal of ones; B is (p,) or (p, q)."""
    diagonal = np.diagonal(matrix)
    scale = np.divide(1.0, np.sqrt(np.maximum(diagonal, 0)), out=np.ones_like(diagonal), where=diagonal > 0)
    scaled = matrix * scale[:, None] * scale
    jitter = JITTER
    while True:
        scaled.reshape(-1)[:: len(scaled) + 1] += jitter
        factor, failed = scipy.linalg.lapack.dpotrf(scaled, lower=1)
        if not failed or jitter > 1:
            solved, _ = scipy.linalg.lapack.dpotrs(factor, (right.T * scale).T, lower=1)
            return np.asarray((solved.reshape(right.shape).T * scale).T)
        jitter *= 100
