"""The stages of a run that score its rows by models of the other folds, and keep the counts for rows to come."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from mmpca_dist.belonging.held_out import Counts, FoldModels, HeldOutScores, Whole, complete, scorers_of
from mmpca_dist.belonging.limits import note_on_few, notes_on
from mmpca_dist.belonging.reference import RowScorer
from mmpca_dist.configuration.held_out_sections import BelongingConfig
from mmpca_dist.evaluation.cost_meter import Meter
from mmpca_dist.evaluation.reductions import Reduction, Reductions, moments_by, tell_reduced
from mmpca_dist.evaluation.request import EvaluationRequest
from mmpca_dist.evaluation.splits import Splits
from mmpca_dist.evaluation.training import (
    Trained,
    held_rows,
    merged_moments,
    moments_by_fold,
    own_passes,
    read_all,
    scatters_of_parts,
)
from mmpca_dist.jobs import records
from mmpca_dist.jobs.finished_runs import load_model, solved_methods
from mmpca_dist.jobs.job import Job
from mmpca_dist.jobs.stored_arrays import load_value, save_value
from mmpca_dist.jobs.stored_belonging import COUNTS, FOLDS, HELD_OUT, WHOLE
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.runs.evaluation_scores import evaluation_request, in_folds
from mmpca_dist.statistics.costs import use_pooled
from mmpca_dist.statistics.working_statistics import ColumnStatistics, Statistics, tall_statistics


def shares_reduction(job: Job, request: EvaluationRequest) -> bool:
    """Tell whether moments of folds serve the run as well: all that it needs follows from their sums."""
    needs, parts, d = request.needs, request.parts, job.dataset.n_features
    if not request.merged or needs.medians or needs.searches or needs.swept or job.config.dataset.predicts:
        return False
    if scatters_of_parts(parts, d, needs.scatters) == parts.counts[0].size:
        return True
    return use_pooled(request.n_classes, d) and not needs.scatters and request.class_weight is None


def shares_projection(job: Job, shared: bool) -> bool:
    """Tell whether rows are scored as they are projected, where scorers are there by then."""
    return shared and bool(job.config.projected) and job.dataset.widening is None


@dataclass(frozen=True)
class FoldScoring:
    """How a run tells whether rows belong: by folds of its rows, each of which models of the others score."""

    job: Job
    section: BelongingConfig
    splits: Splits
    request: EvaluationRequest

    @classmethod
    def of(cls, job: Job) -> FoldScoring | None:
        """Return it, where a run is asked for it."""
        if job.config.belonging is None:
            return None
        folds = in_folds(job)
        return cls(job, job.config.belonging, folds.splits, evaluation_request(folds, folds.splits))

    def reduce(self) -> tuple[ColumnStatistics, str]:
        """Return the statistics of all rows from a pass for those of the folds, whose scorers are stored."""
        rows, request, parts = self.job.rows(records.REDUCE), self.request, self.splits
        pooled = scatters_of_parts(parts, rows.dataset.n_features, request.needs.scatters) < parts.counts[0].size
        folds = moments_by_fold(rows, parts, precision=request.precision, pooled=pooled)
        scorers = self._scorers(rows, parts, ((one, None) for one in folds.statistics(request)))
        output = save_value(self.job.run, FOLDS, scorers)
        whole = functools.reduce(lambda left, right: left.merge(right), folds.parts)
        return tall_statistics(whole, {}, precision=request.precision, class_weight=request.class_weight), output

    def held_out(self) -> HeldOutScores | None:
        """Return what scores rows while these are projected, where the reduction has left the scorers."""
        if not shares_projection(self.job, FOLDS in self.job.results.of(records.REDUCE)["outputs"]):
            return None
        return HeldOutScores(self.splits, self._load(), self.section.scores)

    def keep(self, statistics: Statistics) -> records.BelongingRecord:
        """Keep what tells of new rows whether they belong, after passes for what was not found on the way."""
        job, done = self.job, self.job.results
        rows, parts, request = job.rows(records.BELONGING), self.splits, self.request
        counts: Counts | None = None
        if FOLDS in done.of(records.REDUCE)["outputs"]:
            scorers = self._load()
            if HELD_OUT in done.of(records.PROJECT)["outputs"]:
                counts = load_value(job.run, done.of(records.PROJECT), HELD_OUT)
        else:
            if request.in_memory:
                batch = read_all(job.dataset, parts, Tasks(scheduler=rows.scheduler))
                rows, parts = held_rows(batch, job.census), parts.known(batch)
            training = merged_moments if request.merged else own_passes
            scorers = self._scorers(rows, parts, training(rows, parts, request, Meter(rows.on_pass)))
        if counts is None:
            counts = HeldOutScores(parts, scorers, self.section.scores).over(rows)
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

    def _load(self) -> list[RowScorer]:
        return cast(list[RowScorer], load_value(self.job.run, self.job.results.of(records.REDUCE), FOLDS))

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
