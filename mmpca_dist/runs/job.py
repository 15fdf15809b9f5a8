"""A run in progress: what it works with, and how a stage leaves its results and a record behind them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import psutil

from mmpca_dist.datasets import Dataset, Span, limits, make_spans, open_dataset, storage
from mmpca_dist.datasets.addresses import refuse_inside
from mmpca_dist.datasets.lease import Lease, held
from mmpca_dist.datasets.scanning import checked
from mmpca_dist.datasets.watching import Watch, identities
from mmpca_dist.errors import AccessError, ConfigError, DamageError, InputError, MmpcaError
from mmpca_dist.evaluation.published import published_cells
from mmpca_dist.evaluation.splits import Splits
from mmpca_dist.neighbors import compiling
from mmpca_dist.planning.plan import PROCESS_BASE
from mmpca_dist.runs.cluster import connect, open_cluster, refuse_misfit, refuse_private, tell_dashboard
from mmpca_dist.runs.config import Purpose, RunConfig
from mmpca_dist.runs.directory import Identity, RunDirectory, folder_of
from mmpca_dist.runs.events import Callback, Callbacks
from mmpca_dist.runs.integrity import AGAIN, GROUP, check_outputs, recorded
from mmpca_dist.runs.journal import Journal
from mmpca_dist.runs.locating import located, variables_named
from mmpca_dist.runs.parts import addresses_of_parts, digest_of_parts
from mmpca_dist.statistics import checkpoint
from mmpca_dist.statistics.census import Census, take_census
from mmpca_dist.statistics.checkpoint import Checkpoint
from mmpca_dist.statistics.reduction import Cluster, Scheduler, Threads


def sizes_of(config: RunConfig, results: dict[str, dict[str, Any]], method: str) -> list[int]:
    """Return the numbers of components of a method, ascending: as asked for, or the one that a stage has chosen."""
    chosen = results.get("choose")
    return config.sizes if chosen is None else [chosen["methods"][method]["chosen"]]


def asked(config: RunConfig, chooses: bool, **options: Any) -> dict[str, Any]:
    """Return settings as they were given: auto where numbers of components are, or were, to be chosen."""
    found = config.model_dump(mode="json", **options)
    return {**found, "n_components": "auto"} if chooses else found


@dataclass
class Job:
    """A run in progress: its settings, its input, its folder, who watches and where tasks go.

    Where numbers of components are to be chosen, the settings hold those that are tried; a run ``chooses``, and an
    evaluation tries them all.
    """

    config: RunConfig
    dataset: Dataset
    run: RunDirectory
    key: str
    scheduler: Scheduler
    callback: Callback
    lease: Lease | None = None
    census: Census | None = None
    splits: Splits | None = None
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    chooses: bool = False
    watch: Watch | None = None
    """The input as it was before anything of it was read."""
    watched: Sequence[str] = ()

    @classmethod
    def of(cls, config: RunConfig, dataset: Dataset, *rest: Any, purpose: Purpose = "run") -> Job:
        """Return the job of settings as they were given."""
        job = cls(config.resolved(dataset.n_rows, dataset.n_features, purpose), dataset, *rest)
        job.chooses = config.chooses and purpose == "run"
        return job

    def sizes(self, method: str) -> list[int]:
        """Return the numbers of components of a method, ascending: as asked for, or the one that was chosen."""
        return sizes_of(self.config, self.results, method)

    @property
    def largest(self) -> int:
        """The largest number of components of any method."""
        return max(self.sizes(method)[-1] for method in self.config.methods)

    @property
    def spans(self) -> list[Span]:
        return make_spans(self.dataset)

    def counted(self) -> Census:
        """Return the census, taken again where the stage was reused: it is a pass over labels only."""
        if self.census is None:
            self.census = take_census(self.dataset, self.spans, self.scheduler)
        return self.census

    @property
    def resumable(self) -> bool:
        """Whether groups of spans are kept; of little data a stage is soon repeated."""
        return self.dataset.n_bytes >= checkpoint.RESUMABLE_BYTES

    def progress(self, stage: str) -> Callable[[int, int], None]:
        """Return a function that tells progress, and ends the work where the folder is no longer this run's."""

        def tell(done: int, total: int) -> None:
            if self.lease is not None:
                self.lease.check()
            self.callback.on_progress(stage, done, total)

        return tell

    @contextmanager
    def checkpoint(self, stage: str) -> Iterator[None]:
        """Let passes over the rows keep what they leave, until the stage is done."""
        if not self.resumable:
            yield
            return
        self.run.begin_scratch(self.key)
        place = self.run.path("scratch", stage)
        self.scheduler.checkpoint = Checkpoint(storage.join(place, "passes"), self.dataset.n_bytes)
        try:
            yield
        finally:
            self.scheduler.checkpoint = None


@dataclass(frozen=True)
class Stage:
    """A named step; its function returns a small JSON manifest."""

    name: str
    title: str
    function: Callable[[Job], dict[str, Any]]


