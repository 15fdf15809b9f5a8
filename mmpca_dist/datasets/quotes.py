"""Quoted cells of CSV, which may hold ends of lines."""

from __future__ import annotations

import re
from collections import deque
from typing import Any

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
    while data.count(b'"') % 2 and (opened := _open_quote(data, delimiter)) is not None:
        added, size, odd = [], 0, False
        while not odd:
            more = text.readline()
            size += len(more)
            if not more or size > CELL_BYTES:
                raise InputError(
                    f"A quote that is opened in line {line + data.count(bytes([10]), 0, opened)} of {uri} is not "
                    "closed. Close it, or remove it."
                )
            added.append(more)
            odd = more.count(b'"') % 2 == 1
        data += b"".join(added)
    return data


def _open_quote(data: bytes, delimiter: str) -> int | None:
    """Return where the last quoted cell begins, if it is not closed; quotes within other cells are characters."""
    quoted = re.compile(rb'(?:^|[\r\n%s])"(?:[^"]|"")*(?P<end>"?)' % re.escape(delimiter.encode()))
    last = deque(quoted.finditer(data), maxlen=1)
    return None if not last or last[0]["end"] else last[0].start() + last[0][0].index(b'"')
