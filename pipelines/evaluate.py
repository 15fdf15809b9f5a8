"""The flow of an evaluation."""

from __future__ import annotations

from prefect import flow
from prefect.states import Completed, State

from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.errors import MmpcaError
from mmpca_dist.evaluation_runs.score_stage import forgetting
from mmpca_dist.evaluation_runs.stages import EVALUATION_STAGES
from mmpca_dist.jobs.directory import folder_of
from mmpca_dist.jobs.records import COMPARE
from mmpca_dist.jobs.tracebacks import traceback_kept

from .artifacts import publish_evaluation
from .fit import execute, listeners
from .flows import COMMON, as_model, refused
from .prepared import job_of_flow


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
            job_of_flow(config, listeners(), "evaluation") as job,
            forgetting(job),
        ):
            for stage in EVALUATION_STAGES:
                execute(job, stage)
            found = job.results.of(COMPARE)
            publish_evaluation(found)
            return Completed(message=f"{found['verdict']} Report: {found['html']}")
    except MmpcaError as error:
        return refused(error)
