"""Hotelling's T2: how far coordinates lie from their mean, for their covariance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.belonging.score import Reference, Score, ScoredRows


def t2(rows: ScoredRows, reference: Reference) -> dict[str, NDArray]:
    """Return z^T S^+ z of coordinates z less their mean, S their covariance in the rows that trained.

    Source: Hotelling 1931, "The generalization of Student's ratio".
    """
    whitened = rows.coordinates @ reference.spread
    return {"t2": np.einsum("ij,ij->i", whitened, whitened)}


SCORE = Score("t2", "t2", t2)
