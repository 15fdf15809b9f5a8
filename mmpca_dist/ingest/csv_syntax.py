"""Syntax of CSV: the line of names, the label, columns to drop and to keep, numbers, and quoted cells of many lines."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from mmpca_dist.errors import InputError, did_you_mean, some_names
from mmpca_dist.tables.readers.named_columns import LABEL_NAMES

NO_VALUE = frozenset(["", "na", "n/a", "nan", "null", "none"])
CELL_BYTES = 1 << 20
"""A quoted cell that is longer, ends of lines and all, is taken for one that is not closed."""


def is_header(cells: list[str], following: list[str], label: str | int | None, drop: Sequence[str]) -> bool:
    """Tell whether the first line holds names: words alone, words above numbers, or a name that an option has."""
    stripped = [cell.strip() for cell in cells]
    numbers = [as_number(cell) for cell in stripped]
    # pandas names the columns of an array 0, 1, ...: any other number is data.
    if any(number is not None and abs(number - i) not in (0, 1) for i, number in enumerate(numbers)):
        return False
    labels = [str(label)] if label and as_number(str(label)) is None else LABEL_NAMES
    if any(name in stripped for name in (*labels, *[name for name in drop if as_number(name) is None])):
        return True
    return all(number is None for number in numbers) or any(
        number is None and above.lower() not in NO_VALUE and as_number(below) is not None
        for number, above, below in zip(numbers, stripped, following, strict=False)
    )


def label_position(
    names: list[str], n_columns: int, label: str | int | None, others: Mapping[str, Collection[int]], uri: str
) -> int:
    """Return the column of the labels, which is none of the ``others``: columns by the option that names them."""
    if label is None:
        rest = [i for i in range(n_columns) if not any(i in positions for positions in others.values())]
        if not rest:
            raise InputError(f"{uri} has no columns other than those dropped or kept.")
        named = {names[i]: i for i in reversed(rest)} if names else {}
        return next((named[name] for name in LABEL_NAMES if name in named), rest[-1])
    position = _position(names, n_columns, label, uri, "--label", "label column")
    for option, positions in others.items():
        if position in positions:
            raise InputError(f"{option} names {label!r}, which is the label of {uri}.")
    return position


def dropped_positions(names: list[str], n_columns: int, drop: Sequence[str], uri: str) -> set[int]:
    """Return the columns to leave out; a name that several columns have stands for all of them."""
    positions: set[int] = set()
    for name in drop:
        alike = {i for i, other in enumerate(names) if other == name}
        positions |= alike or {_position(names, n_columns, name, uri, "--drop", "column")}
    return positions


def kept_positions(
    names: list[str], n_columns: int, keep: Sequence[str], dropped: Collection[int], uri: str
) -> dict[str, int]:
    """Return the columns to keep in addition to the labels, each of them once."""
    positions: dict[str, int] = {}
    for name in keep:
        if names.count(name) > 1:
            raise InputError(f"{uri} has {names.count(name)} columns {name!r} (--keep): rename all but one.")
        position = _position(names, n_columns, name, uri, "--keep", "column")
        if position in dropped:
            raise InputError(f"--keep and --drop both name {name!r} of {uri}: leave out one.")
        if position in positions.values():
            raise InputError(f"--keep names column {position} of {uri} twice, once as {name!r}: leave out one.")
        positions[name] = position
    return positions


def chosen_positions(
    names: list[str], n_columns: int, chosen: Sequence[str | int], others: Collection[int], uri: str
) -> list[int]:
    """Return the columns that are chosen as features, which are none of the ``others``."""
    positions: list[int] = []
    for name in chosen:
        position = _position(names, n_columns, name, uri, "--columns", "column")
        if position in positions:
            raise InputError(f"--columns names {name!r} of {uri} twice: leave out one.")
        if position in others:
            raise InputError(
                f"--columns names {name!r}, which is the label of {uri}, or dropped or kept: leave it out."
            )
        positions.append(position)
    return positions


def _position(names: list[str], n_columns: int, name: str | int, uri: str, option: str, what: str) -> int:
    if name in names:
        return names.index(str(name))
    try:
        position = int(name)
    except ValueError as error:
        hint = " Its first line holds no names; give a number."
        if names:
            hint = did_you_mean(str(name), names) or f" Its columns are {some_names(names)}."
        raise InputError(f"{uri} has no {what} {name!r} ({option}).{hint}") from error
    if not -n_columns <= position < n_columns:
        raise InputError(f"{uri} has no column {position} ({option}); it has {n_columns} columns.")
    return position % n_columns


def as_number(text: str) -> float | None:
    """Return the number that a text spells, or None; ``1_0``, a number in Python alone, is none."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def whole_numbers(texts: list[str]) -> list[int] | None:
    """Return the exact whole numbers that texts spell, or None where one of them spells none.

    ``1.0`` and ``+1`` are ``1``. Next to ``1``, however, ``01`` is another name, so that all of them stay texts.
    """
    numbers: list[int] = []
    digits: dict[int, str] = {}
    for text in texts:
        value = as_number(text)
        if value is None or not math.isfinite(value):
            return None
        number = int(Decimal(text))
        plain = re.sub(r"^[+-]|\.0*$", "", text)
        other = digits.setdefault(number, plain)
        if Decimal(text) != number or (plain != other and plain.isdecimal() and other.isdecimal()):
            return None
        numbers.append(number)
    return numbers


