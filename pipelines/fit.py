"""The flow of a run."""

from __future__ import annotations

from typing import Any

from prefect import task
from prefect.states import Completed

from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.errors import MmpcaError
from mmpca_dist.jobs.events import Callbacks
from mmpca_dist.jobs.job import Job, Stage
from mmpca_dist.jobs.journal import traceback_kept
from mmpca_dist.jobs.open_job import open_job
from mmpca_dist.jobs.records import REPORT
from mmpca_dist.jobs.run_stage import run_stage
from mmpca_dist.jobs.searches import search_rows
from mmpca_dist.report.run_page import plan_and_measured
from mmpca_dist.runs.stages import stages_of
from mmpca_dist.runs.summary import components, legend

from .artifacts import publish_report
from .flows import flow_of, refused
from .outbox import Outbox


@flow_of(RunConfig, "fit", "Class moments in one pass, components by every method, projected rows, a report.")
def fit_flow(config: RunConfig, outbox: Outbox, callbacks: Callbacks) -> str:
    """Run every stage as a Prefect task."""
    with traceback_kept(config.output), open_job(config, callbacks) as job:
        for stage in stages_of(config):
            execute(job, stage)
        report, uri = job.results.of(REPORT), job.run.uri
        plan, searches = plan_and_measured(job.results), search_rows(job.config, job.results)
        publish_report(outbox, report, plan, components(uri), legend(uri), searches)
        return f"Report: {report['html']}"


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
    errors: list[Exception] = []

    @task(name=stage.name, description=stage.title, persist_result=False)
    def run_one() -> Any:
        try:
            record = run_stage(job, stage)
        except MmpcaError as error:
            errors.append(error)
            return refused(error)
        except Exception as error:
            errors.append(error)
            raise
        return Completed(message=f"{stage.title}: {record.get('seconds', 0):.2f} s")

    state = run_one(return_state=True)
    if errors:
        raise errors[0]
    if stage.name not in job.results:
        raise RuntimeError(f"Prefect did not run the stage {stage.name}: {state.message or state.name}")
