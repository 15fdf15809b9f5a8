"""Text that spells numbers, in any notation; and the one list of words that say that there is no value."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mmpca_dist.faults import Fault
from mmpca_dist.tables.column import has_value
from mmpca_dist.tables.stored_types import is_number

MISSING = frozenset([
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
])  # fmt: skip
"""The words that pandas takes for missing. Blanks around them do not count."""
_PLAIN = r"[+-]?(\d{1,3}([,' ]\d{3})+|\d+)?([.,]?\d+)?"
NOTATIONS = {
    "a thousands sign": re.compile(
        r"[+-]?[1-9](\d?(,\d\d)+,\d{3}|\d{0,2}(([,'\u00a0\u202f ]\d{3})+(\.\d+)?|(\.\d{3})+,\d+|(\.\d{3}){2,}))"
    ),
    "a decimal comma": re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?"),
    "a percent sign": re.compile(rf"{_PLAIN}\s*[%‰]"),
    "a currency": re.compile(rf"[+-]?([$€£¥₹]|[A-Z]{{3}}\s)\s*{_PLAIN}|{_PLAIN}\s*([$€£¥₹]|\s[A-Z]{{3}})"),
    "a limit": re.compile(rf"[<>≤≥~]=?\s*{_PLAIN}"),
    "a minus sign of print": re.compile(rf"[\u2212\u2013]{_PLAIN}"),
    "a mark": re.compile(rf"{_PLAIN}\s?([*†‡]+|-)|\({_PLAIN}\)"),
    "a unit": re.compile(rf"{_PLAIN}(\s[a-zA-Zµ°/²³]{{1,8}}|[a-zµ°]([a-zA-Zµ°/²³]{{1,5}})|°)(?<!st|nd|rd|th)"),
}
"""Numbers that no program reads as they are, by what is in them."""
CODE = re.compile(r"0\d+")
"""Digits that are no number, as those of postal codes."""
TOTAL = re.compile(r"(grand\s|sub)?(total|sum|average|mean)s?:?", re.I)
FEW, MOST_OTHERS, MOST_WORDS = 20, 50, 10
"""Different whole numbers of categories; different other cells of a column of numbers; of them those listed."""


def as_number(text: str, decimal: str = ".") -> float | None:
    """Return the number that a text spells, or None; ``1_0``, a number in Python alone, is none."""
    if decimal != ".":
        text = "." if "." in text else text.replace(decimal, ".")
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


def without_words(values: Any, words: Collection[str] = ()) -> Any:
    """Return an Arrow column without values where words say that there is none; in numbers those such as -999 do."""
    kind = values.type
    if isinstance(values, pa.ChunkedArray):
        chunks = [without_words(chunk, words) for chunk in values.chunks]
        return pa.chunked_array(chunks, chunks[0].type if chunks else kind)
    if is_number(kind):
        none = pa.array(numbers_in(words), pa.float64())
        return _without(values, pc.is_in(values.cast(pa.float64(), safe=False), none)) if len(none) else values
    texts = values.dictionary if pa.types.is_dictionary(kind) else values
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        return values
    says_none = pc.is_in(pc.utf8_trim_whitespace(texts), pa.array(sorted(MISSING.union(words)), texts.type))
    if not pc.any(says_none).as_py():
        return values
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(_without(values.indices, says_none.take(values.indices)), texts)
    return _without(texts, says_none)


def says_value(values: NDArray, words: Collection[str] = ()) -> NDArray[np.bool_]:
    """Return which stored values, shape (n,), are there: none that `has_value` misses, and no word for such a one."""
    there = has_value(values)
    if values.dtype.kind in "OSTU":
        marks: set[Any] = {*MISSING, *words, *(word.encode() for word in MISSING.union(words))}
        texts = values.tolist()
        if none := {text for text in set(texts) if isinstance(text, str | bytes) and text.strip() in marks}:
            there &= [text not in none for text in texts]
    elif values.dtype.kind in "iuf" and words:
        there &= ~np.isin(values, numbers_in(words))
    return there


def _without(values: pa.Array, none: pa.Array) -> pa.Array:
    return pc.if_else(none, pa.scalar(None, values.type), values)


def numbers_in(words: Collection[str]) -> list[float]:
    """Return the numbers among words for missing values, such as -999."""
    return [number for number in map(as_number, words) if number is not None]


def spelled_numbers(values: Any, decimal: str) -> NDArray[np.float64]:
    """Return the numbers that an Arrow column of text spells; NaN where it has no value, or is no number."""
    encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    spelled = [as_number(text.strip(), decimal) for text in encoded.dictionary.to_pylist()]
    numbers = np.asarray([*spelled, None], np.float64)
    return numbers[pc.fill_null(encoded.indices, len(spelled)).to_numpy(zero_copy_only=False)]


@dataclass
class NumberTexts:
    """How many cells of a text column are numbers, in which notation, and which other cells there are."""

    decimal: str = "."
    n_cells: int = 0
    n_plain: int = 0
    notations: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    others: Counter[str] = field(default_factory=Counter)
    """Cells that are no plain numbers, the first different ones."""
    rest: Counter[str] = field(default_factory=Counter)
    """Those in none of the notations."""
    different: set[str] = field(default_factory=set)
    is_whole: bool = True

    def add(self, counts: Mapping[str, int]) -> None:
        """Add some cells: how many there are of each."""
        self.n_cells += sum(counts.values())
        for cell, n in counts.items():
            if self.is_other:
                return
            text = cell.strip()
            number = None if CODE.fullmatch(text) else as_number(text, self.decimal)
            notation = "" if number is not None else _notation(text, self.decimal)
            if number is not None:
                self.n_plain += n
                self.is_whole = self.is_whole and number % 1 == 0
            elif notation:
                self.notations[notation] += n
                self.examples.setdefault(notation, text)
                self.is_whole = self.is_whole and notation in ("a limit", "a mark", "a unit")
            else:
                self.rest[text] += n
            if number is None and (text in self.others or len(self.others) <= MOST_OTHERS):
                self.others[text] += n
            if notation is not None and len(self.different) <= FEW:
                self.different.add(text)

    def add_plain(self, n: int, some: Iterable[Any], is_whole: bool) -> None:
        """Add ``n`` cells that are read as numbers, ``some`` of the different ones."""
        self.n_plain += n
        self.is_whole = self.is_whole and is_whole
        self.different.update(map(str, itertools.islice(some, FEW + 1)))

    @property
    def is_other(self) -> bool:
        """Whether so many different cells are no numbers that these do not matter."""
        return len(self.rest) > MOST_OTHERS

    @property
    def n_numbers(self) -> int:
        return self.n_plain + self.notations.total()

    @property
    def are_few(self) -> bool:
        """Whether the numbers may be names of categories: few different ones, and whole."""
        return self.is_whole and len(self.different) <= min(FEW, self.n_numbers / 3)

    @property
    def are_numbers(self) -> bool:
        """Whether this is a column of numbers, among which some other cells may be, rather than one of categories."""
        words = Counter({text: n for text, n in self.rest.items() if any(map(str.isalnum, text)) and text != r"\N"})
        if not self.n_numbers or self.is_other:
            return False
        many = len(words) > MOST_WORDS and words.total() > self.n_numbers / 4
        is_level = len(self.different) == 1 and bool(words)
        few = is_level or (self.are_few and (words or not self.others or self.notations.keys() == {"a mark"}))
        return not (many or few or words.total() > self.n_numbers)

    @property
    def are_plain(self) -> bool:
        """Whether all cells are numbers as programs write them."""
        return bool(self.n_plain) and not self.others

    @property
    def words(self) -> list[str]:
        """The other cells, where they are few enough to be called missing; none where numbers of a notation prevail."""
        few = len(self.others) <= MOST_WORDS and self.notations.total() <= self.n_plain
        return list(self.others) if few and not any(map(TOTAL.fullmatch, self.rest)) else []

    def fault(self, name: str) -> Fault:
        """Return that these are the cells of a column of this name."""
        return Fault(self.said, {"name": name, "words": self.words, "notations": list(self.notations)}, "words")

    @property
    def said(self) -> str:
        """The cells of the column in words: "295 numbers, and '?' 5 times"."""
        prevails = self.notations.total() > self.n_plain
        parts = [f"{self.n_plain:,} number{'s' * (self.n_plain != 1)}"] if self.n_plain else []
        parts += [
            f"{n:,} numbers with {notation}, such as {self.examples[notation]!r}"
            for notation, n in self.notations.most_common()
            if prevails
        ]
        cells = self.rest if prevails else self.others
        most = cells.most_common(3 if len(cells) > MOST_WORDS else MOST_WORDS)
        counted = [f"{text[:40]!r} {'once' if n == 1 else f'{n:,} times'}" for text, n in most]
        counted += [f"{cells.total() - sum(n for _, n in most):,} other cells"] if len(cells) > len(most) else []
        return ", and ".join(filter(None, [", ".join(parts), ", ".join(counted)]))


def _notation(text: str, decimal: str) -> str | None:
    """Return what is in a text that spells a number in another notation; None of other text."""
    if not any(map(str.isdigit, text)):
        return None
    if decimal == "," and as_number(text) is not None:
        return "a decimal point"
    return next((name for name, form in NOTATIONS.items() if form.fullmatch(text)), None)
