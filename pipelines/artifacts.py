"""Messages on runs to Prefect and Prometheus: artifacts with plan, progress and stages; log lines; counters."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from itertools import count
from typing import Any
from uuid import UUID

import httpx
from dask.utils import format_bytes
from prefect import get_client
from prefect.artifacts import Artifact, ImageArtifact, LinkArtifact, MarkdownArtifact, ProgressArtifact, TableArtifact
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.events import emit_event
from prefect.exceptions import PrefectHTTPStatusError
from prefect.logging import get_logger, get_run_logger
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, PREFECT_CLIENT_METRICS_PORT, get_current_settings
from prefect.settings import temporary_settings as changed
from prefect.utilities.services import start_client_metrics_server
from prometheus_client import Counter, Gauge

from mmpca_dist.compile_notice import COMPILING
from mmpca_dist.durations import time_left
from mmpca_dist.jobs.events import Callback, StageLines

RETRY_SECONDS, LAST_RETRY_SECONDS = 5.0, 1.0
"""Between attempts of a request that failed: while the flow works, and at its end."""
BUSY = "status 503"
"""The answer of a server on SQLite while it writes for others."""
LAST_SECONDS, TURNS = 20.0, 6
"""How long the end of a flow waits for the server to receive another request, and how often it does."""


class Outbox:
    """Sends requests in order, urgent ones first; repeats one that fails until the server receives it.

    It gives up once `close` has lost patience.
    """

    def __init__(self) -> None:
        self._requests: queue.PriorityQueue[tuple[int, int, Context, Callable[[], Any] | None]] = queue.PriorityQueue()
        self._numbers = count()
        self._closing, self._given_up = threading.Event(), threading.Event()
        self._failure, self._received = "", 0
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
        self._thread.start()

    def send(self, request: Callable[..., Any], *arguments: Any, urgent: bool = False, **keywords: Any) -> None:
        """Have a function that makes requests called soon, in the context of this call."""
        self._put(0 if urgent else 1, partial(request, *arguments, **keywords))

    def close(self) -> str:
        """Wait for what is still to be sent; return why the server has not received it, or an empty string."""
        self._put(2, None)
        self._closing.set()
        try:
            for _ in range(TURNS):
                before = self._received
                self._thread.join(LAST_SECONDS)
                if not self._thread.is_alive():
                    return ""
                if self._received == before:
                    return self._failure or f"no answer within {LAST_SECONDS:.0f} s"
            return f"too slow: {self._requests.qsize()} requests are left"
        finally:
            self._given_up.set()

    def _put(self, rank: int, request: Callable[[], Any] | None) -> None:
        self._requests.put((rank, next(self._numbers), copy_context(), request))

    def _run(self) -> None:
        while not self._given_up.is_set():
            entry = self._requests.get()
            context, request = entry[2:]
            if request is None:
                return
            failure = context.run(_failure_of, request)
            if not failure:
                self._failure, self._received = "", self._received + 1
                continue
            if failure == BUSY != self._failure:
                get_logger("mmpca").warning(
                    "The Prefect server is too busy to answer (status 503). If its database is SQLite, which "
                    "several runs share badly, give it PostgreSQL by PREFECT_SERVER_DATABASE_CONNECTION_URL."
                )
            self._failure = failure
            self._requests.put(entry)  # more urgent ones overtake it
            if self._closing.wait(RETRY_SECONDS):
                self._given_up.wait(LAST_RETRY_SECONDS)


def _failure_of(request: Callable[[], Any]) -> str:
    """Make a request; return why the server did not receive it, or an empty string where trying again is in vain."""
    try:
        with changed({PREFECT_CLIENT_MAX_RETRIES: 0}):
            request()
    except Exception as error:
        status = error.response.status_code if isinstance(error, PrefectHTTPStatusError) else None
        if repeatable(error):
            return f"status {status}" if status else str(error).rstrip(".") or type(error).__name__
        if status:
            get_logger("mmpca").warning("Prefect did not take an artifact: %s", error)
        else:
            get_logger("mmpca").warning("An artifact could not be made.", exc_info=True)
    return ""


def repeatable(error: Exception) -> bool:
    """Tell whether a request may succeed later: the server does not answer, or fails."""
    if isinstance(error, PrefectHTTPStatusError):
        return error.response.is_server_error or error.response.status_code in (408, 425, 429)
    return isinstance(error, httpx.TransportError)


UPDATE_SECONDS = 1.0
"""Between updates of progress, each of which is a request to the server."""
LOG_SECONDS = 60.0
"""Between log lines within a stage, which the server keeps."""
KINDS: dict[str, type[Artifact]] = {
    "table": TableArtifact, "markdown": MarkdownArtifact, "link": LinkArtifact, "image_url": ImageArtifact,
    "progress": ProgressArtifact,
}  # fmt: skip
"""Kinds of artifacts by the name of their content."""
URGENT = ("result", "stages")
"""Artifacts that a page needs most: they are sent before all else that waits."""


class Artifacts:
    """The artifacts of the present flow run; ``run`` begins their keys, since Prefect's page has those of all runs."""

    def __init__(self, outbox: Outbox, run: str) -> None:
        self._outbox, self._run = outbox, run
        self._flow = copy_context()  # so that artifacts are the flow run's, whichever task makes them
        self._ids: dict[str, UUID] = {}
        self._latest: dict[str, Artifact] = {}

    def show(self, what: str, description: str, **content: Any) -> None:
        """Show content of one of `KINDS`, in place of what is there and of what was not sent before."""
        key = f"{self._run}-{what}".lower()
        is_waiting = key in self._latest
        kind = KINDS[next(iter(content))]
        self._latest[key] = kind(key=key, description=description, **content)
        if not is_waiting:
            self._flow.copy().run(self._outbox.send, self._send, key, urgent=what in URGENT)

    def _send(self, key: str) -> None:
        """Create an artifact, or update it; nothing where a request before has sent the latest."""
        artifact = self._latest.pop(key, None)
        if artifact is None:
            return
        try:
            if key in self._ids:
                data = artifact.format(_sync=True)  # type: ignore[call-arg]
                with get_client(sync_client=True) as client:
                    client.update_artifact(self._ids[key], ArtifactUpdate(data=data, description=artifact.description))
            else:
                self._ids[key] = artifact.create(_sync=True).id  # type: ignore[call-arg, union-attr]
        except Exception as error:
            if repeatable(error):
                self._latest.setdefault(key, artifact)
            raise


