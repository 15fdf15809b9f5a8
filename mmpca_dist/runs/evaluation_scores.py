"""The stage that scores methods on all splits: where the rows are, where moments come from, and the records."""

from __future__ import annotations

import logging
import operator
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from dask.utils import format_bytes

from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.eigen.options import choose_solver
from mmpca_dist.errors import DamageError, InputError
from mmpca_dist.evaluation.cost_meter import MOMENTS
from mmpca_dist.evaluation.engine import evaluate
from mmpca_dist.evaluation.request import Classifiers, EvaluationRequest
from mmpca_dist.evaluation.splits import PartSizes, Splits
from mmpca_dist.evaluation.training import held_rows, merged_moments, own_passes, read_all, scatters_of_parts
from mmpca_dist.jobs.first_stages import request_of
from mmpca_dist.jobs.job import Job
from mmpca_dist.jobs.object_records import AGAIN
from mmpca_dist.jobs.records import ScoreRecord
from mmpca_dist.limits import LIMITS
from mmpca_dist.methods.base.statistics_for import no_scatter
from mmpca_dist.passes.census import Census
from mmpca_dist.passes.pilot import traced
from mmpca_dist.passes.schedulers import Prepared, Threads
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.planning.evaluation_plan import is_measured, plan_evaluation, splits_at_once
from mmpca_dist.predictors.classifiers import check_classes, refuse_weights
from mmpca_dist.statistics.costs import use_pooled
from mmpca_dist.statistics.scatters import ClassWeighting
from mmpca_dist.stores import storage
from mmpca_dist.stores.zarr_stores import reading_own
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import Span

log = logging.getLogger(__name__)

ROWS = "rows"
"""The name of the pass that takes rows into memory."""


def route(job: Job, parts: PartSizes, config: RunConfig) -> tuple[bool, bool]:
    """Return whether moments of the parts are merged, and whether all rows are taken into memory.

    Moments are merged of folds, and of shares of rows that are too many for memory, wherever moments serve all methods;
    but of few rows of so many classes and columns that the moments of the folds are large they are not. Else each part
    has passes of its own over the rows that train. Raises InputError for tables that are too large for both.
    """
    dataset, scored = job.dataset, job.inputs.purpose == "evaluation" or job.inputs.asked.chooses
    needs, solver, fewest = config.needs(), config.solver.options(), int(parts.n_train.min())
    if config.dataset.predicts or (config.dataset.classless and scored):
        if choose_solver(solver, dataset.n_rows, dataset.n_columns, needs).in_passes:
            raise no_scatter(dataset)
        return True, False
    small = dataset.n_bytes <= LIMITS.direct_bytes
    wide = fewest < dataset.n_features
    choice = choose_solver(solver, fewest, dataset.n_columns, needs, dataset.held)
    suffice = not (dataset.sparse or wide or choice.in_passes or needs.swept)
    suffice = suffice and not (needs.medians and dataset.widening is not None)
    if not (small or suffice) and choice.kind == "dual":
        raise InputError(
            f"{dataset.uri} is larger than the {LIMITS.direct_bytes >> 20} MiB that an evaluation takes into memory, "
            f"which the solver needs of rows that train ({fewest:,}) fewer than the columns ({dataset.n_columns:,}). "
            "Evaluate a part of the rows or columns, or set solver.kind: krylov."
        )
    if small and (len(parts.held_out) == 1 or use_pooled(parts.counts[0].size, dataset.n_features)):
        return False, True
    return suffice, small and not suffice


def in_folds(job: Job) -> Job:
    """Return the job as an evaluation in folds, each row (or group) held out once, by one classifier."""
    inputs, section = job.inputs, job.config.evaluation
    changes: dict[str, Any] = {"count": 1, "train": None, "classifiers": [section.judge], "margins": False}
    changes["intervals"] = False
    if section.splits not in ("groups", "blocks"):
        changes |= {"splits": "folds", "column": None}
    evaluation = section.model_copy(update=changes)
    config = inputs.config.model_copy(update={"evaluation": evaluation})
    folds = replace(job, inputs=replace(inputs, config=config))
    folds.census = job.census
    return folds