def with_quotes_closed(data: bytes, text: Any, delimiter: str, line: int, uri: str) -> bytes:
    """Return whole lines with those that follow in the file ``text``, until no quoted cell is open.

    pyarrow silently closes such a cell at the end of its data, so that the cell swallows all rows after it.
    ``line`` is the number of the first line; a cell that is not closed within 1 MiB, or in the file, is an error.
    """
    if _closed_at_a_glance(data, delimiter):
        return data
    before: list[bytes] = []
    while (opened := _open_quote(data, delimiter)) is not None:
        before.append(data[:opened])
        rest = _rest_of_cell(text)
        if not rest:
            number = line + sum(part.count(b"\n") for part in before)
            raise InputError(f"A quote that is opened in line {number} of {uri} is not closed. Close it, or remove it.")
        data = data[opened:] + rest
    return b"".join([*before, data])


def _closed_at_a_glance(data: bytes, delimiter: str) -> bool:
    """Tell quickly whether all quotes are pairs around cells of one line, as they are in nearly all files."""
    if b'"' not in data:
        return True
    characters = np.frombuffer(data, np.uint8)
    quotes_and_line_ends = np.flatnonzero((characters == ord('"')) | (characters == ord("\n")))
    (positions,) = np.nonzero(characters[quotes_and_line_ends] == ord('"'))
    if len(positions) % 2 or np.any(positions[1::2] - positions[::2] != 1):
        return False  # a line ends between two of a pair
    quotes = quotes_and_line_ends[positions]
    before, after = quotes[::2] - 1, quotes[1::2] + 1
    cell_ends = np.zeros(256, bool)
    cell_ends[[ord(delimiter), ord("\r"), ord("\n")]] = True
    return bool(
        cell_ends[characters[before[before >= 0]]].all() and cell_ends[characters[after[after < len(data)]]].all()
    )


def _rest_of_cell(text: Any) -> bytes:
    """Return the next lines as far as the one in which the open cell ends, or nothing if it does not."""
    lines: list[bytes] = []
    size = 0
    while size <= CELL_BYTES and (line := text.readline()):
        lines.append(line)
        size += len(line)
        if b'"' in line.replace(b'""', b""):
            return b"".join(lines)
    return b""


def _open_quote(data: bytes, delimiter: str) -> int | None:
    """Return where the last quoted cell begins, if it is not closed; quotes within other cells are characters."""
    quoted = re.compile(rb'(?:^|[\r\n%s])"(?:[^"]++|"")*+(?P<end>"?)' % re.escape(delimiter.encode()))
    last = deque(quoted.finditer(data), maxlen=1)
    return None if not last or last[0]["end"] else last[0].start() + last[0][0].index(b'"')
