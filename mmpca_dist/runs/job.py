"""A run as plain functions: stages that leave their results in the run's folder and a record behind them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psutil

from mmpca_dist.datasets import Dataset, Span, make_spans, open_dataset, storage
from mmpca_dist.errors import AccessError, InputError, MmpcaError
from mmpca_dist.planning import Plan, Request, Resources, make_plan
from mmpca_dist.reducers.methods import METHODS
from mmpca_dist.runs.arrays import load_statistics, save_statistics
from mmpca_dist.runs.cluster import connect, open_cluster, refuse_private
from mmpca_dist.runs.config import RunConfig, load_config, parse_config
from mmpca_dist.runs.directory import RunDirectory
from mmpca_dist.runs.events import Callback, Callbacks
from mmpca_dist.runs.models import load_model, save_model
from mmpca_dist.runs.projection import Projector, project_rows
from mmpca_dist.statistics.census import Census, take_census
from mmpca_dist.statistics.gather import gather_statistics, is_wide
from mmpca_dist.statistics.reduction import Scheduler, Threads
from mmpca_dist.statistics.summary import median_sets


@dataclass
class Job:
    """A run in progress: its settings, its input, its folder, who watches and where tasks go."""

    config: RunConfig
    dataset: Dataset
    run: RunDirectory
    key: str
    scheduler: Scheduler
    callback: Callback
    census: Census | None = None
    results: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def spans(self) -> list[Span]:
        return make_spans(self.dataset)

    def counted(self) -> Census:
        """Return the census, taken again where the stage was reused: it is a pass over labels only."""
        if self.census is None:
            self.census = take_census(self.dataset, self.spans, self.scheduler)
        return self.census

    def progress(self, stage: str) -> Callable[[int, int], None]:
        return lambda done, total: self.callback.on_progress(stage, done, total)


@dataclass(frozen=True)
class Stage:
    """A named step; its function returns a small JSON manifest."""

    name: str
    title: str
    function: Callable[[Job], dict[str, Any]]


def _count(job: Job) -> dict[str, Any]:
    census = job.census = take_census(job.dataset, job.spans, job.scheduler, job.progress("count"))
    dataset = job.dataset
    shape = job.config.dataset.image_shape or dataset.image_shape
    if shape is not None and shape[0] * shape[1] != dataset.n_features:
        raise InputError(
            f"dataset.image_shape is {shape[0]} x {shape[1]}, but the rows have {dataset.n_features} features."
        )
    return {
        "n_rows": dataset.n_rows,
        "n_features": dataset.n_features,
        "dtype": str(dataset.dtype),
        "classes": census.classes.tolist(),
        "class_type": census.classes.dtype.str,
        "counts": census.counts.tolist(),
        "feature_names": dataset.feature_names,
        "named_columns": dataset.named_columns,
        "image_shape": shape,
    }


def _plan(job: Job) -> dict[str, Any]:
    plan = plan_of(job)
    job.callback.on_plan(plan)
    plan.refuse_if_too_large()
    return {**plan.to_json(), "rows": plan.rows()}


def _reduce(job: Job) -> dict[str, Any]:
    config, census, dataset = job.config, job.counted(), job.dataset
    passes: list[str] = []
    n_bytes = 0

    def on_pass(name: str, size: int) -> None:
        nonlocal n_bytes
        passes.append(name)
        n_bytes += size
        job.callback.on_pass("reduce", name)

    needed = any(METHODS[method].needs_medians for method in config.methods)
    wide = is_wide(dataset.n_rows, dataset.n_features)
    with measured(job.scheduler) as peak:
        statistics = gather_statistics(
            dataset,
            census,
            job.spans,
            scheduler=job.scheduler,
            precision=config.precision,
            medians_of=median_sets(len(census.classes), config.pairing) if needed else None,
            standardize=config.standardize and wide,
            progress=job.progress("reduce"),
            on_pass=on_pass,
        )
    save_statistics(job.run.path("statistics.zarr"), statistics)
    found = {"passes": passes, "bytes": n_bytes, "memory": peak()}
    return {**found, "outputs": ["statistics.zarr/zarr.json"]}


def _solve(job: Job) -> dict[str, Any]:
    config, count = job.config, job.results["count"]
    statistics = load_statistics(
        job.run.path("statistics.zarr"),
        np.asarray(count["classes"], dtype=count["class_type"]),
        precision=config.precision,
        standardize=config.standardize,
    )
    models = {}
    for number, method in enumerate(config.methods):
        reducer = METHODS[method].reducer(config.largest, config).fit_statistics(statistics, at_most=True)
        models[method] = save_model(job.run, method, reducer)
        found = models[method]["n_components"]
        if found < config.largest:
            job.callback.on_note(
                f"{method}: {found} of the {config.largest} components asked for; its limit is {reducer.limit_}."
            )
        job.callback.on_progress("solve", number + 1, len(config.methods))
    return {
        "models": models,
        "precision": statistics.precision,
        "outputs": [f"model/{method}.zarr/zarr.json" for method in models],
    }


def _project(job: Job) -> dict[str, Any]:
    projectors = make_projectors(job.run, job.config, job.config.projected, job.run.path("projected"))
    if not projectors:
        return {"bytes": 0, "written": 0, "memory": 0}
    with measured(job.scheduler) as peak:
        written = project_rows(job.dataset, projectors, scheduler=job.scheduler, progress=job.progress("project"))
    places = [place for p in projectors for place in (p.zarr and f"{p.zarr}/zarr.json", p.parquet) if place]
    outputs = [place.removeprefix(f"{job.run.uri}/") for place in places]
    return {"bytes": job.dataset.n_bytes, "written": written, "memory": peak(), "outputs": outputs}


def _report(job: Job) -> dict[str, Any]:
    from mmpca_dist.runs.reporting import write_report

    return write_report(job.run, job.config, job.dataset, job.results)


STAGES = (
    Stage("count", "Count classes", _count),
    Stage("plan", "Plan", _plan),
    Stage("reduce", "Reduce rows to moments", _reduce),
    Stage("solve", "Solve for components", _solve),
    Stage("project", "Project rows", _project),
    Stage("report", "Write the report", _report),
)


def plan_of(job: Job) -> Plan:
    """Return the plan of a job, from its data set's metadata and labels."""
    config, census = job.config, job.counted()
    medians = any(METHODS[method].needs_medians for method in config.methods)
    request = Request(
        n_classes=len(census.classes),
        largest=config.largest,
        n_methods=len(config.methods),
        n_projected=len(config.projected),
        formats=len(set(config.project.format)),
        median_rows=int((median_sets(len(census.classes), config.pairing) @ census.counts).sum()) if medians else 0,
        resources=resources_of(config, config.output),
    )
    return make_plan(job.dataset, job.spans, request)


