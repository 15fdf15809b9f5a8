"""Linear models with the hinge loss or its square, by a primal-dual interior point method over the rows.

Newton's step p from [w; b] to products mu of all slacks and multipliers solves (sum_i D_i [x_i; 1] [x_i; 1]^T + A) p =
pull + mu push, where D and the right side come from the rows (`interior_rows`) and the penalty, and A from the
latter.

A pass moves slacks and multipliers of all rows, and takes the sums for Newton's next step. By default another pass
between two such passes finds the longest step that leaves all of them positive. Rows that move ``apart`` do without:
all take the whole step, and each holds back what it would make negative. That takes a third of the passes, but rows
that can be separated may set each other back for ever; so models that many passes have set back end.

Source: Ferris & Munson 2002, "Interior-point methods for massive support vector machines", SIAM J. Optimization 13.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np

from mmpca_dist.optimise.descent import solve_definite
from mmpca_dist.optimise.interior_rows import (
    LEFT,
    START,
    HingeSums,
    Interior,
    Longest,
    MoveInside,
    longest_step,
    products_of,
)
from mmpca_dist.optimise.model_sweeps import LEAST_SCALE, ModelFit, ModelSweep
from mmpca_dist.optimise.penalties import Parts, Penalty
from mmpca_dist.passes.centred_rows import Array
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.sweeps import Step

NEARLY = 0.995
"""Share of the longest step that is taken, so that all stays positive."""
LEAST, MOST = 0.02, 0.5
"""Limits of the next mu as a share of the mean product. A longer step makes it smaller."""
CENTRED = 0.2
"""The next mu as a share of the mean product, where rows move apart."""
NOTHING = 1e-15
"""Share of an objective: a sum of products below it is rounding."""


@storable
@dataclass(frozen=True)
class HingeFit(ModelFit):
    """m models that are being fitted; passes set them back after which products were larger than before."""

    point: Array  # (m, n + 1): the penalty's parameters and b at the interior point
    best: Array
    parts: Parts  # slacks and multipliers of the penalty
    change: Array  # (m, n + 1): Newton's step from the point
    products: Array  # (m,): the sum of slacks times multipliers
    mu: Array  # (m,): the target of each product
    length: Array  # (m,): of the step
    objective: Array
    moves: bool = True  # whether the next pass moves rows

    @classmethod
    def start_at(cls, penalty: Penalty, alphas: Array) -> Self:
        """Return models before their first pass, at zero."""
        m, parts = len(alphas), penalty.slacks(alphas, START)
        zeros, nothing = np.zeros((m, penalty.n_parameters + 1)), np.full(m, np.inf)
        return cls(
            point=zeros, best=zeros, parts=parts, change=zeros, products=nothing, mu=np.full(m, START),
            length=np.zeros(m), objective=nothing, bound=-nothing, start=nothing, is_done=np.zeros(m, bool),
            idle=np.zeros(m, np.int64), setbacks=np.zeros(m, np.int64),
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class HingeSweep(ModelSweep[HingeFit, "HingeSums | Longest"]):
    """Passes for m models; ``kind`` is that of the loss. Where rows move ``apart``, stalled models end."""

    kind: type[Interior]
    apart: bool = False

    @property
    def state_bytes(self) -> int:  # type: ignore[override]
        return 8 * len(fields(self.kind)) * len(self.alphas)

    def step(self, fitted: HingeFit) -> Step[HingeSums | Longest]:
        change = np.append(self.penalty.coefficients(fitted.change[:, :-1]), fitted.change[:, -1:], axis=1)
        return MoveInside(self.kind, change, fitted.mu, fitted.length, fitted.moves, self.terms, self.units, self.apart)

    def update(self, fitted: HingeFit, sums: HingeSums | Longest) -> HingeFit:
        penalty, alphas, m = self.penalty, self.alphas, len(self.alphas)
        moved_parts = penalty.slack_change(alphas, fitted.point, fitted.parts, fitted.change, fitted.mu)
        if isinstance(sums, Longest):
            longest = sums.step
            if moved_parts:
                longest = np.minimum(longest, longest_step(fitted.parts, moved_parts).min(axis=1))
            length = np.where(fitted.is_done, 0.0, np.minimum(NEARLY * longest, 1.0))
            return replace(fitted, length=length, moves=True, n_passes=fitted.n_passes + 1)
        parts = self._parts(fitted, moved_parts)
        point = fitted.point + fitted.length[:, None] * fitted.change
        products = products_of(parts, m)
        total = sums.products + products.sum(axis=1)
        mean = total / np.maximum(sums.counts + products.shape[1], 1)
        share = CENTRED if self.apart else np.clip((1 - fitted.length) ** 2, LEAST, MOST)
        mu = np.where(fitted.is_done, fitted.mu, mean * share)
        change, decrease = self._newton(point, parts, sums, mu, mean)
        change[fitted.is_done] = 0
        objective = sums.loss + alphas * penalty.values(point[:, :-1])
        bound = objective - total - decrease if penalty.is_free else self._dual_bound(fitted, sums)
        is_better = ~fitted.is_done & ((objective < fitted.objective) | penalty.is_free)
        new = replace(
            fitted,
            point=point,
            parts=parts,
            change=change,
            products=total,
            mu=mu,
            moves=self.apart,
            setbacks=fitted.setbacks + (total > fitted.products),
            best=np.where(is_better[:, None], point, fitted.best),
            objective=np.where(is_better, objective, fitted.objective),
            bound=np.where(fitted.is_done, fitted.bound, bound),
            start=fitted.start if fitted.n_passes else objective,
            n_passes=fitted.n_passes + 1,
        )
        new = self._judged(fitted, new, (fitted.products, new.products))
        is_done = new.is_done | (total <= NOTHING * np.maximum(new.objective, LEAST_SCALE * new.start))
        return replace(new, is_done=is_done, length=np.where(is_done, 0.0, 1.0) if self.apart else new.length)

    def _parts(self, fitted: HingeFit, changes: Parts) -> Parts:
        """Return slacks and multipliers of the penalty after a step."""
        moved = []
        for part, change in zip(fitted.parts, changes, strict=True):
            step = fitted.length[:, None]
            if self.apart:
                step = step * np.minimum((1 - LEFT) * longest_step((part,), (change,)), 1.0)
            moved.append(part + step * change)
        return tuple(moved)

    def _newton(self, point: Array, parts: Parts, sums: HingeSums, mu: Array, mean: Array) -> tuple[Array, Array]:
        """Return Newton's step, shape (m, n + 1), and the decrease by a step to the mean product, shape (m,)."""
        penalty, alphas = self.penalty, self.alphas
        held = np.append(sums.cross.sum(axis=0), sums.moves.sum(axis=0)[:, None], axis=1)
        pull, push = penalty.lifted(held + sums.pull), penalty.lifted(sums.push)
        metric = penalty.lifted_twice(sums.hessians)
        penalty.add_derivatives(alphas, point, pull, metric, sign=-1.0)
        penalty.add_slacks(alphas, point, parts, metric, pull, push)
        self._hold_intercept(metric, pull, push)
        ahead, here = pull + mu[:, None] * push, pull + mean[:, None] * push
        solved = [solve_definite(A, np.stack([a, b], axis=1)) for A, a, b in zip(metric, ahead, here, strict=True)]
        change, still = np.moveaxis(np.stack(solved), 2, 0)
        return change.copy(), np.einsum("mp,mp->m", here, still) / 2