def open_run_dataset(config: RunConfig, purpose: Purpose = "run", fetch: bool = True) -> Dataset:
    """Open the data set of a run, and check what can be checked without reading rows.

    The column of an evaluation's parts is no feature of it. Without ``fetch`` a file that is yet to be downloaded is
    refused.
    """
    with variables_named(config.dataset):
        return _opened(config, purpose, fetch)


def _opened(config: RunConfig, purpose: Purpose, fetch: bool) -> Dataset:
    section, column = config.dataset, config.evaluation.column
    beside = {}
    if purpose == "evaluation" and column is not None and not column.endswith(".npy"):
        beside = {column: "evaluation.column"}
    if purpose == "evaluation":
        _refuse_nothing_published(config)
    refuse_misfit(config.compute)
    refuse_private(config.compute, [section.uri, section.label, config.output])
    compute, uri = config.compute, located(section, fetch)

    def opened(more: Sequence[str]) -> Dataset:
        return open_dataset(
            uri,
            features=section.features,
            label=section.label,
            drop=[*section.drop, *more],
            beside=beside,
            missing_chunks=section.missing_chunks,
        )

    with limits.within(compute.memory_bytes // compute.threads_per_worker, "compute.memory_limit"):
        dataset = checked(uri, opened, section.drop)
    if not config.chooses and config.largest > dataset.n_features:
        raise InputError(
            f"n_components={config.largest} is more than the {dataset.n_features} features of {dataset.uri}. Take as "
            "many at most, or n_components: auto."
        )
    shape = config.dataset.image_shape
    if shape is not None and shape[0] * shape[1] != dataset.n_features:
        raise InputError(
            f"dataset.image_shape is {shape[0]} x {shape[1]}, but the rows have {dataset.n_features} features. Set it "
            "to the height and width of the images, or leave it out."
        )
    if dataset.n_rows < 2:
        raise InputError(f"{dataset.uri} has {dataset.n_rows} row(s); there must be at least two.")
    return dataset


def _refuse_nothing_published(config: RunConfig) -> None:
    """Refuse published figures of which none could stand beside one of the evaluation."""
    wanted = config.evaluation
    if wanted.published is None:
        return
    cells = published_cells(wanted.published)
    labels = [one.label for one in wanted.classifiers]
    if not any(c.method in config.methods and c.n_components in config.sizes and c.classifier in labels for c in cells):
        methods = ", ".join(dict.fromkeys(cell.method for cell in cells))
        sizes = " and ".join(map(str, sorted({cell.n_components for cell in cells})))
        names = ", ".join(dict.fromkeys(cell.classifier for cell in cells))
        raise ConfigError(
            f"evaluation.published is {wanted.published!r}, and none of its figures is of one of the methods with one "
            f"of n_components under a classifier of such a label: there are {methods} with {sizes} components under "
            f"{names}. Take some of them, or leave it out."
        )


def check_run(config: RunConfig, purpose: Purpose = "run") -> None:
    """Refuse what can be refused at once: a data set that does not open, an output that is taken.

    Raises
    ------
    InputError, OutputError
    """
    dataset = open_run_dataset(config, purpose)
    _folder_for(config, dataset, purpose).check(config, _identity(config, dataset, purpose))


def _identity(config: RunConfig, dataset: Dataset, purpose: Purpose) -> Identity:
    fingerprint, *earlier = identities(dataset)
    return Identity(fingerprint, purpose, digest_of_parts(config, dataset, purpose), earlier)


def _folder_for(config: RunConfig, dataset: Dataset, purpose: Purpose) -> RunDirectory:
    """Return the folder of a run; refuse a new one inside another run or a data set."""
    run = folder_of(config, purpose)
    if not run.exists:
        refuse_inside(config.output, (dataset.uri,))
    return run


@contextmanager
def open_job(config: RunConfig, callback: Callback, purpose: Purpose = "run") -> Iterator[Job]:
    """Open everything a run needs; claims the output folder.

    Raises
    ------
    InputError, OutputError
        Before any work, for data, a cluster or an output that cannot be used.
    """
    dataset = open_run_dataset(config, purpose)
    watched = [*dataset.addresses, *addresses_of_parts(config, dataset, purpose)]
    run, watch = _folder_for(config, dataset, purpose), Watch.of(watched)
    identity = _identity(config, dataset, purpose)
    run.check(config, identity)
    with run.tidied(), held(run.uri, callback.on_note) as lease:
        begun_before = run.exists
        key = run.begin(config, identity)
        if begun_before:
            run.remove_partials()  # of a process that was killed as it wrote
        try:
            journal = Journal(run.uri, key)
            told = Callbacks([callback, journal])
            with (
                journal.kept(),
                open_cluster(config.compute) as cluster,
                connect(config.compute, cluster, told.on_note) as scheduler,
            ):
                if isinstance(scheduler, Threads):
                    scheduler.held = _held_besides(dataset)
                tell_dashboard(scheduler, told)
                job = Job.of(config, dataset, run, key, scheduler, told, lease, purpose=purpose)
                job.watch, job.watched = watch, watched
                yield job
                if not lease.is_lost:
                    storage.remove(run.path("scratch"))
        except MmpcaError as error:
            # A run that was taken up again keeps what it had, and what is another run's by now is not ours to remove.
            if not begun_before and not lease.is_lost:
                _discard_refused(run, error, callback.on_note)
            raise


def _discard_refused(run: RunDirectory, error: MmpcaError, on_note: Callable[[str], None]) -> None:
    """Leave nothing of what was refused; but what a failing disk, network or cluster has stopped keeps what it has."""
    with suppress(MmpcaError):  # where even that fails, the first reason is the one to tell
        if isinstance(error, AccessError) and run.has_results:
            on_note(f"What is done is kept in {run.uri}, as the run may go on: give the same command again.")
        else:
            run.discard()
            on_note(f"Removed what this run had begun in {run.uri}, as it cannot go on.")


def _held_besides(dataset: Dataset) -> int:
    """Return what this process holds beyond what the plan takes for granted: a notebook's other data, say."""
    return max(0, psutil.Process().memory_info().rss - PROCESS_BASE - dataset.resident_bytes)


def run_stage(job: Job, stage: Stage) -> dict[str, Any]:
    """Run a stage, or take up its results where its record says that it is done."""
    job.callback.on_stage_start(stage.name)
    record = _whole_record(job, stage)
    reused = record is not None
    if record is None:
        begin = time.perf_counter()
        try:
            record = _manifest(job, stage)
        except MmpcaError:
            with suppress(AccessError):
                _refuse_changed_input(job)  # which is why
            raise
        _refuse_changed_input(job)
        record["seconds"] = time.perf_counter() - begin
        record["objects"] = recorded(job.run.uri, record.get("outputs", []), record.get("objects"))
        if job.lease is not None:
            job.lease.check()
        job.run.finish(stage.name, job.key, record)
        if job.resumable:
            storage.remove(job.run.path("scratch", stage.name))
    job.results[stage.name] = record
    job.callback.on_stage_end(stage.name, record, reused)
    return record


def _refuse_changed_input(job: Job) -> None:
    """Refuse what was found in rows that have changed meanwhile, and remove what is kept of it for another attempt.

    Raises
    ------
    InputError
        With what has changed.
    """
    if job.watch is None:
        return
    try:
        job.watch.refuse_change(job.watched)
    except InputError as error:
        if not isinstance(error, AccessError) and not (job.lease and job.lease.is_lost):
            storage.remove(job.run.path("scratch"))
            storage.remove(job.run.path("splits"))
        raise


def _whole_record(job: Job, stage: Stage) -> dict[str, Any] | None:
    """Return the record of a stage that is done; None where it is to be done, or its results are damaged.

    The record of damaged results goes with them: whatever lies at their addresses is replaced. Records of splits stay,
    as each is looked at when the stage is done again.
    """
    record: dict[str, Any] | None = None
    try:
        record = job.run.record(stage.name)
        if record is None or record["key"] != job.key or stage.name == "plan":
            return None
        check_outputs(job.run.uri, record)
        return record
    except DamageError as error:
        job.callback.on_note(f"{str(error).removesuffix(AGAIN)}The stage {stage.name!r} is done again.")
        storage.remove(job.run.record_path(stage.name))
        for output in (record or {}).get("outputs", []):
            if output.endswith(GROUP) or not output.endswith(".json"):
                storage.remove(job.run.path(output.removesuffix(GROUP)))
        return None


def _telling_of_compiling(job: Job, stage: Stage) -> AbstractContextManager[None]:
    client = job.scheduler.client if isinstance(job.scheduler, Cluster) else None
    return compiling.watching(lambda: job.callback.on_compile(stage.name), client)


def _manifest(job: Job, stage: Stage) -> dict[str, Any]:
    """Do a stage; where what an earlier attempt has kept of it is damaged, do it from its beginning."""
    scratch = job.run.path("scratch", stage.name)
    try:
        with _telling_of_compiling(job, stage), job.checkpoint(stage.name):
            return stage.function(job)
    except DamageError as error:
        if not job.resumable or not storage.names_in(scratch):
            raise
        job.callback.on_note(f"{error} What is kept of the stage {stage.name!r} is not used; it begins anew.")
    storage.remove(scratch)
    with job.checkpoint(stage.name):
        return stage.function(job)


@contextmanager
def measured(scheduler: Scheduler, interval: float = 0.01) -> Iterator[Callable[[], int]]:
    """Yield a function that returns the peak memory since: of the workers, or of this process with threads."""
    scheduler.peak_memory = 0
    process, stop = psutil.Process(), threading.Event()
    peak = process.memory_info().rss

    def watch() -> None:
        nonlocal peak
        while not stop.wait(interval):
            peak = max(peak, process.memory_info().rss)

    watcher = threading.Thread(target=watch, daemon=True)
    if isinstance(scheduler, Threads):
        watcher.start()
        try:
            yield lambda: peak - scheduler.held
        finally:
            stop.set()
            watcher.join()
    else:
        yield lambda: scheduler.peak_memory
