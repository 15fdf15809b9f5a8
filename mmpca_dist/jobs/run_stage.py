"""Run a stage, or reuse the results of an earlier attempt; count its passes and measure its memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import psutil

from mmpca_dist import compile_notice
from mmpca_dist.errors import AccessError, DamageError, InputError, MmpcaError
from mmpca_dist.jobs.job import Job, Stage
from mmpca_dist.jobs.object_records import AGAIN, GROUP, check_outputs, recorded
from mmpca_dist.jobs.records import PLAN, StageRecord
from mmpca_dist.passes.schedulers import Cluster, Threads
from mmpca_dist.passes.tree_reduction import PeakMemory
from mmpca_dist.stores import storage


@contextmanager
def measured(job: Job, interval: float = 0.01) -> Iterator[Callable[[], int]]:
    """Yield a function that returns the peak memory since: of the workers, or of this process with threads."""
    job.memory = PeakMemory()
    if isinstance(job.scheduler, Threads):
        with watched_memory(interval) as peak:
            yield lambda: peak() - job.held
    else:
        yield lambda: job.memory.largest


@contextmanager
def watched_memory(interval: float = 0.01) -> Iterator[Callable[[], int]]:
    """Yield a function that returns the peak resident memory of this process since."""
    process, stop = psutil.Process(), threading.Event()
    peak = process.memory_info().rss

    def watch() -> None:
        nonlocal peak
        while not stop.wait(interval):
            peak = max(peak, process.memory_info().rss)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield lambda: peak
    finally:
        stop.set()
        watcher.join()


@dataclass
class PassCounter:
    """Counts the passes of a stage, and calls back; ``over_rows`` are those that read rows."""

    job: Job
    stage: str
    names: list[str] = field(default_factory=list)
    over_rows: list[str] = field(default_factory=list)
    n_bytes: int = 0

    def __call__(self, name: str, size: int) -> None:
        self.names.append(name)
        if size:
            self.over_rows.append(name)
        self.n_bytes += size
        self.job.callback.on_pass(self.stage, name)

    def take(self) -> dict[str, Any]:
        """Return the passes that read rows, and their bytes, since the last call."""
        passes = {"passes": self.over_rows, "bytes": self.n_bytes}
        self.over_rows, self.n_bytes = [], 0
        return passes


def run_stage(job: Job, stage: Stage) -> StageRecord:
    """Run a stage, or take up its results where its record says that it is done."""
    job.callback.on_stage_start(stage.name)
    record = _whole_record(job, stage)
    reused = record is not None
    if reused:
        job.reused.add(stage.name)
    if record is None:
        begin = time.perf_counter()
        try:
            record = _do(job, stage)
        except MmpcaError:
            with suppress(AccessError):
                _refuse_changed_input(job)  # which is why
            raise
        _refuse_changed_input(job)
        record["seconds"] = time.perf_counter() - begin
        record["objects"] = recorded(job.run.uri, record.get("outputs", []), record.get("objects"))
        job.check_lease()
        job.run.finish(stage.name, job.key, record)
        if job.resumable:
            storage.remove(job.run.path("scratch", stage.name))
    job.results[stage.name] = record
    job.callback.on_stage_end(stage.name, record, reused)
    return record


def _refuse_changed_input(job: Job) -> None:
    """Raise InputError where the input has changed since, and remove what is kept of it for another attempt."""
    if job.watch is None:
        return
    try:
        job.watch.refuse_change(job.inputs.addresses)
    except InputError as error:
        if not isinstance(error, AccessError) and not (job.lease and job.lease.is_lost):
            storage.remove(job.run.path("scratch"))
            storage.remove(job.run.path("splits"))
        raise


def _whole_record(job: Job, stage: Stage) -> StageRecord | None:
    """Return the record of a stage, or None where it is to be done; damaged results go, and their record with them.

    Records of splits stay: the repeated stage checks each.
    """
    record: StageRecord | None = None
    try:
        record = job.run.record(stage.name)
        if record is None or record["key"] != job.key or stage.name == PLAN:
            return None
        check_outputs(job.run.uri, record)
        return record
    except DamageError as error:
        job.callback.on_note(f"{str(error).removesuffix(AGAIN)}The stage {stage.name!r} is done again.")
        storage.remove(job.run.record_path(stage.name))
        for output in [] if record is None else record.get("outputs", []):
            if output.endswith(GROUP) or not output.endswith(".json"):
                storage.remove(job.run.path(output.removesuffix(GROUP)))
        return None


def _do(job: Job, stage: Stage) -> StageRecord:
    """Do a stage; begin again where the checkpoints of an earlier attempt are damaged."""
    scratch = job.run.path("scratch", stage.name)
    client = job.scheduler.client if isinstance(job.scheduler, Cluster) else None
    notice = compile_notice.watching(lambda: job.callback.on_compile(stage.name), client)
    try:
        with notice, job.checkpoint(stage.name):
            return stage.function(job)
    except DamageError as error:
        if not job.resumable or not storage.names_in(scratch):
            raise
        job.callback.on_note(f"{error} What is kept of the stage {stage.name!r} is not used; it begins anew.")
    storage.remove(scratch)
    with job.checkpoint(stage.name):
        return stage.function(job)
