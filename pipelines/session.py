"""What surrounds a flow that a command starts: who watches, a Prefect server, and an end that comes soon."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from rich.console import Console

from .console import ConsoleCallback
from .exits import INTERRUPTED

GRACE_SECONDS = 10
"""How long Prefect may take to note the end of a flow that was broken off."""


@contextmanager
def flow_session(console: Console, errors: Console, afterwards: str) -> Iterator[ConsoleCallback]:
    """Let the console hear of the flows within, see to a Prefect server, and end at once on Ctrl-C.

    Work in other threads is not waited for: what it writes counts only once its record is written.

    Parameters
    ----------
    console, errors : Console
        For progress, and for the line that says why a command ended.
    afterwards : str
        A sentence that says how to go on after a command was broken off.

    Yields
    ------
    ConsoleCallback
        What the console hears of, and which notes it has printed.
    """
    import httpx

    from .fit import watching
    from .server import ServerError, prefect_server

    callback = ConsoleCallback(console)

    def leave(reason: str, code: int) -> NoReturn:
        callback.close()
        errors.print(f"mmpca: {reason} {afterwards}", highlight=False, markup=False, soft_wrap=True)
        console.file.flush()
        errors.file.flush()
        os._exit(code)

    # Logging complains on the terminal, with a traceback, when its lines do not reach a server that has ended.
    logging.raiseExceptions = False
    try:
        with (
            _interruptible(lambda: leave("stopped.", INTERRUPTED)),
            prefect_server(lambda line: console.print(line, highlight=False), lambda why: leave(why, 1)),
            watching(callback),
        ):
            yield callback
    except KeyboardInterrupt:
        leave("stopped.", INTERRUPTED)
    except httpx.TransportError as error:
        leave(f"the Prefect server does not answer any more ({str(error).rstrip('.')}).", 1)
    except ServerError as error:
        leave(str(error), 1)
    finally:
        callback.close()


@contextmanager
def _interruptible(leave: Any) -> Iterator[None]:
    """Unwind at the first Ctrl-C, but not for longer than the grace; leave at the second."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    timer = threading.Timer(GRACE_SECONDS, leave)
    timer.daemon = True

    def interrupt(*_: Any) -> None:
        if timer.is_alive():
            leave()
        timer.start()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        timer.cancel()
