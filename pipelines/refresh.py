"""The flow of a refresh."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.states import Completed, State

from mmpca_dist.errors import MmpcaError
from mmpca_dist.jobs.finished_runs import finished, open_run
from mmpca_dist.jobs.records import REPORT
from mmpca_dist.jobs.tracebacks import traceback_kept
from mmpca_dist.refresh.refresh import RefreshConfig, in_words, refresh
from mmpca_dist.runs.summary import components, legend

from .artifacts import publish_report
from .fit import listeners
from .flows import COMMON, as_model, refused
from .session import watchers


@flow(
    name="refresh",
    description="Extend the class moments of a finished run by new rows, exactly, and solve its methods again.",
    **COMMON,
)
def refresh_flow(config: RefreshConfig) -> State:
    """Take up new data sets; a mistake of the user's ends the flow in the state ``Refused``."""
    try:
        config = as_model(RefreshConfig, config)
        with traceback_kept(config.output):
            manifest = refresh(config, [*listeners(), *watchers()])
            if manifest["solved"]:
                _publish(manifest)
    except MmpcaError as error:
        return refused(error)
    return Completed(message=in_words(config, manifest))


def _publish(manifest: dict[str, Any]) -> None:
    """Publish what was taken up, the components, and the report."""
    rows = [{"data set": entry["name"], "rows": entry["rows"], "address": entry["uri"]} for entry in manifest["taken"]]
    if rows:
        create_table_artifact(rows, key="taken-up", description="Data sets that were taken up, in order")
    folder = manifest["folder"]
    publish_report(finished(open_run(folder), REPORT), [], components(folder), legend(folder), [])
