"""The stages of a run."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import Any

from mmpca_dist.configuration.schema import RunConfig, as_config
from mmpca_dist.eigen.block_solver import BLOCK_SOLVERS
from mmpca_dist.jobs import records
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.events import Callback, Callbacks
from mmpca_dist.jobs.finished_runs import STATISTICS, save_model, statistics_of
from mmpca_dist.jobs.first_stages import COUNT, planned, request_of, resources_of
from mmpca_dist.jobs.job import Job, Stage
from mmpca_dist.jobs.notes import heaviest, method_notes, note_ahead, shared_notes
from mmpca_dist.jobs.open_job import open_job, open_run_dataset
from mmpca_dist.jobs.records import (
    ModelRecord,
    PassesRecord,
    ProjectRecord,
    ReduceRecord,
    ReportRecord,
    Results,
    SearchRecord,
    SolveRecord,
)
from mmpca_dist.jobs.row_map_stage import map_stages
from mmpca_dist.jobs.run_stage import PassCounter, measured, run_stage
from mmpca_dist.jobs.run_sweeps import RunSweep, sweeps_of
from mmpca_dist.jobs.searches import RunSearch, searches_of
from mmpca_dist.jobs.stored_arrays import save_pairs, save_statistics
from mmpca_dist.methods.base.statistics_for import class_statistics, with_nearest_pairs, with_sweeps
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.passes.scratch import open_scratch
from mmpca_dist.planning.evaluation_plan import plan_run
from mmpca_dist.planning.plan import Plan
from mmpca_dist.planning.row_map_plan import with_row_maps
from mmpca_dist.planning.run_plan import search_in_memory
from mmpca_dist.planning.sweep_plan import sweep_in_memory
from mmpca_dist.runs.choice_stage import CHOOSE, choice_request
from mmpca_dist.runs.projection import make_projectors, project_rows
from mmpca_dist.statistics.coordinates import Statistics
from mmpca_dist.statistics.gather import is_wide


def _reduce(job: Job) -> ReduceRecord:
    config, passes, dataset = job.config, PassCounter(job, "reduce"), job.dataset
    solver = replace(config.solver.options(), kind=job.results.of(records.PLAN)["choice"]["kind"])
    # Moments of tall rows are stored as they are, and standardised as they are loaded.
    kept_raw = solver.kind not in BLOCK_SOLVERS and not is_wide(dataset.n_rows, dataset.n_features)
    needs, standardize = config.needs(job.largest), config.standardize and not kept_raw
    with measured(job) as peak:
        rows = job.rows("reduce", passes)  # whose tasks tell their memory to what measures it
        statistics = class_statistics(rows, needs, solver, precision=config.precision, standardize=standardize)
    save_statistics(job.run.path(STATISTICS), statistics)
    return {"passes": passes.names, "bytes": passes.n_bytes, "memory": peak(), "outputs": [f"{STATISTICS}/zarr.json"]}


def _search(search: RunSearch, job: Job) -> SearchRecord:
    """Find the nearest rows of other classes, and take the scatter of the differences to them."""
    config, stage, passes = job.config, search.stage, PassCounter(job, search.stage)
    in_memory = job.scheduler.in_process and search_in_memory(job.dataset, resources_of(config, config.output))
    tables = open_scratch(in_memory, job.run.path("scratch", stage, "tables"), resumable=job.resumable)
    with measured(job) as peak, tables as scratch:
        rows, statistics = job.rows(stage, passes), statistics_of(job.run, config.standardize)
        solver = config.solver.options()
        statistics = with_nearest_pairs(statistics, rows, search.need, job.largest, solver, tables=scratch)
    pairs = statistics.pairs[search.need]
    save_pairs(job.run.path(search.pairs), pairs)
    return {
        "passes": passes.over_rows,
        "bytes": passes.n_bytes,
        "memory": peak(),
        "certificate": pairs.certificate,
        "in_memory": in_memory,
        "outputs": [f"{search.pairs}/zarr.json"],
    }


def _sweep(sweep: RunSweep, job: Job) -> PassesRecord:
    """Fit by sweeps over the rows."""
    config, stage, passes = job.config, sweep.stage, PassCounter(job, sweep.stage)
    size, resources = job.sizes(sweep.method.label)[-1], resources_of(config, config.output)
    n, d = job.dataset.n_rows, job.dataset.n_features
    state_bytes = sweep.need.state_bytes(len(job.counted().classes), size, min(n, d))
    in_memory = job.scheduler.in_process and sweep_in_memory(n, state_bytes, resources)
    tables = open_scratch(in_memory, job.run.path("scratch", stage, "tables"), resumable=job.resumable)
    with measured(job) as peak, tables as scratch:
        statistics = _statistics(job, before=sweep.number)
        statistics = with_sweeps(statistics, job.rows(stage, passes), sweep.need, [size], scratch)
    sweep.save(job.run, statistics.fits[sweep.need, size])
    return {"passes": passes.over_rows, "bytes": passes.n_bytes, "memory": peak(), "outputs": [sweep.path]}


def _statistics(job: Job, before: int | None = None) -> Statistics:
    """Return the statistics of the rows with all pairs, and all fits by sweeps, or those ``before`` a certain one."""
    config = job.config
    pairs = {search.need: search.load_pairs(job.run, job.results) for search in searches_of(config)}
    fits = {
        (sweep.need, job.sizes(sweep.method.label)[-1]): sweep.load(job.run, job.results)
        for sweep in sweeps_of(config)
        if before is None or sweep.number < before
    }
    return replace(statistics_of(job.run, config.standardize), pairs=pairs, fits=fits)


def _solve(job: Job) -> SolveRecord:
    config = job.config
    statistics = _statistics(job)
    models: dict[str, ModelRecord] = {}
    notes: list[str] = []
    for number, section in enumerate(config.methods):
        method, size = section.label, job.sizes(section.label)[-1]
        reducer = config.reducer(method, size).fit_statistics(statistics, at_most=True)
        models[method] = save_model(job.run, method, reducer)
        notes += method_notes(section, reducer, size, statistics.precision)
        job.callback.on_progress("solve", number + 1, len(config.methods))
    record: SolveRecord = {
        "models": models,
        "precision": statistics.precision,
        "heavy_columns": heaviest(config, statistics),
        "notes": notes,
        "outputs": [f"model/{method}.zarr/zarr.json" for method in models],
    }
    notes += shared_notes(config, Results({**job.results, records.SOLVE: record}))
    for note in notes:
        job.callback.on_note(note)
    return record


def _project(job: Job) -> ProjectRecord:
    projectors = make_projectors(job.run, job.config, job.config.projected, job.run.path("projected"))
    if not projectors:
        return {"bytes": 0, "written": 0, "memory": 0}
    with measured(job) as peak:
        written = project_rows(job.dataset, projectors, job.tasks("project"))
    return {
        "bytes": job.dataset.n_bytes,
        "written": written.n_bytes,
        "memory": peak(),
        "outputs": [name for projector in projectors for name in projector.outputs(job.run.uri)],
        "objects": written.objects(job.run.uri),
    }


def _report(job: Job) -> ReportRecord:
    from mmpca_dist.report.run_page import write_report

    return write_report(job.run, job.config, job.table, job.results)


PLAN = Stage(records.PLAN, "Plan", lambda job: planned(job, plan_of(job)))
REDUCE = Stage(records.REDUCE, "Reduce rows to moments", _reduce)
SOLVE = Stage(records.SOLVE, "Solve for components", _solve)
PROJECT = Stage(records.PROJECT, "Project rows", _project)
REPORT = Stage(records.REPORT, "Write the report", _report)


def stages_of(config: RunConfig) -> list[Stage]:
    """Return the stages of a run, in order."""
    choose = [CHOOSE] if config.chooses else []
    title = "Find nearest rows of other classes"
    searches = [
        Stage(search.stage, title if search.alone else f"{title} for {search.method.title}", partial(_search, search))
        for search in searches_of(config)
    ]
    sweeps = [
        Stage(sweep.stage, f"Fit {sweep.method.title} by sweeps", partial(_sweep, sweep)) for sweep in sweeps_of(config)
    ]
    return [COUNT, PLAN, *map_stages(config), *choose, REDUCE, *searches, *sweeps, SOLVE, PROJECT, REPORT]


def plan_of(job: Job) -> Plan:
    """Return the plan of a job, from its data set's metadata and labels."""
    request = request_of(job)
    plan = plan_run(job.dataset, job.spans, request, choice_request(job))
    plan = with_row_maps(plan, job.dataset, job.spans, request.resources)
    return replace(plan, note=note_ahead(job.config, job.dataset))


def preview(config: RunConfig) -> Plan:
    """Return the plan of a run that is not begun: metadata and labels are read, nothing is fetched or written."""
    dataset = open_run_dataset(config, fetch=False)
    scheduler = Threads(config.compute.n_threads)
    return plan_of(Job.of(config, dataset, RunDirectory(config.output), "", scheduler, Callback()))


def run(config: RunConfig | str | os.PathLike | dict[str, Any], callbacks: list[Callback] | None = None) -> Results:
    """Execute a run without Prefect: every stage in turn, in this process or on the cluster it names.

    Parameters
    ----------
    config : RunConfig, dict of the same keys, or path of a YAML file
    callbacks : list of Callback, optional
        Called with the plan, stages and progress.

    Returns
    -------
    dict
        What each stage left, by name.

    Raises
    ------
    MmpcaError
        For a mistake that the user can correct; the message says what, where and how.
    """
    settings = as_config(config)
    with open_job(settings, Callbacks(callbacks or [])) as job:
        for stage in stages_of(settings):
            run_stage(job, stage)
        return job.results
