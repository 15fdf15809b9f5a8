"""Callbacks of this process, such as a terminal's, that flows which it starts call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mmpca_dist.jobs.events import Callback

_watchers: ContextVar[tuple[Callback, ...]] = ContextVar("watchers", default=())


@contextmanager
def watching(callback: Callback) -> Iterator[None]:
    """Let flows that are started within call a callback of this process, such as a terminal's."""
    token = _watchers.set((callback,))
    try:
        yield
    finally:
        _watchers.reset(token)


def watchers() -> tuple[Callback, ...]:
    """Return the callbacks for flows that this context starts."""
    return _watchers.get()
