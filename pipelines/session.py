"""The session of a command: callbacks, a Prefect server or none, and a prompt end."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from mmpca_dist.errors import InputError

from . import FAILED, INTERRUPTED
from .console import ConsoleCallback, console, errors, print_text

if TYPE_CHECKING:
    from mmpca_dist.configuration.schema import Purpose, RunConfig

    from .server import PrefectServer

GOES_ON = "The same command goes on where it stopped."
STARTS_AGAIN = "The same command starts again."
GRACE_SECONDS = 10
"""How long Prefect may take to note the end of a flow that was broken off."""

server_is_lost = threading.Event()
"""Set where a Prefect server did not receive all of a flow; Prefect would try for minutes as the interpreter ends."""


@dataclass(frozen=True)
class Session:
    """Does the work of commands: in flows, or with the same functions and no Prefect."""

    callback: ConsoleCallback
    server: PrefectServer | None
    """The server of the flows, which may still be starting; None where the work is done without Prefect."""

    def opened(self, config: RunConfig, purpose: Purpose) -> str:
        """Return the folder of a run or an evaluation; refuse what cannot run before a server is waited for."""
        from mmpca_dist.jobs.directory import folder_of
        from mmpca_dist.jobs.inputs import Inputs
        from mmpca_dist.jobs.job import claimable

        folder = folder_of(config, purpose).uri
        self.callback.heading = f"Reading {config.dataset.uri} into {folder}"
        if self.server is not None:
            claimable(Inputs.of(config, purpose, self.callback))
            self.server.check()
        return folder

    def done(self, name: str, config: Any, work: Callable[[], Any], output: str | None = None) -> Any:
        """Do work in the flow of this name or, without Prefect, by ``work``; return what was done in words."""
        if self.server is not None:
            from . import entrypoints
            from .flows import ended

            flow = getattr(entrypoints, f"{name}_flow")
            self.server.connect()
            page = self.callback.on_page if not self.server.is_temporary else lambda address: None
            end = ended(flow, config, self.callback, announce=page)
            if end.failure:
                server_is_lost.set()
                self.callback.on_note(
                    f"The Prefect server did not receive all of this {name} ({end.failure}), and may still show it as "
                    "running. The results do not depend on it."
                )
            return message_of(end.state)
        from mmpca_dist.jobs.journal import traceback_kept

        with traceback_kept(output):
            return work()


@contextmanager
def session(afterwards: str, prefect: bool) -> Iterator[Session]:
    """Show the work on the console, with a Prefect server if need be, and end at once on Ctrl-C.

    The end does not wait for work in other threads: its results count only once their record is written. A sentence
    says how to resume an interrupted command ``afterwards``.
    """
    callback = ConsoleCallback(console)

    def leave(reason: str, code: int) -> NoReturn:
        callback.close()
        print_text(errors, f"mmpca: {reason} {afterwards}")
        console.file.flush()
        errors.file.flush()
        os._exit(code)

    # Logging complains on the terminal, with a traceback, when its lines do not reach a server that has ended.
    logging.raiseExceptions = False
    try:
        with (
            _interruptible(lambda: leave("stopped.", INTERRUPTED)),
            _server(callback, leave) if prefect else nullcontext() as server,
        ):
            yield Session(callback, server)
    except KeyboardInterrupt:
        leave("stopped.", INTERRUPTED)
    finally:
        callback.close()


@contextmanager
def _server(callback: ConsoleCallback, leave: Callable[[str, int], NoReturn]) -> Iterator[PrefectServer]:
    import httpx

    from .server import PrefectServer, ServerError

    try:
        with PrefectServer(lambda line: print_text(callback.console, line), callback.on_note) as server:
            yield server
    except httpx.TransportError as error:
        leave(f"the Prefect server does not answer any more ({str(error).rstrip('.')}).", FAILED)
    except ServerError as error:
        leave(str(error), FAILED)


def message_of(state: Any) -> str:
    """Return the message of a flow that has ended well; raise InputError where it was refused."""
    import click

    from mmpca_dist.jobs.journal import UnforeseenError

    from .flows import REFUSED

    if state.name == REFUSED:
        raise InputError(state.message)
    if not state.is_completed():
        error = state.result(raise_on_failure=False)
        if isinstance(error, UnforeseenError):  # the state's message adds words of Prefect's
            raise error
        raise click.ClickException(state.message or f"the flow ended as {state.name}")
    return str(state.message)


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
