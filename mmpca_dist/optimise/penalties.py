"""The penalties of Zhang & Schneider 2010 on linear models w of r columns, for a reduction P (K, r) and epsilon.

A penalty is the smallest J(w - P^T v) + epsilon |v|^2 over v; w - P^T v is the part of w outside of the subspace that
the rows of P span, P^T v the part inside.

Interior point methods replace what is not smooth by slacks and multipliers, whose products they drive to zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.passes.centred_rows import Array
from mmpca_dist.statistics.working_statistics import EPS

Parts = tuple[Array, ...]
"""Slacks and then their multipliers, arrays of shape (m, r)."""


class Penalty(ABC):
    """A penalty on m models side by side, in n parameters each: the coefficients w, unless these follow from them."""

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Number of parameters of a model, n."""

    @property
    @abstractmethod
    def is_free(self) -> bool:
        """Whether some direction bears no penalty."""

    def coefficients(self, parameters: Array) -> Array:
        """Return w, shape (m, r), of parameters (m, n)."""
        return parameters

    @abstractmethod
    def weights(self, parameters: Array) -> Array:
        """Return v, shape (m, K)."""

    @abstractmethod
    def values(self, parameters: Array) -> Array:
        """Return the penalties, shape (m,)."""

    def lifted(self, gradient: Array) -> Array:
        """Return derivatives by [w; b], shape (m, r + 1), as those by the parameters and b."""
        return gradient

    def lifted_twice(self, hessians: Array) -> Array:
        """Return second derivatives by [w; b], shape (m, r + 1, r + 1), as those by the parameters and b."""
        return hessians

    @abstractmethod
    def conjugate(self, cross: Array, alphas: Array) -> tuple[Array, Array]:
        """Return q and t such that alpha times the penalty has the conjugate l^2 q at l c, for l from 0 to t.

        ``cross`` (m, r) is c.
        """

    @abstractmethod
    def add_derivatives(
        self, alphas: Array, parameters: Array, gradient: Array, hessians: Array, sign: float = 1.0
    ) -> None:
        """Add first, times ``sign``, and second derivatives of the smooth part by the parameters and b, in place.

        They are of shape (m, n + 1) and (m, n + 1, n + 1); ``hessians`` may be of no model.
        """

    def slacks(self, alphas: Array, mu: float) -> Parts:
        """Return slacks and multipliers with products ``mu`` for parameters of zero; none where all is smooth."""
        return ()

    def add_slacks(  # noqa: B027  (smooth penalties have none)
        self, alphas: Array, point: Array, parts: Parts, metric: Array, pull: Array, push: Array
    ) -> None:
        """Add what slacks bring to Newton's step, which solves ``metric`` step = ``pull`` + mu ``push``, in place."""

    def slack_change(self, alphas: Array, point: Array, parts: Parts, step: Array, mu: Array) -> Parts:
        """Return the change of the parts by Newton's step from a point, both (m, n + 1), to products mu (m,)."""
        return ()

    def dual_bound(self, alphas: Array, moves: Array, cross: Array, duals: Array) -> Array:
        """Return a value of the dual problem, a lower bound of all objectives, shape (m,).

        Models with an intercept need multipliers that add up to zero: the positive and the negative ones are scaled by
        a number each. `scaled_bound` then scales all of them. ``moves`` (2, m) are sums of the multipliers by sign,
        zeros for models without an intercept, ``cross`` (2, m, r) those of multipliers times rows, and ``duals`` (2, m)
        those of their dual terms s a - L*(s).
        """
        up, down = moves[0], -moves[1]
        least = np.minimum(up, down)
        shares = np.stack([np.divide(least, each, out=np.ones_like(each), where=each > 0) for each in (up, down)])
        cross = np.einsum("gm,gmr->mr", shares, cross)
        return self.scaled_bound(alphas, cross, np.einsum("gm,gm->m", shares, duals))

    def scaled_bound(self, alphas: Array, cross: Array, dual: Array) -> Array:
        """Return the largest value of the dual problem at l times the multipliers, for l from 0 to 1, shape (m,).

        ``cross`` (m, r) and ``dual`` (m,) are sums of multipliers times rows and of dual terms, which are concave in l:
        those of scaled multipliers are at least l times ``dual``.
        """
        squares, longest = self.conjugate(cross, alphas)
        with np.errstate(divide="ignore", invalid="ignore"):
            length = np.where(squares > 0, np.clip(dual / (2 * squares), 0, 1), np.where(dual > 0, 1.0, 0.0))
            length = np.minimum(length, longest)
            return np.where(length > 0, length * dual - length**2 * squares, 0.0)


