"""What becomes of the things that a cancelled or crashed run leaves behind.

A worker runs these hooks once the process of the flow is gone. A fit that was cancelled gives back its scratch, which
may be as large as the data. One that crashed keeps everything: finished stages, and the scratch of a search, are what
the next run with the same parameters goes on from. Half an ingested table is of no use in either case. Dask frees the
work of a client that has gone by itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.logging.loggers import flow_run_logger

from mmpca_dist.datasets import storage
from mmpca_dist.runs.directory import RunDirectory
from mmpca_dist.runs.listing import clear_idle

WRITTEN = {"fit": "output", "refresh": "output", "ingest": "destination", "transform": "destination"}
"""The parameter of each flow that says where it writes."""


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
    if _is_used(flow.name, place, flow_run):
        logger.info("Another run writes to %s; everything stays.", place)
    elif flow.name == "ingest":
        for partial in remove_partial(place):
            logger.info("Removed %s, which was half-written.", partial)
    elif flow.name == "transform":
        if storage.exists(place):
            logger.warning("%s may hold half of the rows: delete it before the same run starts again.", place)
    elif crashed:
        logger.warning("The run crashed. Start it again with the same parameters: it goes on in %s.", place)
    else:
        if release(place):
            logger.info("Removed the scratch of the cancelled run in %s.", place)
        logger.info("Finished stages in %s are kept; the same parameters go on from there.", place)


def release(output: str) -> bool:
    """Remove the scratch of a run that nobody works on; whether there was any. Safe to repeat.

    Parameters
    ----------
    output : str
        Folder of the run, which keeps its records, model and report.
    """
    run = RunDirectory(storage.normalize(output))
    return run.exists and clear_idle(run.uri) > 0


def remove_partial(destination: str) -> list[str]:
    """Remove the half-written groups of an ingest that nobody works on, on a local disk, and return their names."""
    target = Path(storage.normalize(destination))
    if not storage.is_local(str(destination)) or not target.parent.is_dir():
        return []
    names = [path.name for path in target.parent.iterdir() if _is_partial(path.name, target.name)]
    storage.remove_children(str(target.parent), names)
    return names


def _is_partial(name: str, destination: str) -> bool:
    token = name.removeprefix(f"{destination}.").removesuffix(".partial")
    return name == f"{destination}.{token}.partial" and token.isalnum()


def _place(flow: str, flow_run: Any) -> str | None:
    """Return where a flow run wrote, as far as its parameters say."""
    config = (flow_run.parameters or {}).get("config")
    found = config.get(WRITTEN[flow]) if isinstance(config, dict) and flow in WRITTEN else None
    return storage.normalize(found) if isinstance(found, str) and found else None


def _is_used(flow: str, place: str, flow_run: Any) -> bool:
    """Tell whether another flow run that is running writes to the same place."""
    running = FlowRunFilter.model_validate({"state": {"type": {"any_": ["RUNNING"]}}})
    with get_client(sync_client=True) as client:
        others = client.read_flow_runs(flow_run_filter=running, limit=200)
    return any(other.id != flow_run.id and _place(flow, other) == place for other in others)
