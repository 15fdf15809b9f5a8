"""``unit-length``: divide every row by its length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.preprocessing import normalize

from mmpca_dist.tables.row_maps.specification import Arrays, RowMap, RowMapKind


class UnitLength(RowMap):
    """Divides every row by its length; rows of zeros stay so."""

    def fitted(self, arrays: Arrays) -> Callable[[Any], Any]:
        return normalize


MAP = RowMapKind("unit-length", "divides every row by its length", UnitLength)
