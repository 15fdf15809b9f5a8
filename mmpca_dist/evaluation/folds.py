"""Moments of every part of a split from one pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.dataset import Dataset, Relabelled
from mmpca_dist.datasets.labels import encode
from mmpca_dist.evaluation.splits import Splits
from mmpca_dist.statistics.census import Census, count_labels
from mmpca_dist.statistics.fold_moments import moments_of_parts
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.rows import Rows
from mmpca_dist.statistics.summary import take_moments


class CellLabels(Relabelled):
    """The rows of a data set under the labels class P + part: one for every class and part of a split.

    Classes are numbered in the order of ``splits.classes``.
    """

    def __init__(self, rows: Dataset, splits: Splits) -> None:
        super().__init__(rows)
        self._splits = splits

    def read_labels(self, start: int, stop: int) -> NDArray[np.int64]:
        labels = self._rows.read_labels(start, stop)
        parts = self._splits.codes(start, stop, labels)[0]
        classes = encode(labels, self._splits.classes, self.uri)
        return classes.astype(np.int64) * self._splits.n_parts + parts


def moments_by_fold(
    rows: Rows, splits: Splits, *, precision: str, medians_of: NDArray[np.bool_] | None = None
) -> tuple[list[ClassMoments], NDArray[np.float64] | None]:
    """Return the class moments of each part of a split, from one pass over the rows, and medians of what trains.

    ``splits`` is one split of P parts. The P moments, for `training_moments`, are C P d^2 doubles, and so is what a
    task leaves: of fewer rows than columns, take `wide_statistics` of the rows that train. ``medians_of``, bool of
    shape (T, C), are sets of classes whose coordinate-wise medians to compute; these have shape (H, T, d), of the rows
    that train while each of the H parts in ``splits.held_out`` is held out. Raises InputError for rows that are not
    finite.
    """
    view = CellLabels(rows.dataset, splits)
    counts = splits.counts[0]
    n_classes, n_parts = counts.shape
    units: tuple[Any, ...] = ()
    sets = None
    if medians_of is not None:
        # Brackets are of rows from a few units.
        units = count_labels(view, rows.spans, replace(rows, progress=None)).units
        trained = [splits.trains(part)[None] for part in splits.held_out]
        sets = np.concatenate([np.kron(medians_of, train) for train in trained]).astype(bool)
    cells = Census(np.arange(n_classes * n_parts), counts.ravel(), units)
    merged, medians = take_moments(replace(rows, dataset=view, census=cells), precision=precision, medians_of=sets)
    parts = moments_of_parts(merged, splits.classes, n_parts)
    return parts, None if medians is None else medians.reshape(len(splits.held_out), -1, rows.dataset.n_features)
