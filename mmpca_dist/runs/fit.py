"""The stages of a run."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from mmpca_dist.belonging.limits import refuse_few
from mmpca_dist.configuration.schema import RunConfig, as_config
from mmpca_dist.errors import InputError, NoComponentsError, some_names
from mmpca_dist.evaluation.component_rule import RULE, one_standard_error
from mmpca_dist.evaluation.request import EvaluationRequest
from mmpca_dist.evaluation.splits import PartSizes, fold_sizes
from mmpca_dist.evaluation.tables import LEFT_OUT, REGRESSION, Cell, ErrorTable
from mmpca_dist.jobs import records
from mmpca_dist.jobs.events import Callback, told
from mmpca_dist.jobs.finished_runs import save_model, statistics_of, without_components
from mmpca_dist.jobs.first_stages import COUNT, look_ahead, map_stages, planned, request_of
from mmpca_dist.jobs.job import Job, Stage, open_job, run_stage
from mmpca_dist.jobs.run_needs import SEARCH, SWEEP, SharedPass, run_needs
from mmpca_dist.jobs.stored_arrays import save_statistics
from mmpca_dist.limits import COMPONENT_COUNTS
from mmpca_dist.methods.base.statistics_for import class_statistics, with_nearest_pairs, with_sweeps
from mmpca_dist.neighbors.options import Search
from mmpca_dist.passes.scratch import open_scratch
from mmpca_dist.planning.plan import Plan
from mmpca_dist.results.notes import (
    dominant_columns_of,
    leakage_note,
    method_notes,
    note_ahead,
    plural,
    shared_notes,
    small_share_note,
)
from mmpca_dist.runs import ask, evaluation_scores
from mmpca_dist.runs.held_out import FoldPass, FoldProbing, FoldScoring, shares_projection, shares_reduction
from mmpca_dist.runs.outcomes import FinishedRun
from mmpca_dist.runs.pilots import planned_by_pilot, planned_evaluation
from mmpca_dist.runs.projection import PROJECT, project
from mmpca_dist.statistics.class_weights import weighted_by_class
from mmpca_dist.statistics.costs import summary_bytes
from mmpca_dist.statistics.working_statistics import Statistics


def _choose(job: Job) -> records.ChoiceRecord:
    section = job.config.dataset
    label = REGRESSION if section.predicts else LEFT_OUT if section.classless else job.config.evaluation.judge.label
    record = evaluation_scores.score_splits(evaluation_scores.in_folds(job), "choose")
    n_folds = record["n_splits"]
    splits = evaluation_scores.SplitRecords(job.run.path("splits"), job.key).read(n_folds)
    cells = [cell for cell in ErrorTable.of(splits, job.dataset.n_rows).cells() if cell.classifier == label]
    how = f"one-standard-error rule, {label}, {n_folds} folds"
    most = job.dataset.n_columns
    methods = {m: _choice([cell for cell in cells if cell.method == m], how, most) for m in job.config.labels}
    return {
        **record,
        "rule": RULE,
        "classifier": label,
        "folds": n_folds,
        "overlap": cells[0].summary.overlap,
        "methods": methods,
        "how": how,
        "found": [choice["words"] for choice in methods.values()],
    }


def _choice(cells: list[Cell], how: str, most: int) -> records.MethodChoice:
    """Return the errors of a method's candidates, in percent of the rows held out, and the chosen number.

    ``most`` is the number of columns: the largest number that is tried may be less.
    """
    chosen = one_standard_error(cells)
    edge = (
        ", the largest number that was tried: more may err less" if chosen.used == COMPONENT_COUNTS[-1] < most else ""
    )
    return {
        "candidates": [cell.n_components for cell in cells],
        "used": [cell.used for cell in cells],
        "means": [cell.summary.mean for cell in cells],
        "standard_errors": [cell.summary.corrected_standard_error for cell in cells],
        "candidate": chosen.n_components,
        "chosen": chosen.used,
        "words": f"{chosen.method}: {plural(chosen.used, 'component')} ({how}{edge})",
    }


def fold_request(job: Job, what: str, instead: str) -> EvaluationRequest:
    """Return the cross-validation that a setting asks for, in place of which one may do something else."""
    splits = job.config.evaluation.splits
    if splits in ("given", "listed", "time"):
        raise InputError(
            f"{what} deals rows into folds, and evaluation.splits: {splits} asks for the parts of a "
            f"column. Evaluate by these parts (mmpca evaluate) and {instead}, or leave out evaluation.splits and its "
            "column."
        )
    folds = evaluation_scores.in_folds(job)
    parts = folds.splits if splits in ("groups", "blocks") else _stratified(job, what, instead)
    return evaluation_scores.evaluation_request(folds, parts)


def _stratified(job: Job, what: str, instead: str) -> PartSizes:
    """Return the sizes of stratified folds. Raises InputError where a class has fewer rows than folds."""
    census, folds = job.census, job.config.evaluation.folds
    few = census.sizes < folds
    if few.any():
        names = [str(label) for label in census.classes[few]]
        least = int(np.min(census.sizes))
        lower = f"set evaluation.folds to {least}, " if least > 1 else "leave out classes of one row, "
        raise InputError(
            f"{what} holds out rows of every class in each of {folds} folds, and fewer rows have the label "
            f"{some_names(names)}: {lower}or {instead}."
        )
    return PartSizes(counts=fold_sizes(census.sizes, folds)[None], held_out=tuple(range(folds)))


CHOOSE = Stage(records.CHOOSE, "Choose how many components", _choose, measured=True)


def _fold_pass(job: Job) -> FoldPass | None:
    """Return what a run learns of rows by models of the other folds, if it is asked for it, and rows allow it."""
    if not job.config.erasing:
        return FoldScoring.of(job)
    with suppress(InputError):
        return FoldProbing.of(job)
    return None


def _reduce(job: Job) -> records.ReduceRecord:
    config = job.config
    solver = replace(config.solver.options(), kind=job.results.of(records.PLAN)["choice"]["kind"])
    # Moments of tall rows are stored as they are, and standardised as they are loaded.
    kept_raw = solver.kind == "dense"
    needs, standardize = config.needs(job.largest), config.standardizes and not kept_raw
    statistics: Statistics
    models: list[str] = []
    if (folds := _fold_pass(job)) is not None and shares_reduction(job, folds.splits, folds.merged):
        statistics, models = folds.reduce()
    else:
        statistics = class_statistics(
            job.rows("reduce"), needs, solver, precision=config.precision, standardize=standardize,
            class_weight=config.class_weight,
        )  # fmt: skip
    job.check_lease(now=True)
    chosen = [[*name, value] for name, value in statistics.shrinkages.items()]
    return {"outputs": [*save_statistics(job.run, statistics), *models], "shrinkages": chosen}


def _search_or_sweep(need: SharedPass, job: Job) -> records.PassesRecord:
    """Find the nearest rows of other classes, or fit by sweeps over the rows, and keep the result."""
    stage, request, size = need.stage, request_of(job), int(job.sizes(need.method.label)[-1])
    if isinstance(need.need, Search):
        in_memory = job.scheduler.in_process and request.search_in_memory
    else:
        n, d = job.dataset.n_rows, job.dataset.n_features
        state = need.need.state_bytes(len(job.census.classes), size, min(n, d))
        in_memory = job.scheduler.in_process and request.sweep_in_memory(state)
    tables = open_scratch(in_memory, job.run.path("scratch", stage, "tables"), resumable=job.resumable)
    proved: dict[str, Any] = {}
    with tables as scratch:
        rows = job.rows(stage)
        if isinstance(need.need, Search):
            statistics, solver = statistics_of(job.run, as_asked=True), job.config.solver.options()
            rows = weighted_by_class(rows, job.config.class_weight)
            statistics = with_nearest_pairs(statistics, rows, need.need, job.largest, solver, tables=scratch)
            result: Any = statistics.pairs[need.need]
            proved = {"certificate": result.certificate, "in_memory": in_memory}
        else:
            statistics = with_sweeps(_statistics(job, before=need.number), rows, need.need, [size], scratch)
            result = statistics.fits[need.need, size]
    job.check_lease(now=True)
    need.save(job.run, result)
    return cast(records.PassesRecord, {"outputs": [need.path], **proved})


def _statistics(job: Job, before: int | None = None) -> Statistics:
    """Return the statistics of the rows with all pairs, and all fits by sweeps, or those ``before`` a certain one."""
    config = job.config
    pairs = {need.need: need.load(job.run, job.results) for need in run_needs(config, SEARCH)}
    fits = {
        (need.need, int(job.sizes(need.method.label)[-1])): need.load(job.run, job.results)
        for need in run_needs(config, SWEEP)
        if before is None or need.number < before
    }
    return replace(statistics_of(job.run, as_asked=True), pairs=pairs, fits=fits)


def _solve(job: Job) -> records.SolveRecord:
    config = job.config
    statistics = _statistics(job)
    job.check_lease(now=True)
    models: dict[str, records.ModelRecord] = {}
    notes: list[str] = []
    refused: InputError | None = None
    for number, section in enumerate(config.methods):
        method, size = section.label, job.sizes(section.label)[-1]
        try:
            reducer = config.reducer(method, size).fit_statistics(statistics, at_most=True)
        except InputError as error:
            refused = refused or (None if isinstance(error, NoComponentsError) else error)
            models[method] = without_components(str(error))
            notes.append(f"{section.title} has no components: {error}")
        else:
            models[method] = save_model(job.run, method, reducer)
            notes += method_notes(section, reducer, size, statistics.precision)
        job.callback.on_progress("solve", number + 1, len(config.methods))
    solved = [method for method, model in models.items() if model["n_components"]]
    if refused is not None and not solved:
        raise refused
    record: records.SolveRecord = {
        "models": models,
        "precision": statistics.precision,
        "dominant_columns": dominant_columns_of(config, statistics),
        "notes": notes,
        "outputs": [f"model/{method}.zarr/zarr.json" for method in solved],
    }
    count = job.results.of(records.COUNT)
    notes += small_share_note(statistics)
    notes += leakage_note(statistics, count["feature_names"], count["notes"])
    notes += shared_notes(config, records.Results({**job.results, records.SOLVE: record}))
    for note in notes:
        job.callback.on_note(note)
    return record


def _belonging(job: Job) -> records.BelongingRecord:
    belonging = FoldScoring.of(job)
    assert belonging is not None  # noqa: S101  (the stage is there for it alone)
    return belonging.keep(_statistics(job))


def _erasure(job: Job) -> records.ErasureRecord:
    """Tell how right linear probes are on erased rows, where there are moments of folds."""
    try:
        return FoldProbing.of(job).keep()
    except InputError as error:
        return {"right": {}, "why": str(error).removesuffix(".")}


def _report(job: Job) -> records.ReportRecord:
    from mmpca_dist.report.run_page import write_report
    from mmpca_dist.results.run_result import SolvedRun

    record = write_report(SolvedRun(job.run, job.config, job.inputs.table, job.results))
    return {**record, "carried": job.config.report.columns}


def _project(job: Job) -> records.ProjectRecord:
    folds = _fold_pass(job)
    return project(job, held_out=None if folds is None else folds.held_out())


PLAN = Stage(records.PLAN, "Plan", lambda job: planned(job, plan_of(job)))
REDUCE = Stage(records.REDUCE, "Reduce rows to moments", _reduce, measured=True)
SOLVE = Stage(records.SOLVE, "Solve for components", _solve)
BELONGING = Stage(records.BELONGING, "Score rows held out", _belonging, measured=True)
ERASURE = Stage(records.ERASURE, "Probe erased rows", _erasure, measured=True)
REPORT = Stage(records.REPORT, "Write the report", _report)


def stages_of(config: RunConfig) -> list[Stage]:
    """Return the stages of a run, in order."""
    if config.dataset.moments is not None:
        return [ask.COUNT, *([ask.MAPS] if map_stages(config) else []), ask.REDUCE, SOLVE, REPORT]
    choose = [CHOOSE] if config.chooses else []
    found = "Find nearest rows of other classes"
    needs = [
        *((one, found + f" for {one.method.title}" * (not one.alone)) for one in run_needs(config, SEARCH)),
        *((one, f"Fit {one.method.title} by sweeps") for one in run_needs(config, SWEEP)),
    ]
    of_needs = [Stage(one.stage, title, partial(_search_or_sweep, one), measured=True) for one, title in needs]
    belonging = [ERASURE] * bool(config.erasing) + [BELONGING] * (config.belonging is not None)
    projection = replace(PROJECT, function=_project)
    return [COUNT, PLAN, *map_stages(config), *choose, REDUCE, *of_needs, SOLVE, projection, *belonging, REPORT]


def plan_of(job: Job) -> Plan:
    """Return the plan of a run."""
    plan, section = planned_by_pilot(job, request_of(job)), job.config.belonging
    wanted: list[tuple[records.StageName[Any], str, str, str]] = []
    if job.inputs.asked.chooses:
        wanted.append((records.CHOOSE, "n_components: auto", "give n_components as numbers", "n_components as numbers"))
    if section is not None:
        if erasing := job.inputs.asked.erasing:
            raise InputError(
                f"belonging scores rows by their components, and {', '.join(erasing)} keeps all columns: leave out one "
                "of both."
            )
        census = job.census
        weights = None if census.totals is None else float(census.totals.sum())
        refuse_few(int(census.sizes.sum()), section.alpha, len(section.scores), weights)
        wanted.append((records.BELONGING, "belonging", "leave out belonging", "no belonging"))
    for stage, what, instead, remedy in wanted:
        request = fold_request(job, what, instead)
        folds, passes = planned_evaluation(evaluation_scores.in_folds(job), request), None
        if stage == records.BELONGING and (shared := shares_reduction(job, request.parts, request.merged)):
            passes = [] if shares_projection(job, shared) else folds.passes[-1:]
        plan = plan.after(folds, stage, f"fewer evaluation.folds, {remedy}", passes)
    again = [one for one in plan.passes if one.name == "moments"]
    if again and job.inputs.asked.erasing:
        sizes = fold_sizes(job.census.sizes, job.config.evaluation.folds)
        more = replace(plan, memory=plan.base + 3 * summary_bytes(sizes.size, job.dataset.n_features, sizes.size))
        parts = PartSizes(counts=sizes[None], held_out=tuple(range(sizes.shape[1])))
        shared = shares_reduction(job, parts, merged=job.dataset.widening is None)
        probing = [replace(one, name="probe") for one in again * (not shares_projection(job, shared))]
        plan = plan.after(more, records.ERASURE, "fewer evaluation.folds", again * (not shared) + probing)
    return replace(plan, note=note_ahead(job.config, job.dataset))


def preview(config: RunConfig, callback: Callback | None = None) -> Plan:
    """Return the plan of a run that is not begun: it reads metadata and labels; ``callback`` hears of a conversion."""
    if config.dataset.moments is not None:
        raise InputError("A run from dataset.moments reads no rows, and needs no plan.")
    return plan_of(look_ahead(config, "run", callback))


def run(
    config: RunConfig | str | os.PathLike | dict[str, Any],
    callbacks: list[Callback] | None = None,
    client: Any = None,
) -> FinishedRun:
    """Execute a run without Prefect: every stage in turn, in this process or on the cluster it names.

    Parameters
    ----------
    config : RunConfig, dict of the same keys, or path of a YAML file
    callbacks : list of Callback, optional
        Called with the plan, stages and progress.
    client : Dask client, optional
        Does the work in place of what ``compute.cluster`` names.

    Returns
    -------
    FinishedRun
        What each stage left, by name, with the models and tables of the folder.

    Raises
    ------
    MmpcaError
        For a mistake that the user can correct; the message says what, where and how.
    """
    with open_job(as_config(config), told(callbacks), client=client) as job:
        for stage in stages_of(job.inputs.asked):
            run_stage(job, stage)
        return FinishedRun(job.results, job.run.uri)
