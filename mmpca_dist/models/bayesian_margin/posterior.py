"""The posterior of BM2PCA, probabilistic PCA with a maximum-margin classifier: its updates and its evidence bound.

The model, for every row x with latent coordinates z, in m variants side by side (a class against the rest, say):

    t ~ N(0, I / location_precision),  r_i ~ Gamma(relevance),  w_i ~ N(0, I / r_i),  tau ~ Gamma(noise),
    z ~ N(0, I),  x | z ~ N(W z + t, I / tau),  nu ~ Gamma(weight),  eta ~ N(0, I / nu),

with the shapes, rates and the precision of a `Prior`, and, for every term (a, b) of a row, the factor
exp(-2 C max(0, a - b f)) with f = eta^T [z; 1]: a = 1 and b = +-1 for a label, no term without one. The hinge is the
integral of a Gaussian in u + lambda, u = C (a - b f), over lambda.

The mean-field updates are derived from this model. The ones printed in the paper differ: they have
E[1/lambda] (E[lambda] + C) in the mean of z, and no variances in chi, and with them the bound falls.

Source: Du et al. 2015, "Bayesian Maximum Margin Principal Component Analysis", AAAI-15; Polson & Scott
2011, "Data augmentation for support vector machines", for lambda.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

from mmpca_dist.passes.centred_rows import CentredRows
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.tree_reduction import ArraySums

Array = NDArray[Any]
"""Arrays of doubles; solvers of stacked systems have no more exact type."""


class Gamma(NamedTuple):
    """The shape and rate of gamma distributions."""

    shape: Any
    rate: Any

    @property
    def mean(self) -> Any:
        return self.shape / self.rate

    @property
    def mean_log(self) -> Any:
        return digamma(self.shape) - np.log(self.rate)

    def gain(self, prior: Gamma) -> Any:
        """Return E[log prior] + the entropy: what the factor adds to the bound."""
        normalizer = self.shape * np.log(self.rate) - gammaln(self.shape)
        before = prior.shape * np.log(prior.rate) - gammaln(prior.shape)
        return before - normalizer + (prior.shape - self.shape) * self.mean_log + self.shape - prior.rate * self.mean


@dataclass(frozen=True)
class Prior:
    """Shapes and rates of the gamma priors, and the location's precision; by default those of the paper, section 5."""

    relevance_shape: float = 1e-3  # of the precision of each component's loadings
    relevance_rate: float = 1e-3
    noise_shape: float = 1e-2  # of that of the noise in the rows
    noise_rate: float = 1e-5
    weight_shape: float = 1e-1  # of that of the classifier's weights
    weight_rate: float = 1e-5
    location_precision: float = 1e-5


PRIOR = Prior()
"""The prior of the paper."""


class _Contiguous:
    """Keeps arrays as they arrive from another process or a file: products of other layouts round differently."""

    def __post_init__(self) -> None:
        for name, array in vars(self).items():
            object.__setattr__(self, name, np.ascontiguousarray(array))


@storable
@dataclass(frozen=True)
class Posterior(_Contiguous):
    """Mean-field factors of m variants with k components in d coordinates of rows less a centre."""

    location: Array  # (m, d): mean of t
    location_variance: Array  # (m,)
    loadings: Array  # (m, d, k): mean of W
    loading_covariance: Array  # (m, k, k): all rows of W share it
    relevance: Array  # (m, k): E[r]
    noise: Array  # (m,): E[tau]
    weights: Array  # (m, k + 1): mean of eta, the constant last
    weight_covariance: Array  # (m, k + 1, k + 1)
    weight_precision: Array  # (m,): E[nu]

    @classmethod
    def start(cls, loadings: Array, noise: Array, n_features: int, prior: Prior = PRIOR) -> Posterior:
        """Return the factors before the first sweep: loadings and noise as given, weights of mean zero.

        The relevance is that of the loadings: components of rows in large units would die before they are seen.
        """
        m, d, k = loadings.shape
        squares = np.einsum("mdk,mdk->mk", loadings, loadings)
        return cls(
            location=np.zeros((m, d)),
            location_variance=np.zeros(m),
            loadings=loadings,
            loading_covariance=np.zeros((m, k, k)),
            relevance=Gamma(prior.relevance_shape + n_features / 2, prior.relevance_rate + squares / 2).mean,
            noise=noise,
            weights=np.zeros((m, k + 1)),
            weight_covariance=np.broadcast_to(START_VARIANCE * np.eye(k + 1), (m, k + 1, k + 1)).copy(),
            weight_precision=np.ones(m),
        )

    @property
    def n_components(self) -> int:
        return self.loadings.shape[2]

    @property
    def weight_squares(self) -> Array:
        """E[eta eta^T], shape (m, k + 1, k + 1)."""
        return self.weights[:, :, None] * self.weights[:, None, :] + self.weight_covariance

    def loading_squares(self, n_features: int) -> Array:
        """Return E[W^T W], shape (m, k, k)."""
        return transposed(self.loadings) @ self.loadings + n_features * self.loading_covariance

    def latent_covariance(self, n_features: int) -> Array:
        """Return the covariance of z without label terms, shape (m, k, k), the same for every row."""
        k = self.n_components
        return np.linalg.inv(np.eye(k) + self.noise[:, None, None] * self.loading_squares(n_features))

    def projection(self, n_features: int) -> Array:
        """Return A, shape (m, d, k): without label terms the mean of z is A^T (x - centre - location)."""
        return self.noise[:, None, None] * self.loadings @ self.latent_covariance(n_features)

    def decisions(self, n_features: int) -> tuple[Array, Array]:
        """Return coefficients (m, d) and intercepts (m,) of E[eta]^T [z; 1] as a function of x - centre."""
        k = self.n_components
        coef = np.einsum("mdk,mk->md", self.projection(n_features), self.weights[:, :k])
        return coef, self.weights[:, k] - np.einsum("md,md->m", coef, self.location)


