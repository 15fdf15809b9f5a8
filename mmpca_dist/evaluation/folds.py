"""Moments of every fold from one pass; moments of training rows by merging."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.datasets.dataset import Dataset, Relabelled
from mmpca_dist.datasets.labels import encode
from mmpca_dist.evaluation.splits import Splits
from mmpca_dist.statistics.census import Census, count_labels
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

    ``splits`` is one split of P parts. The P moments, for `fold_moments`, are C P d^2 doubles, and so is what a task
    leaves: of fewer rows than columns, take `wide_statistics` of the rows that train. ``medians_of``, bool of shape (T,
    C), are sets of classes whose coordinate-wise medians to compute; these have shape (H, T, d), of the rows that train
    while each of the H parts in ``splits.held_out`` is held out. Raises InputError for rows that are not finite.
    """
    view = CellLabels(rows.dataset, splits)
    n_classes, n_parts = splits.counts.shape
    units: tuple[Any, ...] = ()
    sets = None
    if medians_of is not None:
        # Brackets are of rows from a few units.
        units = count_labels(view, rows.spans, replace(rows, progress=None)).units
        trains = ~np.eye(n_parts, dtype=bool)[list(splits.held_out)]
        sets = np.concatenate([np.kron(medians_of, train[None]) for train in trains]).astype(bool)
    cells = Census(np.arange(n_classes * n_parts), splits.counts.ravel(), units)
    merged, medians = take_moments(replace(rows, dataset=view, census=cells), precision=precision, medians_of=sets)
    parts = [
        ClassMoments(
            splits.classes, merged.counts[f::n_parts], merged.means[f::n_parts], merged.scatters[f::n_parts],
            np.eye(n_classes),
        )
        for f in range(n_parts)
    ]  # fmt: skip
    return parts, None if medians is None else medians.reshape(len(splits.held_out), -1, rows.dataset.n_features)


def fold_moments(parts: Sequence[ClassMoments]) -> Iterator[ClassMoments]:
    """Yield, for each part in turn, the moments of all other parts: what trains while it is held out.

    They are merges of those before it and of those after it, fewer than 3 P merges in all. Subtracting a part from the
    whole would lose everything where it holds nearly all of a class. Beside ``parts``, about as many moments are held
    at once.

    Source: Chan, Golub & LeVeque 1983, for the merge.
    """
    after = [parts[-1]]
    for part in reversed(parts[1:-1]):
        after.append(_merged(part, after[-1]))
    yield after.pop()
    before = parts[0]
    for part in parts[1:-1]:
        yield _merged(before, after.pop())
        before = _merged(before, part)
    yield before


def _merged(left: ClassMoments, right: ClassMoments) -> ClassMoments:
    with single_blas_thread():
        return left.merge(right)
