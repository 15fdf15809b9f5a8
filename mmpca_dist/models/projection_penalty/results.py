"""What a fit with a projection penalty leaves: the models, and how alpha and the number of components were chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from mmpca_dist.finite import or_infinite
from mmpca_dist.passes.centred_rows import Array
from mmpca_dist.passes.serialization import storable


@storable
@dataclass(frozen=True)
class Choice:
    """The number of components and alpha in use, and what was tried.

    Attributes
    ----------
    n_components : int
    alpha : float
    sizes, alphas : arrays of shape (S,) and (A,)
        Numbers of components and values of alpha that were tried; empty where both were given.
    errors, gaps : arrays of shape (S, A)
        Their errors in rows held out, and the largest gap of the objectives of the fits behind them.
    is_nested : bool
        Whether the reduction was fitted without the rows held out, where it is fitted to rows at all.
    """

    n_components: int
    alpha: float
    sizes: Array
    alphas: Array
    errors: Array
    gaps: Array
    is_nested: bool = True

    @classmethod
    def given(cls, n_components: int, alpha: float) -> Self:
        """Return the choice where there is none."""
        return cls(n_components, float(alpha), np.empty(0), np.empty(0), np.empty((0, 0)), np.empty((0, 0)))

    @classmethod
    def of_least(
        cls, sizes: Sequence[int], alphas: Sequence[float], errors: Array, gaps: Array, *, is_nested: bool
    ) -> Self:
        """Return the pair with the least errors; of equal ones that of the largest alpha, then of fewest components."""
        errors = or_infinite(errors)
        pairs = [(errors[i, j], -alpha, size) for i, size in enumerate(sizes) for j, alpha in enumerate(alphas)]
        _, alpha, size = min(pairs)
        return cls(size, -float(alpha), np.asarray(sizes, np.float64), np.asarray(alphas), errors, gaps, is_nested)


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
