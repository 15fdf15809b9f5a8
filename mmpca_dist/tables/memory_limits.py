"""Refuse what is no table, and data that declare more memory than is allowed, before they are unpacked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
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


def check_table(where: str, shape: tuple[int, ...], dtype: np.dtype, *, sparse: bool = False) -> None:
    """Refuse anything but a table of numbers."""
    if len(shape) != 2:
        flat = f": one row each, such as X.reshape({shape[0]}, -1)" if len(shape) > 2 else ""
        raise InputError(f"The rows of {where} have shape {shape}; they must have shape (n, d){flat}.")
    if shape[1] == 0:
        raise InputError(f"The rows of {where} have no columns.")
    if dtype.kind not in "fiub":
        raise InputError(f"The rows of {where} have type {dtype}; features must be numbers.")
    refuse_absurd(where, shape, dtype.itemsize, sparse=sparse)
    if not sparse:
        refuse_larger(shape[1] * dtype.itemsize, f"A row of {where}", "Take fewer columns")


def _limit() -> tuple[int, str]:
    return _allowed.get() or (psutil.virtual_memory().total // 2, "half of this computer's")
