"""The stage that chooses the number of components, for ``n_components: auto``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mmpca_dist.errors import InputError, some_names
from mmpca_dist.evaluation.component_rule import RULE, one_standard_error
from mmpca_dist.evaluation.request import EvaluationRequest
from mmpca_dist.evaluation.splits import PartSizes, fold_sizes
from mmpca_dist.evaluation.tables import REGRESSION, Cell, ErrorTable
from mmpca_dist.jobs import records
from mmpca_dist.jobs.job import Job, Stage
from mmpca_dist.jobs.notes import counted
from mmpca_dist.jobs.records import ChoiceRecord, MethodChoice
from mmpca_dist.jobs.run_stage import measured
from mmpca_dist.limits import COMPONENT_COUNTS, LIMITS
from mmpca_dist.runs import score_stage
from mmpca_dist.runs.score_stage import SplitRecords, evaluation_request, forgetting, merging

NUMBERS = "give n_components as numbers"


def _choose(job: Job) -> ChoiceRecord:
    label = REGRESSION if job.dataset.targets else job.config.evaluation.judge.label
    with forgetting(job), measured(job) as peak:
        record = score_stage.score_splits(_in_folds(job), "choose")
    n_folds = record["n_splits"]
    splits = SplitRecords(job.run.path("splits"), job.key).read(n_folds)
    cells = ErrorTable.of(splits, job.dataset.n_rows).cells()
    how = f"one-standard-error rule, {label}, {n_folds} folds"
    most = job.dataset.n_columns
    methods = {m: _choice([cell for cell in cells if cell.method == m], how, most) for m in job.config.labels}
    return {
        **record,
        "memory": peak(),
        "rule": RULE,
        "classifier": label,
        "folds": n_folds,
        "overlap": cells[0].summary.overlap,
        "methods": methods,
        "how": how,
        "found": [choice["words"] for choice in methods.values()],
    }


def _in_folds(job: Job) -> Job:
    """Return the job as an evaluation in folds, each row (or group) held out once, by one classifier."""
    job.counted()
    inputs, section = job.inputs, job.config.evaluation
    changes: dict[str, Any] = {"count": 1, "train": None, "classifiers": [section.judge], "margins": False}
    if section.splits != "groups":
        changes |= {"splits": "folds", "column": None}
    evaluation = section.model_copy(update=changes)
    config, held_out = inputs.config.model_copy(update={"evaluation": evaluation}), inputs.held_out
    return replace(job, inputs=replace(inputs, config=config, held_out=replace(held_out, section=evaluation)))


def _choice(cells: list[Cell], how: str, most: int) -> MethodChoice:
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
        "words": f"{chosen.method}: {counted(chosen.used, 'component')} ({how}{edge})",
    }


def choice_request(job: Job) -> EvaluationRequest | None:
    """Return what the plan must know of the choice; None where numbers of components are given."""
    if not job.inputs.chooses:
        return None
    splits = job.config.evaluation.splits
    if splits in ("given", "time"):
        raise InputError(
            f"n_components: auto deals rows into folds, and evaluation.splits: {splits} asks for the parts of a "
            f"column. Evaluate by these parts (mmpca evaluate) and {NUMBERS}, or leave out evaluation.splits and its "
            "column."
        )
    parts = _in_folds(job).drawn_splits() if splits == "groups" else _stratified(job)
    dataset = job.dataset
    merged = merging(dataset, parts, job.config)
    if merged is None:
        raise InputError(
            f"n_components: auto is not possible for {dataset.uri}: it is larger than the "
            f"{LIMITS.direct_bytes >> 20} MiB that are taken into memory, and sparse rows, fewer rows than columns, "
            "solvers in passes and fits by sweeps need the rows themselves, fold by fold. Choose on a part of the "
            f"rows, or {NUMBERS}."
        )
    return evaluation_request(_in_folds(job).config, parts, merged=merged, n_features=dataset.n_features)


def _stratified(job: Job) -> PartSizes:
    """Return the sizes of stratified folds. Raises InputError where a class has fewer rows than folds."""
    census, folds = job.counted(), job.config.evaluation.folds
    few = census.sizes < folds
    if few.any():
        names = [str(label) for label in census.classes[few]]
        least = int(np.min(census.sizes))
        lower = f"set evaluation.folds to {least}, " if least > 1 else "leave out classes of one row, "
        raise InputError(
            f"n_components: auto holds out rows of every class in each of {folds} folds, and fewer rows have the label "
            f"{some_names(names)}: {lower}or {NUMBERS}."
        )
    return PartSizes(counts=fold_sizes(census.sizes, folds)[None], held_out=tuple(range(folds)))


CHOOSE = Stage(records.CHOOSE, "Choose how many components", _choose)
