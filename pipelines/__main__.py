"""Entry point of the command ``mmpca``."""

from __future__ import annotations

import io
import os
import signal
import sys
from typing import Any, NoReturn

from mmpca_dist.errors import MmpcaError, OutageError, beyond_memory_limit

from . import FAILED, INTERRUPTED, REFUSED, UNREACHABLE


def main() -> None:
    """Run the command: a user's mistake is one sentence and exit code 2, Ctrl-C two words and 130 at any moment."""
    interrupted = False
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what an encoding lacks, such as ASCII, is written out as a number
            stream.reconfigure(errors="backslashreplace")

    def interrupt(*_: Any) -> None:  # until a flow begins, which has its own
        nonlocal interrupted
        if interrupted:
            _leave()
        interrupted = True
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        _run()
    except BaseException as error:
        # In the middle of an import or of a library's callback, an interrupt may come out as any other exception.
        if interrupted:
            _leave()
        if isinstance(error, SystemExit):
            _leave_a_lost_server(error.code)
        if not isinstance(error, Exception):
            raise
        _end_unforeseen(error)
    finally:
        signal.signal(signal.SIGINT, before)
    _leave_a_lost_server(0)


def _leave_a_lost_server(code: Any) -> None:
    """End the process at once where a Prefect server is gone."""
    from .session import server_is_lost

    if server_is_lost.is_set():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _leave() -> NoReturn:
    os.write(2, b"mmpca: stopped.\n")
    os._exit(INTERRUPTED)


def _run() -> None:
    # Reading these packages takes a second or two.
    import click

    from .cli import cli

    try:
        cli(standalone_mode=False)
    except MmpcaError as error:
        _end(error, UNREACHABLE if isinstance(error, OutageError) else REFUSED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)


def _end_unforeseen(error: Exception) -> NoReturn:
    """Show the last line of an exception, and keep the traceback in a file."""
    if message := beyond_memory_limit(error):  # with no more imports, which may fail, too
        sys.stderr.write(f"mmpca: {message}\n")
        sys.exit(REFUSED)
    from mmpca_dist.jobs.journal import UnforeseenError, traceback_kept

    try:
        with traceback_kept():
            raise error
    except UnforeseenError as kept:
        _end(kept, FAILED)


def _end(error: Exception, code: int) -> NoReturn:
    from .console import errors, print_text

    print_text(errors, f"mmpca: {error}", style="red")
    sys.exit(code)


if __name__ == "__main__":
    main()
