"""The flow that extends a finished run by new rows."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.states import Completed, State

from mmpca_dist.errors import MmpcaError
from mmpca_dist.runs.finished import finished, open_run
from mmpca_dist.runs.refreshing import RefreshConfig, refresh
from mmpca_dist.runs.summary import components
from mmpca_dist.runs.tracebacks import traceback_kept

from .artifacts import publish_report
from .fit import listeners
from .flows import COMMON, as_model, refused


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
            manifest = refresh(config, listeners())
            if manifest["solved"]:
                _publish(manifest)
    except MmpcaError as error:
        return refused(error)
    return Completed(message=_message(config, manifest))


def _publish(manifest: dict[str, Any]) -> None:
    """Publish what was taken up, the components, and the report."""
    rows = [{"data set": entry["name"], "rows": entry["rows"], "address": entry["uri"]} for entry in manifest["taken"]]
    if rows:
        create_table_artifact(rows, key="taken-up", description="Data sets that were taken up, in order")
    publish_report(finished(open_run(manifest["folder"]), "report"), [], components(manifest["folder"]), [])


def _message(config: RefreshConfig, manifest: dict[str, Any]) -> str:
    taken, sets = manifest["taken"], manifest["data_sets"]
    there = f"{sets} data set{'' if sets == 1 else 's'} with {manifest['rows']} rows {'is' if sets == 1 else 'are'} in"
    if not manifest["solved"]:
        return f"Nothing new in {config.new}: {there}, and nothing was changed."
    names = ", ".join(entry["name"] for entry in taken)
    new = f"{sum(entry['rows'] for entry in taken)} rows taken up from {names}" if taken else "Methods solved"
    return f"{new}: {there}. Report: {manifest['report']}"
