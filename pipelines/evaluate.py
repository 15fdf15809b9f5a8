"""The flow that compares methods on rows held out."""

from __future__ import annotations

from prefect import flow
from prefect.states import Completed, State

from mmpca_dist.errors import MmpcaError
from mmpca_dist.runs.config import RunConfig
from mmpca_dist.runs.directory import folder_of
from mmpca_dist.runs.evaluating import EVALUATION_STAGES
from mmpca_dist.runs.events import Callbacks
from mmpca_dist.runs.job import open_job
from mmpca_dist.runs.scoring import forgetting
from mmpca_dist.runs.tracebacks import traceback_kept

from .artifacts import publish_evaluation
from .fit import execute, listeners
from .flows import COMMON, as_model, refused


@flow(
    name="evaluate",
    description="Errors of every method and number of components on rows held out, by several classifiers.",
    **COMMON,
)
def evaluate_flow(config: RunConfig) -> State:
    """Run every stage of an evaluation as a Prefect task.

    A mistake of the user's ends the flow in the failed state ``Refused``, whose message says what to do.
    """
    try:
        config = as_model(RunConfig, config)
        with (
            traceback_kept(folder_of(config, "evaluation").uri),
            open_job(config, Callbacks(listeners()), "evaluation") as job,
            forgetting(job),
        ):
            for stage in EVALUATION_STAGES:
                execute(job, stage)
            found = job.results["compare"]
            publish_evaluation(found)
            return Completed(message=f"{found['verdict']} Report: {found['html']}")
    except MmpcaError as error:
        return refused(error)
