"""Syntax of CSV: the line of names, what columns are for, numbers, and quoted cells of many lines."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.csv

from mmpca_dist.errors import InputError, did_you_mean, some_names
from mmpca_dist.tables.readers.named_columns import LABEL_NAMES

WHOLE = re.compile(r"-?\d{1,21}", re.ASCII)
MISSING = frozenset(pa.csv.ConvertOptions().null_values)
EVEN, ASCENDING = 4, 8
"""Fewer numbers than these, next to words, are no sequence."""


def delimiter_of(first: str, second: str) -> str:
    """Return what separates cells: what both lines have as often outside of quotes, or else the first most often."""
    plain, other = (re.sub('"[^"]*"', "", line) for line in (first, second))
    return max(",;\t", key=lambda mark: (0 < plain.count(mark) == other.count(mark), plain.count(mark)))


def is_header(cells: list[str], below: list[str], options: Sequence[str]) -> bool:
    """Tell whether the first line holds names, from its cells and those ``below``.

    Names are words: all of them, or one that stands above a number, or is "label" or what an option has. Numbers
    are names where they are in sequence: years, wavelengths, or the 0, 1, ... that pandas writes for an array. Without
    words next to them they must be twice as many.
    """
    values, under = list(map(as_number, cells)), list(map(as_number, below))
    words = {cell for cell, value in zip(cells, values, strict=True) if value is None}
    if not any(value is not None for value in values) or not words.isdisjoint(["label", *options]):
        return True
    if "y" in words and all(value is None or value - i in (0, -1) for i, value in enumerate(values)):
        return True
    above = {cell for cell, number in zip(cells, under, strict=False) if number is not None} & words - MISSING
    length = 1 if words else 2
    named = any(cell[:1].isalpha() for cell in above)
    return named or (_in_sequence(values, length) and not _in_sequence(under, length))


def _in_sequence(values: Sequence[float | None], length: int) -> bool:
    """Tell whether numbers are evenly spaced, or ascend or descend: so many as those of a row hardly ever are."""
    steps = np.diff([value for value in values if value is not None])
    even = len(steps) + 1 >= EVEN * length and bool((steps == steps[0]).all() and steps[0])
    return even or (len(steps) + 1 >= ASCENDING * length and bool((steps > 0).all() or (steps < 0).all()))


def column_uses(
    names: list[str], n_columns: int, chosen: Sequence[tuple[str, str | int]], labelled: bool, uri: str
) -> dict[int, tuple[str, str | int]]:
    """Return the option and name that take each column that is no feature; labels are ``--label``.

    ``chosen`` are options and names. A name that several columns have stands for all of them if they are dropped.
    """
    uses: dict[int, tuple[str, str | int]] = {}
    for option, name in chosen:
        same = [i for i, other in enumerate(names) if other == name]
        if len(same) > 1 and option != "--drop":
            raise InputError(f"{uri} has {len(same)} columns {name!r} ({option}): rename all but one.")
        for position in same or [_position(names, n_columns, name, uri, option)]:
            if uses.setdefault(position, (option, name)) != (option, name):
                raise InputError(
                    f"{uses[position][0]} and {option} both name column {position} of {uri}, {name!r}: leave out one."
                )
    rest = [i for i in range(n_columns) if i not in uses]
    if labelled and rest and not any(option == "--label" for option, _ in chosen):
        guess = next((i for name in LABEL_NAMES for i in rest if names and names[i] == name), rest[-1])
        uses[guess] = "--label", names[guess] if names else guess
        rest.remove(guess)
    if not rest:
        raise InputError(f"{uri} has no features left: all columns are labels, dropped or kept. Drop or keep fewer.")
    return uses


def _position(names: list[str], n_columns: int, name: str | int, uri: str, option: str) -> int:
    try:
        position = int(name)
    except ValueError as error:
        hint = " Its first line holds no names; give a number."
        if names:
            hint = did_you_mean(str(name), names) or f" Its columns are {some_names(names)}."
        raise InputError(f"{uri} has no column {name!r} ({option}).{hint}") from error
    if not -n_columns <= position < n_columns:
        raise InputError(f"{uri} has no column {position} ({option}); it has {n_columns} columns.")
    return position % n_columns


def as_number(text: str) -> float | None:
    """Return the number that a text spells, or None; ``1_0``, a number in Python alone, is none."""
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


def whole_numbers(texts: list[str]) -> list[int] | None:
    """Return the whole numbers that texts spell, ``1.0`` and ``+1`` among them; None where one is another text.

    Next to ``1``, ``01`` is another name, so that all of them stay texts.
    """
    plain = [re.sub(r"^\+|\.0*$", "", text) for text in texts]
    numbers = [int(text) for text in plain if WHOLE.fullmatch(text)]
    return numbers if len(numbers) == len(texts) and len(set(numbers)) == len(set(plain)) else None


def open_quote(data: bytes, delimiter: str) -> int | None:
    """Return where the last quoted cell of whole lines begins, if it is not closed.

    pyarrow closes such a cell at the end of its data, so that it swallows rows. Quotes within other cells are
    characters.
    """
    if b'"' not in data or _is_plain(data, delimiter):
        return None
    quoted = re.compile(rb'(?:^|[\r\n%s])"(?:[^"]++|"")*+(?P<end>"?)' % re.escape(delimiter.encode()))
    last = deque(quoted.finditer(data), maxlen=1)
    return None if not last or last[0]["end"] else last[0].start() + last[0][0].index(b'"')


def _is_plain(data: bytes, delimiter: str) -> bool:
    """Tell whether all quotes are pairs around cells, as they are in nearly all files: a fast look."""
    characters = np.frombuffer(b"\n%b\n" % data, np.uint8)
    (quotes,) = np.nonzero(characters == ord('"'))
    around = characters[np.concatenate([quotes[::2] - 1, quotes[1::2] + 1])]
    return len(quotes) % 2 == 0 and bool(np.isin(around, list(b"\r\n" + delimiter.encode())).all())
