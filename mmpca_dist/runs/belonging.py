"""The stage of a run that scores its rows by models of the other folds, and keeps the counts for rows to come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mmpca_dist.belonging.held_out import FoldModels, HeldOutScores, Whole, complete, scorers_of
from mmpca_dist.belonging.limits import note_on_few, notes_on
from mmpca_dist.belonging.reference import RowScorer
from mmpca_dist.configuration.held_out_sections import BelongingConfig
from mmpca_dist.evaluation.cost_meter import Meter
from mmpca_dist.evaluation.reductions import Reduction, Reductions, moments_by, tell_reduced
from mmpca_dist.evaluation.request import EvaluationRequest
from mmpca_dist.evaluation.splits import Splits
from mmpca_dist.evaluation.training import (
    SplitMoments,
    Trained,
    held_rows,
    merged_moments,
    own_passes,
    read_all,
)
from mmpca_dist.jobs import records
from mmpca_dist.jobs.finished_runs import load_model, solved_methods
from mmpca_dist.jobs.job import Job
from mmpca_dist.jobs.stored_arrays import save_value
from mmpca_dist.jobs.stored_belonging import COUNTS, FOLDS, WHOLE, load_scorers, save_scorers
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.runs.evaluation_scores import evaluation_request, in_folds
from mmpca_dist.runs.fold_pass import FoldPass
from mmpca_dist.statistics.working_statistics import Statistics


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
        return cls(job, folds.splits, job.config.belonging, evaluation_request(folds, folds.splits))

    @property
    def merges(self) -> bool:
        return self.request.merged

    def fit(self, rows: Rows, folds: SplitMoments) -> list[str]:
        scorers = self._scorers(rows, self.splits, ((one, None) for one in folds.statistics(self.request)))
        return [save_scorers(self.job.run, FOLDS, scorers, self.splits.classes)]

    def scoring(self) -> HeldOutScores:
        scorers = load_scorers(self.job.run, self.job.results.of(records.REDUCE), FOLDS, self.splits.classes)
        return HeldOutScores.of_belonging(self.splits, scorers, self.section.scores)

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
            "outputs": [save_scorers(job.run, WHOLE, whole, parts.classes), save_value(job.run, COUNTS, counts)],
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
