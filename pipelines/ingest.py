"""The flow of an ingest."""

from __future__ import annotations

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.states import Completed, State

from mmpca_dist.errors import MmpcaError
from mmpca_dist.jobs.events import Callbacks
from mmpca_dist.jobs.tracebacks import traceback_kept

from .artifacts import ArtifactCallback
from .flows import COMMON, as_model, refused
from .ingest_table import IngestConfig, ingest_table, ingested
from .session import watchers


@flow(name="ingest", description="Turn a labelled table of any format into chunked, checksummed Zarr.", **COMMON)
def ingest_flow(config: IngestConfig) -> State:
    """Write the table at ``config.source`` as a Zarr group of rows ``X`` and labels ``y``."""
    callback = Callbacks([ArtifactCallback(), *watchers()])
    try:
        config = as_model(IngestConfig, config)
        with traceback_kept():
            manifest = ingest_table(config, callback)
    except MmpcaError as error:
        return refused(error)
    shown = ("rows", "columns", "dtype", "sparse", "classes", "bytes", "source", "destination")
    create_table_artifact(
        [{name: str(manifest[name]) for name in shown}], key="ingested", description="What was written"
    )
    return Completed(message=ingested(config, manifest))
