"""Clean up after cancelled and crashed flow runs.

A worker runs these hooks once the process of the flow is gone. They keep everything of a run, scratch included: Retry,
or the next run with the same parameters, goes on from it. They remove half an ingested table. Others may work in the
same folder by now, so a hook removes only what it holds the lease of.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from prefect.logging.loggers import flow_run_logger

from mmpca_dist.errors import OutputError
from mmpca_dist.ingest.destination import Destination
from mmpca_dist.jobs.directory import EVALUATION, RunDirectory
from mmpca_dist.runs.transform_rows import job_folder
from mmpca_dist.stores import storage


def on_cancellation(flow: Any, flow_run: Any, state: Any) -> None:
    """Remove what nothing can go on from, and say how to go on or to free the disk."""
    _after(flow, flow_run, "was cancelled")


def on_crashed(flow: Any, flow_run: Any, state: Any) -> None:
    """Remove what nothing can go on from, and say how to go on."""
    _after(flow, flow_run, "crashed")


def _after(flow: Any, flow_run: Any, end: str) -> None:
    logger = flow_run_logger(flow_run, flow)
    uri = folder_of_flow(flow.name, (flow_run.parameters or {}).get("config"))
    if uri is None:
        return
    if flow.name == "ingest":
        with suppress(OutputError):  # another ingest works there
            if Destination.of(uri).recover():
                logger.info("Removed what was half-written for %s; what was there before is there.", uri)
    elif RunDirectory(uri).exists:
        logger.warning(
            "The run %s. Retry it, or start it again with the same parameters: it goes on in %s. To give up its "
            "unfinished stage and free the disk: mmpca clean %s",
            end, uri, uri,
        )  # fmt: skip


def written_to(flow: str, config: Any) -> str | None:
    """Return where a flow writes, if its parameters, which may be mistaken, say that."""
    name = "destination" if flow in ("ingest", "transform") else "output"
    value = config.get(name) if isinstance(config, dict) else getattr(config, name, None)
    return value if isinstance(value, str) and value else None


def folder_of_flow(flow: str, config: Any) -> str | None:
    """Return the folder that a flow writes to, if its parameters name one."""
    value = written_to(flow, config)
    if value is None:
        return None
    uri = storage.normalize(value)
    uri = job_folder(uri) if flow == "transform" else uri
    return storage.join(uri, EVALUATION) if flow == "evaluate" else uri
