"""Counters for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import Counter, Gauge

from mmpca_dist.jobs.events import Callback

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
