"""Digests of rows in memory."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

HASHED_BYTES = 16 << 20
"""Hashed at a time, lest rows that are not contiguous be copied whole."""


def digest_of_arrays(*arrays: NDArray | None) -> str:
    """Return a short hash of the types, shapes and values of arrays."""
    found = hashlib.sha256()
    for array in arrays:
        if array is None:
            continue
        found.update(f"{array.dtype.str}{array.shape}".encode())
        size = max(HASHED_BYTES // max(array[:1].nbytes, 1), 1)
        for start in range(0, len(array), size):
            found.update(np.ascontiguousarray(array[start : start + size]).tobytes())
    return found.hexdigest()[:32]
