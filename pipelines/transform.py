"""The flow of a transform."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mmpca_dist.jobs.events import Callbacks

from .artifacts import Artifacts
from .flows import Done, TaskChain, flow_of
from .results import asset, listed, publish_result, short

if TYPE_CHECKING:
    from mmpca_dist.configuration.requests import TransformConfig


@flow_of(
    "mmpca_dist.configuration.requests:TransformConfig",
    lambda config: f"{short(config.dataset)} with {short(config.output)}",
)
def transform_flow(config: TransformConfig, artifacts: Artifacts, callbacks: Callbacks) -> Done:
    """Project new rows with the methods of a finished run, out of core."""
    from mmpca_dist.runs.transform import transform, transformed

    makes = [asset(config.destination or config.dataset, "projected")]
    of = [asset(config.dataset), asset(config.output, "model")]
    words = f"Project {short(config.dataset)}" + (f": {listed(config.methods)}" if config.methods else "")
    work = partial(transform, config, [callbacks])
    manifest = TaskChain().run("project", words, work, makes, of, lambda manifest: manifest["reused"])
    said = transformed(manifest)
    publish_result(artifacts, "Projected rows", said, manifest["outputs"])
    return said, {"folder": manifest["destination"], "projected": manifest["outputs"], "rows": manifest["rows"]}
