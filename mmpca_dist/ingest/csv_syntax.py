"""Syntax of CSV: the line of names, what columns are for, numbers, and quoted cells of many lines."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence

import numpy as np

from mmpca_dist.errors import InputError, did_you_mean, some_names
from mmpca_dist.tables.readers.named_columns import LABEL_NAMES

WHOLE = re.compile(r"-?\d{1,21}", re.ASCII)


def is_header(cells: list[str], options: Sequence[str]) -> bool:
    """Tell whether the first line holds names: words alone, or a name that an option has.

    Above numbers, pandas names the columns of an array 0, 1, ...: any other number is data.
    """
    numbers = [(i, number) for i, cell in enumerate(cells) if (number := as_number(cell)) is not None]
    if not numbers:
        return True
    return all(number - i in (0, -1) for i, number in numbers) and not {*LABEL_NAMES, *options}.isdisjoint(
        cell for cell in cells if as_number(cell) is None
    )


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
