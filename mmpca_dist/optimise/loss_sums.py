"""Convex losses L(u) of u = a - b f, for a row with label term (a, b) and output f, and a pass that sums them up.

For classes u is one less the margin, for continuous targets the residual. Every loss is at least 0 and somewhere 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, xlogy

from mmpca_dist.passes.centred_rows import Array, CentredRows, RowUnits
from mmpca_dist.passes.label_terms import LabelTerms, Terms
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.sweeps import BlockStep
from mmpca_dist.passes.tree_reduction import ArraySums
from mmpca_dist.passes.units import block_rows


class Values(NamedTuple):
    """For every row: the loss and its first two derivatives."""

    loss: Array
    slope: Array
    curvature: Array


@dataclass(frozen=True)
class Loss:
    """A loss."""

    values: Callable[[Array], Values]  # of u
    conjugate: Callable[[Array], Array]  # L*(s), the largest s u - L(u) over u, for derivatives s of this loss
    renewal: int = 5  # passes after which second derivatives are renewed
    # fractions of every trial step: a pass sums the losses there, too, and the best follows a step that fails
    fractions: tuple[float, ...] = ()
    # with h = L''(u), L*(s + h z) is at most L*(s) + u h z + divergence h z^2 for every |z| up to the domain
    divergence: float = 0.5
    domain: float = np.inf


def _squared(u: Array) -> Values:
    return Values(u**2, 2 * u, np.full_like(u, 2.0))


def _logistic(u: Array) -> Values:
    loss, slope = np.logaddexp(0, u - 1), expit(u - 1)
    return Values(loss, slope, slope * (1 - slope))


def _hinge(u: Array) -> Values:
    return Values(np.maximum(u, 0), np.where(u > 0, 1.0, 0.0), np.zeros_like(u))


def _squared_hinge(u: Array) -> Values:
    positive = np.maximum(u, 0)
    return Values(positive**2, 2 * positive, np.where(u > 0, 2.0, 0.0))


def _conjugate_of_square(slope: Array) -> Array:
    return slope**2 / 4


def _conjugate_of_logistic(slope: Array) -> Array:
    return slope + xlogy(slope, slope) + xlogy(1 - slope, 1 - slope)


LOSSES = {
    "squared": Loss(_squared, _conjugate_of_square),  # u^2
    # log(1 + exp(u - 1)): of the margin 1 - u the negative log-likelihood. The divergence is that of Bernoulli
    # variables: Kullback-Leibler is at most chi-squared divergence
    "logistic": Loss(_logistic, _conjugate_of_logistic, divergence=1.0, domain=1.0),
    "hinge": Loss(_hinge, np.zeros_like),  # max(u, 0)
    # max(u, 0)^2: its second derivatives jump, so that whole Newton steps either end the fit within a few passes or
    # overshoot far. L* is infinite at negative slopes
    "squared hinge": Loss(
        _squared_hinge, _conjugate_of_square,
        renewal=1, fractions=tuple(0.5**power for power in range(1, 11)), domain=0.0,
    ),
}  # fmt: skip
"""By name."""


@storable
@dataclass(frozen=True)
class LossSums(ArraySums):
    """Sums over the rows for m linear models f = w^T x + b in r coordinates.

    The multiplier of a row is t = -dL/df. Sums over positive and over negative t are apart, in this order: scaled by a
    number each, they make a point of the dual problem of models with an intercept.
    """

    loss: Array  # (m,)
    moves: Array  # (2, m): sums of t
    cross: Array  # (2, m, r): sums of t x
    duals: Array  # (2, m): sums of s a - L*(s), with s the derivative of L
    hessians: Array  # (k, r + 1, r + 1): sums of d2L/df2 [x; 1] [x; 1]^T, for the models asked for
    along: Array  # (f, m): the losses at fractions of the step that led here

    @property
    def gradient(self) -> Array:
        """Derivatives of the sum of losses by [w; b], shape (m, r + 1)."""
        return -np.concatenate([self.cross.sum(axis=0), self.moves.sum(axis=0)[:, None]], axis=1)


@dataclass(frozen=True)
class SumLosses(BlockStep[LossSums]):
    """The step of a sweep: the sums over the rows of a unit for m models."""

    coef: Array  # (m, r)
    intercept: Array  # (m,)
    loss: Loss
    terms: LabelTerms  # of all models
    active: NDArray[np.intp]  # (m,): the positions of these among them
    units: RowUnits
    hessian_models: NDArray[np.intp]  # (k,): positions among these models whose second derivatives are summed
    change: Array | None = None  # (m, r + 1): the step of [w; b] that led here, for the loss's ``fractions``

    @property
    def block_rows(self) -> int:
        return block_rows(len(self.coef))

    def of_block(self, rows: CentredRows, terms: Terms, state: NDArray | None) -> tuple[LossSums, None]:
        a, b = (np.ascontiguousarray(each[:, self.active, 0].T) for each in (terms.levels, terms.signs))
        trains = None if terms.trains is None else np.ascontiguousarray(terms.trains[:, self.active].T)
        u = a - b * (rows.images(self.coef) + self.intercept[:, None])
        loss, slope, curvature = self.loss.values(u)
        duals, moves = slope * a - self.loss.conjugate(slope), slope * b
        if trains is not None:
            for each in (loss, duals, moves, curvature):
                each *= trains
        along = self._along(rows, u, b, 1.0 if trains is None else trains)
        by_sign = np.stack([np.maximum(moves, 0), np.minimum(moves, 0)])
        m, r = self.coef.shape
        sums = LossSums(
            loss=loss.sum(axis=1),
            moves=by_sign.sum(axis=2),
            cross=rows.cross(by_sign.reshape(2 * m, -1)).reshape(2, m, r),
            duals=np.stack([np.where(moves > 0, duals, 0).sum(axis=1), np.where(moves < 0, duals, 0).sum(axis=1)]),
            hessians=outer_sums(rows, (curvature * b**2)[self.hessian_models], r),
            along=along,
        )
        return sums, None

    def _along(self, rows: CentredRows, u: Array, b: Array, trains: Array | float) -> Array:
        """Return the losses at fractions of the step that led to u (m, n), shape (f, m)."""
        if self.change is None or not self.loss.fractions:
            return np.empty((0, len(u)))
        du = -b * (rows.images(self.change[:, :-1]) + self.change[:, -1:])
        shares = [(self.loss.values(u - (1 - part) * du).loss * trains).sum(axis=1) for part in self.loss.fractions]
        return np.stack(shares)


def outer_sums(rows: CentredRows, weights: Array, r: int) -> Array:
    """Return the sums of [x; 1] [x; 1]^T with weights (m, n), shape (m, r + 1, r + 1)."""
    sums = np.empty((len(weights), r + 1, r + 1))
    sums[:, :r, r] = sums[:, r, :r] = rows.cross(weights)
    sums[:, r, r] = weights.sum(axis=1)
    for each, of_model in zip(sums, weights, strict=True):
        each[:r, :r] = rows.scatter(of_model)
    return sums
