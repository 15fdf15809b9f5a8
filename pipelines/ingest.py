"""The flow of an ingest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmpca_dist.jobs.events import Callbacks

from .artifacts import Artifacts
from .flows import Done, TaskChain, flow_of
from .results import asset, publish_result, short

if TYPE_CHECKING:
    from mmpca_dist.ingest.options import IngestConfig


@flow_of(
    "mmpca_dist.ingest.options:IngestConfig",
    lambda config: f"{short(config.source)} into {short(config.destination)}",
)
def ingest_flow(config: IngestConfig, artifacts: Artifacts, callbacks: Callbacks) -> Done:
    """Turn a labelled table of any format into chunked, checksummed Zarr."""
    from .ingest_table import ingest_table, ingested

    makes, of = [asset(config.destination)], [asset(config.source)]
    words = f"Ingest {short(config.source)}"
    manifest = TaskChain().run("ingest", words, lambda: ingest_table(config, callbacks), makes, of)
    said = ingested(config, manifest)
    shown = ("rows", "columns", "dtype", "sparse", "classes", "bytes", "source", "destination")
    artifacts.show("ingested", "What was written", table=[{name: str(manifest[name]) for name in shown}])
    publish_result(artifacts, "Ingested", said, [f"mmpca run my.yaml --set dataset.uri={config.destination}"])
    facts = {name: manifest[name] for name in ("rows", "columns", "classes")}
    return said, {"folder": config.destination, **facts}