def evaluation_request(job: Job, parts: PartSizes, penalties: dict[str, float] | None = None) -> EvaluationRequest:
    """Return what an evaluation asks for; ``penalties`` are C by label of the classifier, where they are chosen."""
    config, n_features = job.config, job.dataset.n_features
    merged, in_memory = route(job, parts, config)
    n_classes, without_classes = parts.counts.shape[1], config.dataset.predicts or config.dataset.classless
    classifiers = [] if without_classes else config.evaluation.classifiers
    check_classes(classifiers, n_classes)
    if config.dataset.weighted:
        refuse_weights(classifiers)
    for section in config.methods:
        if reason := section.reducer(None).unevaluable_reason:
            raise InputError(f"{section.label}: {reason}.")
    n_train, needs = int(parts.n_train.max()), config.needs()
    if (
        not merged
        and not choose_solver(config.solver.options(), n_train, n_features, needs, job.dataset.held).in_passes
    ):
        # All columns are coordinates in the span of the rows and medians.
        n_features = min(n_features, n_train + n_classes * len(needs.medians))
    largest = config.largest or n_features
    request = EvaluationRequest(
        methods={section.label: section.reducer(None, **config.shared) for section in config.methods},
        unreduced=config.unreduced,
        sizes=config.sizes,
        needs=needs,
        classifiers=Classifiers(classifiers, penalties or {}, config.evaluation.seed),
        parts=parts,
        merged=merged,
        in_memory=in_memory,
        margins=config.evaluation.margins and not without_classes,
        width=largest * sum(method.method.blocks(largest, n_classes, n_features) for method in config.methods),
        precision=config.precision,
        standardize=config.standardizes,
        class_weight=config.class_weight,
        solver=config.solver.options(),
        intervals=config.evaluation.intervals,
    )
    if request.intervals:
        _refuse_intervals(request, n_features)
    return request


def _refuse_intervals(request: EvaluationRequest, n_features: int) -> None:
    """Raise InputError where moments of folds do not tell the errors of nested folds."""
    without_two = np.sort(request.parts.counts, axis=2)[:, :, :-2].sum(axis=2)
    fewest = np.sort(request.parts.counts.sum(axis=1), axis=1)[:, :-2].sum(axis=1).min()
    pooled = scatters_of_parts(request.parts, n_features, request.needs.scatters, request.classifiers.each_scatter)
    lacking = {ClassWeighting.OTHERS} if pooled < request.parts.counts[0].size else set()
    needs = {label: method.needs() for label, method in request.methods.items()}
    unmet = [label for label, need in needs.items() if need.medians or need.searches or lacking & need.scatters]
    unmet += ["class_weight"] if lacking and request.class_weight is not None else []
    reasons = {
        "they are of errors of classes, and there are numbers to predict": not request.classifiers.specs,
        "they merge moments of folds, which sparse rows, sweeps, solvers in passes, and few rows of many columns or "
        "classes do without": not request.merged or fewest < n_features,
        f"{', '.join(unmet)}: needs more than moments, so leave it out": bool(unmet),
        "with two folds left out, a class has no row that trains, or a fold has a single row":
            bool((without_two == 0).any() or request.parts.n_tested.min() < 2),
    }  # fmt: skip
    reason = next((text for text, holds in reasons.items() if holds), None)
    if reason is not None:
        raise InputError(f"evaluation.intervals cannot be had here: {reason}. Leave evaluation.intervals out.")


def score_splits(job: Job, stage: str, penalties: dict[str, float] | None = None) -> ScoreRecord:
    """Fit and score on every split that is not done yet.

    The record has the passes and bytes of all splits, those of earlier sessions included.
    """
    splits = job.splits
    request = evaluation_request(job, splits, penalties)
    records = SplitRecords(job.run.path("splits"), job.key)
    total = splits.n_splits * len(splits.held_out)
    missing = records.missing(total)
    planned = 0
    if missing and request.in_memory:
        planned = _score_in_memory(job, request, records, missing, stage)
    elif missing:
        _score(job, request, records, missing, stage)
    done = records.read(total)
    return {
        "n_splits": total,
        "planned": planned,
        "passes": [name for record in done for name in record.get("passes", [])],
        "bytes": sum(record.get("bytes", 0) for record in done),
        "outputs": [f"splits/{number:05d}.json" for number in range(total)],
    }


@dataclass(frozen=True)
class SplitRecords:
    """The record of each split, an object each below ``url``, so that an evaluation resumes after those that exist."""

    url: str
    key: str

    def path(self, number: int) -> str:
        return storage.join(self.url, f"{number:05d}.json")

    def missing(self, total: int) -> list[int]:
        """Return the numbers of the splits, of so many, that have no record yet; a damaged one goes."""
        names = {storage.join(self.url, name) for name in storage.names_in(self.url)}
        return [number for number in range(total) if self.path(number) not in names or not self._is_done(number)]

    def _is_done(self, number: int) -> bool:
        try:
            return bool(self._read(number, ""))
        except DamageError as error:
            log.warning("%s The split is evaluated again.", error)
            storage.remove(self.path(number))
            return False

    def write(self, record: dict[str, Any]) -> None:
        storage.write_json(self.path(record["split"]), {"key": self.key, **record})

    def read(self, total: int) -> list[dict[str, Any]]:
        """Return the records of all splits, in order; a damaged one raises DamageError."""
        return [self._read(number, AGAIN) for number in range(total)]

    def _read(self, number: int, remedy: str) -> dict[str, Any]:
        with reading_own(self.path(number), remedy):
            record = storage.read_json(self.path(number), remedy)
            if (record.get("key"), record.get("split")) != (self.key, number):
                raise ValueError("it is the record of another split")
            return record


