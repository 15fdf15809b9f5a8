"""Jobs that a command opens while its Prefect server starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from mmpca_dist.configuration.schema import Purpose, RunConfig
from mmpca_dist.errors import MmpcaError
from mmpca_dist.jobs.events import Callback, Callbacks
from mmpca_dist.jobs.job import Job, Stage
from mmpca_dist.jobs.open_job import open_job
from mmpca_dist.jobs.run_stage import run_stage

from .watching import watchers


@dataclass
class _Prepared:
    """A job whose first stages are done, its callbacks, and how its flow was refused, if it was."""

    job: Job
    callbacks: Callbacks
    refusal: MmpcaError | None = None


_prepared: ContextVar[_Prepared | None] = ContextVar("prepared", default=None)


@contextmanager
def prepared_job(config: RunConfig, purpose: Purpose, callback: Callback, stages: Sequence[Stage]) -> Iterator[None]:
    """Open a job and run some of its stages; a flow that is started within goes on with it.

    Raises the errors of ``open_job`` and of the stages, or the one that the flow was refused for.
    """
    callbacks = Callbacks([callback], records=True)
    with open_job(config, callbacks, purpose) as job:
        for stage in stages:
            run_stage(job, stage)
        prepared = _Prepared(job, callbacks)
        token = _prepared.set(prepared)
        try:
            yield
        except MmpcaError as error:  # a refused flow has a message alone: what was raised within it tells more
            raise prepared.refusal or error from None
        finally:
            _prepared.reset(token)


@contextmanager
def job_of_flow(config: RunConfig, listeners: Sequence[Callback], purpose: Purpose = "run") -> Iterator[Job]:
    """Yield the job that a command has prepared for this flow, or open it; the listeners hear all of it."""
    prepared = _prepared.get()
    if prepared is None:
        with open_job(config, Callbacks([*listeners, *watchers()]), purpose) as job:
            yield job
        return
    for listener in listeners:
        prepared.callbacks.add(listener)
    try:
        yield prepared.job
    except MmpcaError as error:
        prepared.refusal = error
        raise
    finally:  # the listeners have nothing to do with what comes after the flow
        for listener in listeners:
            prepared.callbacks.remove(listener)
