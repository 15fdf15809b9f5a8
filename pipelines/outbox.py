"""Requests to the Prefect server, sent from a thread of their own: a server that is slow or gone delays no work."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from typing import Any

import httpx
from prefect.exceptions import PrefectHTTPStatusError
from prefect.logging import get_logger
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

RETRY_SECONDS = 5.0
BUSY = "status 503"
"""What a server on SQLite answers while it writes for others."""
LAST_SECONDS, TURNS = 20.0, 6
"""How long the end of a flow waits for the server to receive another request, and how often it does."""


class Outbox:
    """Sends requests in order; repeats one that fails until the server receives it, or the outbox is closed."""

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[tuple[Context, Callable[[], Any]] | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._failure, self._received = "", 0
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
        self._thread.start()

    def send(self, request: Callable[..., Any], *arguments: Any, **keywords: Any) -> None:
        """Have a function that makes requests called soon, in the context of this call."""
        self._requests.put((copy_context(), partial(request, *arguments, **keywords)))

    def close(self) -> str:
        """Wait for what is still to be sent; return why the server has not received it, or an empty string."""
        self._requests.put(None)
        self._closing.set()
        for _ in range(TURNS):
            before = self._received
            self._thread.join(LAST_SECONDS)
            if not self._thread.is_alive():
                return self._failure
            if self._received == before:
                return f"no answer within {LAST_SECONDS:.0f} s"
        return f"too slow: {self._requests.qsize()} requests are left"

    def _run(self) -> None:
        while (entry := self._requests.get()) is not None:
            context, request = entry
            while failure := context.run(_failure_of, request):
                if failure == BUSY != self._failure:
                    get_logger("mmpca").warning(
                        "The Prefect server is too busy to answer (status 503). If its database is SQLite, which "
                        "several runs share badly, give it PostgreSQL by PREFECT_SERVER_DATABASE_CONNECTION_URL."
                    )
                self._failure = failure
                if self._closing.wait(RETRY_SECONDS):
                    return
            self._failure, self._received = "", self._received + 1


def _failure_of(request: Callable[[], Any]) -> str:
    """Make a request; return why the server did not receive it, or an empty string where trying again is in vain."""
    try:
        with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
            request()
    except Exception as error:
        if isinstance(error, PrefectHTTPStatusError) and repeatable(error):
            return f"status {error.response.status_code}"
        if repeatable(error):
            return str(error).rstrip(".") or type(error).__name__
        if isinstance(error, PrefectHTTPStatusError):
            get_logger("mmpca").warning("Prefect did not take an artifact: %s", error)
        else:
            get_logger("mmpca").warning("An artifact could not be made.", exc_info=True)
    return ""


def repeatable(error: Exception) -> bool:
    """Tell whether a request may succeed later: the server does not answer, or fails."""
    if isinstance(error, PrefectHTTPStatusError):
        return bool(error.response.is_server_error)
    return isinstance(error, httpx.TransportError)
