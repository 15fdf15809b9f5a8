"""The flow of a run."""

from __future__ import annotations

from typing import Any

from prefect import flow, task
from prefect.states import Completed, State

from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.errors import MmpcaError
from mmpca_dist.jobs.events import Callback
from mmpca_dist.jobs.job import Job, Stage
from mmpca_dist.jobs.records import REPORT
from mmpca_dist.jobs.run_stage import run_stage
from mmpca_dist.jobs.searches import search_rows
from mmpca_dist.jobs.tracebacks import traceback_kept
from mmpca_dist.report.run_contents import plan_and_measured
from mmpca_dist.runs.stages import stages_of
from mmpca_dist.runs.summary import components, legend

from .artifacts import ArtifactCallback, MetricsCallback, publish_report
from .flows import COMMON, as_model, refused
from .prepared import job_of_flow


def listeners() -> list[Callback]:
    """Return who hears of a run for Prefect: artifacts, and counters."""
    return [ArtifactCallback(), MetricsCallback()]


@flow(
    name="fit",
    description="Class moments in one pass, components by every method, projected rows, a report.",
    **COMMON,
)
def fit_flow(config: RunConfig) -> State:
    """Run every stage as a Prefect task.

    A mistake of the user's ends the flow in the failed state ``Refused``, whose message says what to do.
    """
    try:
        config = as_model(RunConfig, config)
        with traceback_kept(config.output), job_of_flow(config, listeners()) as job:
            for stage in stages_of(config):
                execute(job, stage)
            report = job.results.of(REPORT)
            publish_report(
                report,
                plan_and_measured(job.results),
                components(job.run.uri),
                legend(job.run.uri),
                search_rows(job.config, job.results),
            )
            return Completed(message=f"Report: {report['html']}")
    except MmpcaError as error:
        return refused(error)


def execute(job: Job, stage: Stage) -> None:
    """Run a stage as a task; a refusal comes back as a value, since an exception would log a traceback.

    Raises
    ------
    MmpcaError
        The refusal.
    Exception
        What else ended the task, which Prefect has logged.
    RuntimeError
        Where Prefect did not start the task.
    """
    ended_by: list[Exception] = []

    @task(name=stage.name, description=stage.title, persist_result=False)
    def run_one() -> Any:
        try:
            manifest = job.results.get(stage.name) or run_stage(job, stage)
        except MmpcaError as error:
            ended_by.append(error)
            return refused(error)
        except Exception as error:
            ended_by.append(error)
            raise
        return Completed(message=f"{stage.title}: {manifest.get('seconds', 0):.2f} s")

    state = run_one(return_state=True)
    if ended_by:
        raise ended_by[0]
    if stage.name not in job.results:
        raise RuntimeError(f"Prefect did not run the stage {stage.name}: {state.message or state.name}")
