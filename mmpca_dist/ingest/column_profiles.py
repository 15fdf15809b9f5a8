"""A look at every column of a table in one reading: type, gaps, different values, range and spread."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from mmpca_dist.ingest.to_parquet import both
from mmpca_dist.limits import LIMITS
from mmpca_dist.tables.column_scatter import ColumnSpread
from mmpca_dist.tables.levels import is_text

VALUES, FEWEST_VALUES = 1 << 20, 16
"""Different values that are kept in all columns together, and of each at least."""
ALL = 1 << 64


class ColumnProfile:
    """The profile of a column of a table, from pieces of it in turn.

    The values with the smallest hashes are kept, and how many rows have each: all values of a column that has few, else
    a fair sample.
    """

    def __init__(self, name: str, n_columns: int = 1) -> None:
        self.name, self.kind = name, pa.null()
        self.n_rows = self.n_known = self.n_infinite = 0
        self.smallest, self.largest, self.is_whole = np.inf, -np.inf, True
        self._spread, self.digest = ColumnSpread(1), hashlib.sha256()
        self._most = max(min(LIMITS.max_levels + 1, VALUES // n_columns), FEWEST_VALUES)
        self._values: dict[int, tuple[Any, int]] = {}
        self._below = ALL

    def add(self, values: pa.Array) -> None:
        """Add the next rows of the column."""
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        self.kind, self.n_rows = both(self.kind, values.type), self.n_rows + len(values)
        is_number = _is_number(values.type)
        if is_number:  # NaN is a gap
            values = pa.array(values.cast(pa.float64()).to_numpy(zero_copy_only=False), from_pandas=True)
        known = values.drop_null()
        self.n_known += len(known)
        self.digest.update(values.is_valid().to_numpy(zero_copy_only=False).tobytes())
        if not len(known) or pa.types.is_nested(values.type):
            return
        if is_number:
            self._measure(known.to_numpy())
        hashes = pd.util.hash_array(known.to_numpy(zero_copy_only=False))
        self.digest.update(hashes.tobytes())
        few = np.flatnonzero(hashes <= np.uint64(self._below - 1))
        keys, firsts, times = np.unique(hashes[few], return_index=True, return_counts=True)
        for key, value, n in zip(keys.tolist(), known.take(few[firsts]).to_pylist(), times.tolist(), strict=True):
            self._values[key] = value, n + self._values.get(key, (value, 0))[1]
        if len(self._values) > self._most:
            self._below = sorted(self._values)[self._most]
            self._values = {key: kept for key, kept in self._values.items() if key < self._below}

    def _measure(self, numbers: Any) -> None:
        finite = numbers[np.isfinite(numbers)]
        self.n_infinite += len(numbers) - len(finite)
        if len(finite):
            self.is_whole = self.is_whole and bool((finite == np.rint(finite)).all())
            self.smallest = min(self.smallest, float(finite.min()))
            self.largest = max(self.largest, float(finite.max()))
            with np.errstate(over="ignore", invalid="ignore"):  # of numbers near the largest
                self._spread.add(finite[:, None])

    @property
    def is_number(self) -> bool:
        """Whether the column holds numbers."""
        return _is_number(self.kind)

    @property
    def is_names(self) -> bool:
        """Whether the column holds text, booleans or whole numbers, as labels are."""
        return is_text(self.kind) or pa.types.is_boolean(self.kind) or (self.is_number and self.is_whole)

    @property
    def n_missing(self) -> int:
        """Rows that have no value."""
        return self.n_rows - self.n_known

    @property
    def n_distinct(self) -> int:
        """The number of different values; where not all are kept, an estimate from the density of their hashes."""
        return min(round(len(self._values) * ALL / self._below), self.n_known)

    @property
    def distinct(self) -> str:
        """The number of different values in words: "1,234", or "about 58,000" where it is an estimate."""
        if self.keeps_all:
            return f"{self.n_distinct:,}"
        return f"about {int(float(f'{self.n_distinct:.1e}')):,}"

    @property
    def levels(self) -> Counter[str]:
        """How many rows have each value, as text, of those that are kept."""
        values = (
            (f"{value:.15g}" if isinstance(value, float) else str(value), n) for value, n in self._values.values()
        )
        return Counter(dict(values))

    @property
    def all_differ(self) -> bool:
        """Whether no two rows have the same value, as far as the values that are kept tell."""
        return all(n == 1 for _, n in self._values.values())

    @property
    def keeps_all(self) -> bool:
        """Whether all values are kept, rather than a sample."""
        return self._below == ALL

    @property
    def deviation(self) -> float:
        """The standard deviation of the numbers of the column."""
        return float(np.sqrt(self._spread.squares[0] / max(self.n_known - self.n_infinite, 1)))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
