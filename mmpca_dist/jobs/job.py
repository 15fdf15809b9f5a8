"""``Job`` and ``Stage``: a run in progress, and a step of it; open a job, run its stages or reuse their results."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, cast

import psutil

from mmpca_dist import compile_notice
from mmpca_dist.configuration.schema import Purpose, RunConfig
from mmpca_dist.errors import AccessError, DamageError, InputError, MmpcaError
from mmpca_dist.evaluation.splits import Splits
from mmpca_dist.faults import showing
from mmpca_dist.jobs import records
from mmpca_dist.jobs.cluster import compute_on, open_scheduler, performance_report, refuse_private
from mmpca_dist.jobs.counted import Counted
from mmpca_dist.jobs.directory import EVALUATION, Identity, RunDirectory
from mmpca_dist.jobs.events import Callback, Callbacks
from mmpca_dist.jobs.inputs import Inputs
from mmpca_dist.jobs.journal import Journal
from mmpca_dist.jobs.object_records import AGAIN, GROUP, check_outputs, recorded
from mmpca_dist.jobs.stored_arrays import load_fits
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.census import Census, take_census
from mmpca_dist.passes.checkpoint import Checkpoint
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Cluster, Scheduler, Threads
from mmpca_dist.passes.tree_reduction import PeakMemory, Tasks
from mmpca_dist.planning.plan import PROCESS_BASE
from mmpca_dist.stores import storage
from mmpca_dist.stores.lease import Lease, held
from mmpca_dist.tables.changes import Watch
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import Span, make_spans


def sizes_of(config: RunConfig, results: records.Results, method: str) -> Sequence[float]:
    """Return the numbers of components of a method, ascending: as asked for, or the one that a stage has chosen."""
    choice = results.find(records.CHOOSE)
    return config.sizes if choice is None else [choice["methods"][method]["chosen"]]


@dataclass
class PassCounter:
    """Counts the passes of a stage that read rows, and calls ``tell`` with the name of any pass that begins."""

    tell: Callable[[str], None] = lambda name: None
    names: list[str] = field(default_factory=list)
    n_bytes: int = 0

    def __call__(self, name: str, size: int) -> None:
        self.names += [name] if size else []
        self.n_bytes += size
        self.tell(name)

    def take(self) -> dict[str, Any]:
        """Return the passes that read rows, and their bytes, since the last call."""
        passes = {"passes": self.names, "bytes": self.n_bytes}
        self.names, self.n_bytes = [], 0
        return passes


@dataclass
class Job:
    """A run in progress: its inputs, its callbacks, its scheduler, and what is known of it so far."""

    inputs: Inputs
    key: str
    scheduler: Scheduler
    callback: Callback
    lease: Lease | None = None
    watch: Watch | None = None
    """The input as it was before anything of it was read."""
    results: records.Results = field(default_factory=records.Results)
    reused: set[str] = field(default_factory=set)
    """The stages whose results were there already."""
    current_checkpoint: Checkpoint | None = None
    """The checkpoint for the passes of the stage at work."""
    passes: PassCounter = field(default_factory=PassCounter)
    """The passes of the stage at work."""
    memory: PeakMemory = field(default_factory=PeakMemory)
    left_out: str = ""
    """Why an evaluation does not compare with all columns; empty where it does."""
    held: int = 0
    """Memory of this process that is no part of the work."""

    @property
    def config(self) -> RunConfig:
        return self.inputs.config

    @property
    def run(self) -> RunDirectory:
        return self.inputs.run

    @property
    def dataset(self) -> Dataset:
        """The rows, after their row maps once these are fitted, and widened once they are counted."""
        rows = self.inputs.dataset
        if rows.mapped is not None and rows.mapped.fits is None and records.MAPS in self.results:
            maps = rows.mapped.maps
            rows = rows.unmapped.with_maps(maps, load_fits(self.run, self.results.of(records.MAPS), len(maps)))
            self.inputs = replace(self.inputs, table=rows)
        count = self.results.find(records.COUNT)
        return rows if count is None else Counted(count).widened(rows)

    def sizes(self, method: str) -> Sequence[float]:
        """Return the numbers of components of a method, ascending: as asked for, or the one that was chosen."""
        return sizes_of(self.config, self.results, method)

    @property
    def largest(self) -> int | None:
        """The largest number of components of any method; None for all there are."""
        return None if self.config.by_share else max(int(self.sizes(method)[-1]) for method in self.config.labels)

    @property
    def spans(self) -> list[Span]:
        return make_spans(self.dataset)

    @cached_property
    def census(self) -> Census:
        """The census, taken again where the stage was reused: it is a pass over labels only."""
        return take_census(self.dataset, self.spans, self.tasks())

    @cached_property
    def splits(self) -> Splits:
        """The splits of an evaluation."""
        rows = self.rows()
        return self.inputs.draw_splits(rows).weighed(rows)

    def rows(self, stage: str | None = None) -> Rows:
        """Return the rows for the passes of a stage, which reports its progress, or for other work."""
        context = vars(self.tasks(stage))
        scratch = None if stage is None else self.run.path("scratch", stage)
        return Rows(dataset=self.dataset, census=self.census, spans=self.spans, scratch=scratch, **context)

    def tasks(self, stage: str | None = None) -> Tasks:
        """Return the context of the passes of a stage, which reports its progress, or of other work."""
        told: dict[str, Any] = {}
        if stage is not None:
            on_sweep = partial(self.callback.on_sweep, stage)
            told = {"progress": self.progress(stage), "on_pass": self.passes, "on_sweep": on_sweep}
        return Tasks(scheduler=self.scheduler, checkpoint=self.current_checkpoint, memory=self.memory, **told)

    @property
    def resumable(self) -> bool:
        """Whether groups of spans are kept; of little data a stage is soon repeated."""
        return self.inputs.table.n_bytes >= LIMITS.resumable_bytes

    def progress(self, stage: str) -> Callable[[int, int], None]:
        """Return a function that reports progress, and ends the work where the folder is no longer this run's."""

        def report(done: int, total: int) -> None:
            self.check_lease()
            self.callback.on_progress(stage, done, total)

        return report

    def check_lease(self, now: bool = False) -> None:
        """Raise OutputError where the folder is no longer this run's; ``now``, before results, by reading it."""
        if self.lease is not None:
            self.lease.check(now)

    @contextmanager
    def checkpoint(self, stage: str) -> Iterator[None]:
        """Let passes over the rows keep checkpoints until the stage is done, unless there is little data."""
        if not self.resumable:
            yield
            return
        self.run.begin_scratch(self.key)
        self.current_checkpoint = Checkpoint(self.run.path("scratch", stage, "passes"), self.inputs.table.n_bytes)
        try:
            yield
        finally:
            self.current_checkpoint = None


