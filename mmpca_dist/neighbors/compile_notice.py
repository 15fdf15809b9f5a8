"""Report that the inner loops of the search are compiled, which delays a first run.

Numba keeps what it has compiled, so that this happens once per machine and version. It tells of a compilation only
where its cache has no such function for such arguments.
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
TOPIC = "mmpca-compiling"
"""Under which workers of a Dask cluster tell their clients."""
_watchers: list[Callable[[], None]] = []


@contextmanager
def watching(tell: Callable[[], None], client: Any = None) -> Iterator[None]:
    """Call ``tell`` once, should a compilation begin in this process meanwhile, or on a worker of ``client``.

    It is called in a thread of its own, in the context of the caller: a compilation may begin within an event loop.
    """
    context = contextvars.copy_context()

    def say() -> None:
        try:
            context.run(tell)
        except Exception:  # the work does not fail for it
            log.warning("Cannot tell that loops are being compiled", exc_info=True)

    thread = threading.Thread(target=say, name="compiling", daemon=True)

    def begins() -> None:
        with suppress(RuntimeError):  # it was told before
            thread.start()

    _watchers.append(begins)
    if client is not None:
        client.subscribe_topic(TOPIC, lambda _: begins())
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
