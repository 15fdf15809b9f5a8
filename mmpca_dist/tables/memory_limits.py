"""Refuse data that declare more memory than is allowed, before they are unpacked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import psutil
from dask.utils import format_bytes

from mmpca_dist.errors import InputError

MAX_BYTES, MAX_ENTRIES = 1 << 50, 1 << 62
"""Limits of dense and sparse tables; of a table beyond 1 PiB not even the list of units fits into memory."""

_allowed: ContextVar[tuple[int, str] | None] = ContextVar("allowed", default=None)


@contextmanager
def within(n_bytes: int, setting: str) -> Iterator[None]:
    """Limit what is opened in this context to ``n_bytes`` at a time; ``setting`` names the limit in errors.

    Outside the limit is half of this computer's memory.
    """
    token = _allowed.set((n_bytes, setting))
    try:
        yield
    finally:
        _allowed.reset(token)


def allowed_bytes() -> int:
    """Return how many bytes of data may be in memory at a time."""
    return _limit()[0]


def refuse_larger(n_bytes: int, what: str, advice: str = "Write it again in smaller pieces") -> None:
    """Refuse data that must be in memory at once and do not fit, with an ``InputError``."""
    limit, setting = _limit()
    if n_bytes > limit:
        raise InputError(
            f"{what} takes {format_bytes(n_bytes)} once it is unpacked, and {format_bytes(limit)} may be in memory at "
            f"a time ({setting}). {advice}, or allow more memory."
        )


def refuse_absurd(where: str, shape: Sequence[int], itemsize: int, *, sparse: bool = False) -> None:
    """Refuse a table that no computer holds: its metadata are damaged or made up."""
    if any(size < 0 for size in shape):
        raise InputError(f"The rows of {where} have shape {tuple(shape)}, which is negative. Its metadata are damaged.")
    entries = math.prod(shape)
    if entries > MAX_ENTRIES if sparse else entries * itemsize > MAX_BYTES:
        raise InputError(
            f"{where} declares a table of {' x '.join(f'{size:,}' for size in shape)}, which is larger than any: "
            "its metadata are damaged or made up."
        )


def _limit() -> tuple[int, str]:
    return _allowed.get() or (psutil.virtual_memory().total // 2, "half of this computer's")
