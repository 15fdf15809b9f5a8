"""Refuse data that declare more memory than is allowed, before they are unpacked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import psutil
from dask.utils import format_bytes

from mmpca_dist.errors import InputError

MOST_BYTES = 1 << 50
"""1 PiB: of a larger table not even the list of its units fits a plan."""
MOST_ENTRIES = 1 << 62

_allowed: ContextVar[tuple[int, str] | None] = ContextVar("allowed", default=None)


@contextmanager
def within(n_bytes: int, setting: str) -> Iterator[None]:
    """Hold what is opened within to so many bytes at a time; ``setting`` says where that comes from, for errors.

    Elsewhere half of this computer's memory is allowed.
    """
    token = _allowed.set((n_bytes, setting))
    try:
        yield
    finally:
        _allowed.reset(token)


def allowed_bytes() -> int:
    """Return how many bytes may be in memory at a time."""
    return _limit()[0]


def refuse_larger(n_bytes: int, what: str, advice: str = "Write it again in smaller pieces") -> None:
    """Refuse a piece that has to be in memory whole, and does not fit.

    Raises
    ------
    InputError
        With both numbers.
    """
    most, setting = _limit()
    if n_bytes > most:
        raise InputError(
            f"{what} takes {format_bytes(n_bytes)} once it is unpacked, and {format_bytes(most)} may be in memory at a "
            f"time ({setting}). {advice}, or allow more memory."
        )


def refuse_absurd(where: str, shape: Sequence[int], itemsize: int, *, sparse: bool = False) -> None:
    """Refuse a table that is larger than any, as its metadata are damaged or made up.

    Raises
    ------
    InputError
    """
    if any(size < 0 for size in shape):
        raise InputError(f"The rows of {where} have shape {tuple(shape)}, which is negative. Its metadata are damaged.")
    entries = math.prod(shape)
    if entries * (1 if sparse else itemsize) > (MOST_ENTRIES if sparse else MOST_BYTES):
        raise InputError(
            f"{where} declares a table of {' x '.join(f'{size:,}' for size in shape)}, which is larger than any: "
            "its metadata are damaged or made up."
        )


def _limit() -> tuple[int, str]:
    found = _allowed.get()
    return (psutil.virtual_memory().total // 2, "half of this computer's") if found is None else found
