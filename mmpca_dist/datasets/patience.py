"""Trying again what a network or an object store has failed at, for a bounded time.

This is the one place where that is done: the packages of the stores are told to try once, so that every attempt is
logged, and none takes longer than the limits say.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from mmpca_dist.datasets import faults
from mmpca_dist.errors import AccessError, ConfigError

T = TypeVar("T")
log = logging.getLogger("mmpca_dist.storage")

PATIENCE_SECONDS = 120.0
"""So long an operation is tried again (``MMPCA_STORAGE_PATIENCE``)."""
TIMEOUT_SECONDS = 30.0
"""So long an answer may take, or the next part of it (``MMPCA_STORAGE_TIMEOUT``)."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 15.0
UNKNOWN_ATTEMPTS = 3
"""What is not known to pass, such as an answer that cannot be read, is tried so often."""
READINGS = 3
"""What fails its checksum is read so often before it counts as damaged: the transfer may have been at fault."""

_jitter = random.Random()  # noqa: S311  (no secret)


def patience() -> float:
    """Return for how many seconds an operation is tried again."""
    return _seconds("MMPCA_STORAGE_PATIENCE", PATIENCE_SECONDS)


def timeout() -> float:
    """Return for how many seconds an answer is waited for."""
    return _seconds("MMPCA_STORAGE_TIMEOUT", TIMEOUT_SECONDS)


def _seconds(name: str, default: float) -> float:
    text = os.environ.get(name)
    try:
        seconds = default if text is None else float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise ConfigError(f"The environment variable {name} is {text!r}; it must be a number of seconds above 0.")
    return seconds


class Attempts:
    """Attempts at one operation: how long to wait before the next, or that there is none."""

    def __init__(self, what: str) -> None:
        self.what, self.made = what, 0
        self._end = time.monotonic() + patience()

    def pause_after(self, error: Exception) -> float:
        """Return the seconds to wait before the next attempt; raise the error where there is to be none."""
        self.made += 1
        kind = faults.persistence(error)
        left = self._end - time.monotonic()
        if kind == "lasting" or left <= 0 or (kind == "unknown" and self.made >= UNKNOWN_ATTEMPTS):
            raise error
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self.made - 1, 10)) * _jitter.uniform(0.5, 1.0)
        pause = min(pause, left)
        # Neither the words of a store nor those of its package are repeated: there is no telling what is in them.
        log.warning("%s failed (%s, attempt %d); again in %.1f s", self.what, type(error).__name__, self.made, pause)
        return pause


def patiently(what: str, operation: Callable[[], T]) -> T:
    """Return what an operation gives that may be repeated, trying again while it fails for reasons that pass."""
    attempts = Attempts(what)
    while True:
        try:
            return operation()
        except Exception as error:
            time.sleep(attempts.pause_after(error))


async def patiently_async(what: str, operation: Callable[[], Awaitable[T]]) -> T:
    """Do as ``patiently`` does, in an event loop."""
    attempts = Attempts(what)
    while True:
        try:
            return await operation()
        except Exception as error:
            pause = attempts.pause_after(error)
        await asyncio.sleep(pause)


class _Disagreement:
    """Readings of one thing that differ, which may not go on for ever: another process may be changing it."""

    def __init__(self, what: str) -> None:
        self._what, self._made, self._begin = what, 0, time.monotonic()

    def refuse_if_lasting(self) -> None:
        self._made += 1
        seconds = time.monotonic() - self._begin
        if self._made >= READINGS and seconds >= patience():
            raise AccessError(
                f"Cannot {self._what}: in {seconds:.0f} s no two answers in a row were alike. Something goes on "
                "writing there, or the connection, which is not encrypted, damages what it carries. Try again later, "
                "or reach the store by https."
            )


def agreed(what: str, read: Callable[[], T], needed: Callable[[], bool]) -> T:
    """Return what two readings in a row give alike, for what has neither a checksum nor an encrypted connection.

    ``needed`` tells, when something has been read, whether the connection is such a one.

    Raises
    ------
    AccessError
        Where readings differ for longer than the patience lasts.
    """
    disagreement, found = _Disagreement(what), read()
    while needed() and (again := read()) != found:
        disagreement.refuse_if_lasting()
        found = again
    return found


async def agreed_async(what: str, read: Callable[[], Awaitable[T]], needed: Callable[[], bool]) -> T:
    """Do as ``agreed`` does, in an event loop."""
    disagreement, found = _Disagreement(what), await read()
    while needed() and (again := await read()) != found:
        disagreement.refuse_if_lasting()
        found = again
    return found


def undamaged(remote: bool, what: str, read: Callable[[], T]) -> T:
    """Return what ``read`` gives, which is read again where it comes damaged from afar."""
    for reading in range(1, READINGS if remote else 1):
        try:
            return read()
        except Exception as error:
            if not faults.damaged(error):
                raise
            log.warning("%s came damaged (%s, reading %d); reading it again", what, type(error).__name__, reading)
    return read()


def settings() -> dict[str, Any]:
    """Return the options of fsspec's S3 file system: each operation is tried once, and waited for as long as said."""
    return {
        "config_kwargs": {
            "retries": {"total_max_attempts": 1, "mode": "standard"},
            "connect_timeout": min(timeout(), 10.0),
            "read_timeout": timeout(),
            "max_pool_connections": 32,
        }
    }
