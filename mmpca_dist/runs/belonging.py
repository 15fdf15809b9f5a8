"""The stage of a run that keeps what tells of new rows whether they belong to those that it was fitted to."""

from __future__ import annotations

import numpy as np

from mmpca_dist.belonging.held_out import FoldModels, Whole, complete, count_scores, scorers_of
from mmpca_dist.belonging.limits import notes_on
from mmpca_dist.evaluation.reductions import Reduction, Reductions, moments_by, tell_reduced
from mmpca_dist.evaluation.training import held_rows, merged_moments, own_passes, read_all
from mmpca_dist.jobs import records
from mmpca_dist.jobs.finished_runs import load_model, solved_methods
from mmpca_dist.jobs.job import Job
from mmpca_dist.jobs.stored_belonging import save_belonging
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.runs.evaluation_scores import evaluation_request, in_folds
from mmpca_dist.statistics.working_statistics import Statistics


def keep_belonging(job: Job, statistics: Statistics) -> records.BelongingRecord:
    """Score all rows by models of the other folds, and keep the counts of these scores with each model."""
    section = job.config.belonging
    assert section is not None  # noqa: S101  (the stage is there for it alone)
    folds = in_folds(job)
    splits, rows = folds.splits, folds.rows(records.BELONGING)
    request = evaluation_request(folds, splits)
    labels = solved_methods(job.run, job.config.labels)
    sizes = {label: job.sizes(label)[-1] for label in job.config.labels}
    if request.in_memory:
        batch = read_all(job.dataset, splits, Tasks(scheduler=rows.scheduler))
        rows, splits = held_rows(batch, job.census), splits.known(batch)
    training = merged_moments if request.merged else own_passes
    scorers = scorers_of(rows, splits, request, training, sizes, section.shrinkage)
    counts = count_scores(rows, splits, scorers, section.scores)
    (scorer,) = complete(rows, Whole.of(splits), [_whole(job, statistics, labels)], section.shrinkage)
    limits = {label: {name: one.limit(section.alpha) for name, one in own.items()} for label, own in counts.items()}
    notes = notes_on(counts)
    for note in notes:
        job.callback.on_note(note)
    return {"limits": limits, "notes": notes, "outputs": save_belonging(job.run, scorer, counts, splits.classes)}


def _whole(job: Job, statistics: Statistics, labels: list[str]) -> FoldModels:
    """Return the models of a run as what was fitted to all rows."""
    models = [load_model(job.run.uri, label) for label in labels]
    exact = tell_reduced(statistics, job.config.class_weight is not None)
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
