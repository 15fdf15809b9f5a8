"""The flow that projects new rows with the methods of a finished run."""

from __future__ import annotations

from prefect import flow
from prefect.states import Completed, State

from mmpca_dist.errors import MmpcaError
from mmpca_dist.runs.events import Callbacks
from mmpca_dist.runs.tracebacks import traceback_kept
from mmpca_dist.runs.transforming import TransformConfig, transform

from .artifacts import ArtifactCallback
from .fit import watchers
from .flows import COMMON, as_model, refused


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
    labels = "with their labels" if manifest["labels"] else "without labels, as there are none"
    places = ", ".join(place.rsplit("/", 1)[-1] for place in manifest["outputs"])
    return Completed(message=f"{manifest['rows']} rows, {labels}, projected into {manifest['destination']}: {places}")
