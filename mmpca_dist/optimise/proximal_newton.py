"""Linear models with a penalty on absolute values and a smooth loss, by the proximal Newton method.

Each step minimises the quadratic that second derivatives make of the loss, plus the penalty.

Source: Lee, Sun & Saunders 2014, "Proximal Newton-type methods for minimizing composite functions", SIAM J.
Optimization 24, algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmpca_dist.optimise.descent import Descent, solve_definite
from mmpca_dist.optimise.interior_rows import START, longest_step, products_of
from mmpca_dist.optimise.loss_sums import LossSums
from mmpca_dist.optimise.newton import LinearFit, NewtonSweep
from mmpca_dist.optimise.penalties import Parts, SparsePenalty
from mmpca_dist.passes.centred_rows import Array
from mmpca_dist.statistics.working_statistics import EPS

EXACT, MAX_STEPS = 1e-13, 100
"""The tolerance of the quadratic's minimum, relative to its sum of absolute values, and the largest number of steps."""
NEARLY, LEAST = 0.995, 1e-3
"""The share of the longest step that is taken, and the smallest base of the next target (cubed)."""
BALANCED = 1e-13
"""Share of the sum of absolute multipliers that rounding leaves of their sum."""


@dataclass(frozen=True, kw_only=True)
class SparseSweep(NewtonSweep):
    """Passes for a penalty on absolute values."""

    penalty: SparsePenalty

    def _needs_hessian(self, fitted: LinearFit) -> bool:
        return True

    def _slope(self, descent: Descent) -> Array:
        r = self.penalty.n_sparse
        before, after = descent.point[:, :r], (descent.point + descent.direction)[:, :r]
        return descent.slope + self.alphas * (np.abs(after) - np.abs(before)).sum(axis=1)

    def _direction(self, descent: Descent) -> Array:
        q = _products(descent.metric, descent.point) - descent.gradient
        return sparse_minima(descent.metric, q, self.alphas, self.penalty) - descent.point

    def _bound(self, before: LinearFit, sums: LossSums, descent: Descent) -> Array:
        bound = super()._bound(before, sums, descent)
        return bound if self.penalty.is_free else np.maximum(bound, self._corrected_bound(before.reach, sums, descent))

    def _corrected_bound(self, reach: Array, sums: LossSums, descent: Descent) -> Array:
        """Return the value of the dual problem after a Newton step towards feasible multipliers, shape (m,).

        Scaling multipliers t until |sum t x| <= alpha loses all of the value where rounding of that sum is as large as
        alpha. Here they become t + h z^T [x; 1], with h = d2L/df2, which changes the sums of t [x; 1] by H z, H the
        second derivatives. -inf where ``reach`` does not show that all conjugates stay finite.
        """
        cross, H = -sums.gradient, sums.hessians.copy()
        limits = self.alphas[:, None]
        excess = np.append(np.clip(cross[:, :-1], -limits, limits), np.zeros_like(limits), axis=1) - cross
        excess[:, self.penalty.n_sparse : -1] = 0
        self._hold_intercept(H, excess)
        z = np.zeros_like(excess)
        for _ in range(2):  # the second solution takes out what rounding left
            left = excess - np.einsum("mpq,mq->mp", H, z)
            z += np.stack([solve_definite(*each) for each in zip(H, left, strict=True)])
        change = np.einsum("mpq,mq->mp", H, z)
        cross += change
        model = np.append(self.penalty.coefficients(descent.point[:, :-1]), descent.point[:, -1:], axis=1)
        dual = sums.duals.sum(axis=0) + np.einsum("mp,mp->m", model - self.loss.divergence * z, change)
        size = np.linalg.norm(z, axis=1)
        rounding = 2 * EPS * H.shape[1] * np.trace(H, axis1=1, axis2=2) * size * (size + np.linalg.norm(model, axis=1))
        bound = self.penalty.scaled_bound(self.alphas, cross[:, :-1], dual - rounding)
        with np.errstate(invalid="ignore"):
            is_valid = size * reach <= self.loss.domain
        if self.has_intercept:
            is_valid &= np.abs(cross[:, -1]) <= BALANCED * np.abs(sums.moves).sum(axis=0)
        return np.where(is_valid, bound, -np.inf)

    def _decrease(self, descent: Descent) -> Array:
        curved = np.einsum("mp,mpq,mq->m", descent.direction, descent.metric, descent.direction)
        return -self._slope(descent) - curved / 2


def sparse_minima(H: Array, q: Array, alphas: Array, penalty: SparsePenalty) -> Array:
    """Return the x (m, p) with the smallest x^T H x / 2 - q^T x + alpha (|x_1| + ... + |x_r|), r = penalty.n_sparse.

    H, shape (m, p, p), are positive semidefinite. An interior point method comes within ``EXACT`` of each minimum,
    relative to the sum of absolute values; models that are there take no further steps.
    """
    r, m = penalty.n_sparse, len(q)
    point, parts = np.zeros_like(q), penalty.slacks(alphas, START)
    for _ in range(MAX_STEPS):
        rest = products_of(parts, m).sum(axis=1) > EXACT * alphas * np.abs(point[:, :r]).sum(axis=1)
        if not rest.any():
            break
        left, some = q - _products(H, point), tuple(part[rest] for part in parts)
        step, some_parts = _step_inside(penalty, alphas[rest], H[rest], left[rest], point[rest], some)
        point[rest] += step
        for part, moved in zip(parts, some_parts, strict=True):
            part[rest] = moved
    sizes = np.abs(q) / np.maximum(np.diagonal(H, axis1=1, axis2=2), np.finfo(float).tiny)
    point[:, :r][penalty.tends_to_zero(alphas, parts, sizes[:, :r].max(axis=1, keepdims=True))] = 0
    return point


def _products(H: Array, x: Array) -> Array:
    return np.asarray((H @ x[:, :, None])[:, :, 0])


def _step_inside(
    penalty: SparsePenalty, alphas: Array, metric: Array, pull: Array, point: Array, parts: Parts
) -> tuple[Array, Parts]:
    """Return the step of an interior point method, shape (m, p), and the parts after it.

    ``metric`` and ``pull``, H and q - H x, are changed.
    """
    products, push = products_of(parts, len(pull)), np.zeros_like(pull)
    penalty.add_slacks(alphas, point, parts, metric, pull, push)
    solved = [solve_definite(A, np.stack([a, b], axis=1)) for A, a, b in zip(metric, pull, push, strict=True)]
    without, by_mu = np.moveaxis(np.stack(solved), 2, 0)
    mu = np.zeros(len(pull))
    for _ in range(2):  # the first step, without centring, predicts the next products (Mehrotra 1992)
        step = without + mu[:, None] * by_mu
        change = penalty.slack_change(alphas, point, parts, step, mu)
        length = np.minimum(NEARLY * longest_step(parts, change).min(axis=1), 1.0)[:, None]
        ahead = tuple(part + length * moved for part, moved in zip(parts, change, strict=True))
        mean = products.mean(axis=1)
        mu = mean * np.maximum(products_of(ahead, len(pull)).mean(axis=1) / mean, LEAST) ** 3
    return length * step, ahead
