"""Scores of rows that were held out, by the models of the other folds."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.belonging.limits import ScoreCounts
from mmpca_dist.belonging.reference import RowScorer, reference_of
from mmpca_dist.belonging.score import SCORES
from mmpca_dist.evaluation.cost_meter import Meter
from mmpca_dist.evaluation.reduced_rows import reduced_moments
from mmpca_dist.evaluation.reductions import Reductions, fit_reductions
from mmpca_dist.evaluation.request import EvaluationRequest
from mmpca_dist.evaluation.scores import naming
from mmpca_dist.evaluation.splits import Splits
from mmpca_dist.evaluation.training import Training
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.units import read_batches
from mmpca_dist.predictors.reduced_moments import ReducedMoments
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import Span

Counts = dict[str, dict[str, ScoreCounts]]
"""Of the scores of held-out rows, by method and by the column of the score."""


@dataclass(frozen=True)
class Whole(Splits):
    """A split that holds nothing out."""

    @classmethod
    def of(cls, splits: Splits) -> Whole:
        """Return it for the rows of other splits."""
        counts = splits.counts[:1].sum(axis=2, keepdims=True)
        return cls(counts=np.concatenate([counts, 0 * counts], axis=2), held_out=(1,), classes=splits.classes)

    def values(self, start: int, stop: int) -> NDArray:
        return np.zeros(stop - start, np.int32)

    def parts_of(self, values: NDArray, labels: NDArray) -> NDArray[np.int32]:
        return np.zeros((1, len(labels)), np.int32)


def scorers_of(
    rows: Rows, splits: Splits, request: EvaluationRequest, training: Training, sizes: Mapping[str, int],
    shrinkage: float,
) -> list[RowScorer]:  # fmt: skip
    """Return the scorer of what trains while each part of a split is held out.

    ``sizes`` has the number of components of each method. A pass over the rows follows those of ``training`` where
    statistics do not tell the moments of reduced rows. Raises InputError for rows that a method cannot use.
    """
    meter, folds = Meter(rows.on_pass), []
    for index, (statistics, _) in enumerate(training(rows, splits, request, meter)):
        with naming(splits.first + index):
            fitted = fit_reductions(statistics, request, meter)
            items = [item for item in fitted.items if item.used and item.n_components == sizes[item.method]]
            moments = [item.moments and item.moments() for item in items]
        bare = replace(fitted.without_moments(), items=[replace(item, moments=None) for item in items])
        folds.append(FoldModels(bare, statistics.mean, moments))
    return complete(rows, splits, folds, shrinkage)


@dataclass
class FoldModels:
    """Reductions of one number of components each, the mean of the rows that they were fitted to, and their moments."""

    reductions: Reductions
    mean: NDArray[np.float64]
    moments: list[ReducedMoments | None]
    """Of reduced rows, by item; None where only the rows tell them."""

    def scorer(self, shrinkage: float) -> RowScorer:
        scale, items = self.reductions.scale, self.reductions.items
        directions = [self.reductions.directions(item) for item in items]
        ends = np.cumsum([own.shape[1] for own in directions])
        units = 1 if scale is None else scale[:, None]
        references = {
            item.method: (np.arange(end - own.shape[1], end), reference_of(one, own * units, shrinkage))
            for item, own, end, one in zip(items, directions, ends.tolist(), self.moments, strict=True)
            if one is not None
        }
        return RowScorer(np.concatenate(directions, axis=1), self.mean, scale, references, self.reductions.adjustment)


def complete(rows: Rows, splits: Splits, folds: Sequence[FoldModels], shrinkage: float) -> list[RowScorer]:
    """Return the scorers of folds, after a pass for the moments of reduced rows where some lack them."""
    lacking = [[i for i, own in enumerate(fold.moments) if own is None] for fold in folds]
    if any(lacking):
        found = reduced_moments(rows, splits, [fold.reductions for fold in folds], lacking)
        for fold, places, own in zip(folds, lacking, found, strict=True):
            for place, one in zip(places, own, strict=True):
                fold.moments[place] = one
    return [fold.scorer(shrinkage) for fold in folds]


def count_scores(rows: Rows, splits: Splits, scorers: Sequence[RowScorer], names: Sequence[str]) -> Counts:
    """Return the counts of scores of all rows, each by the scorer of its part, from a pass over them."""
    task = partial(_count_span, splits=splits, scorers=scorers, names=names)
    return rows.pass_over(task, add_counts, "score")


def _count_span(
    dataset: Dataset, span: Span, *, splits: Splits, scorers: Sequence[RowScorer], names: Sequence[str]
) -> Counts:
    batches = read_batches(dataset, span, ("label", "weight"), sparse=dataset.sparse)
    return reduce(add_counts, (count_batch(batch, splits, scorers, names) for batch in batches))


def count_batch(batch: Batch, splits: Splits, scorers: Sequence[RowScorer], names: Sequence[str]) -> Counts:
    """Count the scores of a batch."""
    (parts,), columns = splits.codes(batch), [SCORES[name].column for name in names]
    scores: dict[str, dict[str, NDArray]] = {}
    for part, scorer in zip(splits.held_out, scorers, strict=True):
        held = np.flatnonzero(parts == part)
        for method, own in scorer.scores(batch.X[held], names).items() if len(held) else ():
            own_scores = scores.setdefault(method, {name: np.zeros(len(batch)) for name in columns})
            for name, values in own_scores.items():
                values[held] = own[name]
    return {m: {name: ScoreCounts.of(own, batch.weight) for name, own in each.items()} for m, each in scores.items()}


def add_counts(left: Counts, right: Counts) -> Counts:
    """Return the sums of counts by method and score."""
    sums = Counts()
    for method in {**left, **right}:
        both = [each[method] for each in (left, right) if method in each]
        sums[method] = {name: reduce(operator.add, (each[name] for each in both)) for name in both[0]}
    return sums