@dataclass(frozen=True)
class Stage:
    """A named step; its function returns the record of what it leaves."""

    name: records.StageName[Any]
    title: str
    function: Callable[[Job], records.StageRecord]
    measured: bool = False
    """Whether the record tells the passes over the rows as well, their bytes, and the peak memory."""


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


def run_stage(job: Job, stage: Stage) -> records.StageRecord:
    """Run a stage, or take up its results where its record says that it is done."""
    job.callback.on_stage_start(stage.name)
    record = _whole_record(job, stage)
    if reused := record is not None:
        job.reused.add(stage.name)
    else:
        job.check_lease(now=True)
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
        job.check_lease(now=True)
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


def _whole_record(job: Job, stage: Stage) -> records.StageRecord | None:
    """Return the record of a stage, or None where it is to be done; damaged results go, and their record with them.

    Records of splits stay: the repeated stage checks each.
    """
    record: records.StageRecord | None = None
    try:
        record = job.run.record(stage.name)
        carried = job.config.report.columns if stage.name == records.REPORT else None
        if record is None or stage.name == records.PLAN:
            return None
        if (record["key"], record.get("carried")) != (job.key, carried):
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


def _do(job: Job, stage: Stage) -> records.StageRecord:
    """Do a stage; begin again where the checkpoints of an earlier attempt are damaged."""
    scratch = job.run.path("scratch", stage.name)
    client = job.scheduler.client if isinstance(job.scheduler, Cluster) else None
    notice = compile_notice.watching(lambda: job.callback.on_compile(stage.name), client)
    try:
        with notice, job.checkpoint(stage.name):
            return _measured(job, stage)
    except DamageError as error:
        if not job.resumable or not storage.names_in(scratch):
            raise
        job.callback.on_note(f"{error} What is kept of the stage {stage.name!r} is not used; it begins anew.")
    storage.remove(scratch)
    with job.checkpoint(stage.name):
        return _measured(job, stage)


def _measured(job: Job, stage: Stage) -> records.StageRecord:
    """Do a stage, and return its record with what was measured of it, where that is told."""
    job.passes = PassCounter(partial(job.callback.on_pass, stage.name))
    if not stage.measured:
        return stage.function(job)
    with measured(job) as peak:
        record = stage.function(job)
        return cast(records.StageRecord, {**job.passes.take(), "memory": peak(), **record})


def open_job(
    config: RunConfig, callback: Callback, purpose: Purpose = "run", client: Any = None
) -> AbstractContextManager[Job]:
    """Open everything that a run or an evaluation needs, and claim the output folder; a Dask client does the work."""
    return open_inputs(Inputs.of(config, purpose, callback), callback, client)


def claimable(inputs: Inputs) -> Identity:
    """Return the identity of a job; raise OutputError where its folder holds something else, or lies inside that."""
    if not inputs.run.exists:
        inputs.run.refuse_inside(inputs.table.uri)
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
    with (
        showing(inputs.shown),
        run.tidied(),
        held(run.uri, callback.on_note) as lease,
        lease.cleared(run.discard_removed),
    ):
        begun_before = run.exists
        key = run.begin(identity)
        if begun_before:
            storage.remove_partials(run.uri, but=EVALUATION)  # of a process that was killed as it wrote
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
                held_at_start = psutil.Process().memory_info().rss
                job.held = max(0, held_at_start - PROCESS_BASE - inputs.table.facts.resident_bytes)
                yield job
                lease.check(now=True)
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
