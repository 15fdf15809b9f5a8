"""Searches that hold out one part of the rows at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.dataset import Dataset, Span
from mmpca_dist.errors import InputError
from mmpca_dist.statistics.rows import Rows

Kept = slice | NDArray[np.intp]


class Parts(Protocol):
    """The part of every row, such as one split of `mmpca_dist.evaluation.splits.Splits`.

    Attributes
    ----------
    classes : array of shape (C,)
        Sorted labels.
    counts : int array of shape (C, P)
        Rows of every class in every part.
    held_out : sequence of int
        The parts that are held out in turn, while all others train.
    """

    @property
    def classes(self) -> NDArray:
        """Labels."""

    @property
    def counts(self) -> NDArray[np.int64]:
        """Rows."""

    @property
    def held_out(self) -> Sequence[int]:
        """Numbers of parts."""

    def codes(self, start: int, stop: int, labels: NDArray) -> NDArray[np.int32]:
        """Return the parts of rows ``start`` to ``stop``, which have these labels, shape (1, stop - start)."""


def check_parts(parts: Parts) -> None:
    """Refuse parts that leave a class without a row to train on while one of them is held out."""
    for part in parts.held_out:
        lost = np.flatnonzero(parts.counts.sum(axis=1) == parts.counts[:, part])
        if len(lost):
            raise InputError(
                f"All {parts.counts[lost[0], part]} rows of class {parts.classes[lost[0]]!s} are in one part: while it "
                "is held out, none is left to be a neighbour. Deal them out to several parts."
            )


def training_counts(parts: Parts) -> NDArray[np.int64]:
    """Return how many rows train while each part is held out, shape (P,)."""
    sizes = parts.counts.sum(axis=0)
    return np.asarray(sizes.sum() - sizes)


class Members(Protocol):
    """The rows of a data set that are laid out, and the columns that go with them."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of them."""

    def of(self, start: int, labels: NDArray) -> tuple[Kept, NDArray[np.int64], dict[str, NDArray]]:
        """Return places and numbers of the members among the rows from ``start`` on, and their columns."""


@dataclass(frozen=True)
class AllRows:
    """Every row under its own number."""

    columns = ()
    row_bytes = 0

    def of(self, start: int, labels: NDArray) -> tuple[Kept, NDArray[np.int64], dict[str, NDArray]]:
        return slice(None), np.arange(start, start + len(labels)), {}


@dataclass(frozen=True)
class RowsInParts:
    """Every row under its own number, with its part."""

    parts: Any
    columns = ("parts",)
    row_bytes = np.dtype(np.int32).itemsize

    def of(self, start: int, labels: NDArray) -> tuple[Kept, NDArray[np.int64], dict[str, NDArray]]:
        stop = start + len(labels)
        (parts,) = self.parts.codes(start, stop, labels)
        return slice(None), np.arange(start, stop), {"parts": parts}


@dataclass(frozen=True)
class TrainingRows:
    """The rows that are not in a part, numbered among themselves.

    Attributes
    ----------
    before : dict of int
        By the first row of each reading unit, how many of the rows before it train.
    """

    parts: Any
    part: int
    before: dict[int, int]
    columns = ()
    row_bytes = 0

    @classmethod
    def among(cls, rows: Rows, parts: Parts, part: int) -> TrainingRows:
        """Number the rows, in a pass over the labels alone."""
        units = rows.reduce(_CountTraining(rows.dataset, parts, part), np.append, "training")
        starts = [start for span in rows.spans for start, _ in span.units]
        return cls(parts, part, dict(zip(starts, (np.cumsum(units) - units).tolist(), strict=True)))

    def of(self, start: int, labels: NDArray) -> tuple[Kept, NDArray[np.int64], dict[str, NDArray]]:
        (parts,) = self.parts.codes(start, start + len(labels), labels)
        kept = np.flatnonzero(parts != self.part)
        return kept, self.before[start] + np.arange(len(kept)), {}


@dataclass(frozen=True)
class _CountTraining:
    """Counts the rows of every reading unit that are not in a part."""

    dataset: Dataset
    parts: Any
    part: int
    labels_only = True

    def __call__(self, span: Span) -> NDArray[np.int64]:
        labels = self.dataset.read_labels(span.start, span.stop)
        (parts,) = self.parts.codes(span.start, span.stop, labels)
        trains = parts != self.part
        return np.asarray([np.count_nonzero(trains[a - span.start : b - span.start]) for a, b in span.units])
