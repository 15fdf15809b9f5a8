"""The flow of a transform."""

from __future__ import annotations

from mmpca_dist.jobs.events import Callbacks
from mmpca_dist.jobs.journal import traceback_kept
from mmpca_dist.runs.transform_rows import TransformConfig, transform, transformed

from .flows import flow_of
from .outbox import Outbox


@flow_of(TransformConfig, "transform", "Project new rows with the methods of a finished run, out of core.")
def transform_flow(config: TransformConfig, outbox: Outbox, callbacks: Callbacks) -> str:
    """Project the rows of a data set with the methods of a run."""
    with traceback_kept(config.destination):
        return transformed(transform(config, [callbacks]))
