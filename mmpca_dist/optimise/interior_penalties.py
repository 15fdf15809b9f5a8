"""The terms of penalties in Newton's steps of an interior point method, for m models side by side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.optimise.interior_rows import START, longest_step
from mmpca_dist.optimise.penalties import Penalty, SparsePenalty, SubspacePenalty
from mmpca_dist.passes.centred_rows import Array

Parts = tuple[Array, ...]
"""Slacks and multipliers of a penalty, arrays of shape (m, r)."""


@dataclass(frozen=True)
class InteriorPenalty(ABC):
    """A penalty, and its weight for every model, shape (m,)."""

    penalty: Penalty
    alphas: Array

    @abstractmethod
    def start(self) -> Parts:
        """Return the parts for parameters of zero."""

    @abstractmethod
    def add_to(self, point: Array, parts: Parts, metric: Array, pull: Array, push: Array) -> None:
        """Add the penalty's terms in place.

        ``metric`` (m, n + 1, n + 1) has second derivatives; the right side is ``pull`` + mu ``push``, both (m, n + 1).
        """

    @abstractmethod
    def change(self, point: Array, parts: Parts, step: Array, mu: Array) -> Parts:
        """Return the change of the parts by Newton's step from a point, both (m, n + 1), to products mu (m,)."""

    @abstractmethod
    def products(self, parts: Parts) -> Array:
        """Return slacks times multipliers, shape (m, number of them)."""

    def longest(self, parts: Parts, change: Parts) -> Array:
        """Return the longest step that leaves all parts positive, shape (m,)."""
        return longest_step(parts, change).min(axis=1) if parts else np.full(len(self.alphas), np.inf)


@dataclass(frozen=True)
class SubspaceInterior(InteriorPenalty):
    """Squared lengths, which are smooth: there are no parts."""

    penalty: SubspacePenalty

    def start(self) -> Parts:
        return ()

    def add_to(self, point: Array, parts: Parts, metric: Array, pull: Array, push: Array) -> None:
        metric[:, :-1, :-1] += 2 * self.alphas[:, None, None] * self.penalty.matrix()
        pull[:, :-1] -= 2 * self.alphas[:, None] * self.penalty.apply(point[:, :-1])

    def change(self, point: Array, parts: Parts, step: Array, mu: Array) -> Parts:
        return ()

    def products(self, parts: Parts) -> Array:
        return np.empty((len(self.alphas), 0))


@dataclass(frozen=True)
class SparseInterior(InteriorPenalty):
    """Absolute values of w = p - q, p > 0 and q > 0, whose multipliers are P = alpha - g and Q = alpha + g.

    g is minus the derivative of the losses by w. Newton's step changes it to (dw - c) / F, with F = p / P + q / Q and
    c = mu (1 / P - 1 / Q) - alpha (p / P - q / Q) + (p - q - w). The last term is rounding: p and q start at 1 / alpha.
    """

    penalty: SparsePenalty

    def start(self) -> Parts:
        shape = len(self.alphas), self.penalty.n_sparse
        weights = np.broadcast_to(self.alphas[:, None], shape)
        return START / weights, START / weights, weights.copy(), weights.copy()

    def _quotients(self, point: Array, parts: Parts) -> tuple[Array, Array, Array]:
        """Return F, c for mu = 0, and the derivative of c by mu."""
        p, q, P, Q = parts
        drift = p - q - point[:, : self.penalty.n_sparse]
        return p / P + q / Q, drift - self.alphas[:, None] * (p / P - q / Q), 1 / P - 1 / Q

    def add_to(self, point: Array, parts: Parts, metric: Array, pull: Array, push: Array) -> None:
        r, n = self.penalty.n_sparse, self.penalty.n_parameters
        F, fixed, by_mu = self._quotients(point, parts)
        sparse, inside, ridge = np.arange(r), np.arange(r, n), 2 * self.alphas * self.penalty.epsilon
        metric[:, sparse, sparse] += 1 / F
        metric[:, inside, inside] += ridge[:, None]
        pull[:, :r] += fixed / F
        push[:, :r] += by_mu / F
        pull[:, r:n] -= ridge[:, None] * point[:, r:n]

    def change(self, point: Array, parts: Parts, step: Array, mu: Array) -> Parts:
        p, q, P, Q = parts
        F, fixed, by_mu = self._quotients(point, parts)
        alpha, mu = self.alphas[:, None], mu[:, None]
        g = (step[:, : self.penalty.n_sparse] - fixed - mu * by_mu) / F
        return (mu - p * (alpha - g)) / P, (mu - q * (alpha + g)) / Q, alpha - g - P, alpha + g - Q

    def products(self, parts: Parts) -> Array:
        p, q, P, Q = parts
        return np.concatenate([p * P, q * Q], axis=1)

    def tends_to_zero(self, parts: Parts, size: Any) -> NDArray[np.bool_]:
        """Return which parameters are nearer to zero than their multipliers, shape (m, r).

        Parameters are compared relative to ``size``, a number or an array (m, 1), and multipliers relative to alpha.
        """
        p, q, P, Q = parts
        return np.asarray(np.maximum(p, q) / size < np.minimum(P, Q) / self.alphas[:, None])
