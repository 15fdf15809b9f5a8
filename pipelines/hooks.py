"""Clean up after cancelled and crashed flow runs.

A worker runs these hooks once the process of the flow is gone. A cancelled fit or evaluation gives back its scratch,
which may be as large as the data. One that crashed keeps everything: finished stages, and the scratch of a search, are
what the next run with the same parameters goes on from. Half an ingested or projected table is of no use in either
case. Others may work at the same place by now, from elsewhere: a hook removes what it holds the lease of. Dask frees
the work of a client that has gone by itself.
"""

from __future__ import annotations

from typing import Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowFilter, FlowRunFilter
from prefect.logging.loggers import flow_run_logger

from mmpca_dist.datasets.ingest.destination import Destination
from mmpca_dist.datasets.stores import storage
from mmpca_dist.errors import OutputError
from mmpca_dist.jobs.directory import RunDirectory, evaluation_of
from mmpca_dist.runs.listing import Cleaned, clear_idle
from mmpca_dist.runs.transform_rows import discard_unfinished

WRITTEN = {
    "fit": "output",
    "refresh": "output",
    "evaluate": "output",
    "ingest": "destination",
    "transform": "destination",
}
"""The parameter of each flow that says where it writes; an evaluation writes to a folder below it."""


def on_cancellation(flow: Any, flow_run: Any, state: Any) -> None:
    """Remove scratch and what is half-written; what finished stages left stays."""
    _after(flow, flow_run, crashed=False)


def on_crashed(flow: Any, flow_run: Any, state: Any) -> None:
    """Remove what nothing can go on from, and say how to go on."""
    _after(flow, flow_run, crashed=True)


def _after(flow: Any, flow_run: Any, *, crashed: bool) -> None:
    logger, place = flow_run_logger(flow_run, flow), _place(flow.name, flow_run)
    if place is None:
        return
    if flow.name == "ingest":
        if tidy_ingest(place):
            logger.info("Removed what was half-written for %s; what was there before is there.", place)
    elif _is_used(flow.name, place, flow_run):
        logger.info("Another run writes to %s; everything stays.", place)
    elif flow.name == "transform":
        names = discard_unfinished(place)
        if names:
            logger.info("Removed %s from %s, half-written; the same parameters begin anew.", ", ".join(names), place)
    elif crashed:
        logger.warning("The run crashed. Start it again with the same parameters: it goes on in %s.", place)
    else:
        cleaned = release(place)
        if cleaned is not None:
            logger.info("The run was cancelled. %s", cleaned)
        logger.info("Finished stages in %s are kept; the same parameters go on from there.", place)


def release(output: str) -> Cleaned | None:
    """Remove the scratch of a run, unless somebody works on it; None where there is no run. Safe to repeat.

    Parameters
    ----------
    output : str
        Folder of the run, which keeps its records, model and report.
    """
    run = RunDirectory(storage.normalize(output))
    return clear_idle(run.uri) if run.exists else None


def tidy_ingest(destination: str) -> bool:
    """Put right what a dead ingest has left, and tell whether there was anything; one that lives is left alone."""
    try:
        return Destination.of(destination).recover()
    except OutputError:
        return False


def _place(flow: str, flow_run: Any) -> str | None:
    """Return where a flow run wrote, as far as its parameters say."""
    config = (flow_run.parameters or {}).get("config")
    found = config.get(WRITTEN[flow]) if isinstance(config, dict) and flow in WRITTEN else None
    if not isinstance(found, str) or not found:
        return None
    place = storage.normalize(found)
    return evaluation_of(place).uri if flow == "evaluate" else place


def _is_used(flow: str, place: str, flow_run: Any) -> bool:
    """Tell whether another flow run that is running writes to the same place."""
    running = FlowRunFilter.model_validate({"state": {"type": {"any_": ["RUNNING"]}}})
    names = ["fit", "refresh"] if flow in ("fit", "refresh") else [flow]
    with get_client(sync_client=True) as client:
        others = client.read_flow_runs(
            flow_filter=FlowFilter.model_validate({"name": {"any_": names}}), flow_run_filter=running, limit=200
        )
    return any(other.id != flow_run.id and _place(flow, other) == place for other in others)
