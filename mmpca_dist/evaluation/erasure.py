"""How right a linear probe is on erased rows that neither the probe nor the eraser has seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from mmpca_dist.evaluation.splits import Splits
from mmpca_dist.evaluation.training import SplitMoments
from mmpca_dist.methods.concept_eraser import ConceptEraser
from mmpca_dist.predictors.linear import LinearRule, linear_discriminant
from mmpca_dist.predictors.reduced_moments import ReducedMoments
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.tables.batch import Batch

Probes = dict[str, dict[str, LinearRule]]
"""Linear discriminants ``before`` and ``after`` erasing, by eraser, as rules of rows; classes are their positions."""


def probes_of(folds: SplitMoments, erasers: Mapping[str, ConceptEraser]) -> list[Probes]:
    """Return probes for each part that is held out, of one half of the other parts, with erasers of the other half.

    Moments of erased rows follow from those of rows. On rows of the eraser any probe would say the largest class.
    """
    probes, count = list[Probes](), len(folds.parts)
    for part in folds.splits.held_out:
        halves = np.array_split((part + np.arange(1, count)) % count, 2)
        seen, probed = ([folds.parts[i] for i in half] for half in halves)
        moments = reduce(ClassMoments.merge, probed).summed()
        named = replace(moments, classes=np.arange(len(moments.classes)))
        probes.append({label: _probed(clone(eraser).fit_moments(seen), named) for label, eraser in erasers.items()})
    return probes


def _probed(eraser: ConceptEraser, moments: ClassMoments) -> dict[str, LinearRule]:
    matrix, mean, _ = eraser.whole_map()
    before = linear_discriminant(ReducedMoments.of_columns(moments, precision=eraser.precision))
    after = linear_discriminant(ReducedMoments.of(moments, matrix, mean, precision=eraser.precision))
    offset = after.intercept - after.coef @ after.centre
    return {"before": before, "after": replace(after, centre=mean, coef=after.coef @ matrix.T, intercept=offset)}


def named(X: Any, *, probes: Probes) -> dict[str, dict[str, NDArray]]:
    """Return the positions of the classes that probes name rows (n, d), dense or CSR, by eraser."""
    return {label: {name: rule.predict(X) for name, rule in rules.items()} for label, rules in probes.items()}


def count_right(codes: NDArray, batch: Batch, *, classes: NDArray) -> float:
    """Return the weight of the rows of a batch that are named rightly, by positions of classes."""
    right = codes == batch.codes(classes)
    return float(right.sum() if batch.weight is None else batch.weight @ right)


def shares_right(right: Mapping[str, float], splits: Splits) -> dict[str, float]:
    """Return shares of the rows for weights of those named rightly, beside that of the largest class.

    The ``largest`` class is that of the rows in the other parts.
    """
    total, wrong = float(splits.totals[0].sum()), sum(map(splits.baseline_errors, splits.held_out))
    return {**{name: weight / total for name, weight in right.items()}, "largest": 1 - wrong / total}
