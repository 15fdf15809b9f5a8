"""Report that inner loops are compiled, which delays a first run.

Numba caches what it has compiled, so that this happens once per user and version. It reports a compilation only
if its cache does not have the function for these types.
"""

from __future__ import annotations

import contextvars
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

log = logging.getLogger(__name__)
COMPILING = "compiling its inner loops, which takes up to half a minute, once per machine"
"""The words of a stage that compiles."""
TOPIC = "mmpca-compiling"
"""Topic of the events by which workers of a Dask cluster report to their clients."""
_watchers: list[Callable[[], None]] = []


@contextmanager
def watching(tell: Callable[[], None], client: Any = None) -> Iterator[None]:
    """Call ``tell`` once if a compilation begins meanwhile, in this process or on a worker of ``client``.

    The call comes from a new thread, in the context of the caller: a compilation may begin within an event loop.
    """
    context = contextvars.copy_context()

    def say() -> None:
        try:
            context.run(tell)
        except Exception:  # which must not end the work
            log.warning("Cannot report that loops are being compiled", exc_info=True)

    thread = threading.Thread(target=say, name="compiling", daemon=True)

    def begins(_: Any = None) -> None:
        with suppress(RuntimeError):  # the thread has been started before
            thread.start()

    _watchers.append(begins)
    if client is not None:
        client.subscribe_topic(TOPIC, begins)
    try:
        yield
    finally:
        _watchers.remove(begins)
        if client is not None:
            with suppress(ValueError):
                client.unsubscribe_topic(TOPIC)
        if thread.ident is not None:
            thread.join()


def begun() -> None:
    """Call the watchers of this process, or on a Dask worker those of its clients."""
    watchers = list(_watchers)
    for begins in watchers:
        begins()
    if not watchers and "distributed" in sys.modules:
        with suppress(ValueError):  # no worker runs this
            sys.modules["distributed"].get_worker().log_event(TOPIC, "begun")
