"""What a fit with a projection penalty leaves."""

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
    """m linear models f = (inside + outside)^T (x - mean) + intercept, in d (standardised) columns.

    Attributes
    ----------
    inside, outside : arrays of shape (m, d)
        The parts of the coefficients inside of the subspace of the reduction, P^T v, and outside, w - P^T v.
    weights : array of shape (m, K)
        v.
    intercept : array of shape (m,)
    choice : Choice
        The choice of alpha and the number of components.
    objective, gaps : arrays of shape (m,)
        The minimum, and by how much it may be missed, relative to it.
    n_passes : int
        Over the rows, for these models.
    proved : bool
        Whether the gaps are finite and proved; else they are estimated.
    """

    inside: Array
    outside: Array
    weights: Array
    intercept: Array
    choice: Choice
    objective: Array
    gaps: Array
    n_passes: int
    proved: bool

    @classmethod
    def of(cls, penalty: Penalty, parameters: Array, P: Array, basis: Array | None, **results: Any) -> Self:
        """Return the models of parameters (m, n) for a reduction P (K, d), in a basis (d, r) or in the columns."""
        weights = penalty.weights(parameters)
        outside = penalty.coefficients(parameters) - weights @ (P if basis is None else P @ basis)
        outside = outside if basis is None else outside @ basis.T
        return cls(inside=weights @ P, outside=outside, weights=weights, **results)
