"""``Score``, the specification of a score of rows, their registry, and what they are computed from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.passes.serialization import storable
from mmpca_dist.registry import Registry


@storable
@dataclass(frozen=True)
class Reference:
    """The rows that a reduction was fitted to, in K coordinates z less their mean.

    Roots R stand for symmetric matrices R R^T.
    """

    spread: NDArray[np.float64]  # (K, r): root of the pseudo-inverse of the covariance of z, divided by n - 1
    span: NDArray[np.float64]  # (K, s): root of (A^T A)^+, by which |P (x - m)|^2 follows from z
    classes: NDArray  # (C,): sorted labels of the classes that have rows
    counts: NDArray[np.float64]  # (C,)
    centres: NDArray[np.float64]  # (C, K): class means
    scatters: NDArray[np.float64]  # (C, K, K) of the classes, or (1, K, K): their sum
    within: NDArray[np.float64]  # (K, w): root of the inverse of the scatter within classes, with its shrinkage

    @property
    def held(self) -> float:
        """The mean squared distance of rows to the mean within the span of the components."""
        total = self.scatters.sum(axis=0) + (self.centres * self.counts[:, None]).T @ self.centres
        return float(np.sum(self.span * (total @ self.span)) / self.counts.sum())

    def as_type(self, dtype: np.dtype) -> Reference:
        """Return the reference of coordinates of this type."""
        of_rows = ("spread", "span", "centres", "within")
        return replace(self, **{name: getattr(self, name).astype(dtype) for name in of_rows})


@dataclass(frozen=True)
class ScoredRows:
    """Rows as scores see them: coordinates less their mean (n, K), and squared distances to the mean row (n,)."""

    coordinates: NDArray[np.float64]
    squares: NDArray[np.float64]


@dataclass(frozen=True)
class Score:
    """A score of rows; ``of`` returns columns of n values by name, ``column`` among them."""

    name: str
    column: str
    of: Callable[[ScoredRows, Reference], dict[str, Any]]


SCORES: Registry[Score] = Registry(Score, "mmpca_dist.belonging.scores", group="mmpca_dist.scores")
