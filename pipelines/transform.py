"""The flow that projects new rows with the methods of a finished run."""

from __future__ import annotations

from prefect import flow
from prefect.states import Completed, Failed, State

from mmpca_dist.errors import MmpcaError
from mmpca_dist.runs.events import Callbacks
from mmpca_dist.runs.transforming import transform
from pipelines.artifacts import ArtifactCallback
from pipelines.fit import REFUSED, watchers


@flow(
    name="transform",
    description="Project new rows with the methods of a finished run, out of core.",
    persist_result=False,
)
def transform_flow(
    output: str,
    source: str,
    destination: str,
    methods: list[str] | None = None,
    features: str | None = None,
    label: str | None = None,
) -> State:
    """Project the rows of ``source`` into ``destination`` with the model in ``output``."""
    try:
        manifest = transform(
            output, source, destination,
            methods=methods, features=features, label=label,
            callback=Callbacks([ArtifactCallback(), *watchers()]),
        )  # fmt: skip
    except MmpcaError as error:
        return Failed(message=str(error), name=REFUSED)
    return Completed(message=f"{manifest['rows']} rows projected into {destination}")
