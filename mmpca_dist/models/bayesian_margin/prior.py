"""The priors of BM2PCA: gamma distributions of precisions, and the precision of the location."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from mmpca_dist.passes.serialization import storable


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


@storable
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
