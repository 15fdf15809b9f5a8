"""The flow of a refresh."""

from __future__ import annotations

from prefect.artifacts import create_table_artifact

from mmpca_dist.jobs.events import Callbacks
from mmpca_dist.jobs.finished_runs import finished, open_run
from mmpca_dist.jobs.journal import traceback_kept
from mmpca_dist.jobs.records import REPORT
from mmpca_dist.runs.refresh import RefreshConfig, in_words, refresh
from mmpca_dist.runs.summary import components, legend

from .artifacts import publish_report
from .flows import flow_of
from .outbox import Outbox


@flow_of(
    RefreshConfig,
    "refresh",
    "Extend the class moments of a finished run by new rows, exactly, and solve its methods again.",
)
def refresh_flow(config: RefreshConfig, outbox: Outbox, callbacks: Callbacks) -> str:
    """Add new data sets to a run; publish them, the components and the report."""
    with traceback_kept(config.output):
        manifest = refresh(config, [callbacks])
        if manifest["solved"]:
            entries, folder = manifest["taken"], manifest["folder"]
            rows = [{"data set": entry["name"], "rows": entry["rows"], "address": entry["uri"]} for entry in entries]
            if rows:
                description = "Data sets that were taken up, in order"
                outbox.send(create_table_artifact, rows, key="taken-up", description=description)
            publish_report(outbox, finished(open_run(folder), REPORT), [], components(folder), legend(folder), [])
    return in_words(config, manifest)