def _forecast(job: Job, stage: str, total: int, at_once: int) -> Callable[[int], None]:
    """Return what tells, once, how long the remaining splits take, by the time of as many as are evaluated at once."""
    begin, is_told = time.perf_counter(), False

    def tell(done: int) -> None:
        nonlocal is_told
        if not is_told and at_once <= done < total:
            is_told = True
            job.callback.on_expected(stage, (time.perf_counter() - begin) * (total - done) / done)

    return tell


def _score(job: Job, request: EvaluationRequest, records: SplitRecords, missing: list[int], stage: str) -> None:
    """Evaluate one split after the other, whose parts share passes over the rows."""
    splits, rows = job.splits, job.rows(stage)
    to_score = sorted({number // len(splits.held_out) for number in missing})
    forecast = _forecast(job, stage, len(to_score), 1)
    for done, split in enumerate(to_score, 1):
        own_checkpoints = rows.keeping_apart(f"{split:05d}")
        training = merged_moments if request.merged else own_passes
        for record in evaluate(own_checkpoints, splits.only(split), request, training):
            records.write({**record, **job.passes.take()})
        forecast(done)


def _score_in_memory(
    job: Job, request: EvaluationRequest, records: SplitRecords, missing: list[int], stage: str
) -> int:
    """Evaluate a part held out a task, each with all rows in memory, which a first task reads.

    Returns the memory that this takes by the first of them, which is alone; 0 where little data needs no such look.
    """
    job.callback.on_pass(stage, ROWS)
    spans = [Span(i, (number, number + 1)) for i, number in enumerate(missing)]
    tasks, n_threads = job.tasks(stage), job.config.compute.n_threads
    progress, forecast = job.progress(stage), _forecast(job, stage, len(missing), n_threads)
    alone = planned = 0

    def tell(done: int, total: int) -> None:
        progress(alone + done, len(spans))
        forecast(alone + done)

    task: Any = Prepared(partial(_with_rows, job.dataset, job.splits, request, records))
    if job.scheduler.in_process and len(spans) > 1 and is_measured(request_of(job), request):
        task = task.make()  # so that the rows stay for the others
        with traced():
            replace(tasks, scheduler=Threads(1)).run(task, spans[:1], operator.add, "split", kept=False)
            _, split = tracemalloc.get_traced_memory()
        alone = 1
        plan, n_left = plan_evaluation(request_of(job), request), len(spans) - alone
        count, planned = splits_at_once(plan, job.dataset.n_bytes, split, n_left)
        tasks = replace(tasks, scheduler=Threads(count))
        if count < min(n_threads, n_left):
            job.callback.on_note(
                f"A split takes {format_bytes(split)}: {count} at a time fit compute.memory_limit, where there are "
                f"{n_threads} threads."
            )
    replace(tasks, progress=tell).run(task, spans[alone:], operator.add, "split", kept=False)
    return planned


def _with_rows(
    dataset: Dataset, splits: Splits, request: EvaluationRequest, records: SplitRecords
) -> Callable[[Span], int]:
    """Return the task that evaluates a part held out, with all rows."""
    batch = read_all(dataset, splits, Tasks(scheduler=Threads(1)))
    read = [{"passes": [ROWS], "bytes": dataset.n_bytes, "read": {MOMENTS: dataset.n_bytes}}]
    return partial(_evaluate_part, batch=batch, splits=splits, request=request, records=records, read=read)


def _evaluate_part(
    span: Span, *, batch: Batch, splits: Splits, request: EvaluationRequest, records: SplitRecords,
    read: list[dict[str, Any]],
) -> int:  # fmt: skip
    split, index = divmod(span.start, len(splits.held_out))
    one = splits.only(split)
    alone = replace(one.known(batch), held_out=one.held_out[index : index + 1], first=span.start)
    rows = held_rows(batch, Census(splits.classes, splits.counts[0].sum(axis=1), ()))
    (record,) = evaluate(rows, alone, request, own_passes)
    # The first part that is done tells what was read for all.
    records.write({**record, **(read.pop() if read else {"passes": [], "bytes": 0, "read": {}})})
    return 1
