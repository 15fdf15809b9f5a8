"""The stages of an evaluation."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from mmpca_dist.configuration.schema import RunConfig, as_config
from mmpca_dist.evaluation_runs import score_stage
from mmpca_dist.evaluation_runs.score_stage import SplitRecords, evaluation_request, forgetting
from mmpca_dist.jobs import records
from mmpca_dist.jobs.configured_splits import splits_of
from mmpca_dist.jobs.directory import folder_of
from mmpca_dist.jobs.events import Callback, Callbacks
from mmpca_dist.jobs.first_stages import COUNT, planned, request_of
from mmpca_dist.jobs.job import Job, Stage
from mmpca_dist.jobs.notes import note_ahead
from mmpca_dist.jobs.open_job import open_job, open_run_dataset
from mmpca_dist.jobs.records import CompareRecord, PlanRecord, Results, ScoreRecord, TuneRecord
from mmpca_dist.jobs.run_stage import run_stage
from mmpca_dist.planning.evaluation_plan import plan_evaluation
from mmpca_dist.planning.plan import Plan
from mmpca_dist.predictors.penalties import choose_C
from mmpca_dist.statistics.schedulers import Threads


def plan_of_evaluation(job: Job) -> Plan:
    """Return the plan of an evaluation, from metadata and labels.

    Raises
    ------
    InputError
        For splits and classifiers that the labels do not permit, and rows that cannot be evaluated.
    """
    config, splits = job.config, splits_of(job)
    merged = score_stage.merges(job.dataset, splits, config)
    evaluation = evaluation_request(config, splits.counts, splits.held_out, splits.n_splits, merged=merged)
    plan = plan_evaluation(job.dataset, job.spans, request_of(job), evaluation)
    return replace(plan, note=note_ahead(config, job.dataset))


def preview_evaluation(config: RunConfig) -> Plan:
    """Return the plan of an evaluation that is not begun: it reads metadata and labels, and writes nothing."""
    dataset = open_run_dataset(config, "evaluation", fetch=False)
    scheduler = Threads(config.compute.n_threads)
    run = folder_of(config, "evaluation")
    return plan_of_evaluation(Job.of(config, dataset, run, "", scheduler, Callback(), purpose="evaluation"))


def _plan(job: Job) -> PlanRecord:
    return planned(job, plan_of_evaluation(job))


def _tune(job: Job) -> TuneRecord:
    """Choose constants by cross-validation on all rows, the same for all methods and splits.

    Rows are in the original columns, standardised where reductions are.
    """
    config = job.config
    specs = [spec for spec in config.evaluation.classifiers if spec.C == "auto"]
    if not specs:
        return {"penalties": {}}
    rows = score_stage.small_rows(job, "C: auto tries penalties on")
    chosen = choose_C(
        specs,
        rows.X,
        rows.y,
        seed=config.evaluation.seed,
        standardize=config.standardize,
        progress=lambda done, total: job.callback.on_progress("tune", done, total),
    )
    return {"penalties": chosen}


def _score(job: Job) -> ScoreRecord:
    return score_stage.score_splits(job, records.SCORE, job.results.of(records.TUNE)["penalties"])


def _report(job: Job) -> CompareRecord:
    from mmpca_dist.evaluation_runs import results
    from mmpca_dist.report.evaluation_page import write_evaluation_report

    splits = SplitRecords(job.run.path("splits"), job.key).read(job.results.of(records.SCORE)["n_splits"])
    record = write_evaluation_report(job.run.uri, results.evaluation_of(job, splits))
    for note in record["notes"]:
        job.callback.on_note(note)
    return record


PLAN = Stage(records.PLAN, "Plan", _plan)
TUNE = Stage(records.TUNE, "Choose penalties of classifiers", _tune)
SCORE = Stage(records.SCORE, "Fit and judge on every split", _score)
COMPARE = Stage(records.COMPARE, "Write tables and the report", _report)

EVALUATION_STAGES = [COUNT, PLAN, TUNE, SCORE, COMPARE]


def evaluate(
    config: RunConfig | str | os.PathLike | dict[str, Any], callbacks: list[Callback] | None = None
) -> Results:
    """Evaluate methods without Prefect: every stage in turn, in this process or on the cluster it names.

    Parameters
    ----------
    config : RunConfig, dict of the same keys, or path of a YAML file
    callbacks : list of Callback, optional
        Who hears of stages and progress.

    Returns
    -------
    dict
        What each stage left, by name; ``compare`` names the tables and the report.

    Raises
    ------
    MmpcaError
        For anything the user can mend; the message says what, where and how.
    """
    settings = as_config(config)
    with open_job(settings, Callbacks(callbacks or []), "evaluation") as job, forgetting(job):
        for stage in EVALUATION_STAGES:
            run_stage(job, stage)
        return job.results