@dataclass(frozen=True)
class SubspacePenalty(Penalty):
    """The penalty with J the squared length: w^T R w.

    Rows of Q are the right singular vectors of P. Along them R is ``rest`` = epsilon / (s^2 + epsilon), with singular
    values s; across them it is 1.
    """

    directions: Array  # (k, r): Q, orthonormal rows
    rest: Array  # (k,): the penalty on each direction relative to directions outside; 0 where it is free
    back: Array  # (K, k): the matrix with v = back Q w

    @classmethod
    def of(cls, reduction: Array, epsilon: float) -> Self:
        """Return the penalty for a reduction, shape (K, r). Singular values within rounding of zero count as zero."""
        left, values, directions = scipy.linalg.svd(reduction, full_matrices=False)
        kept = values > max(reduction.shape) * EPS * values.max(initial=0.0)
        squares = values[kept] ** 2
        back = left[:, kept] * (values[kept] / (squares + epsilon))
        return cls(directions[kept], epsilon / (squares + epsilon), back)

    @property
    def n_parameters(self) -> int:
        return self.directions.shape[1]

    @property
    def is_free(self) -> bool:
        return bool((self.rest == 0).any())

    def weights(self, parameters: Array) -> Array:
        return np.asarray(parameters @ self.directions.T @ self.back.T)

    def apply(self, w: Array) -> Array:
        """Return R w for vectors (m, r): the part outside of the subspace."""
        along = w @ self.directions.T
        across = w - along @ self.directions
        return across - (across @ self.directions.T - along * self.rest) @ self.directions

    def values(self, parameters: Array) -> Array:
        along = parameters @ self.directions.T
        across = parameters - along @ self.directions
        return np.asarray((across**2).sum(axis=1) + (self.rest * along**2).sum(axis=1))

    def matrix(self) -> Array:
        """Return R, shape (r, r)."""
        return np.eye(self.n_parameters) - (self.directions.T * (1 - self.rest)) @ self.directions

    def add_derivatives(
        self, alphas: Array, parameters: Array, gradient: Array, hessians: Array, sign: float = 1.0
    ) -> None:
        gradient[:, :-1] += sign * 2 * alphas[:, None] * self.apply(parameters[:, :-1])
        if len(hessians):
            hessians[:, :-1, :-1] += 2 * alphas[:, None, None] * self.matrix()

    def conjugate(self, cross: Array, alphas: Array) -> tuple[Array, Array]:
        with np.errstate(divide="ignore", invalid="ignore"):
            gains = (1 - self.rest) / self.rest
            along = (cross @ self.directions.T) ** 2
            squares = np.einsum("mr,mr->m", cross, cross) + np.where(along > 0, along * gains, 0.0).sum(axis=1)
        return squares / (4 * alphas), np.ones(len(cross))


