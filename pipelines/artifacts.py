"""What Prefect and Prometheus hear of runs: artifacts with plan, progress, tables and pictures; counters."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from dask.utils import format_bytes
from prefect.artifacts import (
    create_image_artifact,
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.logging import get_run_logger
from prometheus_client import Counter, Gauge

from mmpca_dist.durations import time_left
from mmpca_dist.jobs.events import Callback
from mmpca_dist.jobs.records import CompareRecord, ReportRecord
from mmpca_dist.stores import storage

from .outbox import Outbox

MARKUP = re.compile(r"[\\`*_\[\]<>!|]")
UPDATE_SECONDS = 1.0
"""Between updates of progress, each of which is a request to the server."""


class ArtifactCallback(Callback):
    """Turns the events of a run into artifacts and log lines of the present flow or task run."""

    def __init__(self, outbox: Outbox) -> None:
        self._send = outbox.send
        self._bars: dict[str, UUID] = {}
        self._latest: dict[str, tuple[float, str]] = {}
        self._updated: dict[str, float] = {}
        self._stages: list[dict[str, str]] = []

    def on_cluster(self, dashboard: str) -> None:
        get_run_logger().info("Dask dashboard: %s", dashboard)
        self._send(
            create_link_artifact,
            dashboard,
            key="dask-dashboard",
            link_text="Dask dashboard",
            description="The cluster at work, while it runs",
        )

    def on_plan(self, plan: Any) -> None:
        rows = [{"what": name, "planned": value} for name, value in plan.rows()]
        self._send(create_table_artifact, rows, key="plan", description="What the run will cost")

    def on_pass(self, stage: str, name: str) -> None:
        get_run_logger().info("Stage %s: %s", stage, name)

    def on_sweep(self, stage: str, words: str) -> None:
        get_run_logger().info("Stage %s: %s", stage, words)

    def on_compile(self, stage: str) -> None:
        get_run_logger().info("Stage %s: compiling its inner loops, once per machine", stage)
        self._update(stage, 0.0, f"{stage}: compiling its inner loops, once per machine")

    def on_progress(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if done < total and now - self._updated.get(stage, 0.0) < UPDATE_SECONDS:
            return
        self._updated[stage] = now
        self._update(stage, 100.0 * done / total, f"{stage}: spans done")

    def _update(self, stage: str, progress: float, description: str) -> None:
        """Have the latest progress sent, without what was not sent before."""
        is_waiting = stage in self._latest
        self._latest[stage] = (progress, description)
        if not is_waiting:
            self._send(self._show, stage)

    def _show(self, stage: str) -> None:
        """Create the bar of a stage, or update it."""
        progress, description = self._latest.pop(stage)
        if stage not in self._bars:
            bar = create_progress_artifact(progress=0.0, key=f"progress-{stage}", description=description)
            self._bars[stage] = bar  # type: ignore[assignment]
        update_progress_artifact(self._bars[stage], progress=progress, description=description)

    def on_expected(self, stage: str, seconds: float) -> None:
        get_run_logger().info("Stage %s: %s, by the time of the first splits", stage, time_left(seconds))

    def on_stage_end(self, stage: str, record: Mapping[str, Any], reused: bool) -> None:
        note = "already done, reused" if reused else f"done in {record.get('seconds', 0):.2f} s"
        get_run_logger().info("Stage %s: %s", stage, note)
        for line in record.get("found", []):
            get_run_logger().info("%s", line)
        self._stages.append(_stage_row(stage, record, reused))
        description = "The stages so far, and what they took"
        self._send(create_table_artifact, list(self._stages), key="stages", description=description)

    def on_note(self, message: str) -> None:
        get_run_logger().warning(message)


def _stage_row(stage: str, record: Mapping[str, Any], reused: bool) -> dict[str, str]:
    """Return what a stage took, as far as it was measured; of one that is reused, what it took when it was done."""
    taken = {} if stage == "plan" else record  # the numbers of a plan are of what is to come
    sizes = {name: format_bytes(taken[name]) for name in ("bytes", "memory", "written") if name in taken}
    return {
        "stage": stage,
        "state": "already done, reused" if reused else "done",
        "seconds": f"{record.get('seconds', 0):.2f}",
        "passes over the rows": ", ".join(taken.get("passes", [])),
        "bytes": sizes.get("bytes", ""),
        "peak memory a worker": sizes.get("memory", ""),
        "written": sizes.get("written", ""),
        "found": "; ".join(taken.get("found", [])),
    }


def publish_report(
    outbox: Outbox,
    report: ReportRecord,
    plan: list[tuple[str, str, str]],
    spectra: list[dict[str, Any]],
    meaning: str,
    search: list[tuple[str, str, str]],
) -> None:
    """Publish plan versus measured, eigenvalues, the certificate of a search, and the pictures of a finished run."""
    if plan:
        outbox.send(
            create_table_artifact,
            [{"what": a, "planned": b, "measured": c} for a, b, c in plan],
            key="plan-and-measured",
            description="The plan and what was used",
        )
    outbox.send(create_table_artifact, spectra, key="components", description=meaning)
    if search:
        outbox.send(
            create_table_artifact,
            [{"what": a, "found": b, "what it means": c} for a, b, c in search],
            key="search",
            description="The search for nearest rows of other classes: what it took, and how much is proved",
        )
    _publish_page(outbox, report, "report", "Report", "Run finished")


def publish_evaluation(outbox: Outbox, comparison: CompareRecord) -> None:
    """Publish the verdict, the tables and the pictures of a finished evaluation."""
    for key, (description, rows) in comparison["tables"].items():
        outbox.send(create_table_artifact, rows, key=key, description=_plain(description))
    said = [*comparison["answer"], *comparison["next"], comparison["verdict"]]
    verdict = "\n\n".join(["Evaluation finished", *map(_plain, said)])
    _publish_page(outbox, comparison, "evaluation", "What serves best", verdict)


def _plain(text: str) -> str:
    """Return text from data or settings as Markdown that shows it: no image, link or HTML of a stranger's."""
    return MARKUP.sub(r"\\\g<0>", " ".join(text.split()))


