"""The flow of a monitor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmpca_dist.jobs.events import Callbacks

from .artifacts import Artifacts
from .flows import Done, TaskChain, flow_of
from .results import publish_result, short

if TYPE_CHECKING:
    from mmpca_dist.configuration.requests import MonitorConfig


@flow_of("mmpca_dist.configuration.requests:MonitorConfig", lambda one: f"{short(one.dataset)} with {short(one.run)}")
def monitor_flow(config: MonitorConfig, artifacts: Artifacts, callbacks: Callbacks) -> Done:
    """Tell of new rows which do not belong to those of a finished run, and which classes moved."""
    from mmpca_dist.runs.monitor import in_words, monitor

    record = TaskChain().run("monitor", f"Monitor {short(config.dataset)}", lambda: monitor(config, [callbacks]))
    said = in_words(record)
    publish_result(artifacts, "Rows that were monitored", said, [record["rows_at"]])
    return said, {name: record[name] for name in ("alarm", "rows", "outside", "moved", "new", "rows_at")}
