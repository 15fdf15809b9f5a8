"""What becomes of the things that a cancelled or crashed run leaves behind.

A worker runs these hooks once the process of the flow is gone. A run that was cancelled gives back its scratch, which
may be as large as the data. A run that crashed keeps everything: finished stages, and the scratch of a search, are
what the next run with the same parameters goes on from. Dask frees the work of a client that has gone by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.logging.loggers import flow_run_logger

from mmpca_dist.datasets import storage
from mmpca_dist.errors import MmpcaError
from mmpca_dist.runs.directory import RunDirectory

RUNS = ("fit", "refresh")
"""Flows whose parameter ``output`` is the folder of the run itself."""


def on_cancellation(flow: Any, flow_run: Any, state: Any) -> None:
    """Give back the scratch of a run that was cancelled; what its finished stages left stays."""
    logger = flow_run_logger(flow_run, flow)
    for output in _outputs(flow, flow_run):
        if _is_used(output, flow_run):
            logger.info("Another run works on %s; its scratch stays.", output)
        elif release(output):
            logger.info("Removed the scratch of the cancelled run in %s.", output)
        logger.info("Finished stages in %s are kept; the same parameters go on from there.", output)


def on_crashed(flow: Any, flow_run: Any, state: Any) -> None:
    """Say how to go on after a crash; nothing is removed, as the next run goes on from it."""
    logger = flow_run_logger(flow_run, flow)
    for output in _outputs(flow, flow_run):
        logger.warning("The run crashed. Start it again with the same parameters: it goes on in %s.", output)


def release(output: str) -> bool:
    """Remove the scratch of a run that nobody works on; whether there was any. Safe to repeat.

    Parameters
    ----------
    output : str
        Folder of the run, which keeps its records, model and report.
    """
    run = RunDirectory(storage.normalize(output))
    found = storage.exists(run.path("scratch"))
    if found:
        storage.remove_children(run.uri, ["scratch"])
    return found


def _outputs(flow: Any, flow_run: Any) -> Iterator[str]:
    """Yield the folder of the run that a flow run worked on, where its parameters name one."""
    config = (flow_run.parameters or {}).get("config")
    output = config.get("output") if isinstance(config, dict) else None
    if flow.name in RUNS and isinstance(output, str) and output:
        try:
            yield storage.normalize(output)
        except MmpcaError:
            return


def _is_used(output: str, flow_run: Any) -> bool:
    """Tell whether another flow run that is running names the same folder."""
    running = FlowRunFilter.model_validate({"state": {"type": {"any_": ["RUNNING"]}}})
    with get_client(sync_client=True) as client:
        others = client.read_flow_runs(flow_run_filter=running, limit=200)
    configs = [other.parameters.get("config") for other in others if other.id != flow_run.id]
    return any(
        isinstance(config, dict) and config.get("output") and storage.normalize(str(config["output"])) == output
        for config in configs
    )
