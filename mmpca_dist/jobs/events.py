"""The events of a job: ``Callback``, and the journal ``events.jsonl`` with one JSON object a line."""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from mmpca_dist.datasets.stores import storage
from mmpca_dist.errors import MmpcaError


class Callback:
    """Base of progress bars, artifacts and logs: all methods do nothing by default."""

    def on_cluster(self, dashboard: str) -> None:
        """Called with the dashboard's URL of the cluster."""

    def on_plan(self, plan: Any) -> None:
        """Called with the plan, before anything heavy runs."""

    def on_stage_start(self, stage: str) -> None:
        """Called as a stage begins."""

    def on_pass(self, stage: str, name: str) -> None:
        """Called as a pass over the rows begins."""

    def on_compile(self, stage: str) -> None:
        """Called as a stage compiles its inner loops, once per machine."""

    def on_progress(self, stage: str, done: int, total: int) -> None:
        """Called with the number of finished spans of the current pass."""

    def on_expected(self, stage: str, seconds: float) -> None:
        """Called with the expected remaining seconds of a stage, after its first splits."""

    def on_stage_end(self, stage: str, record: Mapping[str, Any], reused: bool) -> None:
        """Called as a stage ends; ``reused`` says that its results were already there."""

    def on_note(self, message: str) -> None:
        """Called with a note for the user."""


EVENTS = tuple(name for name in vars(Callback) if name.startswith("on_"))


class Callbacks(Callback):
    """Passes everything on to several callbacks."""

    def __init__(self, callbacks: Iterable[Callback] = ()) -> None:
        self._callbacks = list(callbacks)
        for name in EVENTS:
            setattr(self, name, partial(self._tell, name))

    def add(self, callback: Callback) -> None:
        """Add a callback for all further events."""
        self._callbacks.append(callback)

    def remove(self, callback: Callback) -> None:
        """Remove a callback."""
        self._callbacks.remove(callback)

    def _tell(self, name: str, *event: Any) -> None:
        for callback in self._callbacks:
            getattr(callback, name)(*event)


class Recording(Callback):
    """Records events for callbacks that come later."""

    def __init__(self) -> None:
        self._heard: list[tuple[str, tuple[Any, ...]]] = []
        for name in EVENTS:
            setattr(self, name, partial(self._hear, name))

    def _hear(self, name: str, *event: Any) -> None:
        self._heard.append((name, event))

    def play(self, callback: Callback) -> None:
        """Replay all events, in order."""
        for name, event in self._heard:
            getattr(callback, name)(*event)


FILE = "events.jsonl"
PROGRESS_SECONDS = 1.0
"""Progress is noted no more often."""
LIBRARY = __name__.partition(".")[0]


class Journal(Callback):
    """Notes the events of a run, and what the library logs meanwhile.

    Every line has ``time`` (seconds since 1970), ``run`` (the run's key), ``attempt`` and ``event``. On a local disk
    lines are there at once; elsewhere, where nothing can be appended, when a stage begins or ends.
    """

    def __init__(self, uri: str, key: str) -> None:
        self._place, self._key, self._attempt = storage.join(uri, FILE), key, uuid.uuid4().hex[:8]
        self._local, self._lock, self._storing = storage.is_local(uri), threading.Lock(), threading.Lock()
        self._lines: list[str] = []
        self._told = 0.0
        if not self._local and storage.exists(self._place):
            self._lines = storage.read_bytes(self._place).decode(errors="replace").splitlines()

    def on_cluster(self, dashboard: str) -> None:
        self.note("cluster", dashboard=dashboard)

    def on_plan(self, plan: Any) -> None:
        self.note("plan", **plan.to_json())

    def on_stage_start(self, stage: str) -> None:
        self.note("stage-start", stage=stage)
        self._store()

    def on_pass(self, stage: str, name: str) -> None:
        self.note("pass", stage=stage, name=name)

    def on_compile(self, stage: str) -> None:
        self.note("compile", stage=stage)

    def on_progress(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if done == total or now - self._told >= PROGRESS_SECONDS:
            self._told = now
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
        """Note an event."""
        known = {"time": round(time.time(), 3), "run": self._key, "attempt": self._attempt, "event": event}
        line = json.dumps({**known, **details}, default=str)
        with self._lock:
            if self._local:
                with storage.explained(self._place, "write"), Path(self._place).open("a", encoding="utf-8") as file:
                    file.write(line + "\n")
            else:
                self._lines.append(line)

    def _store(self) -> None:
        if self._local:
            return
        with self._storing:
            with self._lock:  # not while it is written: what is logged of another attempt is noted too
                data = "".join(f"{line}\n" for line in self._lines).encode()
            storage.write_bytes(self._place, data)

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
            message = str(error) if isinstance(error, MmpcaError) else type(error).__name__
            self.note("run-end", state="refused" if isinstance(error, MmpcaError) else "failed", message=message)
            raise
        else:
            self.note("run-end", state="finished")
        finally:
            logger.removeHandler(handler)
            with suppress(MmpcaError):  # a run does not fail for the last lines of its journal
                self._store()


class _Logged(logging.Handler):
    """Puts log records into a journal."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(logging.INFO)
        self._journal = journal

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._journal.note("log", level=record.levelname, logger=record.name, message=record.getMessage())
        except MmpcaError:
            self.handleError(record)
