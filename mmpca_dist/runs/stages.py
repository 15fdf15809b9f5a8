"""The stages of a run as plain functions, from counting classes to the report."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mmpca_dist.neighbors.scratch import open_scratch
from mmpca_dist.planning import Plan, Request, Resources, plan_run, search_in_memory
from mmpca_dist.reducers.methods import METHODS
from mmpca_dist.runs.arrays import load_pairs, load_statistics, save_pairs, save_statistics
from mmpca_dist.runs.choosing import CHOOSE, choosing_of
from mmpca_dist.runs.config import RunConfig, as_config
from mmpca_dist.runs.counting import COUNT
from mmpca_dist.runs.directory import RunDirectory
from mmpca_dist.runs.events import Callback, Callbacks
from mmpca_dist.runs.finished import STATISTICS, classes_of
from mmpca_dist.runs.integrity import objects_in
from mmpca_dist.runs.job import Job, Stage, measured, open_job, open_run_dataset, run_stage
from mmpca_dist.runs.models import load_model, save_model
from mmpca_dist.runs.notes import heaviest, method_notes, note_ahead, shared_notes
from mmpca_dist.runs.passes import PassCounter
from mmpca_dist.runs.projection import Projector, project_rows
from mmpca_dist.solvers.options import IN_PASSES, SolverOptions
from mmpca_dist.solvers.passes import statistics_in_passes
from mmpca_dist.statistics.gather import gather_statistics, is_wide
from mmpca_dist.statistics.reduction import Threads
from mmpca_dist.statistics.summary import median_sets
from mmpca_dist.statistics.working import Statistics


def _plan(job: Job) -> dict[str, Any]:
    plan = plan_of(job)
    job.callback.on_plan(plan)
    plan.refuse_if_too_large()
    return {**plan.to_json(), "rows": plan.rows()}


def _reduce(job: Job) -> dict[str, Any]:
    config, census, dataset = job.config, job.counted(), job.dataset
    passes = PassCounter(job, "reduce")
    needed = any(METHODS[method].needs_medians for method in config.methods)
    solver = _solver(job)
    gather: Callable[..., Statistics] = partial(gather_statistics, columns="columns" in scatters_of(config))
    standardize = config.standardize and is_wide(dataset.n_rows, dataset.n_features)
    if solver.kind in IN_PASSES:
        scatters = scatters_of(config)
        gather = partial(statistics_in_passes, solver=solver, n_components=job.largest, needed=scatters)
        standardize = config.standardize
    with measured(job.scheduler) as peak:
        statistics = gather(
            dataset,
            census,
            job.spans,
            scheduler=job.scheduler,
            precision=config.precision,
            medians_of=median_sets(len(census.classes), config.pairing) if needed else None,
            standardize=standardize,
            progress=job.progress("reduce"),
            on_pass=passes,
        )
    save_statistics(job.run.path(STATISTICS), statistics)
    found = {"passes": passes.names, "bytes": passes.n_bytes, "memory": peak()}
    return {**found, "outputs": ["statistics.zarr/zarr.json"]}


def _solver(job: Job) -> SolverOptions:
    """Return the solver that the plan has chosen."""
    return replace(job.config.solver.options(), kind=job.results["plan"]["choice"]["kind"])


def _search(job: Job) -> dict[str, Any]:
    """Find the nearest rows of other classes, and take the scatter of the differences to them."""
    from mmpca_dist.neighbors.pairs import with_pairs  # compiles: slow to import

    config, census, dataset = job.config, job.counted(), job.dataset
    passes = PassCounter(job, "search")
    in_memory = job.scheduler.in_process and search_in_memory(dataset, resources_of(config, config.output))
    stored, summarize = _stored_statistics(job), None
    if stored.approximation is not None:
        from mmpca_dist.solvers.pair_passes import pairs_in_passes

        solver = replace(config.solver.options(), kind=stored.approximation.solver)
        summarize = partial(pairs_in_passes, solver=solver, n_components=job.largest, seed=stored.approximation.seed)
    tables = open_scratch(in_memory, job.run.path("scratch", "search", "tables"), resumable=job.resumable)
    with measured(job.scheduler) as peak, tables as scratch:
        statistics = with_pairs(
            stored,
            dataset,
            census,
            job.spans,
            config.neighbors.pair_search(config.pairing),
            scratch,
            scheduler=job.scheduler,
            progress=job.progress("search"),
            on_pass=passes,
            summarize=summarize,
        )
    assert statistics.pairs is not None  # noqa: S101  (with_pairs adds them)
    save_pairs(job.run.path("pairs.zarr"), statistics.pairs)
    certificate = statistics.pairs.certificate
    return {
        "passes": passes.over_rows,
        "bytes": passes.n_bytes,
        "memory": peak(),
        "certificate": certificate,
        "in_memory": in_memory,
        "outputs": ["pairs.zarr/zarr.json"],
    }


def _stored_statistics(job: Job) -> Statistics:
    return load_statistics(
        job.run.path(STATISTICS),
        classes_of(job.results["count"]),
        precision=job.config.precision,
        standardize=job.config.standardize,
        objects=objects_in(job.results["reduce"], STATISTICS),
    )


def _solve(job: Job) -> dict[str, Any]:
    config, statistics = job.config, _stored_statistics(job)
    if "search" in job.results:
        found = job.results["search"]
        pairs = load_pairs(job.run.path("pairs.zarr"), found["certificate"], objects_in(found, "pairs.zarr"))
        statistics = replace(statistics, pairs=pairs)
    models, notes = {}, []
    for number, method in enumerate(config.methods):
        wanted = job.sizes(method)[-1]
        reducer = METHODS[method].reducer(wanted, config).fit_statistics(statistics, at_most=True)
        models[method] = save_model(job.run, method, reducer)
        notes += method_notes(method, reducer, wanted, statistics.precision)
        job.callback.on_progress("solve", number + 1, len(config.methods))
    record: dict[str, Any] = {
        "models": models,
        "precision": statistics.precision,
        "heavy_columns": heaviest(config, statistics),
        "outputs": [f"model/{method}.zarr/zarr.json" for method in models],
    }
    notes += shared_notes(config, {**job.results, "solve": record})
    for note in notes:
        job.callback.on_note(note)
    return {**record, "notes": notes}


def _project(job: Job) -> dict[str, Any]:
    projectors = make_projectors(job.run, job.config, job.config.projected, job.run.path("projected"))
    if not projectors:
        return {"bytes": 0, "written": 0, "memory": 0}
    with measured(job.scheduler) as peak:
        written = project_rows(job.dataset, projectors, scheduler=job.scheduler, progress=job.progress("project"))
    places = [place for p in projectors for place in (p.zarr and f"{p.zarr}/zarr.json", p.parquet) if place]
    outputs = [place.removeprefix(f"{job.run.uri}/") for place in places]
    objects = {name.removeprefix(f"{job.run.uri}/"): known for name, known in written.files}
    return {
        "bytes": job.dataset.n_bytes,
        "written": written.n_bytes,
        "memory": peak(),
        "outputs": outputs,
        "objects": objects,
    }


def _report(job: Job) -> dict[str, Any]:
    from mmpca_dist.runs.reporting import write_report

    return write_report(job.run, job.config, job.dataset, job.results)


PLAN = Stage("plan", "Plan", _plan)
REDUCE = Stage("reduce", "Reduce rows to moments", _reduce)
SEARCH = Stage("search", "Find nearest rows of other classes", _search)
SOLVE = Stage("solve", "Solve for components", _solve)
PROJECT = Stage("project", "Project rows", _project)
REPORT = Stage("report", "Write the report", _report)


def stages_of(config: RunConfig) -> list[Stage]:
    """Return the stages of a run, in order."""
    choose = [CHOOSE] if config.chooses else []
    search = [SEARCH] if needs_pairs(config) else []
    return [COUNT, PLAN, *choose, REDUCE, *search, SOLVE, PROJECT, REPORT]


def needs_pairs(config: RunConfig) -> bool:
    """Tell whether a run has a method that needs nearest rows of other classes."""
    return any(METHODS[method].needs_pairs for method in config.methods)


def scatters_of(config: RunConfig) -> frozenset[str]:
    """Return which weighted class scatters the methods of a run are made from."""
    return frozenset().union(*(METHODS[method].scatters for method in config.methods))


def plan_of(job: Job) -> Plan:
    """Return the plan of a job, from its data set's metadata and labels."""
    plan = plan_run(job.dataset, job.spans, request_of(job), choosing_of(job))
    return replace(plan, note=note_ahead(job.config, job.dataset))


def request_of(job: Job) -> Request:
    """Return what the plan must know of a job's settings."""
    config, census = job.config, job.counted()
    medians = any(METHODS[method].needs_medians for method in config.methods)
    return Request(
        counts=census.counts,
        largest=config.largest,
        n_methods=len(config.methods),
        n_projected=len(config.projected),
        formats=len(set(config.project.format)),
        median_rows=int((median_sets(len(census.classes), config.pairing) @ census.counts).sum()) if medians else 0,
        resources=resources_of(config, config.output),
        standardize=config.standardize,
        search=config.neighbors.pair_search(config.pairing).search if needs_pairs(config) else None,
        solver=config.solver.options(),
        scatters=scatters_of(config),
    )


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


def preview(config: RunConfig) -> Plan:
    """Return the plan of a run that is not begun: metadata and labels are read, nothing is fetched or written."""
    dataset = open_run_dataset(config, fetch=False)
    scheduler = Threads(config.compute.n_threads)
    return plan_of(Job.of(config, dataset, RunDirectory(config.output), "", scheduler, Callback()))


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
    settings = as_config(config)
    with open_job(settings, Callbacks(callbacks or [])) as job:
        for stage in stages_of(settings):
            run_stage(job, stage)
        return job.results
