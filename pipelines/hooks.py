"""Clean up after cancelled and crashed flow runs.

A worker runs these hooks once the process of the flow is gone. They remove the scratch of a cancelled run, which may be
as large as the data. They keep everything of a crashed one: the next run with the same parameters goes on from it. They
remove half an ingested table in either case. Others may work in the same folder by now, so a hook removes only what it
holds the lease of.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from prefect.logging.loggers import flow_run_logger

from mmpca_dist.errors import OutputError
from mmpca_dist.ingest.destination import Destination
from mmpca_dist.jobs.directory import EVALUATION, RunDirectory
from mmpca_dist.runs.listing import clear_idle
from mmpca_dist.runs.transform_rows import job_folder
from mmpca_dist.stores import storage

WRITTEN = dict.fromkeys(("fit", "refresh", "evaluate"), "output") | dict.fromkeys(
    ("ingest", "transform"), "destination"
)
"""The parameter of each flow that says where it writes; an evaluation writes to a folder below it."""


def on_cancellation(flow: Any, flow_run: Any, state: Any) -> None:
    """Remove scratch and what is half-written; what finished stages left stays."""
    _after(flow, flow_run, crashed=False)


def on_crashed(flow: Any, flow_run: Any, state: Any) -> None:
    """Remove what nothing can go on from, and say how to go on."""
    _after(flow, flow_run, crashed=True)


def _after(flow: Any, flow_run: Any, *, crashed: bool) -> None:
    logger, uri = flow_run_logger(flow_run, flow), _uri(flow.name, flow_run)
    if uri is None:
        return
    if flow.name == "ingest":
        with suppress(OutputError):  # another ingest works there
            if Destination.of(uri).recover():
                logger.info("Removed what was half-written for %s; what was there before is there.", uri)
    elif crashed:
        logger.warning("The run crashed. Start it again with the same parameters: it goes on in %s.", uri)
    else:
        if RunDirectory(uri).exists:
            logger.info("The run was cancelled. %s", clear_idle(uri))
        logger.info("Finished stages in %s are kept; the same parameters go on from there.", uri)


def _uri(flow: str, flow_run: Any) -> str | None:
    """Return the folder that a flow run wrote to, if its parameters name one."""
    config = (flow_run.parameters or {}).get("config")
    value = config.get(WRITTEN[flow]) if isinstance(config, dict) and flow in WRITTEN else None
    if not isinstance(value, str) or not value:
        return None
    uri = storage.normalize(value)
    uri = job_folder(uri) if flow == "transform" else uri
    return storage.join(uri, EVALUATION) if flow == "evaluate" else uri
