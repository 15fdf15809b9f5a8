"""Pairings: which classes each class is compared with, and the medians that this needs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

PAIRINGS = ("one-vs-rest", "one-vs-one")
"""Whether a class faces all others together, or one after the other."""


def median_sets(n_classes: int, *pairings: str) -> NDArray[np.bool_] | None:
    """Return the sets of classes whose medians are needed, shape (P C, C), or None without any pairing.

    For every pairing these are the complements of the classes (one-vs-rest), or the classes (one-vs-one).
    """
    own = np.eye(n_classes, dtype=bool)
    return np.concatenate([~own if one == "one-vs-rest" else own for one in pairings]) if pairings else None


def by_pairing(medians: NDArray[np.float64] | None, pairings: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """Return the medians of `median_sets`, shape (P C, d), by pairing: shape (C, d) each."""
    return {} if medians is None else dict(zip(pairings, np.split(medians, len(pairings)), strict=True))