def resources_of(config: RunConfig, output: str) -> Resources:
    """Return what a run, or a projection by its methods into ``output``, may use."""
    compute = config.compute
    return Resources(
        precision=config.precision,
        output=output,
        workers=compute.workers,
        threads_per_worker=compute.threads_per_worker,
        in_process=compute.cluster == "threads",
        memory_limit=compute.memory_bytes,
    )


def make_projectors(run: RunDirectory, config: RunConfig, methods: list[str], folder: str) -> list[Projector]:
    """Return where and how each method's rows are written below ``folder``."""
    dtype = np.float32 if config.precision == "single" else np.float64
    projectors = []
    for method in methods:
        matrix, mean = load_model(run.uri, method).projection(dtype)
        targets = [
            f"{folder}/{method}.{kind}" if kind in config.project.format else None for kind in ("zarr", "parquet")
        ]
        projectors.append(Projector(method, matrix, mean, *targets))
    return projectors


def open_run_dataset(config: RunConfig) -> Dataset:
    """Open the data set of a run, and check what can be checked without reading rows."""
    section = config.dataset
    refuse_private(config.compute, [section.uri, section.label, config.output])
    dataset = open_dataset(
        section.uri,
        features=section.features,
        label=section.label,
        drop=section.drop,
        missing_chunks=section.missing_chunks,
    )
    if config.largest > dataset.n_features:
        raise InputError(
            f"n_components={config.largest} is more than the {dataset.n_features} features of {dataset.uri}."
        )
    if dataset.n_rows < 2:
        raise InputError(f"{dataset.uri} has {dataset.n_rows} row(s); there must be at least two.")
    return dataset


