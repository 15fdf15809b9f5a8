"""Approximation of a scatter beyond its part in a basis, from passes that apply it to vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.passes.serialization import storable
from mmpca_dist.stores.storage import digest
from mmpca_dist.tables.changes import digest_of_arrays
from mmpca_dist.tables.dataset import Dataset


@storable
@dataclass(frozen=True)
class Approximation:
    """The part of a weighted class scatter G beyond the basis Q, as a solver in passes knows it."""

    solver: str
    passes: int  # over the rows that it took
    trace: float  # trace of G
    outside: NDArray[np.float64]  # (s, r): G Q - Q (Q^T G Q) = N outside, with orthonormal columns N
    probed: NDArray[np.float64]  # (d, p): G applied to ``probes(d, seed, p)``, which the basis knows nothing of
    history: list[dict[str, list[float]]]  # ``values`` and ``residuals`` of the leading components after every pass
    seed: int  # seed of the probes


PROBES, PROBE_BASE = 20, 2.0
"""Gaussian vectors that bound what lies outside a basis. Halko, Martinsson & Tropp 2011, lemma 4.1: the norm of B is at
most a sqrt(2 / pi) times the longest of B w_1 ... B w_r, except with probability a^-r; here a = 2 and r = 20: 10^-6."""


def probes(n_features: int, seed: int, count: int = PROBES) -> NDArray[np.float64]:
    """Return standard Gaussian vectors, shape (d, p), the same for the same seed."""
    return np.random.default_rng(seed).standard_normal((n_features, count))


def probe_seed(dataset: Dataset, counts: NDArray[np.int64], sample: NDArray) -> int:
    """Return the seed of the probes for a data set, from its fingerprint, the class counts and the sampled rows.

    The lemma holds for probes that do not depend on the data. Were they always the same, rows could be made whose
    scatter hides from them; to hide from these, rows would have to hide from what follows from the rows themselves.
    """
    identity = digest("probes", dataset.fingerprint(), counts.tolist(), digest_of_arrays(sample))
    return int(identity[:12], 16)
