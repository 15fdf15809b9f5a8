"""The log of a run: its journal ``events.jsonl``, one JSON object a line, and tracebacks of unforeseen errors."""

from __future__ import annotations

import json
import logging
import tempfile
import threading
import time
import traceback
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mmpca_dist.errors import MmpcaError, PlanError, beyond_memory_limit
from mmpca_dist.jobs.directory import ERRORS, RunDirectory
from mmpca_dist.jobs.events import Callback
from mmpca_dist.stores import storage

FILE = "events.jsonl"
PROGRESS_SECONDS = 1.0
"""Progress is noted no more often."""
LIBRARY = __name__.partition(".")[0]


class Journal(Callback):
    """Notes the events of a run, and what the library logs meanwhile.

    Every line has ``time`` (seconds since 1970), ``run`` (the run's key), ``attempt`` and ``event``. On a local disk
    lines are written at once; object stores cannot append, and get all lines when a stage begins or ends.
    """

    def __init__(self, uri: str, key: str) -> None:
        self._path, self._key, self._attempt = storage.join(uri, FILE), key, uuid.uuid4().hex[:8]
        self._local, self._lock, self._storing = storage.is_local(uri), threading.Lock(), threading.Lock()
        self._lines: list[str] = []
        self._progress_time = 0.0
        if not self._local and storage.exists(self._path):
            self._lines = storage.read_bytes(self._path).decode(errors="replace").splitlines()

    def on_cluster(self, dashboard: str) -> None:
        self.note("cluster", dashboard=dashboard)

    def on_plan(self, plan: Any) -> None:
        self.note("plan", **plan.to_json())

    def on_stage_start(self, stage: str) -> None:
        self.note("stage-start", stage=stage)
        self._store()

    def on_pass(self, stage: str, name: str) -> None:
        self.note("pass", stage=stage, name=name)

    def on_sweep(self, stage: str, words: str) -> None:
        self.note("sweep", stage=stage, words=words)

    def on_compile(self, stage: str) -> None:
        self.note("compile", stage=stage)

    def on_progress(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if done == total or now - self._progress_time >= PROGRESS_SECONDS:
            self._progress_time = now
            self.note("progress", stage=stage, done=done, total=total)

    def on_expected(self, stage: str, seconds: float) -> None:
        self.note("expected", stage=stage, seconds=round(seconds, 1))

    def on_stage_end(self, stage: str, record: Mapping[str, Any], reused: bool) -> None:
        measured = {name: record[name] for name in ("seconds", "bytes", "memory", "passes", "found") if name in record}
        self.note("stage-end", stage=stage, reused=reused, **measured)
        self._store()

    def on_note(self, message: str) -> None:
        self.note("note", message=message)

    def note(self, event: str, **details: Any) -> None:
        origin = {"time": round(time.time(), 3), "run": self._key, "attempt": self._attempt, "event": event}
        line = json.dumps({**origin, **details}, default=str)
        with self._lock:
            if self._local:
                with storage.explained(self._path, "write"), Path(self._path).open("a", encoding="utf-8") as file:
                    file.write(line + "\n")
            else:
                self._lines.append(line)

    def _store(self) -> None:
        if self._local:
            return
        with self._storing:
            with self._lock:  # not while it is written: what is logged of another attempt is noted too
                data = "".join(f"{line}\n" for line in self._lines).encode()
            storage.write_bytes(self._path, data)

    @contextmanager
    def kept(self) -> Iterator[Journal]:
        """Note the run's begin and end, and what the library logs between."""
        handler = _Logged(self)
        logger = logging.getLogger(LIBRARY)
        logger.addHandler(handler)
        self.note("run-start")
        try:
            yield self
        except BaseException as error:
            if isinstance(error, MmpcaError):
                self.note("run-end", state="refused", message=str(error))
            else:
                self.note("run-end", state="failed", message=type(error).__name__)
            raise
        else:
            self.note("run-end", state="finished")
        finally:
            logger.removeHandler(handler)
            with suppress(MmpcaError):  # a run does not fail for the last lines of its journal
                self._store()


class _Logged(logging.Handler):
    def __init__(self, journal: Journal) -> None:
        super().__init__(logging.INFO)
        self._journal = journal

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._journal.note("log", level=record.levelname, logger=record.name, message=record.getMessage())
        except MmpcaError:
            self.handleError(record)


class UnforeseenError(RuntimeError):
    """An error that no message of this library describes; its traceback is in a file that the message names."""


@contextmanager
def traceback_kept(output: str | None = None) -> Iterator[None]:
    """Turn an exception that is no ``MmpcaError`` into an ``UnforeseenError``, which names a file with its traceback.

    One that a limit of the process's memory explains becomes a ``PlanError``, which names the limit.

    The file goes into the folder ``errors`` of the run in ``output`` or, where there is none, into the folder of
    temporary files of this machine.
    """
    try:
        yield
    except (MmpcaError, UnforeseenError):
        raise
    except Exception as error:
        if message := beyond_memory_limit(error):
            raise PlanError(message) from error
        last = " ".join("".join(traceback.format_exception_only(error)).split()).rstrip(".")
        raise UnforeseenError(
            f"Unexpected error: {last}. The traceback is in {_written(error, output)}; please report it."
        ) from error


def _written(error: BaseException, output: str | None) -> str:
    """Write the traceback where it can be written, and return the path."""
    text = "".join(traceback.format_exception(error))
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}.txt"
    with suppress(Exception):  # the run's store may be what failed
        if output is not None and RunDirectory(storage.normalize(output)).exists:
            path = storage.join(storage.normalize(output), ERRORS, name)
            storage.write_bytes(path, text.encode())
            return path
    local = Path(tempfile.mkdtemp(prefix="mmpca-error-"), name)
    local.write_text(text, encoding="utf-8")
    return str(local)
