"""The flow of an evaluation."""

from __future__ import annotations

from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.jobs.directory import folder_of
from mmpca_dist.jobs.events import Callbacks
from mmpca_dist.jobs.journal import traceback_kept
from mmpca_dist.jobs.open_job import open_job
from mmpca_dist.jobs.records import COMPARE
from mmpca_dist.runs.evaluation_stages import evaluation_stages
from mmpca_dist.runs.score_stage import forgetting

from .artifacts import publish_evaluation
from .fit import execute
from .flows import flow_of
from .outbox import Outbox


@flow_of(
    RunConfig, "evaluate", "Errors of every method and number of components on rows held out, by several classifiers."
)
def evaluate_flow(config: RunConfig, outbox: Outbox, callbacks: Callbacks) -> str:
    """Run every stage of an evaluation as a Prefect task."""
    with (
        traceback_kept(folder_of(config, "evaluation").uri),
        open_job(config, callbacks, "evaluation") as job,
        forgetting(job),
    ):
        for stage in evaluation_stages(config):
            execute(job, stage)
        comparison = job.results.of(COMPARE)
        publish_evaluation(outbox, comparison)
        return f"{' '.join(comparison['answer'])} Report: {comparison['html']}"