START_VARIANCE = 0.01
"""Variance of the weights before the first sweep: no chi is zero then, and the terms hardly move z yet."""


def transposed(matrices: Array) -> Array:
    """Return stacked matrices transposed."""
    return np.swapaxes(matrices, -1, -2)


@storable
@dataclass(frozen=True)
class RowSums(_Contiguous, ArraySums):
    """Sums over all rows for the updates of m variants; z~ is [z; 1], s is E[1/lambda], all sums over rows."""

    cross: Array  # (m, d, k): of (x - centre) E[z]^T
    latent: Array  # (m, k): of E[z]
    latent_squares: Array  # (m, k, k): of E[z z^T]
    weighted: Array  # (m, k + 1, k + 1): of s E[z~ z~^T]
    pull: Array  # (m, k + 1): of (b + C s a b) E[z~]
    signs: Array  # (m, k + 1): of b E[z~]
    weighted_signs: Array  # (m, k + 1): of s a b E[z~]
    levels: Array  # (m,): of a
    weighted_levels: Array  # (m,): of s a^2
    roots: Array  # (m,): of sqrt(chi)
    entropy: Array  # (m,): of -E[z^T z] / 2, the entropy of z and log(2 pi) k / 2


@storable
@dataclass(frozen=True)
class TableSums(_Contiguous, ArraySums):
    """Sums over the rows that stay the same from sweep to sweep, for m variants."""

    n_rows: Array  # (m,)
    totals: Array  # (m, d): of x - centre
    squares: Array  # (m,): of its squared lengths

    @classmethod
    def of(cls, rows: CentredRows, trains: Array) -> Self:
        """Return the sums of some rows; ``trains`` (n, m) is 1 for those that count, else 0."""
        return cls(trains.sum(axis=0), rows.cross(trains.T), trains.T @ rows.squares())


@dataclass(frozen=True)
class Constants:
    """The constants that m variants are fitted with."""

    C: Array  # (m,)
    centre: Array  # (d,): of the rows, in the coordinates of the loadings
    n_features: int  # columns of the table: d, or more where the coordinates are those in the span of the rows
    prior: Prior = PRIOR


@dataclass(frozen=True)
class UpdateSums:
    """All that the updates need to know of rows and settings."""

    rows: RowSums
    table: TableSums
    constants: Constants


ORDER = ("weights", "weight_precision", "loadings", "location", "relevance", "noise")
"""The factors that are updated after a pass, in this order; in the pass z, then lambda."""


def update(q: Posterior, sums: UpdateSums, order: tuple[str, ...] = ORDER) -> Posterior:
    """Return the factors after one update each, in this order."""
    for name in order:
        q = _UPDATES[name](q, sums)
    return q


def _update_weights(q: Posterior, sums: UpdateSums) -> Posterior:
    C, identity = sums.constants.C, np.eye(q.n_components + 1)
    covariance = np.linalg.inv(
        C[:, None, None] ** 2 * sums.rows.weighted + q.weight_precision[:, None, None] * identity
    )
    mean = np.einsum("mij,mj->mi", covariance, C[:, None] * sums.rows.pull)
    return replace(q, weights=mean, weight_covariance=covariance)


def _update_weight_precision(q: Posterior, sums: UpdateSums) -> Posterior:
    prior, squares = sums.constants.prior, np.einsum("mii->m", q.weight_squares)
    factor = Gamma(prior.weight_shape + (q.n_components + 1) / 2, prior.weight_rate + squares / 2)
    return replace(q, weight_precision=factor.mean)


