"""A look at every column of a table in one reading: type, gaps, different values, range and spread."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mmpca_dist.ingest.typed_csv import both
from mmpca_dist.limits import LIMITS
from mmpca_dist.tables.column_scatter import ColumnSpread
from mmpca_dist.tables.levels import is_text

VALUES = 1 << 20
"""Different values that are kept in all columns together: some hundred megabytes of texts."""
FEWEST_VALUES = 16
EXACT = 1 << 53
"""Beyond it doubles do not tell whole numbers apart."""
ALL = 2.0**64


def mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return well-mixed 64-bit numbers, and 0 for 0, which sparse rows do not store: the end of SplitMix64."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def row_factors(start: int, stop: int) -> NDArray[np.uint64]:
    """Return an odd number for each row; sums of values times these tell equal columns."""
    return mixed(np.arange(start + 1, stop + 1, dtype=np.uint64)) | np.uint64(1)


def _hashes(values: pa.Array) -> NDArray[np.uint64]:
    """Return a number for each value; equal ones of any type of numbers have the same."""
    if is_text(values.type):
        digests = (hashlib.blake2b(text.encode(), digest_size=8).digest() for text in values.to_pylist())
        return np.frombuffer(b"".join(digests), np.uint64)
    if pa.types.is_temporal(values.type) or pa.types.is_boolean(values.type):
        values = values.cast(pa.int64() if values.type.bit_width == 64 else pa.int32())
    numbers = values.to_numpy(zero_copy_only=False)
    doubles = numbers.astype(np.float64) + 0.0
    bits = doubles.view(np.uint64)
    if numbers.dtype.kind in "iu":
        bits = np.where(np.abs(doubles) < EXACT, bits, numbers.astype(np.uint64))
    return mixed(bits)


class ColumnLook:
    """What is known of a column of a table, from pieces of it in turn.

    The values with the smallest hashes are kept, and how many rows have each: all values of a column that has few, else
    a fair sample. Numbers with fractions are not counted.
    """

    def __init__(self, name: str, n_columns: int = 1) -> None:
        self.name, self.kind = name, pa.null()
        self.n_rows = self.n_missing = self.n_infinite = self.digest = 0
        self.smallest, self.largest = np.inf, -np.inf
        self.is_whole = self.counts_rows = True
        self._last: int | None = None
        self._spread = ColumnSpread(1)
        self._most = max(min(LIMITS.max_levels + 1, VALUES // n_columns), FEWEST_VALUES)
        self._values: dict[int, list[Any]] = {}
        self._below = ALL

    def add(self, values: pa.Array) -> None:
        """Add the next rows of the column."""
        first, self.n_rows = self.n_rows, self.n_rows + len(values)
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        self.kind = both(self.kind, values.type)
        if pa.types.is_nested(values.type) or pa.types.is_binary(values.type):
            self.n_missing += values.null_count
            return
        if pa.types.is_decimal(values.type):
            values = values.cast(pa.float64())
        if pa.types.is_floating(values.type):
            values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
        self.n_missing += values.null_count
        known, factors = values.drop_null(), row_factors(first, self.n_rows)
        if not len(known):
            self.counts_rows = False
            return
        if values.null_count:
            factors = factors[values.is_valid().to_numpy(zero_copy_only=False)]
        if pa.types.is_integer(known.type) or pa.types.is_floating(known.type):
            self._measure(known.to_numpy(zero_copy_only=False), values.null_count)
        else:
            self.is_whole = self.counts_rows = False
        if pa.types.is_floating(known.type) and not self.is_whole:
            self._digest(_hashes(known), factors)
            return
        encoded = known.dictionary_encode()
        codes, hashes = encoded.indices.to_numpy(), _hashes(encoded.dictionary)
        self._digest(hashes[codes], factors)
        self._count(encoded.dictionary, hashes, np.bincount(codes))

    def _digest(self, hashes: NDArray[np.uint64], factors: NDArray[np.uint64]) -> None:
        self.digest = (self.digest + int(np.dot(hashes, factors))) % (1 << 64)

    def _count(self, values: pa.Array, hashes: NDArray[np.uint64], times: NDArray[np.int64]) -> None:
        (few,) = np.nonzero(hashes < self._below) if self._below < ALL else (np.arange(len(hashes)),)
        for key, value, count in zip(
            hashes[few].tolist(), values.take(pa.array(few)).to_pylist(), times[few].tolist(), strict=True
        ):
            self._values.setdefault(key, [value, 0])[1] += count
        if len(self._values) > self._most:
            keys = sorted(self._values)
            self._below = keys[self._most]
            for key in keys[self._most :]:
                del self._values[key]

    def _measure(self, numbers: NDArray, n_missing: int) -> None:
        if numbers.dtype.kind == "f":
            finite = np.isfinite(numbers)
            self.n_infinite += len(numbers) - int(np.count_nonzero(finite))
            numbers = numbers[finite]
            self.is_whole = self.is_whole and bool((numbers == np.rint(numbers)).all())
            self.counts_rows = False
        elif self.counts_rows:
            follows = self._last is None or int(numbers[0]) == self._last + 1
            self.counts_rows = not n_missing and follows and bool((np.diff(numbers) == 1).all())
            self._last = int(numbers[-1])
        if len(numbers):
            self.smallest = min(self.smallest, float(numbers.min()))
            self.largest = max(self.largest, float(numbers.max()))
            self._spread.add(numbers.astype(np.float64)[:, None])

    @property
    def is_number(self) -> bool:
        """Whether the column holds numbers."""
        return bool(pa.types.is_integer(self.kind) or pa.types.is_floating(self.kind) or pa.types.is_decimal(self.kind))

    @property
    def n_known(self) -> int:
        """Rows that have a value."""
        return self.n_rows - self.n_missing

    @property
    def is_counted(self) -> bool:
        """Whether all different values are known."""
        return self._below == ALL

    @property
    def n_distinct(self) -> int:
        """The number of different values; an estimate where these are not all counted."""
        if self.is_counted:
            return len(self.levels)
        return min(round((len(self._values) - 1) / (max(self._values) / ALL)), self.n_known)

    @property
    def levels(self) -> Counter[str]:
        """How many rows have each value, as text, of those that are kept."""
        counts = Counter[str]()
        for value, count in self._values.values():
            counts[str(value)] += count
        return counts

    @property
    def all_differ(self) -> bool:
        """Whether no two rows have the same value, as far as the values that are kept tell."""
        return self.n_known > 1 and all(count == 1 for _, count in self._values.values())

    @property
    def deviation(self) -> float:
        """The standard deviation of the numbers of the column."""
        return float(np.sqrt(self._spread.squares[0] / max(self.n_known - self.n_infinite, 1)))


class MatrixLook:
    """What is known of the columns of rows of numbers, dense or CSR, shape (n, d), from blocks in turn."""

    def __init__(self, n_columns: int) -> None:
        self.n_rows = 0
        self.n_missing, self.n_infinite = np.zeros(n_columns, np.int64), np.zeros(n_columns, np.int64)
        self.smallest, self.largest = np.full(n_columns, np.inf), np.full(n_columns, -np.inf)
        self.digests = np.zeros(n_columns, np.uint64)
        self._spread = ColumnSpread(n_columns)

    def add(self, rows: Any) -> None:
        """Add the next rows, in pieces that are made dense and double."""
        n_columns = len(self.n_missing)
        step = max(1, LIMITS.spread_bytes // (8 * n_columns))
        for start in range(0, rows.shape[0], step):
            piece = rows[start : start + step]
            self._add(np.asarray(piece if isinstance(piece, np.ndarray) else piece.toarray(), np.float64))

    def _add(self, rows: NDArray[np.float64]) -> None:
        missing, finite = np.isnan(rows), np.isfinite(rows)
        self.n_missing += missing.sum(axis=0)
        self.n_infinite += (~finite & ~missing).sum(axis=0)
        self.smallest = np.minimum(self.smallest, np.where(finite, rows, np.inf).min(axis=0))
        self.largest = np.maximum(self.largest, np.where(finite, rows, -np.inf).max(axis=0))
        factors = row_factors(self.n_rows, self.n_rows + len(rows))
        self.digests += (mixed((rows + 0.0).view(np.uint64)) * factors[:, None]).sum(axis=0)
        self._spread.add(np.where(finite, rows, 0.0))
        self.n_rows += len(rows)

    @property
    def squares(self) -> NDArray[np.float64]:
        """Squared deviations of the columns from their means; gaps count as 0."""
        return self._spread.squares
