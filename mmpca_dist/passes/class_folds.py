"""Folds of labelled rows: the rows of every class are dealt in turn, or groups of rows that belong together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mmpca_dist.passes.census import count_labels
from mmpca_dist.passes.group_folds import deal_groups, group_table, groups_of_classes
from mmpca_dist.passes.rows import Rows
from mmpca_dist.tables.dataset import spans_of
from mmpca_dist.tables.labels import encode


class Folds(Protocol):
    """Folds of labelled rows."""

    @property
    def n_folds(self) -> int: ...

    def of_rows(self, codes: NDArray[np.intp], start: int) -> NDArray[np.int64]:
        """Return the folds of rows from ``start``, where a chunk begins, given the positions of their classes."""


def folds_of(rows: Rows, n_folds: int) -> Folds:
    """Return the folds of rows, after a pass over their labels; those of one group are in the same fold."""
    if rows.groups is None:
        return ClassFolds.of(rows, n_folds)
    return GroupFolds(n_folds, deal_groups(table_of_groups(rows), n_folds)[rows.groups])


def most_folds(rows: Rows) -> NDArray[np.int64]:
    """Return of how many folds rows of each class can be in, shape (C,): its rows, or groups."""
    return rows.census.counts if rows.groups is None else groups_of_classes(table_of_groups(rows))


def table_of_groups(rows: Rows) -> csr_array:
    """Return the rows of each class in each group, as of `group_table`."""
    assert rows.groups is not None  # noqa: S101  (only then is it asked for)
    codes = encode(rows.dataset.read_labels(0, rows.dataset.n_rows), rows.census.classes, rows.dataset.uri)
    return group_table(rows.groups, codes, (int(rows.groups.max()) + 1, len(rows.census.classes)))


@dataclass(frozen=True)
class GroupFolds:
    """Folds of rows in memory, ``folds`` (n,), such that the rows of a group are in the same one."""

    n_folds: int
    folds: NDArray[np.intp]

    def of_rows(self, codes: NDArray[np.intp], start: int) -> NDArray[np.intp]:
        return self.folds[start : start + len(codes)]


@dataclass(frozen=True)
class ClassFolds:
    """The fold of a row is its number within its class, modulo ``n_folds``.

    Attributes
    ----------
    n_folds : int
    edges : int array of shape (chunks,)
        The first row of each chunk.
    before : int array of shape (chunks, C)
        How many rows of each class come before it.
    """

    n_folds: int
    edges: NDArray[np.int64]
    before: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Rows, n_folds: int) -> Self:
        """Return the folds of rows, after a pass over their labels."""
        spans = spans_of(rows.dataset.chunk_edges)
        census = count_labels(rows.dataset, spans, replace(rows, progress=None, checkpoint=None))
        units = sorted(census.units, key=lambda unit: unit[0])
        counts = np.zeros((len(units), len(rows.census.classes)), np.int64)
        for chunk, (_, _, labels, numbers) in zip(counts, units, strict=True):
            chunk[np.searchsorted(rows.census.classes, labels)] = numbers
        return cls(n_folds, np.asarray([unit[0] for unit in units], np.int64), np.cumsum(counts, axis=0) - counts)

    def of_rows(self, codes: NDArray[np.intp], start: int) -> NDArray[np.int64]:
        return (numbers_within(codes) + self.before[np.searchsorted(self.edges, start)][codes]) % self.n_folds


def numbers_within(codes: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the number of each row among those of its class, from 0."""
    order = np.argsort(codes, kind="stable")
    sorted_codes = codes[order]
    numbers = np.empty(len(codes), np.int64)
    numbers[order] = np.arange(len(codes)) - np.searchsorted(sorted_codes, sorted_codes)
    return numbers
