"""The census: classes and their counts, from a pass over the labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.tables.dataset import Dataset, Span
from mmpca_dist.tables.labels import refuse_made_up, warn_of_missing_labels


@storable
@dataclass(frozen=True)
class Census:
    """Sorted classes, shape (C,), their counts, shape (C,), and which classes each reading unit holds."""

    classes: NDArray
    counts: NDArray[np.int64]
    units: tuple[tuple[int, int, NDArray, NDArray], ...]
    """(first row, end row, classes, counts) of every unit."""

    @property
    def n_rows(self) -> int:
        return int(self.counts.sum())


@dataclass(frozen=True)
class _CountLabels:
    dataset: Dataset
    kind: str
    labels_only = True

    def __call__(self, span: Span) -> Census:
        y = self.dataset.read_labels(span.start, span.stop)
        units = []
        for start, stop in span.units:
            classes, counts = _unique(y[start - span.start : stop - span.start])
            units.append((start, stop, classes, counts))
        return _union(units, self.kind)


def _unique(y: NDArray) -> tuple[NDArray, NDArray[np.int64]]:
    """Return sorted labels and their counts; integers close together need no sorting."""
    if y.dtype.kind in "iu" and len(y):
        low, high = int(y.min()), int(y.max())
        if low >= 0 and high < len(y):
            counts = np.bincount(y.astype(np.intp, copy=False))
            classes = np.flatnonzero(counts)
            return classes.astype(y.dtype), counts[classes]
    return np.unique(y, return_counts=True)


def _union(units: list[tuple[int, int, NDArray, NDArray]], kind: str = "classes") -> Census:
    all_classes = np.concatenate([unit[2] for unit in units])
    classes, inverse = np.unique(all_classes, return_inverse=True)
    most = LIMITS.max_groups if kind == "groups" else LIMITS.max_classes
    if len(classes) > most:
        what = "The column of groups takes" if kind == "groups" else "The labels take"
        raise InputError(f"{what} more than {most} values: they look like measurements, not {kind}.")
    counts = np.zeros(len(classes), np.int64)
    np.add.at(counts, inverse, np.concatenate([unit[3] for unit in units]))
    return Census(classes, counts, tuple(units))


def _merge(left: Census, right: Census, kind: str) -> Census:
    return _union([*left.units, *right.units], kind)


def count_labels(dataset: Dataset, spans: list[Span], tasks: Tasks, kind: str = "classes") -> Census:
    """Count the rows of every class, or of every one of "groups". A single one is allowed."""
    return tasks.run(_CountLabels(dataset, kind), spans, partial(_merge, kind=kind), "count")


def take_census(dataset: Dataset, spans: list[Span], tasks: Tasks) -> Census:
    """Count the rows of every class.

    Raises
    ------
    InputError
        For fewer than two classes, labels that cannot be classes, or missing label chunks whose fill value is
        not a class of other rows.
    """
    census = count_labels(dataset, spans, tasks)
    if len(census.classes) < 2:
        raise InputError(
            f"There is only 1 class in {dataset.uri}: all {census.n_rows} rows have the label "
            f"{census.classes[0]!s}. There must be at least two."
        )
    check_missing_labels(dataset, census)
    warn_of_missing_labels(dataset)
    return census


def check_missing_labels(dataset: Dataset, census: Census, other_classes: NDArray | None = None) -> None:
    """Refuse missing label chunks, unless their fill value is a class of other rows, or among the ``other_classes``.

    Zarr may leave out chunks that hold only the fill value.
    """
    if dataset.missing_labels is not None:
        filled = int(census.counts[census.classes == dataset.missing_labels.fill].sum())
        refuse_made_up(dataset, filled, other_classes)
