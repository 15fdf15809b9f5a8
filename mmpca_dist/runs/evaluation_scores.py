"""The stage that scores methods on all splits, by merged moments or with rows in memory."""

from __future__ import annotations

import asyncio
import logging
import operator
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.eigen.options import choose_solver
from mmpca_dist.errors import DamageError, InputError
from mmpca_dist.evaluation.cost_meter import MOMENTS
from mmpca_dist.evaluation.in_memory import evaluate_split, read_all
from mmpca_dist.evaluation.merged_folds import evaluate_parts
from mmpca_dist.evaluation.regressions import evaluate_regressions
from mmpca_dist.evaluation.request import Classifiers, EvaluationRequest
from mmpca_dist.evaluation.scores import naming
from mmpca_dist.evaluation.splits import PartSizes, Splits
from mmpca_dist.jobs.job import Job
from mmpca_dist.jobs.object_records import AGAIN
from mmpca_dist.jobs.records import ScoreRecord
from mmpca_dist.limits import LIMITS
from mmpca_dist.methods.base.statistics_for import no_scatter
from mmpca_dist.passes.schedulers import Cluster, Threads
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.predictors.classifiers import check_classes, refuse_weights
from mmpca_dist.statistics.moments import use_pooled
from mmpca_dist.stores import storage
from mmpca_dist.stores.zarr_stores import reading_own
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import Span

log = logging.getLogger(__name__)

ROWS = "rows"
"""The name of the pass that takes rows into memory."""


def moments_suffice(dataset: Dataset, parts: PartSizes, config: RunConfig) -> bool | None:
    """Return True to score from merged moments, False to hold rows in memory, None if neither works.

    Moments of shares are merged where rows are too many. Those of folds are merged wherever moments serve all methods,
    but for few rows of so many classes and columns that the moments of the folds are large.
    """
    fewest = int(parts.n_train.min())
    suffice = not dataset.sparse and fewest >= dataset.n_features
    if suffice:
        needs = config.needs()
        choice = choose_solver(config.solver.options(), fewest, dataset.n_columns, needs)
        suffice = not (choice.in_passes or needs.swept or (needs.medians and dataset.widening is not None))
    if dataset.n_bytes > LIMITS.direct_bytes:
        return suffice or None
    return suffice and len(parts.held_out) > 1 and not use_pooled(parts.counts[0].size, dataset.n_features)


def scores_from_moments(dataset: Dataset, parts: PartSizes, config: RunConfig) -> bool:
    """Tell whether an evaluation goes by merged moments."""
    if config.dataset.predicts:
        if choose_solver(config.solver.options(), dataset.n_rows, dataset.n_columns, config.needs()).in_passes:
            raise no_scatter(dataset)
        return True
    merged = moments_suffice(dataset, parts, config)
    if merged is None:
        raise InputError(
            f"{dataset.uri} is larger than the {LIMITS.direct_bytes >> 20} MiB that an evaluation takes into memory, "
            "and moments of its parts do not suffice: sparse rows, fewer rows than columns, solvers in passes and fits "
            "by sweeps need the rows themselves. Evaluate a part of the rows."
        )
    return merged


def evaluation_request(job: Job, parts: PartSizes, penalties: dict[str, float] | None = None) -> EvaluationRequest:
    """Return what an evaluation asks for; ``penalties`` are C by label of the classifier, where they are chosen."""
    config, n_features = job.config, job.dataset.n_features
    merged = scores_from_moments(job.dataset, parts, config)
    n_classes, classifiers = parts.counts.shape[1], [] if config.dataset.predicts else config.evaluation.classifiers
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
    return EvaluationRequest(
        methods={section.label: section.reducer(None, **config.shared) for section in config.methods},
        unreduced=config.unreduced,
        sizes=config.sizes,
        needs=needs,
        classifiers=Classifiers(classifiers, penalties or {}, config.evaluation.seed),
        parts=parts,
        merged=merged,
        margins=config.evaluation.margins and not config.dataset.predicts,
        n_blocks=sum(method.method.blocks(config.largest, n_classes, n_features) for method in config.methods),
        precision=config.precision,
        standardize=config.standardizes,
        class_weight=config.class_weight,
        solver=config.solver.options(),
    )


