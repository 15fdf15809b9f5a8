"""Quoted CSV cells, which may contain line ends."""

from __future__ import annotations

import re
from collections import deque
from typing import Any

import numpy as np

from mmpca_dist.errors import InputError

CELL_BYTES = 1 << 20
"""A quoted cell that is longer, ends of lines and all, is taken for one that is not closed."""


def with_quotes_closed(data: bytes, text: Any, delimiter: str, line: int, uri: str) -> bytes:
    """Return whole lines with those that follow until no quoted cell is open.

    pyarrow closes such a cell without a word where its data end, and with it all rows that the cell has swallowed.

    Parameters
    ----------
    data : bytes
        Lines, the first of which has the number ``line`` in the file.
    text : file
        Where the next lines come from.

    Raises
    ------
    InputError
        Where a cell is not closed to the end of the file, or within 1 MiB.
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
    """Tell whether all quotes are pairs around a cell of one line, as nearly all are: the rest takes a closer look."""
    if b'"' not in data:
        return True
    characters = np.frombuffer(data, np.uint8)
    quotes_and_line_ends = np.flatnonzero((characters == ord('"')) | (characters == ord("\n")))
    (which,) = np.nonzero(characters[quotes_and_line_ends] == ord('"'))
    if len(which) % 2 or np.any(which[1::2] - which[::2] != 1):
        return False  # a line ends between two of a pair
    quotes = quotes_and_line_ends[which]
    before, after = quotes[::2] - 1, quotes[1::2] + 1
    cell_ends = np.zeros(256, bool)
    cell_ends[[ord(delimiter), ord("\r"), ord("\n")]] = True
    return bool(
        cell_ends[characters[before[before >= 0]]].all() and cell_ends[characters[after[after < len(data)]]].all()
    )


def _rest_of_cell(text: Any) -> bytes:
    """Return the next lines as far as the one in which the open cell ends, or nothing if it does not."""
    found: list[bytes] = []
    size = 0
    while size <= CELL_BYTES and (more := text.readline()):
        found.append(more)
        size += len(more)
        if b'"' in more.replace(b'""', b""):
            return b"".join(found)
    return b""


def _open_quote(data: bytes, delimiter: str) -> int | None:
    """Return where the last quoted cell begins, if it is not closed; quotes within other cells are characters."""
    quoted = re.compile(rb'(?:^|[\r\n%s])"(?:[^"]++|"")*+(?P<end>"?)' % re.escape(delimiter.encode()))
    last = deque(quoted.finditer(data), maxlen=1)
    return None if not last or last[0]["end"] else last[0].start() + last[0][0].index(b'"')
