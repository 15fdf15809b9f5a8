"""Open a job: data set, folder, lease, cluster; refuse at once what cannot run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import psutil

from mmpca_dist.configuration.schema import Purpose, RunConfig
from mmpca_dist.errors import AccessError, MmpcaError
from mmpca_dist.jobs.cluster import compute_on, open_scheduler, performance_report, refuse_private
from mmpca_dist.jobs.conversion import errors_name, told_as
from mmpca_dist.jobs.directory import Identity, RunDirectory
from mmpca_dist.jobs.events import Callback, Callbacks
from mmpca_dist.jobs.inputs import Inputs
from mmpca_dist.jobs.job import Job
from mmpca_dist.jobs.journal import Journal
from mmpca_dist.planning.plan import PROCESS_BASE
from mmpca_dist.stores import storage
from mmpca_dist.stores.lease import held
from mmpca_dist.tables.changes import Watch


@contextmanager
def open_job(config: RunConfig, callback: Callback, purpose: Purpose = "run", client: Any = None) -> Iterator[Job]:
    """Open everything that a run or an evaluation needs, and claim the output folder; a Dask client does the work."""
    with open_inputs(Inputs.of(config, purpose, callback), callback, client) as job:
        yield job


def claimable(inputs: Inputs) -> Identity:
    """Return the identity of a job; raise OutputError where its folder holds something else, or lies inside that."""
    if not inputs.run.exists:
        inputs.run.refuse_inside(inputs.dataset.uri)
    identity = inputs.identity()
    inputs.run.check(identity)
    return identity


@contextmanager
def open_inputs(inputs: Inputs, callback: Callback, client: Any = None) -> Iterator[Job]:
    """Claim the folder of a job, and open its scheduler; raise as ``open_job`` does."""
    if client is not None:  # no part of what the folder keeps
        compute = compute_on(client, inputs.config.compute)
        inputs = replace(inputs, config=inputs.config.model_copy(update={"compute": compute}))
        refuse_private(compute, [*inputs.addresses, inputs.run.uri])
    run, watch = inputs.run, Watch.of(inputs.addresses)
    identity = claimable(inputs)
    opened = inputs.dataset.uri
    named = errors_name(told_as(inputs.asked.dataset.uri, opened), opened)
    with named, run.tidied(), held(run.uri, callback.on_note) as lease:
        begun_before = run.exists
        key = run.begin(identity)
        if begun_before:
            run.remove_partials()  # of a process that was killed as it wrote
        try:
            journal = Journal(run.uri, key)
            callbacks = Callbacks([callback, journal])
            compute, page = inputs.config.compute, run.path("report", "dask-performance.html")
            with (
                journal.kept(),
                open_scheduler(compute, callbacks, run.label, client) as scheduler,
                performance_report(compute, scheduler, page),
            ):
                job = Job(inputs, key, scheduler, callbacks, lease, watch)
                # What this process holds beyond what the plan takes for granted: a notebook's other data, say.
                job.held = max(0, psutil.Process().memory_info().rss - PROCESS_BASE - inputs.dataset.resident_bytes)
                yield job
                if not lease.is_lost:
                    storage.remove(run.path("scratch"))
        except MmpcaError as error:
            # A resumed run keeps what it had, and the folder may be another run's by now.
            if not begun_before and not lease.is_lost:
                _discard_refused(run, error, callback.on_note)
            raise


def _discard_refused(run: RunDirectory, error: MmpcaError, on_note: Callable[[str], None]) -> None:
    """Delete the output of refused input, unless a stage is finished; keep all after an I/O failure."""
    with suppress(MmpcaError):  # if that fails too, report the first error
        may_go_on = isinstance(error, AccessError)
        if may_go_on and (run.has_results or run.has_checkpoints):
            on_note(f"What is done is kept in {run.uri}, as the run may go on: give the same command again.")
        elif not may_go_on and run.has_results:
            on_note(
                f"The stages that are done are kept in {run.uri}. A run with other rows or settings needs another "
                "output folder."
            )
        else:
            run.discard()