def _publish_page(outbox: Outbox, report: ReportRecord, key: str, description: str, heading: str) -> None:
    """Publish the pictures of a report, its notes below a heading, and a link to its page."""
    for figure in report["figures"]:
        outbox.send(_publish_figure, figure)
    page = report["html"]
    notes = "\n".join(f"- {_plain(note)}" for note in report["notes"]) or "Nothing to note."
    text = f"# {heading}\n\nReport: {_plain(page)}\n\n## Notes\n\n{notes}\n"
    outbox.send(create_markdown_artifact, text, key=key, description=description)
    outbox.send(
        create_link_artifact,
        Path(page).as_uri() if storage.is_local(page) else page,
        key="report-page",
        link_text="Report",
        description="The report, one HTML page, on the disk or store where the run wrote it",
    )


def _publish_figure(figure: Mapping[str, Any]) -> None:
    png = base64.b64encode(storage.read_bytes(figure["png"])).decode()
    key = f"figure-{figure['name']}".lower()
    create_image_artifact(f"data:image/png;base64,{png}", key=key, description=_plain(figure["title"]))


SPANS = Gauge("mmpca_spans_done", "Spans done of the present pass", ["stage"])
TOTAL = Gauge("mmpca_spans_total", "Spans of the present pass", ["stage"])
PASSES = Counter("mmpca_passes", "Passes over the rows begun", ["stage"])
SECONDS = Counter("mmpca_stage_seconds", "Time that finished stages took", ["stage"])
BYTES = Counter("mmpca_read_bytes", "Bytes of rows that finished stages have read", ["stage"])
MEMORY = Gauge("mmpca_memory_bytes", "Peak memory of a process in a finished stage", ["stage"])
NOTES = Counter("mmpca_notes", "Things the user should know")


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
