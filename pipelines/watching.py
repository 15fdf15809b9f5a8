"""Callbacks that hear of flows in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mmpca_dist.jobs.events import Callback

_watchers: ContextVar[tuple[Callback, ...]] = ContextVar("watchers", default=())


@contextmanager
def watching(callback: Callback) -> Iterator[None]:
    """Let a callback of this process, such as a terminal's, hear of the flows that are started within."""
    token = _watchers.set((callback,))
    try:
        yield
    finally:
        _watchers.reset(token)


def watchers() -> tuple[Callback, ...]:
    """Return who watches the flows that this context starts."""
    return _watchers.get()
