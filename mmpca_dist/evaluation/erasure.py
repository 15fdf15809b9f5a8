"""How right a linear probe is on erased rows that neither the probe nor the eraser has seen."""

from __future__ import annotations

import functools
import operator
from dataclasses import replace

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

Probes = list[tuple[LinearRule, LinearRule]]
"""Of each part that is held out, linear discriminants before and after erasing, as rules of rows."""


def probes_of(folds: SplitMoments, eraser: ConceptEraser) -> Probes:
    """Fit erasers to one half of the other parts, and probes to the other half, from moments alone.

    On rows of the eraser any probe would say the largest class. Moments of erased rows follow from those of rows.
    """
    probes, count, precision = Probes(), len(folds.parts), eraser.precision
    for part in folds.splits.held_out:
        halves = np.array_split((part + np.arange(1, count)) % count, 2)
        seen, probed = (functools.reduce(ClassMoments.merge, [folds.parts[i] for i in half]) for half in halves)
        matrix, mean, _ = clone(eraser).fit_moments(seen).whole_map()
        probed = probed.summed()
        before = linear_discriminant(ReducedMoments.of_columns(probed, precision=precision))
        after = linear_discriminant(ReducedMoments.of(probed, matrix, mean, precision=precision))
        offset = after.intercept - after.coef @ after.centre
        probes.append((before, replace(after, centre=mean, coef=after.coef @ matrix.T, intercept=offset)))
    return probes


def shares_right(rows: Rows, splits: Splits, probes: Probes) -> dict[str, float]:
    """Return which share of the rows probes name rightly ``before`` and ``after`` erasing, from a pass over them.

    The ``largest`` class is that of the rows in the other parts.
    """
    task, total = functools.partial(_right, splits=splits, probes=probes), float(splits.totals[0].sum())
    before, after = (rows.pass_over(task, operator.add, "probe") / total).tolist()
    return {"before": before, "after": after, "largest": 1 - sum(map(splits.baseline_errors, splits.held_out)) / total}


def _right(dataset: Dataset, span: Span, *, splits: Splits, probes: Probes) -> NDArray[np.float64]:
    right = np.zeros(2)
    for batch in read_batches(dataset, span, ("label", "weight"), sparse=dataset.sparse):
        (parts,), weights = splits.codes(batch), np.ones(len(batch)) if batch.weight is None else batch.weight
        for block in batch.blocks(BLOCK_ROWS):
            at = np.arange(block.start, block.stop) - batch.start
            for part, rules in zip(splits.held_out, probes, strict=True):
                if len(own := at[parts[at] == part]):
                    rows = block.X[own - at[0]]
                    right += [weights[own] @ (rule.predict(rows) == batch.label[own]) for rule in rules]
    return right