class ArtifactCallback(Callback):
    """Turns the events of a run into artifacts and log lines of the present flow run."""

    def __init__(self, artifacts: Artifacts) -> None:
        self._artifacts = artifacts
        self._updated: dict[str, float] = {}
        self._stages: dict[str, dict[str, str]] = {}
        self._lines = StageLines(lambda line: None, "")

    def on_cluster(self, dashboard: str) -> None:
        get_run_logger().info("Dask dashboard: %s", dashboard)
        self._artifacts.show("dask-dashboard", "The cluster at work, while it runs", link=dashboard)

    def on_plan(self, plan: Any) -> None:
        rows = [{"what": name, "planned": value} for name, value in plan.rows()]
        self._artifacts.show("plan", "What the run will cost", table=rows)

    def on_stage_start(self, stage: str) -> None:
        self._lines = StageLines(partial(get_run_logger().info, "%s"), f"Stage {stage}", LOG_SECONDS)
        self._set_row(stage, {"stage": stage, "state": "running"})

    def on_pass(self, stage: str, name: str) -> None:
        self._lines.begin_pass(name)
        get_run_logger().info("Stage %s: %s", stage, name)

    def on_sweep(self, stage: str, words: str) -> None:
        get_run_logger().info("Stage %s: %s", stage, words)

    def on_compile(self, stage: str) -> None:
        get_run_logger().info("Stage %s: %s", stage, COMPILING)
        self._artifacts.show("progress", f"{stage}: {COMPILING}", progress=0.0)

    def on_progress(self, stage: str, done: int, total: int) -> None:
        self._lines.update(done, total)
        now = time.monotonic()
        if done < total and now - self._updated.get(stage, 0.0) < UPDATE_SECONDS:
            return
        self._updated[stage] = now
        self._artifacts.show("progress", f"{stage}: {done:,} of {total:,} spans done", progress=100.0 * done / total)

    def on_expected(self, stage: str, seconds: float) -> None:
        get_run_logger().info("Stage %s: %s, by the time of the first splits", stage, time_left(seconds))

    def on_stage_end(self, stage: str, record: Mapping[str, Any], reused: bool) -> None:
        note = "already done, reused" if reused else f"done in {record.get('seconds', 0):.2f} s"
        get_run_logger().info("Stage %s: %s", stage, note)
        for line in record.get("found", []):
            get_run_logger().info("%s", line)
        self._set_row(stage, _stage_row(stage, record, reused))

    def on_note(self, message: str) -> None:
        get_run_logger().warning(message)

    def on_alarm(self, job: str, dataset: str, words: str) -> None:
        resource = {"prefect.resource.id": f"mmpca.dataset.{dataset}", "prefect.resource.name": dataset}
        emit_event(f"mmpca.{job}.alarm", resource, payload={"words": words})

    def close(self, end: str) -> None:
        """Say how the flow ended of the stage that it ended in."""
        for name, row in self._stages.items():
            if row["state"] == "running":
                self._set_row(name, {"stage": name, "state": end})

    def _set_row(self, stage: str, row: dict[str, str]) -> None:
        self._stages[stage] = {name: row.get(name, "") for name in ("stage", "state", *COLUMNS)}
        self._artifacts.show("stages", "The stages so far, and what they took", table=list(self._stages.values()))


