"""The flow of a transform."""

from __future__ import annotations

from mmpca_dist.jobs.events import Callbacks
from mmpca_dist.runs.transform import TransformConfig, transform, transformed

from .artifacts import Artifacts
from .flows import Done, TaskChain, flow_of
from .results import asset, listed, publish_result, short


@flow_of(TransformConfig, lambda config: f"{short(config.dataset)} with {short(config.output)}")
def transform_flow(config: TransformConfig, artifacts: Artifacts, callbacks: Callbacks) -> Done:
    """Project new rows with the methods of a finished run, out of core."""
    makes = [asset(config.destination, "projected")]
    of = [asset(config.dataset), asset(config.output, "model")]
    words = f"Project {short(config.dataset)}" + (f": {listed(config.methods)}" if config.methods else "")
    manifest = TaskChain().run("project", words, lambda: transform(config, [callbacks]), makes, of)
    said = transformed(manifest)
    publish_result(artifacts, "Projected rows", said, manifest["outputs"])
    return said, {"folder": manifest["destination"], "projected": manifest["outputs"], "rows": manifest["rows"]}