def _update_loadings(q: Posterior, sums: UpdateSums) -> Posterior:
    noise, k = q.noise[:, None, None], q.n_components
    covariance = np.linalg.inv(q.relevance[:, None, :] * np.eye(k) + noise * sums.rows.latent_squares)
    cross = sums.rows.cross - q.location[:, :, None] * sums.rows.latent[:, None, :]
    return replace(q, loadings=noise * cross @ covariance, loading_covariance=covariance)


def _update_location(q: Posterior, sums: UpdateSums) -> Posterior:
    """In rows less a centre the prior mean of the location is minus the centre."""
    precision = sums.constants.prior.location_precision
    variance = 1 / (precision + sums.table.n_rows * q.noise)
    rest = sums.table.totals - np.einsum("mdk,mk->md", q.loadings, sums.rows.latent)
    mean = variance[:, None] * (q.noise[:, None] * rest - precision * sums.constants.centre)
    return replace(q, location=mean, location_variance=variance)


def _update_relevance(q: Posterior, sums: UpdateSums) -> Posterior:
    d, prior = sums.constants.n_features, sums.constants.prior
    squares = np.einsum("mii->mi", q.loading_squares(d))
    return replace(q, relevance=Gamma(prior.relevance_shape + d / 2, prior.relevance_rate + squares / 2).mean)


def _update_noise(q: Posterior, sums: UpdateSums) -> Posterior:
    prior = sums.constants.prior
    shape = prior.noise_shape + sums.table.n_rows * sums.constants.n_features / 2
    return replace(q, noise=Gamma(shape, prior.noise_rate + residual_squares(q, sums) / 2).mean)


_UPDATES = {name: globals()[f"_update_{name}"] for name in ORDER}


def residual_squares(q: Posterior, sums: UpdateSums) -> Array:
    """Return the sums over the rows of E |x - W z - t|^2, shape (m,)."""
    latent = np.einsum("mdk,mk->md", q.loadings, sums.rows.latent)
    location = np.einsum("md,md->m", q.location, q.location) + sums.constants.n_features * q.location_variance
    return (
        sums.table.squares
        + np.einsum("mij,mij->m", q.loading_squares(sums.constants.n_features), sums.rows.latent_squares)
        + sums.table.n_rows * location
        - 2 * np.einsum("mdk,mdk->m", q.loadings, sums.rows.cross)
        - 2 * np.einsum("md,md->m", q.location, sums.table.totals - latent)
    )


def evidence_bound(q: Posterior, sums: UpdateSums) -> Array:
    """Return the lower bound on the log evidence of each variant, shape (m,), in nats.

    The factors of r, tau and nu are those of the expectations in ``q``: the rates are the shapes over the means.
    """
    k, d, n, C = q.n_components, sums.constants.n_features, sums.table.n_rows, sums.constants.C
    prior = sums.constants.prior
    relevance = _with_mean(prior.relevance_shape + d / 2, q.relevance)
    noise = _with_mean(prior.noise_shape + n * d / 2, q.noise)
    weight = _with_mean(prior.weight_shape + (k + 1) / 2, q.weight_precision)
    bound = noise.gain(Gamma(prior.noise_shape, prior.noise_rate))
    bound += weight.gain(Gamma(prior.weight_shape, prior.weight_rate))
    bound += relevance.gain(Gamma(prior.relevance_shape, prior.relevance_rate)).sum(axis=1)
    offset = q.location + sums.constants.centre
    location = np.einsum("md,md->m", offset, offset) + d * q.location_variance
    precision = prior.location_precision
    bound += d / 2 * (np.log(precision * q.location_variance) + 1) - precision / 2 * location
    squares = np.einsum("mii->mi", q.loading_squares(d))
    bound += d / 2 * (relevance.mean_log.sum(axis=1) + _log_determinant(q.loading_covariance) + k)
    bound -= np.einsum("mi,mi->m", q.relevance, squares) / 2
    bound += (k + 1) / 2 * (weight.mean_log + 1) + _log_determinant(q.weight_covariance) / 2
    bound -= q.weight_precision * np.einsum("mii->m", q.weight_squares) / 2
    bound += n * d / 2 * (noise.mean_log - np.log(2 * np.pi)) - q.noise * residual_squares(q, sums) / 2
    hinge = C * (sums.rows.levels - np.einsum("mi,mi->m", q.weights, sums.rows.signs))
    squared = sums.rows.weighted_levels - 2 * np.einsum("mi,mi->m", q.weights, sums.rows.weighted_signs)
    squared = C**2 * (squared + np.einsum("mij,mij->m", q.weight_squares, sums.rows.weighted))
    return np.asarray(bound + sums.rows.entropy - hinge - (sums.rows.roots + squared) / 2)


def _with_mean(shape: Any, mean: Array) -> Gamma:
    return Gamma(shape, shape / mean)


def _log_determinant(matrices: Array) -> Array:
    return np.asarray(np.linalg.slogdet(matrices)[1])
