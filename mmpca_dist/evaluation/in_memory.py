"""Evaluate splits of rows in memory: any method, classifier and shape."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from mmpca_dist.evaluation.cost_meter import ERRORS, MARGINS, Meter, owners_of
from mmpca_dist.evaluation.margins import margin_notes, margin_records
from mmpca_dist.evaluation.reductions import fit_reductions
from mmpca_dist.evaluation.request import EvaluationRequest
from mmpca_dist.evaluation.scores import Part, score, split_record
from mmpca_dist.evaluation.splits import Splits
from mmpca_dist.methods.base.statistics_for import statistics_for
from mmpca_dist.passes.rows import Rows, collect_rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.statistics.widened_rows import Widened
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.readers.memory import rows_in_memory, weighted
from mmpca_dist.tables.spans import make_spans


def some_rows(batch: Batch, chosen: NDArray[np.bool_]) -> Rows:
    """Return some rows of those in memory, after counting their labels."""
    table, some = batch.table, batch.take(chosen)
    rows = rows_in_memory(batch.X[chosen], some.label, table.uri)
    if table.widening is not None:
        rows = replace(rows, form=Widened(table.widening))
    if some.weight is not None:
        rows = weighted(rows, some.weight)
    return Rows.of(rows, Threads(1), groups=some.roles.get("group"))


def read_all(dataset: Dataset, splits: Splits, tasks: Tasks) -> Batch:
    """Read all rows into memory, with their values and groups. Raises InputError for rows that are not finite."""
    return splits.valued(collect_rows(dataset, make_spans(dataset), tasks))


def evaluate_split(rows: Batch, splits: Splits, number: int, request: EvaluationRequest) -> dict[str, Any]:
    """Return the record of a split: errors of every method, size and classifier on the rows held out, and margins.

    ``number`` counts the parts held out of all splits, as `Splits.first`. Raises InputError for rows that a method or a
    classifier cannot use.
    """
    meter, classifiers = Meter(owners=owners_of(request.methods)), request.classifiers
    split, index = divmod(number, len(splits.held_out))
    held_out = splits.held_out[index]
    splits = splits.only(split)
    (parts,) = splits.codes(rows)
    train, test = splits.trains(held_out)[parts], parts == held_out
    statistics = statistics_for(
        some_rows(rows, train), request.needs, request.solver, precision=request.precision,
        standardize=request.standardize, class_weight=request.class_weight, sizes=request.sizes,
        charging=meter.charging_owner,
    )  # fmt: skip
    reductions = fit_reductions(statistics, request, meter)
    # In few columns the scatter of each class may fit, and classifiers weigh classes by their rows.
    if statistics.moments.pooled or request.class_weight is not None:
        reductions = reductions.without_moments()
    meter.turn(ERRORS)
    part = Part(replace(rows, X=reductions.reduced(rows.X)), train, test)
    scores = score(reductions.items, classifiers, classifiers.specs, part, meter)
    margins, notes = [], classifiers.notes + scores.notes
    with meter.charging(MARGINS):
        if request.margins:
            own = statistics if request.class_weight is None else None
            margins = margin_records(rows.X, part, reductions, classifiers, scores.fitted, own)
            notes = notes + margin_notes(margins, classifiers, issparse(rows.X) and reductions.scale is not None)
    return split_record(splits, index, scores.lines, reductions, margins=margins, seconds=meter.seconds, notes=notes)
