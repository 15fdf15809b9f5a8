"""The work of an ingest, with or without Prefect."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # hooks of flows need neither
    from mmpca_dist.ingest.options import IngestConfig
    from mmpca_dist.jobs.events import Callback


def ingest_table(config: IngestConfig, callback: Callback) -> dict[str, Any]:
    """Ingest a table, and return its manifest."""
    from mmpca_dist.ingest import job

    callback.on_stage_start("ingest")
    manifest = job.ingest(config, partial(callback.on_progress, "ingest"), callback.on_note)
    callback.on_stage_end("ingest", manifest, False)
    return manifest


def ingested(config: IngestConfig, manifest: dict[str, Any]) -> str:
    """Return a finished ingest in words."""
    kind = "sparse rows" if manifest["sparse"] else "rows"
    return f"{manifest['rows']} {kind} of {manifest['columns']} columns written to {config.destination}"
