"""The distance to the nearest class mean, in the metric of the scatter within classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmpca_dist.belonging.score import Reference, Score, ScoredRows
from mmpca_dist.passes.units import blocks

BLOCK = 1024
"""Classes, and rows, that are compared at once."""


def class_distance(rows: ScoredRows, reference: Reference) -> dict[str, Any]:
    """Return (z - m_c)^T W_g^-1 (z - m_c) of the nearest class c, and its label.

    Source: Mahalanobis 1936, "On the generalised distance in statistics".
    """
    Z, centres = rows.coordinates @ reference.within, reference.centres @ reference.within
    lengths, nearest = np.einsum("ij,ij->i", centres, centres) / 2, np.zeros(len(Z), np.intp)
    for some in blocks(len(Z), BLOCK):
        best = np.full(len(Z[some]), np.inf)
        for block in blocks(len(centres), BLOCK):
            apart = lengths[block] - Z[some] @ centres[block].T
            closest = np.argmin(apart, axis=1)
            found = apart[np.arange(len(apart)), closest]
            nearer = found < best
            nearest[some] = np.where(nearer, closest + block.start, nearest[some])
            best = np.where(nearer, found, best)
    offsets = Z - centres[nearest]
    return {"nearest_class": reference.classes[nearest], "distance": np.einsum("ij,ij->i", offsets, offsets)}


SCORE = Score("class-distance", "distance", class_distance)
