"""The main flow: rows to moments to components, a stored model, projected rows and a report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from prefect import flow, task
from prefect.states import Completed, State

from mmpca_dist.errors import MmpcaError
from mmpca_dist.runs.certificate import search_rows
from mmpca_dist.runs.config import RunConfig
from mmpca_dist.runs.events import Callback, Callbacks
from mmpca_dist.runs.job import Job, Stage, open_job, run_stage
from mmpca_dist.runs.reporting import plan_and_measured
from mmpca_dist.runs.stages import stages_of
from mmpca_dist.runs.summary import components
from mmpca_dist.runs.tracebacks import traceback_kept

from .artifacts import ArtifactCallback, publish_report
from .flows import COMMON, as_model, refused
from .metrics import MetricsCallback

_watchers: ContextVar[tuple[Callback, ...]] = ContextVar("watchers", default=())


@contextmanager
def watching(callback: Callback) -> Iterator[None]:
    """Let a callback of this process, such as a terminal's, hear of the flows that are started within."""
    token = _watchers.set((callback,))
    try:
        yield
    finally:
        _watchers.reset(token)


def watchers() -> tuple[Callback, ...]:
    """Return who watches the flows that this context starts."""
    return _watchers.get()


def listeners() -> list[Callback]:
    """Return all who hear of a run within a flow: Prefect's artifacts, counters, and who watches."""
    return [ArtifactCallback(), MetricsCallback(), *watchers()]


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
        with traceback_kept(config.output), open_job(config, Callbacks(listeners())) as job:
            for stage in stages_of(config):
                execute(job, stage)
            publish_report(
                job.results["report"],
                plan_and_measured(job.results),
                components(job.run.uri),
                search_rows(job.results),
            )
            return Completed(message=f"Report: {job.results['report']['html']}")
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
            manifest = run_stage(job, stage)
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
