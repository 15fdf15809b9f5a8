"""Syntax of CSV: the line of names, what columns are for, numbers, and quoted cells of many lines."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Sequence

import numpy as np

from mmpca_dist.errors import InputError, did_you_mean, some_names
from mmpca_dist.tables.column_names import is_index, numbered
from mmpca_dist.tables.number_texts import MISSING, NOTATIONS, as_number
from mmpca_dist.tables.readers.column_choice import LABEL_NAMES

WHOLE = re.compile(r"-?\d{1,21}", re.ASCII)
SEPARATOR = re.compile(r'"?sep=(.)"?')
"""The line that Excel reads the separator from."""
EVEN, ASCENDING = 4, 8
"""Fewer numbers than these, next to words, are no sequence."""


def delimiter_of(first: str, second: str) -> str:
    """Return what separates cells: what both lines have as often outside of quotes, or else the first most often.

    Commas within cells that are numbers between semicolons are decimal ones. R's line of names may have a mark less.
    """
    plain, other = (re.sub('"[^"]*"', "", line) for line in (first, second))
    marks = {mark: (plain.count(mark), other.count(mark)) for mark in ",;\t|"}
    if 0 < marks[";"][0] == marks[";"][1] and not any(cell.count(",") > 1 for cell in plain.split(";")):
        return ";"
    if not any(map(any, marks.values())) and second.count(" ") in (first.count(" "), first.count(" ") + 1):
        return " "
    return max(marks, key=lambda mark: (0 < marks[mark][0] == marks[mark][1], marks[mark][0]))


def is_header(
    cells: list[str], below: Sequence[list[str]], options: Sequence[str], decimal: str = "."
) -> tuple[bool, bool]:
    """Tell whether the first line holds names, from its cells and those of rows ``below``, and whether it is certain.

    Names are words: one that stands above a number, or is "label" or what an option has, or all of them unless one
    occurs again in its own column. Numbers are names where they are in sequence: years, wavelengths, or the 0, 1, ...
    that pandas writes for an array. Without words next to them other sequences must be twice as long.
    """
    values, under = ([as_number(cell, decimal) for cell in row] for row in (cells, below[0] if below else []))
    words = {cell for cell, value in zip(cells, values, strict=True) if value is None}
    if not words.isdisjoint(["label", *options]):
        return True, True
    counted = len(cells) > 2 or any(value is not None and value % 1 for row in below for value in map(as_number, row))
    if all(word in ("", "y") or is_index(word) for word in words) and counted and _count_up(values):
        return True, True
    above = {cell for cell, number in zip(cells, under, strict=False) if number is not None} & words - MISSING
    if any(cell[:1].isalpha() for cell in above):
        return True, True
    others = [row for row in below if len(row) == len(cells) and row != cells]
    if any(a == b and a in words - {""} for row in others for a, b in zip(cells, row, strict=True)):
        return False, False
    if all(value is None for value in values):
        return True, any(number is not None for number in under)
    length = 1 if words else 2
    return _in_sequence(values, length) and not _in_sequence(under, length), False


def _count_up(values: Sequence[float | None]) -> bool:
    """Tell whether numbers are those of their columns, from 0 or from the first number's column."""
    steps = {value - i for i, value in enumerate(values) if value is not None}
    return len(steps) == 1 and steps <= {0, -1} and any(value == 0 for value in values)


def has_decimal_commas(rows: Sequence[list[str]]) -> bool:
    """Tell whether numbers in rows have a decimal comma, and none a decimal point, nor all thousands signs."""
    cells = [cell.strip() for row in rows for cell in row]
    notations = [next((name for name, form in NOTATIONS.items() if form.fullmatch(cell)), "") for cell in cells]
    points = any("." in cell and as_number(cell) is not None for cell in cells)
    return "a decimal comma" in notations and not points


def rows_of(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """Return the cells of the lines at the beginning of a file, without blanks around them."""
    return [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=delimiter) if row]


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
        same = [i for i, other in enumerate(names) if other == name] or [
            i for i, other in enumerate(numbered(names)) if other == name
        ]
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


def whole_numbers(texts: list[str]) -> list[int] | None:
    """Return the whole numbers that texts spell, ``1.0`` too; None of other text, such as ``01`` beside ``1``."""
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
