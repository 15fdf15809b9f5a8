"""How large the layout of a search can be."""

from __future__ import annotations

import psutil

from mmpca_dist.tables.dataset import Dataset

MAX_FIRST, MAX_SECOND = 63, 255
"""Most axes of the matrix products, and of the second bound."""


def fits_memory(dataset: Dataset, limit: int | None = None) -> bool:
    """Tell whether all rows, twice while they are laid out, fit half of ``limit`` (of what is free)."""
    limit = psutil.virtual_memory().available if limit is None else limit
    return 2 * dataset.n_rows * row_bytes(dataset) <= limit // 2


def row_bytes(dataset: Dataset) -> int:
    """Return the most bytes a row can take in the layout, before axes are chosen."""
    d = dataset.n_features
    return d * 8 + 4 * (min(d, MAX_FIRST + 1) + min(d, MAX_SECOND + 1)) + 12
