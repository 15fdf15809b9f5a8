"""The flow of a transform."""

from __future__ import annotations

from prefect import flow
from prefect.states import Completed, State

from mmpca_dist.errors import MmpcaError
from mmpca_dist.jobs.events import Callbacks
from mmpca_dist.jobs.tracebacks import traceback_kept
from mmpca_dist.runs.transform_rows import TransformConfig, transform, transformed

from .artifacts import ArtifactCallback
from .flows import COMMON, as_model, refused
from .session import watchers


@flow(
    name="transform",
    description="Project new rows with the methods of a finished run, out of core.",
    **COMMON,
)
def transform_flow(config: TransformConfig) -> State:
    """Project rows with the methods of a run; a mistake of the user's ends the flow in the state ``Refused``."""
    try:
        with traceback_kept():
            manifest = transform(as_model(TransformConfig, config), Callbacks([ArtifactCallback(), *watchers()]))
    except MmpcaError as error:
        return refused(error)
    return Completed(message=transformed(manifest))
