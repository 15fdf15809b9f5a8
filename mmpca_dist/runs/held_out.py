"""Models of the other folds tell of rows whether they belong, and how right probes of erased rows are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np

from mmpca_dist.belonging.held_out import Counts, FoldModels, HeldOutScores, Whole, complete, scorers_of
from mmpca_dist.belonging.limits import note_on_few, notes_on
from mmpca_dist.belonging.reference import RowScorer
from mmpca_dist.configuration.held_out_sections import BelongingConfig
from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.cost_meter import Meter
from mmpca_dist.evaluation.erasure import Probes, count_right, named, probes_of, shares_right
from mmpca_dist.evaluation.reductions import Reduction, Reductions, moments_by, tell_reduced
from mmpca_dist.evaluation.request import EvaluationRequest
from mmpca_dist.evaluation.splits import PartSizes, Splits
from mmpca_dist.evaluation.training import (
    SplitMoments,
    Trained,
    held_rows,
    merged_moments,
    moments_by_fold,
    own_passes,
    read_all,
    scatters_of_parts,
)
from mmpca_dist.jobs import records
from mmpca_dist.jobs.finished_runs import load_model, solved_methods, statistics_of
from mmpca_dist.jobs.job import Job
from mmpca_dist.jobs.stored_arrays import load_value, save_value
from mmpca_dist.jobs.stored_belonging import COUNTS, FOLDS, HELD_OUT, WHOLE
from mmpca_dist.methods.base.shrinkage import statistics_of_parts
from mmpca_dist.methods.concept_eraser import ConceptEraser
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.runs.evaluation_scores import evaluation_request, in_folds
from mmpca_dist.statistics.costs import use_pooled
from mmpca_dist.statistics.working_statistics import ColumnStatistics, Statistics


def shares_reduction(job: Job, parts: PartSizes, merged: bool) -> bool:
    """Tell whether ``merged`` moments of folds serve the run, too: all that it needs follows from their sums."""
    needs, d, n_classes = job.config.needs(), job.dataset.n_features, parts.counts.shape[1]
    dataset = job.config.dataset
    if not merged or needs.medians or needs.searches or needs.swept or dataset.predicts or dataset.groups:
        return False
    pools = use_pooled(n_classes, d)  # as the run does alone
    if scatters_of_parts(parts, d, needs.scatters) == parts.counts[0].size:
        return not pools
    return pools and not needs.scatters and job.config.class_weight is None


def shares_projection(job: Job, shared: bool) -> bool:
    """Tell whether rows are scored as they are projected, where models are there by then."""
    sparse = job.dataset.sparse and job.dataset.widening is not None
    return shared and bool(job.config.projected) and not sparse


@dataclass(frozen=True)
class FoldPass(ABC):
    """Models of folds from the pass of a reduction, and counts of rows held out from that of a projection."""

    job: Job
    splits: Splits
    merged: bool
    """Whether models follow from merged moments."""

    @abstractmethod
    def fit(self, rows: Rows, folds: SplitMoments) -> list[str]:
        """Store models for each fold as `FOLDS`, and return the names of outputs; none where there are none."""

    @abstractmethod
    def scoring(self) -> HeldOutScores:
        """Return what scores rows by the models that are stored."""

    def reduce(self) -> tuple[ColumnStatistics, list[str]]:
        """Return the statistics of all rows from a pass for those of the folds, whose models are stored."""
        rows, config = self.job.rows(records.REDUCE), self.job.config
        folds, options = self.moments(rows), {"precision": config.precision, "class_weight": config.class_weight}
        return statistics_of_parts(folds.parts, config.needs().shrinkages, **options), self.fit(rows, folds)

    def moments(self, rows: Rows) -> SplitMoments:
        """Return the moments of the folds, from a pass over the rows."""
        parts, config = self.splits, self.job.config
        kept = scatters_of_parts(parts, rows.dataset.n_features, config.needs().scatters)
        return moments_by_fold(rows, parts, precision=config.precision, pooled=kept < parts.counts[0].size)

    def held_out(self) -> HeldOutScores | None:
        """Return what scores rows while these are projected, where the reduction has left the models."""
        shared = FOLDS in self.job.results.of(records.REDUCE)["outputs"]
        return self.scoring() if shares_projection(self.job, shared) else None

    def counted(self, rows: Rows) -> Counts | None:
        """Return the counts of scores, after a pass where the projection has left none; None without models."""
        run, done = self.job.run, self.job.results
        if FOLDS not in done.of(records.REDUCE)["outputs"]:
            return None
        projected = done.of(records.PROJECT)
        return load_value(run, projected, HELD_OUT) if HELD_OUT in projected["outputs"] else self.scoring().over(rows)


@dataclass(frozen=True)
class FoldProbing(FoldPass):
    """How a run tells what linear probes find in erased rows: eraser, probe and test take different folds."""

    @classmethod
    def of(cls, job: Job) -> FoldProbing:
        """Return it; raise InputError where there are no moments of folds, or too few of them."""
        parts, choice = in_folds(job).splits, job.results.of(records.PLAN)["choice"]
        fewest = 4 if job.config.needs().shrinkages else 3  # of what an eraser is fitted to, two choose a shrinkage
        if choice["kind"] != "dense" or job.dataset.widening is not None or parts.n_parts < fewest:
            raise InputError(
                f"it takes class moments of {fewest} folds or more (solver.kind: dense), no covariates, no gaps"
            )
        return cls(job, parts, True)

    def fit(self, rows: Rows, folds: SplitMoments) -> list[str]:
        with suppress(InputError):  # the stage tells of it
            return [save_value(self.job.run, FOLDS, self._probes(folds))]
        return []

    def _probes(self, folds: SplitMoments) -> list[Probes]:
        config = self.job.config
        return probes_of(folds, {one: cast(ConceptEraser, config.reducer(one, None)) for one in config.erasing})

    def scoring(self, probes: list[Probes] | None = None) -> HeldOutScores:
        probes = probes or load_value(self.job.run, self.job.results.of(records.REDUCE), FOLDS)
        count = partial(count_right, classes=self.splits.classes)
        return HeldOutScores(self.splits, [partial(named, probes=each) for each in probes], count)

    def keep(self) -> records.ErasureRecord:
        """Return how right probes are, after passes for what was not found on the way."""
        parts, rows = self.splits, self.job.rows(records.ERASURE)
        counts = self.counted(rows) or self.scoring(self._probes(self.moments(rows))).over(rows)
        probed = {"rows": int(parts.n_tested.min()) * ((parts.n_parts - 1) // 2)}
        solved = solved_methods(self.job.run, self.job.config.erasing)
        return {"right": {label: {**shares_right(counts[label], parts), **probed} for label in solved}, "why": ""}


@dataclass(frozen=True)
class FoldScoring(FoldPass):
    """How a run tells whether rows belong: by folds of its rows, each of which models of the others score."""

    section: BelongingConfig
    request: EvaluationRequest

    @classmethod
    def of(cls, job: Job) -> FoldScoring | None:
        """Return it, where a run is asked for it."""
        if job.config.belonging is None:
            return None
        folds = in_folds(job)
        request = evaluation_request(folds, folds.splits)
        return cls(job, folds.splits, request.merged, job.config.belonging, request)

    def fit(self, rows: Rows, folds: SplitMoments) -> list[str]:
        scorers = self._scorers(rows, self.splits, ((one, None) for one in folds.statistics(self.request)))
        return [save_value(self.job.run, FOLDS, scorers)]

    def scoring(self) -> HeldOutScores:
        scorers = load_value(self.job.run, self.job.results.of(records.REDUCE), FOLDS)
        adjustment = statistics_of(self.job.run).adjustment if self.job.dataset.widening else None
        return HeldOutScores.of_belonging(self.splits, scorers, self.section.scores, adjustment)

    def keep(self, statistics: Statistics) -> records.BelongingRecord:
        """Keep what tells of new rows whether they belong, after passes for what was not found on the way."""
        job, rows, parts, request = self.job, self.job.rows(records.BELONGING), self.splits, self.request
        counts = self.counted(rows)
        if counts is None:
            if request.in_memory:
                batch = read_all(job.dataset, parts, Tasks(scheduler=rows.scheduler))
                rows, parts = held_rows(batch, job.census), parts.known(batch)
            training = merged_moments if request.merged else own_passes
            scorers = self._scorers(rows, parts, training(rows, parts, request, Meter(rows.on_pass)))
            counts = HeldOutScores.of_belonging(parts, scorers, self.section.scores).over(rows)
        whole = complete(rows, Whole.of(parts), [self._whole(statistics)], self.section.shrinkage)
        dealt = self.job.config.evaluation.splits == "folds"
        notes = note_on_few(job.dataset.n_rows, job.dataset.n_columns) + (notes_on(counts) if dealt else [])
        for note in notes:
            job.callback.on_note(note)
        return {
            "limits": {m: {n: one.limit(self.section.alpha) for n, one in own.items()} for m, own in counts.items()},
            "notes": notes,
            "outputs": [save_value(job.run, WHOLE, whole), save_value(job.run, COUNTS, counts)],
        }

    def _scorers(self, rows: Rows, parts: Splits, training: Iterator[Trained]) -> list[RowScorer]:
        labels, meter = self.job.config.labels, Meter(rows.on_pass)
        sizes = {label: self.job.sizes(label)[-1] for label in labels}
        return scorers_of(rows, parts, self.request, training, meter, sizes, self.section.shrinkage)

    def _whole(self, statistics: Statistics) -> FoldModels:
        """Return the models of a run as what was fitted to all rows."""
        run, labels = self.job.run, solved_methods(self.job.run, self.job.config.labels)
        models = [load_model(run.uri, label) for label in labels]
        exact = tell_reduced(statistics, self.job.config.class_weight is not None)
        matrices, _, offsets = zip(*(model.projection() for model in models), strict=True)
        ends = np.cumsum([matrix.shape[1] for matrix in matrices])
        columns = np.split(np.arange(ends[-1]), ends[:-1])
        items = [Reduction(label, len(own), own, None, len(own)) for label, own in zip(labels, columns, strict=True)]
        moments = [
            moments_by(statistics.unweighted, model) if exact and offset is None else None
            for model, offset in zip(models, offsets, strict=True)
        ]
        mean, side_by_side = statistics.mean, np.concatenate(matrices, axis=1)
        return FoldModels(
            Reductions(side_by_side, mean, items, statistics.scale, None, statistics.adjustment), mean, moments
        )
