"""The residual Q, also called SPE: how far a row lies from the span of the components."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.belonging.score import Reference, Score, ScoredRows

ROUNDING = 64
"""Rounding error of the difference, over the precision: less of a row is none, as where components span all columns."""


def q(rows: ScoredRows, reference: Reference) -> dict[str, NDArray]:
    """Return |x - m|^2 - |P (x - m)|^2, P the projection on the span of the components, without forming a residual.

    Source: Jackson & Mudholkar 1979, "Control procedures for residuals associated with principal component analysis".
    """
    projected, rounding = rows.coordinates @ reference.span, ROUNDING * np.finfo(rows.squares.dtype).eps
    left = rows.squares - np.einsum("ij,ij->i", projected, projected)
    return {"q": np.where(left > rounding * rows.squares, left, 0)}


SCORE = Score("q", "q", q)
