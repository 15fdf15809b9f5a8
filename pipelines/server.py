"""A Prefect server for as long as a command runs, where the user has none.

Prefect starts one by itself, but in the terminal's process group: Ctrl-C ends it before the flow, whose last
requests are then repeated for minutes. This one hears no Ctrl-C, ends with its parent however that ends, and is
watched.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mmpca_dist.errors import InputError

STOP_SECONDS = 5


class ServerError(RuntimeError):
    """The Prefect server does not answer, or does not start."""


@contextmanager
def prefect_server(announce: Callable[[str], None], on_death: Callable[[str], None]) -> Iterator[None]:
    """Make sure that a Prefect server answers: the user's, or else a temporary one.

    Parameters
    ----------
    announce : callable
        Hears that a temporary server is being started, which takes seconds.
    on_death : callable
        Called from another thread where the temporary server ends before the context does.

    Raises
    ------
    InputError
        Where ``PREFECT_API_URL`` is set and nobody answers there.
    ServerError
        Where the temporary server does not start.
    """
    from prefect.settings import PREFECT_API_URL, temporary_settings

    url = PREFECT_API_URL.value()
    if url:
        _refuse_silence(url)
        yield
        return
    announce("Starting a temporary Prefect server (set PREFECT_API_URL to use yours) ...")
    with _temporary_server(on_death) as own, temporary_settings({PREFECT_API_URL: own}):
        yield


def _refuse_silence(url: str) -> None:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        error = client.api_healthcheck()
    if error is not None:
        raise InputError(
            f"No Prefect server answers at {url} (PREFECT_API_URL): {str(error).rstrip('.')}. Start it with 'prefect "
            "server start', or unset PREFECT_API_URL for a temporary one."
        )


@contextmanager
def _temporary_server(on_death: Callable[[str], None]) -> Iterator[str]:
    process = subprocess.Popen(
        # Without -P Python would first look for modules in the working directory, where anything may be.
        [sys.executable, "-P", "-m", "mmpca_pipelines.server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        process_group=0,
        env={**os.environ, "PREFECT_UI_ENABLED": "0"},
    )
    assert process.stdout is not None  # noqa: S101
    stopping = threading.Event()

    def watch() -> None:
        process.wait()
        if not stopping.is_set():
            on_death("The temporary Prefect server has ended.")

    try:
        address = process.stdout.readline().decode().strip()
        if not address:
            raise ServerError(
                f"The temporary Prefect server did not start (exit code {process.wait()}). "
                "See what 'prefect server start' says."
            )
        threading.Thread(target=watch, daemon=True).start()
        yield f"{address}/api"
    finally:
        stopping.set()
        _deliver_events()
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def _deliver_events() -> None:
    """Send what Prefect still has to tell: once the server has gone it would try for a minute at the end."""
    from prefect.events.worker import EventsWorker

    EventsWorker.drain_all(timeout=STOP_SECONDS)


def serve() -> None:
    """Serve until standard input ends; the address is printed once requests are answered."""
    import uvicorn
    from prefect.server.api.server import create_app

    class Announced(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            sys.stdout.write(f"http://127.0.0.1:{listening.getsockname()[1]}\n")
            sys.stdout.close()

    threading.Thread(target=_end_with_parent, daemon=True).start()
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    app = create_app(ephemeral=True, final=True)
    Announced(uvicorn.Config(app, log_level="error", lifespan="on")).run([listening])


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    serve()
