"""The census: classes and their counts, from a pass over the labels."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.schedulers import OnRows
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.labels import notes_on_missing, refuse_made_up
from mmpca_dist.tables.spans import Span

log = logging.getLogger(__name__)


@storable
@dataclass(frozen=True)
class Census:
    """Sorted classes, shape (C,), how many rows each has, shape (C,), and which classes each reading unit holds."""

    classes: NDArray
    sizes: NDArray[np.int64]
    units: tuple[tuple[int, int, NDArray, NDArray], ...]
    """(first row, end row, classes, sizes) of every unit."""
    totals: NDArray[np.float64] | None = None
    """Sums of the weights of the rows of each class; None where every row counts once."""

    @property
    def n_rows(self) -> int:
        return int(self.sizes.sum())

    @property
    def counts(self) -> NDArray[np.float64]:
        """Sums of the weights of each class: numbers of rows, where these have no weights."""
        return self.sizes.astype(np.float64) if self.totals is None else self.totals

    def over(self, classes: NDArray) -> Census:
        """Return the same census over a larger set of sorted classes; the new ones have no rows."""
        at, sizes = np.searchsorted(classes, self.classes), np.zeros(len(classes), np.int64)
        sizes[at] = self.sizes
        totals = None if self.totals is None else np.zeros(len(classes))
        if totals is not None:
            totals[at] = self.counts
        return Census(classes, sizes, self.units, totals)


def _count_span(dataset: Dataset, span: Span, *, kind: str) -> Census:
    batch = dataset.batch(span.start, span.stop, X=False, roles=("label", "weight"))
    units = []
    for start, stop in span.units:
        classes, sizes = _unique(batch.label[start - span.start : stop - span.start])
        units.append((start, stop, classes, sizes))
    census = _union(units, kind)
    if batch.weight is None:
        return census
    totals = np.bincount(batch.codes(census.classes), batch.weight, len(census.classes))
    return replace(census, totals=totals.astype(np.float64))


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
    sizes = np.zeros(len(classes), np.int64)
    np.add.at(sizes, inverse, np.concatenate([unit[3] for unit in units]))
    return Census(classes, sizes, tuple(units))


def _merge(left: Census, right: Census, kind: str) -> Census:
    census = _union([*left.units, *right.units], kind)
    if left.totals is None or right.totals is None:
        return census
    return replace(census, totals=left.over(census.classes).counts + right.over(census.classes).counts)


def count_labels(dataset: Dataset, spans: list[Span], tasks: Tasks, kind: str = "classes") -> Census:
    """Count the rows of every class, or of every one of "groups". A single one is allowed."""
    task = OnRows(dataset, partial(_count_span, kind=kind), X=False)
    return tasks.run(task, spans, partial(_merge, kind=kind), "count")


def take_census(dataset: Dataset, spans: list[Span], tasks: Tasks) -> Census:
    """Count the rows of every class.

    Raises InputError for fewer than two classes, labels that cannot be classes, or missing label chunks whose fill
    value is not a class of other rows.
    """
    census = count_labels(dataset, spans, tasks)
    if len(census.classes) < 2 and not (dataset.targets or dataset.classless):
        weighted = "" if census.totals is None else " whose weight (sample_weight) is not zero"
        raise InputError(
            f"There is only 1 class in the labels of {dataset.uri}: all {census.n_rows} rows{weighted} have the label "
            f"{census.classes[0]!s}. There must be at least two, or none (dataset.label: none)."
        )
    check_missing_labels(dataset, census)
    warn_of_missing_labels(dataset)
    return census


def check_missing_labels(dataset: Dataset, census: Census, other_classes: NDArray | None = None) -> None:
    """Refuse missing label chunks, unless their fill value is a class of other rows, or among the ``other_classes``.

    Zarr may leave out chunks that hold only the fill value.
    """
    column = dataset.label_column
    if column is not None and column.missing is not None:
        filled = int(census.sizes[census.classes == column.missing.fill].sum())
        refuse_made_up(column, filled, other_classes)


def warn_of_missing_labels(dataset: Dataset) -> None:
    """Log the notes, for those who call estimators and functions."""
    for note in notes_on_missing(dataset.label_column):
        log.warning("%s", note)


def notes_on_labels(dataset: Dataset, of: str = "") -> list[str]:
    """Return notes on rows whose label chunks are not stored, and on rows left out, ``of`` one of several data sets."""
    left_out = dataset.stored.n_rows - dataset.n_rows
    why = "no label or weight zero" if dataset.columns_into("weight") else "no label"
    notes = notes_on_missing(dataset.label_column)
    return [*notes, f"Rows{of} left out, as they have {why}: {left_out:,}."] if left_out else notes
