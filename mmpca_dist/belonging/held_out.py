"""Scores of rows that were held out, by the models of the other folds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

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
from mmpca_dist.evaluation.training import Trained
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.units import BLOCK_ROWS, read_batches
from mmpca_dist.predictors.reduced_moments import ReducedMoments
from mmpca_dist.statistics.adjustment import Adjustment
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import Span

Counts = dict[str, dict[str, Any]]
"""Sums over held-out rows, such as `ScoreCounts`, by method and by the column of the score."""
Scorer = Callable[[Any], Mapping[str, Mapping[str, NDArray]]]
"""Returns scores of rows (n, d), dense or CSR, by method and column."""


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


def scorers_of(
    rows: Rows, splits: Splits, request: EvaluationRequest, training: Iterator[Trained], meter: Meter,
    sizes: Mapping[str, float], shrinkage: float,
) -> list[RowScorer]:  # fmt: skip
    """Return the scorer of what trains while each part of a split is held out.

    ``sizes`` has the number of components of each method. A pass over the rows follows those of ``training`` where
    statistics do not tell the moments of reduced rows. Raises InputError for rows that a method cannot use.
    """
    folds = []
    for index, (statistics, _) in enumerate(training):
        with naming(splits.first + index):
            fitted = fit_reductions(statistics, request, meter)
            items = [item for item in fitted.items if item.used and item.n_components == sizes[item.method]]
            moments = [item.moments and item.moments() for item in items]
        bare = replace(fitted.without_moments(), items=[replace(item, moments=None) for item in items])
        folds.append(FoldModels(bare, statistics.mean, moments))
    return complete(rows, splits, folds, shrinkage)


def complete(rows: Rows, splits: Splits, folds: Sequence[FoldModels], shrinkage: float) -> list[RowScorer]:
    """Return the scorers of folds, after a pass for the moments of reduced rows where some lack them."""
    lacking = [[i for i, own in enumerate(fold.moments) if own is None] for fold in folds]
    if any(lacking):
        found = reduced_moments(rows, splits, [fold.reductions for fold in folds], lacking)
        for fold, places, own in zip(folds, lacking, found, strict=True):
            for place, one in zip(places, own, strict=True):
                fold.moments[place] = one
    return [fold.scorer(shrinkage) for fold in folds]


@dataclass(frozen=True)
class HeldOutScores:
    """Counts the scores of rows, each by the scorer of the part that it is in."""

    splits: Splits
    scorers: Sequence[Scorer]
    count: Callable[[NDArray, Batch], Any]
    """Returns what is added up of the scores of a batch of rows."""
    adjustment: Adjustment | None = None
    """How widened rows come to the columns by the moments of all rows."""

    @classmethod
    def of_belonging(
        cls, splits: Splits, scorers: Sequence[RowScorer], names: Sequence[str], adjustment: Adjustment | None = None
    ) -> HeldOutScores:
        """Return what counts the scores of these names."""
        return cls(splits, [partial(_scores, each, names) for each in scorers], _counted, adjustment)

    def over(self, rows: Rows) -> Counts:
        """Return the counts of all rows, from a pass over them."""
        return rows.pass_over(self._of_span, add_counts, "score")

    def _of_span(self, dataset: Dataset, span: Span) -> Counts:
        batches = read_batches(dataset, span, ("label", "weight"), sparse=dataset.sparse)
        return reduce(add_counts, (self.of_batch(batch) for batch in batches))

    def of_batch(self, batch: Batch) -> Counts:
        """Return the counts of a batch."""
        counter = self.begin(batch)
        for block in batch.blocks(BLOCK_ROWS):
            counter.add(block)
        return counter.counts()

    def begin(self, batch: Batch) -> BatchScores:
        """Return what scores the blocks of a batch."""
        (parts,) = self.splits.codes(batch)
        return BatchScores(self, batch, parts, {})


@dataclass(frozen=True)
class BatchScores:
    """The scores of the rows of a batch, which come block by block."""

    held_out: HeldOutScores
    batch: Batch
    parts: NDArray[np.int32]
    scores: dict[str, dict[str, NDArray[np.float64]]]

    def add(self, block: Batch) -> None:
        """Score the rows of a block."""
        begin = block.start - self.batch.start
        parts = self.parts[begin : begin + len(block)]
        for part, scorer in zip(self.held_out.splits.held_out, self.held_out.scorers, strict=True):
            held = np.flatnonzero(parts == part)
            for method, own in scorer(block.X[held]).items() if len(held) else ():
                columns = self.scores.setdefault(method, {})
                for column, scores in own.items():
                    columns.setdefault(column, np.zeros(len(self.batch)))[begin + held] = scores

    def counts(self) -> Counts:
        """Return the counts of all scores."""
        count, batch = self.held_out.count, self.batch
        return {m: {name: count(own, batch) for name, own in each.items()} for m, each in self.scores.items()}


def _scores(scorer: RowScorer, names: Sequence[str], X: Any) -> dict[str, dict[str, NDArray]]:
    columns = [SCORES[name].column for name in names]
    return {m: {column: own[column] for column in columns} for m, own in scorer.scores(X, names).items()}


def _counted(scores: NDArray[np.float64], batch: Batch) -> ScoreCounts:
    return ScoreCounts.of(scores, batch.weight)


def add_counts(left: Counts, right: Counts) -> Counts:
    """Return the sums of counts by method and score."""
    sums = Counts()
    for method in {**left, **right}:
        both = [each[method] for each in (left, right) if method in each]
        sums[method] = {name: reduce(operator.add, (each[name] for each in both)) for name in both[0]}
    return sums
