"""The distance to the nearest class mean, in the metric of the scatter within classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmpca_dist.belonging.score import Reference, Score, ScoredRows
from mmpca_dist.passes.units import blocks

BLOCK = 1024
"""Classes that are compared at once, with as many rows, or with more where there are fewer classes."""


def class_distance(rows: ScoredRows, reference: Reference) -> dict[str, Any]:
    """Return (z - m_c)^T W_g^-1 (z - m_c) of the nearest class c, and its label.

    Source: Mahalanobis 1936, "On the generalised distance in statistics".
    """
    Z, centres = rows.coordinates @ reference.within, reference.centres @ reference.within
    lengths, nearest = np.einsum("ij,ij->i", centres, centres) / 2, np.zeros(len(Z), np.intp)
    for some in blocks(len(Z), BLOCK**2 // min(len(centres), BLOCK)):
        closest, least = [], []
        for block in blocks(len(centres), BLOCK):
            apart = lengths[block] - Z[some] @ centres[block].T
            closest.append(np.argmin(apart, axis=1))
            least.append(np.take_along_axis(apart, closest[-1][:, None], axis=1)[:, 0])
            closest[-1] += block.start
        block_of_least = np.argmin(least, axis=0)[None]
        nearest[some] = np.take_along_axis(np.asarray(closest), block_of_least, axis=0)[0]
    offsets = Z - centres.take(nearest, axis=0)
    return {"nearest_class": reference.classes.take(nearest), "distance": np.einsum("ij,ij->i", offsets, offsets)}


SCORE = Score("class-distance", "distance", class_distance)
