"""Weights of classes: factors on the weights of their rows, and what their scatters count in the sums that are kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError, did_you_mean, some_names
from mmpca_dist.passes.census import Census, take_census
from mmpca_dist.passes.dask_rows import BlockScheduler
from mmpca_dist.passes.rows import Rows
from mmpca_dist.statistics.costs import use_pooled
from mmpca_dist.statistics.scatters import ClassWeighting, pooled_weights
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.roles import FACTOR, Played
from mmpca_dist.tables.spans import make_spans

ClassWeight = Literal["balanced"] | Mapping[Any, float] | None
"""Classes count alike, or by label as given (others once); None: by their rows."""


def class_factors(class_weight: ClassWeight, classes: NDArray, counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factor of each class, shape (C,); balanced ones leave the sum of all weights as it is.

    Raises InputError for labels that are none of the classes, factors that are not numbers of at least 0, and fewer
    than two classes that count.
    """
    if class_weight is None:
        return np.ones(len(classes))
    if not isinstance(class_weight, Mapping):
        if class_weight != "balanced":
            raise InputError(f"class_weight={class_weight!r} must be 'balanced', or weights by label.")
        return counts.sum() / (np.count_nonzero(counts) * np.where(counts > 0, counts, np.inf))
    names, given = [str(label) for label in classes], {str(label): value for label, value in class_weight.items()}
    unknown = next((name for name in given if name not in names), None)
    if unknown is not None:
        raise InputError(
            f"class_weight names the class {unknown!r}; there are {some_names(names)}.{did_you_mean(unknown, names)}"
        )
    if not all(isinstance(value, Real) and np.isfinite(value) and value >= 0 for value in given.values()):
        raise InputError(f"class_weight is {dict(class_weight)}; its weights must be 0 or positive numbers.")
    factors = np.asarray([given.get(name, 1.0) for name in names], np.float64)
    if np.count_nonzero(factors * counts) < 2:
        raise InputError("class_weight leaves fewer than two classes that count.")
    return factors


def weights_of(
    census: Census,
    n_features: int,
    weightings: Collection[ClassWeighting] = (),
    class_weight: ClassWeight = None,
) -> NDArray[np.float64] | None:
    """Return the class weights of the sums that are kept, shape (k, C); None where every class keeps its scatter."""
    if not use_pooled(len(census.classes), n_features):
        return None
    factors = class_factors(class_weight, census.classes, census.counts)
    return factors * pooled_weights(census.counts * factors, by_counts=ClassWeighting.OTHERS in weightings)


def weighted_by_class(rows: Rows, class_weight: ClassWeight) -> Rows:
    """Return rows whose weights are multiplied by the factors of their classes; classes of weight 0 are left out."""
    if class_weight is None:
        return rows
    census = rows.census
    factors = class_factors(class_weight, census.classes, census.counts)
    if factors.all():
        dataset = replace(rows.dataset, played=(*rows.dataset.played, Played(FACTOR, None, (census.classes, factors))))
        return replace(rows, dataset=dataset, census=replace(census, totals=census.counts * factors))
    if isinstance(rows.scheduler, BlockScheduler):
        raise InputError("class_weight is 0 of some classes of a Dask array: leave the rows of these classes out.")
    selected = Dataset.of(rows.dataset).with_look(FACTOR, None, (census.classes, factors))
    spans = make_spans(selected)
    return replace(rows, dataset=selected, spans=spans, census=take_census(selected, spans, rows))