@dataclass(frozen=True)
class SparsePenalty(Penalty):
    """The penalty with J the sum of absolute values, in parameters w~ = w - P^T v, shape (r,), and v, shape (K,).

    Interior points have w~ = p - q, p > 0 and q > 0, whose multipliers are P = alpha - g and Q = alpha + g, with g
    minus the derivative of the losses by w~. Newton's step changes g to (dw~ - c) / F, with F = p / P + q / Q and
    c = mu (1 / P - 1 / Q) - alpha (p / P - q / Q) + (p - q - w~). The last term is rounding.
    """

    reduction: Array  # (K, r): P
    epsilon: float
    n_appended: int = 0  # how many of the last columns are appended features, which have no w~

    @property
    def n_parameters(self) -> int:
        return self.n_sparse + len(self.reduction)

    @property
    def n_sparse(self) -> int:
        """The number of parameters that bear absolute values."""
        return self.reduction.shape[1] - self.n_appended

    @property
    def is_free(self) -> bool:
        return self.epsilon == 0 and bool(self.reduction.any())

    def coefficients(self, parameters: Array) -> Array:
        coefficients = self.weights(parameters) @ self.reduction
        coefficients[:, : self.n_sparse] += parameters[:, : self.n_sparse]
        return np.asarray(coefficients)

    def weights(self, parameters: Array) -> Array:
        return parameters[:, self.n_sparse :]

    def values(self, parameters: Array) -> Array:
        r = self.n_sparse
        return np.abs(parameters[:, :r]).sum(axis=1) + self.epsilon * np.sum(parameters[:, r:] ** 2, axis=1)

    def lifted(self, gradient: Array) -> Array:
        w, b = gradient[:, :-1], gradient[:, -1:]
        return np.concatenate([w[:, : self.n_sparse], w @ self.reduction.T, b], axis=1)

    def lifted_twice(self, hessians: Array) -> Array:
        r, n = self.n_sparse, self.n_parameters
        lifted = np.empty((len(hessians), n + 1, n + 1))
        for whole, each in zip(lifted, hessians, strict=True):
            inside = self.reduction @ each[:-1]
            whole[:r, :r], whole[:r, n], whole[n, :r] = each[:r, :r], each[:r, -1], each[-1, :r]
            whole[r:n, :r], whole[r:n, n] = inside[:, :r], inside[:, -1]
            whole[:r, r:n], whole[n, r:n] = inside[:, :r].T, inside[:, -1]
            whole[r:n, r:n], whole[n, n] = inside[:, :-1] @ self.reduction.T, each[-1, -1]
        return lifted

    def conjugate(self, cross: Array, alphas: Array) -> tuple[Array, Array]:
        along = np.sum((cross @ self.reduction.T) ** 2, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            squares = np.where(along > 0, along / (4 * alphas * self.epsilon), 0.0)
            longest = alphas / np.abs(cross[:, : self.n_sparse]).max(axis=1)
        return squares, np.where(longest < 1, longest, 1.0)

    def add_derivatives(
        self, alphas: Array, parameters: Array, gradient: Array, hessians: Array, sign: float = 1.0
    ) -> None:
        inside, ridge = np.arange(self.n_sparse, self.n_parameters), 2 * alphas * self.epsilon
        gradient[:, inside] += sign * ridge[:, None] * parameters[:, inside]
        hessians[:, inside, inside] += ridge[:, None]

    def slacks(self, alphas: Array, mu: float) -> Parts:
        weights = np.broadcast_to(alphas[:, None], (len(alphas), self.n_sparse))
        return mu / weights, mu / weights, weights.copy(), weights.copy()

    def _quotients(self, alphas: Array, point: Array, parts: Parts) -> tuple[Array, Array, Array]:
        """Return F, c for mu = 0, and the derivative of c by mu."""
        p, q, P, Q = parts
        drift = p - q - point[:, : self.n_sparse]
        return p / P + q / Q, drift - alphas[:, None] * (p / P - q / Q), 1 / P - 1 / Q

    def add_slacks(self, alphas: Array, point: Array, parts: Parts, metric: Array, pull: Array, push: Array) -> None:
        F, fixed, by_mu = self._quotients(alphas, point, parts)
        sparse = np.arange(self.n_sparse)
        metric[:, sparse, sparse] += 1 / F
        pull[:, : self.n_sparse] += fixed / F
        push[:, : self.n_sparse] += by_mu / F

    def slack_change(self, alphas: Array, point: Array, parts: Parts, step: Array, mu: Array) -> Parts:
        p, q, P, Q = parts
        F, fixed, by_mu = self._quotients(alphas, point, parts)
        alpha, mu = alphas[:, None], mu[:, None]
        g = (step[:, : self.n_sparse] - fixed - mu * by_mu) / F
        return (mu - p * (alpha - g)) / P, (mu - q * (alpha + g)) / Q, alpha - g - P, alpha + g - Q

    def tends_to_zero(self, alphas: Array, parts: Parts, size: Array) -> NDArray[np.bool_]:
        """Return which parameters are nearer to zero than their multipliers, shape (m, r).

        Parameters are compared relative to ``size`` (m, 1), and multipliers relative to alpha.
        """
        p, q, P, Q = parts
        return np.asarray(np.maximum(p, q) / size < np.minimum(P, Q) / alphas[:, None])
