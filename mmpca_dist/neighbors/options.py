"""Options of a search for nearest rows of other classes, and how large its layout can be."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, replace

import psutil

from mmpca_dist.errors import InputError, did_you_mean
from mmpca_dist.statistics.medians import PAIRINGS
from mmpca_dist.tables.dataset import Dataset

MODES = ("exact", "approximate")
MUTUAL = ("twice", "once")
MAX_FIRST, MAX_SECOND = 63, 255
"""Most axes of the matrix products, and of the second bound."""


@dataclass(frozen=True)
class Search:
    """How to search, and what M-PCA2 makes of the pairs."""

    mode: str = "exact"
    recall: float = 0.98  # what an approximate search aims at: the lower end of the interval measured reaches it
    max_queries: int | None = None  # search for so many rows only, drawn with a fixed seed
    pairing: str = "one-vs-rest"  # the nearest row of all other classes together, or of each of them
    mutual: str = "twice"  # how often a pair counts whose rows are each other's nearest

    def __post_init__(self) -> None:
        for name, allowed in (("mode", MODES), ("pairing", PAIRINGS), ("mutual", MUTUAL)):
            value = getattr(self, name)
            if value not in allowed:
                hint = did_you_mean(str(value), allowed)
                raise InputError(f"{name}={value!r} must be one of {', '.join(allowed)}.{hint}")
        if not isinstance(self.recall, numbers.Real) or not 0 < self.recall < 1:
            raise InputError(f"recall={self.recall!r} must lie between 0 and 1; for all neighbours use mode='exact'.")
        n = self.max_queries
        if n is not None and (isinstance(n, bool) or not isinstance(n, numbers.Integral) or n < 2):
            raise InputError(f"max_queries={n!r} must be a whole number of at least 2, or None for all.")
        if self.mutual == "once" and n is not None:
            raise InputError(
                "mutual='once' needs the nearest row of every row, but max_queries searches for some only: use "
                "mutual='twice', or leave max_queries out."
            )

    def asking_more(self, factor: float) -> Search:
        """Return the search with so many times more queries, where it has some only."""
        return self if self.max_queries is None else replace(self, max_queries=math.ceil(self.max_queries * factor))


def fits_memory(dataset: Dataset, limit: int | None = None) -> bool:
    """Tell whether all rows, twice while they are laid out, fit half of ``limit`` (of what is free)."""
    limit = psutil.virtual_memory().available if limit is None else limit
    return 2 * dataset.n_rows * row_bytes(dataset) <= limit // 2


def row_bytes(dataset: Dataset) -> int:
    """Return the most bytes a row can take in the layout, before axes are chosen."""
    d = dataset.n_features
    return d * 8 + 4 * (min(d, MAX_FIRST + 1) + min(d, MAX_SECOND + 1)) + 12