def check_run(config: RunConfig) -> None:
    """Refuse what can be refused at once: a data set that does not open, an output that is taken.

    Raises
    ------
    InputError, OutputError
    """
    RunDirectory(config.output).check(config, open_run_dataset(config).fingerprint())


@contextmanager
def open_job(config: RunConfig, callback: Callback) -> Iterator[Job]:
    """Open everything a run needs; claims the output folder.

    Raises
    ------
    InputError, OutputError
        Before any work, for data, a cluster or an output that cannot be used.
    """
    dataset = open_run_dataset(config)
    run = RunDirectory(config.output)
    begun_before = run.exists
    key = run.begin(config, dataset.fingerprint())
    try:
        with open_cluster(config.compute) as address, connect(config.compute, address) as scheduler:
            yield Job(config, dataset, run, key, scheduler, callback)
    except MmpcaError as error:
        if not begun_before:  # a run that was taken up again keeps what it had
            _discard_refused(run, error)
        raise


def _discard_refused(run: RunDirectory, error: MmpcaError) -> None:
    """Leave nothing of what was refused; but what a failing disk or network stopped keeps its pass over the rows."""
    with suppress(MmpcaError):  # where even that fails, the first reason is the one to tell
        if not (isinstance(error, AccessError) and run.record("reduce") is not None):
            run.discard()


def preview(config: RunConfig) -> Plan:
    """Return the plan of a run that is not begun: metadata and labels are read, nothing is written."""
    dataset = open_run_dataset(config)
    scheduler = Threads(config.compute.n_threads)
    return plan_of(Job(config, dataset, RunDirectory(config.output), "", scheduler, Callback()))


def run_stage(job: Job, stage: Stage) -> dict[str, Any]:
    """Run a stage, or take up its results where its record says that it is done."""
    record = job.run.record(stage.name)
    reused = (
        record is not None
        and record["key"] == job.key
        and stage.name != "plan"
        and all(storage.exists(job.run.path(output)) for output in record.get("outputs", []))
    )
    job.callback.on_stage_start(stage.name)
    if record is None or not reused:
        begin = time.perf_counter()
        manifest = stage.function(job)
        manifest["seconds"] = time.perf_counter() - begin
        job.run.finish(stage.name, job.key, manifest)
        record = manifest
    job.results[stage.name] = record
    job.callback.on_stage_end(stage.name, record, reused)
    return record


def run(
    config: RunConfig | str | os.PathLike | dict[str, Any], callbacks: list[Callback] | None = None
) -> dict[str, dict[str, Any]]:
    """Execute a run without Prefect: every stage in turn, in this process or on the cluster it names.

    Parameters
    ----------
    config : RunConfig, dict of the same keys, or path of a YAML file
    callbacks : list of Callback, optional
        Who hears of plan, stages and progress.

    Returns
    -------
    dict
        What each stage left, by name.

    Raises
    ------
    MmpcaError
        For anything the user can mend; the message says what, where and how.
    """
    if isinstance(config, dict):
        settings = parse_config(config, "the configuration")
    else:
        settings = config if isinstance(config, RunConfig) else load_config(config)
    with open_job(settings, Callbacks(callbacks or [])) as job:
        for stage in STAGES:
            run_stage(job, stage)
        return job.results


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
            yield lambda: peak
        finally:
            stop.set()
            watcher.join()
    else:
        yield lambda: scheduler.peak_memory
