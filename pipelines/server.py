"""A temporary Prefect server for one command.

Prefect starts one by itself, but in the terminal's process group: Ctrl-C ends it before the flow, which then repeats
its last requests for minutes. This server receives no Ctrl-C, ends with its parent however that ends, and is watched.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from mmpca_dist.errors import InputError

DATABASE = "prefect.db"
STOP_SECONDS = 5
DEFAULT_TIMEOUT, REQUEST_SECONDS = 60.0, 20.0
"""How long Prefect waits for an answer by default, and here, since several requests in a row may go unanswered."""
SILENT = ("prefect._internal.concurrency", "prefect.events.clients", "prefect.events.worker")
"""Loggers of the thread that sends events."""


class ServerError(RuntimeError):
    """The Prefect server does not answer, or does not start."""


class PrefectServer(AbstractContextManager["PrefectServer"]):
    """The user's Prefect server, or else a temporary one, which starts in the background and ends with the context.

    ``announce`` is called when a temporary server is waited for, and ``on_death``, from another thread, where that ends
    before the context does.
    """

    def __init__(self, announce: Callable[[str], None], on_death: Callable[[str], None]) -> None:
        self._announce, self._on_death = announce, on_death
        self._settings = ExitStack()
        self._stopping = threading.Event()
        self.is_temporary = False  # which it is once it answers
        # A server of the user's may have the database of PREFECT_HOME open.
        self._home = TemporaryDirectory(prefix="mmpca-prefect-", ignore_cleanup_errors=True)
        database = {
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{self._home.name}/{DATABASE}",
            "PREFECT_SERVER_MEMO_STORE_PATH": f"{self._home.name}/memo_store.toml",
        }
        # Started before Prefect is imported here, which takes a second: it finds out by itself whether it is needed.
        self._process = subprocess.Popen(  # noqa: S603
            # Without -P Python would first look for modules in the working directory, where anything may be.
            [sys.executable, "-P", "-m", "mmpca_pipelines.server", self._home.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,
            env={**os.environ, "PREFECT_UI_ENABLED": "0", **database},
        )

    def check(self) -> None:
        """Raise InputError where ``PREFECT_API_URL`` is set and no server answers there."""
        from prefect.client.orchestration import get_client
        from prefect.settings import PREFECT_API_URL

        url = PREFECT_API_URL.value()
        if not url:
            return
        with get_client(sync_client=True) as client:
            error = client.api_healthcheck()
        if error is not None:
            raise InputError(
                f"No Prefect server answers at {url} (PREFECT_API_URL): {str(error).rstrip('.')}. Start it with "
                "'prefect server start', or unset PREFECT_API_URL for a temporary one."
            )

    def connect(self) -> None:
        """Wait until a server answers, and let flows use it."""
        from prefect.settings import PREFECT_API_REQUEST_TIMEOUT, PREFECT_API_URL, temporary_settings

        # Events that do not reach a server are told once, at the end of the flow. (Prefect resets levels of loggers.)
        for name in SILENT:
            logging.getLogger(name).addFilter(lambda record: False)
        if PREFECT_API_REQUEST_TIMEOUT.value() == DEFAULT_TIMEOUT:
            self._settings.enter_context(temporary_settings({PREFECT_API_REQUEST_TIMEOUT: REQUEST_SECONDS}))
        if PREFECT_API_URL.value():
            self.check()
            return
        self._announce("Waiting for a temporary Prefect server to start (set PREFECT_API_URL to use yours) ...")
        line = self._process.stdout.readline().decode().strip()  # type: ignore[union-attr]
        if not line:
            raise ServerError(
                f"The temporary Prefect server did not start (exit code {self._process.wait()}). "
                "See what 'prefect server start' says."
            )
        self.is_temporary = True
        threading.Thread(target=self._watch, daemon=True).start()
        self._settings.enter_context(temporary_settings({PREFECT_API_URL: f"{line}/api"}))

    def _watch(self) -> None:
        self._process.wait()
        if not self._stopping.is_set():
            self._on_death("The temporary Prefect server has ended. The work goes on without it.")

    def __exit__(self, *_: object) -> None:
        """End the temporary server, once it has received all events if it was used."""
        self._settings.close()
        self._stopping.set()
        if not self.is_temporary:
            self._process.kill()
            self._process.wait()
            self._home.cleanup()
            return
        from prefect.events.worker import EventsWorker

        # Send what Prefect still has to tell: once the server has gone it would try for a minute at the end.
        EventsWorker.drain_all(timeout=STOP_SECONDS)
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._home.cleanup()


def serve(folder: str) -> None:
    """Serve until standard input ends, unless the user has a server; print the address once requests are answered.

    The data are in a folder. To make the tables of an empty database takes as long as all else: a copy of one stays in
    PREFECT_HOME for the next server.
    """
    from prefect import __version__
    from prefect.settings import PREFECT_API_URL, PREFECT_HOME

    if PREFECT_API_URL.value():
        return
    database, empty = Path(folder, DATABASE), PREFECT_HOME.value() / "mmpca" / f"empty-{__version__}.db"
    with suppress(OSError):
        shutil.copyfile(empty, database)
    import uvicorn
    from prefect.server.api.server import create_app

    class Announced(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            with suppress(OSError, sqlite3.Error):
                _keep(database, empty)
            sys.stdout.write(f"http://127.0.0.1:{listening.getsockname()[1]}\n")
            sys.stdout.close()

    threading.Thread(target=_end_with_parent, daemon=True).start()
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    app = create_app(ephemeral=True, final=True)
    Announced(uvicorn.Config(app, log_level="error", lifespan="on")).run([listening])


def _keep(database: Path, copy: Path) -> None:
    """Copy a database in use, whole, unless there is a copy."""
    if copy.exists():
        return
    copy.parent.mkdir(parents=True, exist_ok=True)
    partial = copy.with_suffix(f".{os.getpid()}")
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(partial)) as target:
        source.backup(target)
    partial.replace(copy)


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    serve(sys.argv[1])