def score_splits(job: Job, stage: str, penalties: dict[str, float] | None = None) -> ScoreRecord:
    """Fit and score on every split that is not done yet.

    The record has the passes and bytes of all splits, those of earlier sessions included.
    """
    splits = job.splits
    request = evaluation_request(job, splits, penalties)
    records = SplitRecords(job.run.path("splits"), job.key)
    total = splits.n_splits * len(splits.held_out)
    missing = records.missing(total)
    if missing:
        score = _score_merged if request.merged else _score_direct
        score(job, request, records, missing, stage)
    done = records.read(total)
    return {
        "n_splits": total,
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


def _score_merged(job: Job, request: EvaluationRequest, records: SplitRecords, missing: list[int], stage: str) -> None:
    """Evaluate one split after the other, whose parts share passes over the rows."""
    splits, rows = job.splits, job.rows(stage)
    parts = len(splits.held_out)
    to_score = sorted({number // parts for number in missing})
    forecast = _forecast(job, stage, len(to_score), 1)
    for done, split in enumerate(to_score, 1):
        own_checkpoints = rows.keeping_apart(f"{split:05d}")
        evaluated = evaluate_regressions if job.config.dataset.predicts else evaluate_parts
        for record in evaluated(own_checkpoints, splits.only(split), request):
            records.write({**record, **job.passes.take()})
        forecast(done)


def _score_direct(job: Job, request: EvaluationRequest, records: SplitRecords, missing: list[int], stage: str) -> None:
    """Evaluate a split a task, each with all rows in memory."""
    job.callback.on_pass(stage, ROWS)
    task = partial(_evaluate_split, job.dataset, job.splits, request, records)
    spans = [Span(i, (number, number + 1)) for i, number in enumerate(missing)]
    progress, forecast = job.progress(stage), _forecast(job, stage, len(missing), job.config.compute.n_threads)

    def tell(done: int, total: int) -> None:
        progress(done, total)
        forecast(done)

    replace(job.tasks(stage), progress=tell).run(task, spans, operator.add, "split", kept=False)


def _rows_in_memory(dataset: Dataset, splits: Splits, key: str) -> tuple[Batch, dict[str, Any]]:
    """Return all rows of a data set, which every process reads once, and the pass and bytes that were read for this."""
    with _reading:
        if key in _rows:
            return _rows[key], {"passes": [], "bytes": 0, "read": {}}
        _rows.clear()
        _rows[key] = read_all(dataset, splits, Tasks(scheduler=Threads(1)))
        return _rows[key], {"passes": [ROWS], "bytes": dataset.n_bytes, "read": {MOMENTS: dataset.n_bytes}}


_reading = threading.Lock()
_rows: dict[str, Batch] = {}


def _evaluate_split(
    dataset: Dataset, splits: Splits, request: EvaluationRequest, records: SplitRecords, span: Span
) -> int:
    rows, read = _rows_in_memory(dataset, splits, records.key)
    with naming(span.start):
        record = evaluate_split(rows, splits, span.start, request)
    records.write({**record, **read})
    return 1


@contextmanager
def rows_released(job: Job) -> Iterator[None]:
    """Let go of the rows of a job afterwards, in this process and on workers, who may outlive it."""
    try:
        yield
    finally:
        _forget(job.key)
        client = job.scheduler.client if isinstance(job.scheduler, Cluster) else None
        if client is not None and client.status == "running":
            with suppress(OSError, TimeoutError):  # workers that are gone keep nothing
                client.run(_forget_on_worker, job.key, on_error="ignore")


def _forget(key: str) -> None:
    with _reading:
        _rows.pop(key, None)


async def _forget_on_worker(key: str) -> None:
    """Forget in a thread: where rows are being read just now, the worker goes on to answer its scheduler."""
    await asyncio.to_thread(_forget, key)
