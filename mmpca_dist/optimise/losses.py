"""Convex losses L(u) of u = a - b f, for a row with label term (a, b) and output f, and their conjugates.

For classes u is one less the margin, for continuous targets the residual. Every loss is at least 0 and somewhere 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import expit, xlogy

from mmpca_dist.passes.centred_rows import Array


class Values(NamedTuple):
    """For every row: the loss and its first two derivatives."""

    loss: Array
    slope: Array
    curvature: Array


class Loss(ABC):
    """A loss."""

    name: ClassVar[str]
    renewal: ClassVar[int] = 5  # passes after which second derivatives are renewed
    # fractions of every trial step: a pass sums the losses there, too, and the best follows a step that fails
    fractions: ClassVar[tuple[float, ...]] = ()
    # with h = L''(u), L*(s + h z) is at most L*(s) + u h z + divergence h z^2 for every |z| up to the domain
    divergence: ClassVar[float] = 0.5
    domain: ClassVar[float] = np.inf

    @abstractmethod
    def __call__(self, u: Array) -> Values:
        """Return the values at u."""

    def conjugate(self, slope: Array) -> Array:
        """Return L*(s), the largest s u - L(u) over u, for slopes of this loss."""
        return slope**2 / 4


class Squared(Loss):
    """u^2."""

    name = "squared"

    def __call__(self, u: Array) -> Values:
        return Values(u**2, 2 * u, np.full_like(u, 2.0))


class Logistic(Loss):
    """log(1 + exp(u - 1)): of the margin 1 - u the negative log-likelihood."""

    name = "logistic"
    divergence, domain = 1.0, 1.0  # of Bernoulli variables: Kullback-Leibler is at most chi-squared divergence

    def __call__(self, u: Array) -> Values:
        loss, slope = np.logaddexp(0, u - 1), expit(u - 1)
        return Values(loss, slope, slope * (1 - slope))

    def conjugate(self, slope: Array) -> Array:
        return slope + xlogy(slope, slope) + xlogy(1 - slope, 1 - slope)


class Hinge(Loss):
    """max(u, 0)."""

    name = "hinge"

    def __call__(self, u: Array) -> Values:
        return Values(np.maximum(u, 0), np.where(u > 0, 1.0, 0.0), np.zeros_like(u))

    def conjugate(self, slope: Array) -> Array:
        return np.zeros_like(slope)


class SquaredHinge(Loss):
    """max(u, 0)^2.

    Its second derivatives jump, so that whole Newton steps either end the fit within a few passes or overshoot far.
    """

    name = "squared hinge"
    renewal, fractions = 1, tuple(0.5**power for power in range(1, 11))
    domain = 0.0  # L* is infinite at negative slopes

    def __call__(self, u: Array) -> Values:
        positive = np.maximum(u, 0)
        return Values(positive**2, 2 * positive, np.where(u > 0, 2.0, 0.0))


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Squared(), Logistic(), Hinge(), SquaredHinge())}
"""By name."""
