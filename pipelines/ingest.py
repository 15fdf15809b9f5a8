"""The flow of an ingest."""

from __future__ import annotations

from prefect.artifacts import create_table_artifact

from mmpca_dist.jobs.events import Callbacks
from mmpca_dist.jobs.journal import traceback_kept

from .flows import flow_of
from .ingest_table import IngestConfig, ingest_table, ingested
from .outbox import Outbox


@flow_of(IngestConfig, "ingest", "Turn a labelled table of any format into chunked, checksummed Zarr.")
def ingest_flow(config: IngestConfig, outbox: Outbox, callbacks: Callbacks) -> str:
    """Write the table at ``config.source`` as a Zarr group of rows ``X`` and labels ``y``."""
    with traceback_kept():
        manifest = ingest_table(config, callbacks)
    shown = ("rows", "columns", "dtype", "sparse", "classes", "bytes", "source", "destination")
    row = {name: str(manifest[name]) for name in shown}
    outbox.send(create_table_artifact, [row], key="ingested", description="What was written")
    return ingested(config, manifest)
