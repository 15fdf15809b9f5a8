"""Results of a fit with a projection penalty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from mmpca_dist.methods.base.choice_by_folds import Choice
from mmpca_dist.optimise.penalties import Penalty
from mmpca_dist.passes.centred_rows import Array
from mmpca_dist.passes.serialization import storable


@storable
@dataclass(frozen=True)
class PenalizedModels:
    """m linear models f = (inside + outside)^T (x - mean) + intercept, in d (standardised) columns."""

    inside: Array  # (m, d): the part of the coefficients inside of the subspace of the reduction, P^T v
    outside: Array  # (m, d): w - P^T v
    weights: Array  # (m, K): v
    intercept: Array  # (m,)
    choice: Choice  # of alpha and the number of components
    objective: Array  # (m,): the minimum
    gaps: Array  # (m,): by how much it may be missed, relative to it
    n_passes: int  # over the rows, for these models
    proved: bool  # whether the gaps are finite and proved; else they are estimated

    @classmethod
    def of(cls, penalty: Penalty, parameters: Array, P: Array, basis: Array | None, **results: Any) -> Self:
        """Return the models of parameters (m, n) for a reduction P (K, d), in a basis (d, r) or in the columns."""
        weights = penalty.weights(parameters)
        outside = penalty.coefficients(parameters) - weights @ (P if basis is None else P @ basis)
        outside = outside if basis is None else outside @ basis.T
        return cls(inside=weights @ P, outside=outside, weights=weights, **results)
