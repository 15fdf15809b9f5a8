"""Columns of CSV: the line of names, the label, columns to drop and to keep."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal

from mmpca_dist.datasets.readers.named_columns import LABEL_NAMES
from mmpca_dist.errors import InputError, did_you_mean, some_names

NO_VALUE = frozenset(["", "na", "n/a", "nan", "null", "none"])


def is_header(cells: list[str], following: list[str], label: str | int | None, drop: Sequence[str]) -> bool:
    """Tell whether the first line holds names: words alone, words above numbers, or a name that is given."""
    stripped = [cell.strip() for cell in cells]
    numbers = [as_number(cell) for cell in stripped]
    # pandas names the columns of an array 0, 1, ...: any other number is data.
    if any(number is not None and abs(number - i) not in (0, 1) for i, number in enumerate(numbers)):
        return False
    known = [str(label)] if label and as_number(str(label)) is None else LABEL_NAMES
    if any(name in stripped for name in (*known, *[name for name in drop if as_number(name) is None])):
        return True
    return all(number is None for number in numbers) or any(
        number is None and above.lower() not in NO_VALUE and as_number(below) is not None
        for number, above, below in zip(numbers, stripped, following, strict=False)
    )


def label_position(
    names: list[str], n_columns: int, label: str | int | None, taken: Mapping[str, Collection[int]], uri: str
) -> int:
    """Return the column of the labels, which is none of those that options have taken."""
    if label is None:
        left = [i for i in range(n_columns) if not any(i in positions for positions in taken.values())]
        if not left:
            raise InputError(f"{uri} has no columns beside those dropped or kept.")
        named = {names[i]: i for i in reversed(left)} if names else {}
        return next((named[name] for name in LABEL_NAMES if name in named), left[-1])
    position = _position(names, n_columns, label, uri, "--label", "label column")
    for option, positions in taken.items():
        if position in positions:
            raise InputError(f"{option} names {label!r}, which is the label of {uri}.")
    return position


def dropped_positions(names: list[str], n_columns: int, drop: Sequence[str], uri: str) -> set[int]:
    """Return the columns to leave out, all of a name where several have it."""
    found = set()
    for name in drop:
        alike = {i for i, other in enumerate(names) if other == name}
        found |= alike or {_position(names, n_columns, name, uri, "--drop", "column")}
    return found


def kept_positions(
    names: list[str], n_columns: int, keep: Sequence[str], dropped: Collection[int], uri: str
) -> dict[str, int]:
    """Return the columns to keep beside the labels, each of them once."""
    found: dict[str, int] = {}
    for name in keep:
        if names.count(name) > 1:
            raise InputError(f"{uri} has {names.count(name)} columns {name!r} (--keep): rename all but one.")
        position = _position(names, n_columns, name, uri, "--keep", "column")
        if position in dropped:
            raise InputError(f"--keep and --drop both name {name!r} of {uri}: leave out one.")
        if position in found.values():
            raise InputError(f"--keep names column {position} of {uri} twice, once as {name!r}: leave out one.")
        found[name] = position
    return found


def _position(names: list[str], n_columns: int, wanted: str | int, uri: str, option: str, what: str) -> int:
    if wanted in names:
        return names.index(str(wanted))
    try:
        position = int(wanted)
    except ValueError as error:
        hint = " Its first line holds no names; give a number."
        if names:
            hint = did_you_mean(str(wanted), names) or f" Its columns are {some_names(names)}."
        raise InputError(f"{uri} has no {what} {wanted!r} ({option}).{hint}") from error
    if not -n_columns <= position < n_columns:
        raise InputError(f"{uri} has no column {position} ({option}); it has {n_columns} columns.")
    return position % n_columns


def as_number(text: str) -> float | None:
    """Return the number that a text is; ``1_0`` is one in Python alone."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def whole_numbers(texts: list[str]) -> list[int] | None:
    """Return the whole numbers that all of some texts are, exactly; None where one is none.

    ``1.0`` and ``+1`` are ``1``. Beside ``1``, however, ``01`` names another thing, so that all of them are texts.
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
