"""Repeat failed requests, with pauses that double, for a bounded time.

Clients repeat a request for a few seconds at most; what fails longer is logged and repeated here.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import tenacity
from tenacity.wait import wait_base

from mmpca_dist.datasets.stores import failure_reasons
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


def _policy(what: str) -> dict[str, Any]:
    """Return tenacity's settings for one operation: which failures it repeats, after which pauses, and how long."""

    limit = patience()

    def exhausted(state: tenacity.RetryCallState) -> bool:
        is_unknown = failure_reasons.persistence(_error(state)) == "unknown"
        return (is_unknown and state.attempt_number >= UNKNOWN_ATTEMPTS) or (state.seconds_since_start or 0) >= limit

    def log_failure(state: tenacity.RetryCallState) -> None:
        # The words of a store or its client are not repeated: they may hold a secret.
        name, pause = type(_error(state)).__name__, state.next_action.sleep if state.next_action else 0.0
        log.warning("%s failed (%s, attempt %d); again in %.1f s", what, name, state.attempt_number, pause)

    pauses: wait_base = tenacity.wait_exponential(multiplier=FIRST_PAUSE, max=LONGEST_PAUSE)
    return {
        "retry": tenacity.retry_if_exception(
            lambda error: isinstance(error, Exception) and failure_reasons.persistence(error) != "lasting"
        ),
        "stop": exhausted,
        "wait": pauses + tenacity.wait_random(0, FIRST_PAUSE),
        "before_sleep": log_failure,
        "reraise": True,
    }


def _error(state: tenacity.RetryCallState) -> BaseException:
    error = state.outcome.exception() if state.outcome is not None else None
    return error or RuntimeError()


def patiently(what: str, operation: Callable[[], T]) -> T:
    """Return the result of an operation that may be repeated, trying again while it fails for reasons that pass."""
    return tenacity.Retrying(**_policy(what))(operation)


async def patiently_async(what: str, operation: Callable[[], Awaitable[T]]) -> T:
    """Do as ``patiently`` does, in an event loop."""

    async def attempt() -> T:  # tenacity does not await what a plain function returns
        return await operation()

    return await tenacity.AsyncRetrying(**_policy(what))(attempt)


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

    ``needed`` tells, after a reading, whether the connection is not encrypted.

    Raises
    ------
    AccessError
        Where readings differ for longer than the patience lasts.
    """
    disagreement, reading = _Disagreement(what), read()
    while needed() and (again := read()) != reading:
        disagreement.refuse_if_lasting()
        reading = again
    return reading


async def agreed_async(what: str, read: Callable[[], Awaitable[T]], needed: Callable[[], bool]) -> T:
    """Do as ``agreed`` does, in an event loop."""
    disagreement, reading = _Disagreement(what), await read()
    while needed() and (again := await read()) != reading:
        disagreement.refuse_if_lasting()
        reading = again
    return reading


def undamaged(remote: bool, what: str, read: Callable[[], T]) -> T:
    """Return what ``read`` gives, which is read again where it comes damaged from afar."""
    for reading in range(1, READINGS if remote else 1):
        try:
            return read()
        except Exception as error:
            if not failure_reasons.damaged(error):
                raise
            log.warning("%s came damaged (%s, reading %d); reading it again", what, type(error).__name__, reading)
    return read()