COLUMNS = ("seconds", "passes over the rows", "bytes", "peak memory a worker", "written", "found")


def _stage_row(stage: str, record: Mapping[str, Any], reused: bool) -> dict[str, str]:
    """Return what a stage took, as far as it was measured; of one that is reused, what it took when it was done."""
    taken = {} if stage == "plan" else record  # the numbers of a plan are of what is to come
    sizes = {"bytes": "bytes", "peak memory a worker": "memory", "written": "written"}
    return {
        "stage": stage,
        "state": "already done, reused" if reused else "done",
        "seconds": f"{record.get('seconds', 0):.2f}",
        "passes over the rows": ", ".join(taken.get("passes", [])),
        **{column: format_bytes(taken[name]) for column, name in sizes.items() if name in taken},
        "found": "; ".join(taken.get("found", [])),
    }


SPANS = Gauge("mmpca_spans_done", "Spans done of the present pass", ["stage"])
TOTAL = Gauge("mmpca_spans_total", "Spans of the present pass", ["stage"])
PASSES = Counter("mmpca_passes", "Passes over the rows begun", ["stage"])
SECONDS = Counter("mmpca_stage_seconds", "Time that finished stages took", ["stage"])
BYTES = Counter("mmpca_read_bytes", "Bytes of rows that finished stages have read", ["stage"])
MEMORY = Gauge("mmpca_memory_bytes", "Peak memory of a process in a finished stage", ["stage"])
NOTES = Counter("mmpca_notes", "Things the user should know")
ALARMS = Counter("mmpca_alarms", "Data sets whose rows are not like those of their run", ["job"])


METRICS_PORTS = 100
"""So many ports are tried: the worker, and every flow of a computer, take one each."""


def serve_metrics() -> int | None:
    """Serve counters, where Prefect's setting asks for that, on the first free port from its setting on; return which.

    Prefect serves them too, if nobody does, and ends the flow with an OSError where its port is taken.
    """
    asked = get_current_settings().client.metrics
    for port in range(asked.port, asked.port + METRICS_PORTS * asked.enabled):
        with suppress(OSError), changed({PREFECT_CLIENT_METRICS_PORT: port}):
            start_client_metrics_server()
            return port
    return None


class MetricsCallback(Callback):
    """Counts the events of the runs in this process."""

    def on_pass(self, stage: str, name: str) -> None:
        PASSES.labels(stage).inc()

    def on_progress(self, stage: str, done: int, total: int) -> None:
        SPANS.labels(stage).set(done)
        TOTAL.labels(stage).set(total)

    def on_stage_end(self, stage: str, record: Mapping[str, Any], reused: bool) -> None:
        if not reused:
            SECONDS.labels(stage).inc(record.get("seconds", 0))
            BYTES.labels(stage).inc(record.get("bytes", 0))
            MEMORY.labels(stage).set(record.get("memory", 0))

    def on_note(self, message: str) -> None:
        NOTES.inc()

    def on_alarm(self, job: str, dataset: str, words: str) -> None:
        ALARMS.labels(job).inc()
