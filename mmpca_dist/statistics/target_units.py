"""Means and standard deviations of numbers to predict, some of which may not be known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.statistics.column_units import standard_deviations
from mmpca_dist.tables.dataset import Dataset, Span


def target_units(dataset: Dataset, spans: Sequence[Span], tasks: Tasks) -> tuple[tuple[float, float], ...]:
    """Return the mean and the standard deviation, 1 where it is 0, of each target of a data set.

    Targets that are NaN are left out. Raises InputError for targets that are infinite, and where none is known.
    """
    counts, means, squares = tasks.run(_MeasureTargets(dataset), spans, _merged, "targets")
    if not counts.all():
        raise InputError("All values of a target are NaN, so that none is known: there is nothing to learn.")
    deviations = standard_deviations(squares / counts, means)
    return tuple(zip(means.tolist(), deviations.tolist(), strict=True))


@dataclass(frozen=True)
class _MeasureTargets:
    dataset: Dataset
    labels_only = True

    def __call__(self, span: Span) -> tuple[NDArray, NDArray, NDArray]:
        targets = self.dataset.read_targets(span.start, span.stop)
        if np.isinf(targets).any():
            row = int(np.argwhere(np.isinf(targets))[0, 0])
            raise InputError(f"The target of row {span.start + row} is infinite; targets must be finite, or NaN.")
        is_known = ~np.isnan(targets)
        counts = is_known.sum(axis=0)
        means = np.where(is_known, targets, 0.0).sum(axis=0) / np.maximum(counts, 1)
        return counts, means, np.where(is_known, (targets - means) ** 2, 0.0).sum(axis=0)


def _merged(left: tuple[NDArray, ...], right: tuple[NDArray, ...]) -> tuple[NDArray, NDArray, NDArray]:
    total = left[0] + right[0]
    share, apart = right[0] / np.maximum(total, 1), right[1] - left[1]
    return total, left[1] + share * apart, left[2] + right[2] + left[0] * share * apart**2
