"""A look at every column of a table in one reading: type, gaps, different values, range and spread."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mmpca_dist.column_words import PERSONAL
from mmpca_dist.ingest.to_parquet import both
from mmpca_dist.limits import LIMITS
from mmpca_dist.tables.column_scatter import ColumnSpread
from mmpca_dist.tables.levels import is_text
from mmpca_dist.tables.number_texts import TOTAL, NumberTexts, spelled_numbers, without_words
from mmpca_dist.tables.stored_types import is_number

VALUES, FEWEST_VALUES = 1 << 20, 16
"""Different values that are kept in all columns together, and of each at least."""
ALL = 1 << 64
CELLS = 1 << 20
"""Cells of rows at even distances that are kept in all columns together."""
BARS = 18
"""Bars of the histogram of a column; of levels the last is that of all others."""
WHOLE = 2.0**53
"""Whole numbers from here on are not told apart as doubles."""

Pieces = Iterable[Sequence[pa.ChunkedArray]]
"""The columns of some rows in turn."""


class ColumnProfile:
    """The profile of a column of a table, from pieces of it in turn.

    The values with the smallest hashes are kept, and how many rows have each: all values of a column that has few, else
    a fair sample.
    """

    def __init__(self, name: str, n_columns: int = 1, decimal: str = ".") -> None:
        self.name, self.kind, self.numbers = name, pa.null(), NumberTexts(decimal)
        self.n_rows = self.n_known = self.n_infinite = self._n_plain = 0
        self.smallest, self.largest, self.is_whole = np.inf, -np.inf, True
        self._spread, self.digest = ColumnSpread(1), hashlib.sha256()
        self._most = max(min(LIMITS.max_levels + 1, VALUES // n_columns), FEWEST_VALUES)
        self._values: dict[int, tuple[Any, int]] = {}
        self._below = ALL
        self._n_kept, self._step, self._rows = max(CELLS // n_columns, 1000), 1, [np.zeros((0, 2))]

    def add(self, values: pa.Array) -> None:
        """Add the next rows of the column."""
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        self.kind, self.n_rows = both(self.kind, values.type), self.n_rows + len(values)
        if pa.types.is_time(values.type):  # Python has no nanoseconds
            values = values.cast(pa.string())
        elif pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):  # labels of bytes are read so
            with suppress(pa.ArrowInvalid):
                values = values.cast(pa.large_string())
        elif pa.types.is_decimal(values.type) and not values.type.scale:
            values = _whole(values)
        measured = is_number(values.type)
        if measured and not pa.types.is_integer(values.type):  # NaN is a gap
            values = pa.array(values.cast(pa.float64()).to_numpy(zero_copy_only=False), from_pandas=True)
        known = values.drop_null()
        self.n_known += len(known)
        there = values.is_valid().to_numpy(zero_copy_only=False)
        self.digest.update(there.tobytes())
        if pa.types.is_nested(values.type):
            return
        plain = known.to_numpy(zero_copy_only=False)
        counts = measured or pa.types.is_boolean(values.type)
        numbers, hashes = plain.astype(np.float64) if counts else None, _hashes(plain)
        if is_text(values.type) and not self.numbers.is_other:
            self.numbers.add({each["values"]: each["counts"] for each in known.value_counts().to_pylist()})
            numbers = spelled_numbers(known, self.numbers.decimal)
        self._keep_rows(there, hashes, numbers)
        if not len(known):
            return
        if numbers is not None:
            self._measure(numbers[~np.isnan(numbers)])
        self.digest.update(hashes.tobytes())
        few = np.flatnonzero(hashes <= np.uint64(self._below - 1))
        keys, firsts, times = np.unique(hashes[few], return_index=True, return_counts=True)
        for key, value, n in zip(keys.tolist(), known.take(few[firsts]).to_pylist(), times.tolist(), strict=True):
            self._values[key] = value, n + self._values.get(key, (value, 0))[1]
        self._n_plain += len(known) if measured else 0
        if is_text(self.kind) and self._n_plain:  # other rows are read as numbers, those of CSV
            some = (value for value, _ in self._values.values() if isinstance(value, int | float))
            self.numbers.add_plain(self._n_plain, some, self.is_whole)
            self._n_plain = 0
        if len(self._values) > self._most:
            self._below = sorted(self._values)[self._most]
            self._values = {key: kept for key, kept in self._values.items() if key < self._below}

    def _keep_rows(self, there: NDArray[np.bool_], hashes: NDArray, numbers: NDArray[np.float64] | None) -> None:
        """Keep rows at even distances, which are the same in all columns: hashes as doubles, and numbers."""
        rows = np.full((len(there), 2), np.nan)
        rows[there, 0] = hashes >> 11  # which a double holds
        rows[there, 1] = np.nan if numbers is None else numbers
        self._rows.append(rows[-(self.n_rows - len(there)) % self._step :: self._step].copy())
        while sum(map(len, self._rows)) > self._n_kept:
            self._rows, self._step = [np.concatenate(self._rows)[::2]], 2 * self._step

    def some_rows(self, number: bool) -> NDArray[np.float64]:
        """Return numbers of some rows, the same of each column, or hashes of its values; NaN where there is none."""
        return np.concatenate(self._rows)[:, int(number)]

    def _measure(self, numbers: Any) -> None:
        finite = numbers[np.isfinite(numbers)]
        self.n_infinite += len(numbers) - len(finite)
        if len(finite):
            self.is_whole = self.is_whole and bool((finite == np.rint(finite)).all())
            self.smallest = min(self.smallest, float(finite.min()))
            self.largest = max(self.largest, float(finite.max()))
            with np.errstate(over="ignore", invalid="ignore"):  # of numbers near the largest
                self._spread.add(finite[:, None])

    def take_words(self, words: Collection[str], spells: bool) -> None:
        """Take more words for missing values; text that ``spells`` numbers alone is then a column of numbers."""
        if not is_text(self.kind):
            return
        none = {key for key, (value, _) in self._values.items() if str(value).strip() in words}
        self.n_known -= sum(self._values.pop(key)[1] for key in none)
        if spells:
            self.kind, self.n_known = pa.float64(), self.numbers.n_plain

    @property
    def is_number(self) -> bool:
        """Whether the column holds numbers."""
        return is_number(self.kind)

    @property
    def is_names(self) -> bool:
        """Whether the column holds text, booleans or whole numbers, as labels are."""
        return is_text(self.kind) or pa.types.is_boolean(self.kind) or (self.is_number and self.is_whole)

    @property
    def may_be_passed_on(self) -> bool:
        """Whether the column is of measurements: no text, date, identifier, or number that tells who somebody is."""
        if not (self.is_number or pa.types.is_boolean(self.kind)) or PERSONAL.search(self.name):
            return False
        return not (self.is_number and self.is_whole and self.n_distinct > max(self.n_known / 3, FEWEST_VALUES))

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

    def alike_notes(self) -> list[str]:
        """Return a note on texts that are the same but for blanks, case, or how their letters are composed."""
        forms: dict[str, list[str]] = {}
        for text in sorted(self.levels) if is_text(self.kind) else ():
            forms.setdefault(" ".join(unicodedata.normalize("NFKC", text).casefold().split()), []).append(text)
        alike = next((texts for texts in forms.values() if len(texts) > 1), [])
        what = "has texts that differ only in blanks, case or composed letters"
        so = "They count as different: write them alike if they are the same."
        return [f"{self.name!r} {what}, such as {' and '.join(map(ascii, alike[:2]))}. {so}"] if alike else []

    @property
    def has_total(self) -> bool:
        """Whether a row says in this column of text that it holds totals, as the last one of a sheet does."""
        totals = [text for text, n in self.levels.items() if n == 1 and TOTAL.fullmatch(text.strip())]
        return any(self.numbers.are_numbers or "total" in text.lower() for text in totals)

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

    @property
    def bars(self) -> list[int]:
        """Rows that are kept in equal parts of the range; of text, rows of the most frequent values and all others."""
        numbers, span = self.some_rows(number=True), self.largest - self.smallest
        if pa.types.is_temporal(self.kind) or not (np.isfinite(span) if self.is_number else not self.all_differ):
            return []
        if self.is_number:
            n_bars = min(BARS, self.n_distinct)
            parts = (numbers[np.isfinite(numbers)] - self.smallest) / (span or 1) * n_bars
            return np.bincount(np.minimum(parts, n_bars - 1).astype(int), minlength=n_bars).tolist()
        counts = sorted(self.levels.values(), reverse=True)
        shown = counts if self.keeps_all and len(counts) <= BARS else counts[: BARS - 1]
        return shown + [self.n_known - sum(shown)] * (len(shown) < self.n_distinct)


def _whole(values: pa.Array) -> pa.Array:
    """Return decimals without a fraction as whole numbers, or as text where no 64-bit type holds them."""
    for kind in (pa.int64(), pa.uint64()):
        with suppress(pa.ArrowInvalid):
            return values.cast(kind)
    return values.cast(pa.string())


def profiles_of(names: Sequence[str], pieces: Pieces, decimal: str = ".") -> list[ColumnProfile]:
    """Return the profiles of columns, from pieces of all of them in turn."""
    looks = [ColumnProfile(name, len(names), decimal) for name in names]
    for columns in pieces:
        for look, column in zip(looks, columns, strict=True):
            for values in column.chunks:
                look.add(values)
    return looks


def with_value(pieces: Pieces, at: int, words: Collection[str] = ()) -> Pieces:
    """Yield the rows that have a value in a column, without ``words`` for missing values."""
    for every in pieces:
        columns = [without_words(column, words) for column in every]
        known = pc.fill_null(pc.invert(pc.is_null(columns[at], nan_is_null=True)), False)
        yield [column.filter(known) for column in columns]


def _hashes(values: NDArray) -> NDArray[np.uint64]:
    """Return hashes of values: of whole numbers those of doubles, unless these would not tell them apart."""
    if values.dtype.kind not in "iu" or not len(values):
        return pd.util.hash_array(values)
    doubles = values.astype(np.float64)
    hashes, large = pd.util.hash_array(doubles), np.abs(doubles) >= WHOLE
    hashes[large] = ~pd.util.hash_array(values[large])
    return hashes


def suits_commas(columns: Sequence[ColumnProfile], of_csv: bool) -> bool:
    """Tell whether columns hold numbers with a decimal comma, and, in text, none with a point."""
    of_text = [column.numbers for column in columns if column.numbers.are_numbers]
    commas = [each.notations["a decimal comma"] > each.n_plain for each in of_text]
    points = of_csv and any(pa.types.is_floating(column.kind) for column in columns)
    return any(commas) and not points and all(each.is_whole or of for each, of in zip(of_text, commas, strict=True))
