"""Moments of every part of a split from one pass."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.evaluation.splits import PartSizes, Splits
from mmpca_dist.passes.census import Census, count_labels
from mmpca_dist.passes.rows import Rows
from mmpca_dist.predictors.classifiers import ClassifierSection
from mmpca_dist.statistics.fold_moments import (
    earlier_moments,
    moments_of_parts,
    training_moments,
    weights_of_parts,
    with_counted_scatter,
)
from mmpca_dist.statistics.moments import ClassMoments, use_pooled
from mmpca_dist.statistics.scatters import ClassWeighting
from mmpca_dist.statistics.summary import take_moments
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.labels import encode
from mmpca_dist.tables.proxies import Relabelled


class CellLabels(Relabelled):
    """The rows of a data set under the labels part C + class: one for every part of a split and each of C classes.

    Classes are numbered in the order of ``splits.classes``.
    """

    def __init__(self, rows: Dataset, splits: Splits) -> None:
        super().__init__(rows)
        self._splits = splits

    def read_labels(self, start: int, stop: int) -> NDArray[np.int64]:
        labels = self._rows.read_labels(start, stop)
        parts = self._splits.codes(start, stop, labels)[0]
        classes = encode(labels, self._splits.classes, self.uri)
        return parts.astype(np.int64) * len(self._splits.classes) + classes


def scatters_of_parts(
    sizes: PartSizes, n_features: int, weightings: Collection[ClassWeighting], specs: Iterable[ClassifierSection]
) -> int:
    """Return how many scatters the moments of the parts of a split keep: one of every class and part, or sums.

    Sums are kept where scatters of all classes are too large, and no classifier needs those of each class. For m-pca0 a
    row is then in products of several sums: that must save twice as much memory as it adds products.
    """
    cells, n_parts = sizes.counts[0].size, sizes.n_parts
    counted = len(sizes.held_out) if ClassWeighting.OTHERS in weightings else 0
    sums = n_parts + counted
    if any(spec.classifier.each_scatter for spec in specs) or cells <= 2 * sums * (1 + counted):
        return cells
    return sums if use_pooled(cells, n_features) else cells


@dataclass(frozen=True)
class SplitMoments:
    """What one pass over the rows leaves of a split."""

    splits: Splits  # one, of P parts, H of which are held out in turn
    parts: list[ClassMoments]
    counted: NDArray[np.float64] | None
    """Shape (H, d, d): with pooled moments, for m-pca0, sums of class scatters as of `weights_of_parts`."""
    medians: NDArray[np.float64] | None
    """Shape (H, T, d): of T sets of classes, of the rows that train while each of the H parts is held out."""

    def training(self) -> Iterator[tuple[ClassMoments, NDArray[np.float64] | None]]:
        """Yield the moments and medians of what trains while each of the H parts is held out."""
        merged = (
            enumerate(earlier_moments(self.parts), 1)
            if self.splits.forward
            else enumerate(training_moments(self.parts))
        )
        for part, moments in merged:
            if part not in self.splits.held_out:
                continue
            index = self.splits.held_out.index(part)
            if self.counted is not None:
                trained = [self.parts[p] for p in np.flatnonzero(self.splits.trains(part))]
                moments = with_counted_scatter(moments, trained, self.counted[index])
            yield moments, None if self.medians is None else self.medians[index]


def moments_by_fold(
    rows: Rows,
    splits: Splits,
    *,
    precision: str,
    medians_of: NDArray[np.bool_] | None = None,
    pooled: bool = False,
    weightings: Collection[ClassWeighting] = (),
) -> SplitMoments:
    """Return the class moments of each part of a split, from one pass over the rows, and medians of what trains.

    The moments of the P parts of ``splits``, which is one split, are C P d^2 doubles, and so is what a task leaves; or
    fewer, where scatters are ``pooled`` over the classes into what these ``weightings`` need (`scatters_of_parts`). For
    fewer rows than columns, take `wide_statistics` of the rows that train. ``medians_of``, bool of shape (T, C), are
    sets of classes whose coordinate-wise medians to compute. Raises InputError for rows that are not finite.
    """
    view = CellLabels(rows.dataset, splits)
    counts = splits.counts[0]
    n_classes, n_parts = counts.shape
    units: tuple[Any, ...] = ()
    sets = weights = None
    trains = np.stack([splits.trains(part) for part in splits.held_out])
    if medians_of is not None:
        # Brackets are of rows from a few units.
        units = count_labels(view, rows.spans, replace(rows, progress=None)).units
        sets = np.concatenate([np.kron(train[None], medians_of) for train in trains]).astype(bool)
    if pooled:
        weights = weights_of_parts(trains, splits.totals[0], by_counts=ClassWeighting.OTHERS in weightings)
    cells = Census(np.arange(n_classes * n_parts), counts.T.ravel(), units)
    merged, medians = take_moments(
        replace(rows, dataset=view, census=cells), precision=precision, weights=weights, medians_of=sets
    )
    if medians is not None:
        medians = medians.reshape(len(trains), -1, rows.dataset.n_features)
    counted = merged.scatters[n_parts:] if pooled and len(merged.scatters) > n_parts else None
    return SplitMoments(splits, moments_of_parts(merged, splits.classes, n_parts), counted, medians)
