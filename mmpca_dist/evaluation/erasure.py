"""How right a linear probe is on erased rows that neither the probe nor the eraser has seen.

Eraser, probe and test take three different parts of the rows: on rows of the eraser any probe says the largest class.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from mmpca_dist.evaluation.splits import Splits
from mmpca_dist.evaluation.training import SplitMoments
from mmpca_dist.methods.concept_eraser import ConceptEraser
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.units import BLOCK_ROWS, read_batches
from mmpca_dist.predictors.linear import LinearRule, linear_discriminant
from mmpca_dist.predictors.reduced_moments import ReducedMoments
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import Span

LEAST_PARTS = 3
"""For an eraser, a probe and a test."""


def probes_of(seen: ClassMoments, probed: ClassMoments, eraser: ConceptEraser) -> tuple[LinearRule, LinearRule]:
    """Return linear discriminants of probed rows before and after erasing by an eraser of seen rows, as rules of rows.

    Erasing is a linear map, so that moments of erased rows follow from those of the rows.
    """
    probed, precision = probed.summed(), eraser.precision
    before = linear_discriminant(ReducedMoments.of_columns(probed, precision=precision))
    matrix, mean, _ = clone(eraser).fit_moments(seen).projection()
    after = linear_discriminant(ReducedMoments.of(probed, matrix, mean, precision=precision))
    offset = after.intercept - after.coef @ after.centre
    return before, replace(before, centre=np.asarray(mean), coef=after.coef @ matrix.T, intercept=offset)


@dataclass(frozen=True)
class Probes:
    """For each part of a split that is held out in turn, the rules of `probes_of` the other parts."""

    splits: Splits
    rules: Sequence[tuple[LinearRule, LinearRule]]

    @classmethod
    def of(cls, folds: SplitMoments, eraser: ConceptEraser) -> Probes:
        """Make them of erasers of one half of the other parts, and of probes of the other half."""
        rules, count = [], len(folds.parts)
        for part in folds.splits.held_out:
            halves = np.array_split((part + np.arange(1, count)) % count, 2)
            seen, probed = (functools.reduce(ClassMoments.merge, [folds.parts[i] for i in half]) for half in halves)
            rules.append(probes_of(seen, probed, eraser))
        return cls(folds.splits, rules)

    def right(self, rows: Rows) -> NDArray[np.float64]:
        """Return the shares of rows for which probes are right before and after erasing, from a pass over the rows."""
        return rows.pass_over(self._of_span, operator.add, "probe") / self.splits.totals[0].sum()

    def _of_span(self, dataset: Dataset, span: Span) -> NDArray[np.float64]:
        right = np.zeros(2)
        for batch in read_batches(dataset, span, ("label", "weight"), sparse=dataset.sparse):
            (parts,) = self.splits.codes(batch)
            for block in batch.blocks(BLOCK_ROWS):
                at = slice(block.start - batch.start, block.stop - batch.start)
                for part, rules in zip(self.splits.held_out, self.rules, strict=True):
                    if len(own := np.flatnonzero(parts[at] == part)):
                        hits = [rule.predict(block.X[own]) == batch.label[at][own] for rule in rules]
                        right += np.sum(hits if batch.weight is None else hits * batch.weight[at][own], axis=1)
        return right
