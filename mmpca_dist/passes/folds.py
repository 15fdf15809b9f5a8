"""Folds of labelled rows: the rows of every class are dealt in turn, or groups of rows that stay together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from mmpca_dist.passes.census import count_labels
from mmpca_dist.passes.rows import Rows
from mmpca_dist.tables.spans import spans_of


def folds_of(rows: Rows, n_folds: int) -> Folds:
    """Return the folds of rows, after a pass over their labels; those of one group are in the same fold."""
    if rows.groups is None:
        return ClassFolds.of(rows, n_folds)
    return GroupFolds(n_folds, deal_groups(table_of_groups(rows), n_folds)[rows.groups])


def most_folds(rows: Rows) -> NDArray[np.int64]:
    """Return of how many folds rows of each class can be in, shape (C,): its rows, or groups."""
    return rows.census.sizes if rows.groups is None else groups_of_classes(table_of_groups(rows))


def table_of_groups(rows: Rows) -> csr_array:
    """Return the rows of each class in each group, as of `group_table`."""
    assert rows.groups is not None  # noqa: S101  (only then is it asked for)
    codes = rows.dataset.batch(0, rows.dataset.n_rows, X=False, roles=("label",)).codes(rows.census.classes)
    return group_table(rows.groups, codes, (int(rows.groups.max()) + 1, len(rows.census.classes)))


@dataclass(frozen=True)
class GroupFolds:
    """Folds of rows in memory, ``folds`` (n,), such that the rows of a group are in the same one."""

    n_folds: int
    folds: NDArray[np.intp]

    def of_rows(self, codes: NDArray[np.intp], start: int) -> NDArray[np.intp]:
        """Return the folds of rows from ``start``, where a chunk begins, given the positions of their classes."""
        return self.folds[start : start + len(codes)]


@dataclass(frozen=True)
class ClassFolds:
    """The fold of a row is its number within its class, modulo ``n_folds``."""

    n_folds: int
    edges: NDArray[np.int64]  # (chunks,): the first row of each chunk
    before: NDArray[np.int64]  # (chunks, C): how many rows of each class come before it

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
        """Return the folds of rows, as those of groups do."""
        return (numbers_within(codes) + self.before[np.searchsorted(self.edges, start)][codes]) % self.n_folds


Folds = GroupFolds | ClassFolds
"""Folds of labelled rows."""


def numbers_within(codes: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the number of each row among those of its class, from 0."""
    order = np.argsort(codes, kind="stable")
    sorted_codes = codes[order]
    numbers = np.empty(len(codes), np.int64)
    numbers[order] = np.arange(len(codes)) - np.searchsorted(sorted_codes, sorted_codes)
    return numbers


def group_table(groups: NDArray[np.intp], classes: NDArray[np.intp], shape: tuple[int, int]) -> csr_array:
    """Return the rows of each class in each group, shape (G, C), given the group and the class of every row."""
    table = csr_array((np.ones(len(groups), np.int64), (groups, classes)), shape=shape)
    table.sum_duplicates()
    return table


def groups_of_classes(table: csr_array) -> NDArray[np.intp]:
    """Return how many groups hold rows of each class, shape (C,)."""
    return np.bincount(table.indices, minlength=table.shape[1])


def deal_groups(table: csr_array, n_folds: int, order: NDArray[np.intp] | None = None) -> NDArray[np.intp]:
    """Return the fold of each group, shape (G,), such that folds have about as many rows in all, and of each class.

    Groups are dealt one after the other, the largest first, each to the fold where the squares of the folds' shares of
    every class, and of all rows, add up to least. No fold gets all rows of a class if another one can take the group.
    Where one does all the same, groups then move to other folds. The ``table`` is that of `group_table`; groups of the
    same size are dealt in ``order`` (G,), by default that of their numbers.
    """
    sizes = table.sum(axis=1)
    both, totals = csr_array(hstack([table, sizes[:, None]], format="csr")), np.append(table.sum(axis=0), sizes.sum())
    order = np.arange(len(sizes)) if order is None else order
    folds, held = np.zeros(len(sizes), np.intp), np.zeros((len(totals), n_folds))
    for group in order[np.argsort(-sizes[order], kind="stable")]:
        classes, rows = _row(both, group)
        # The square of a fold's share grows by twice this, and by the same number in all folds.
        growth = (rows / totals[classes] ** 2) @ held[classes]
        growth[(held[classes] + rows[:, None] == totals[classes, None]).any(axis=0)] = np.inf
        folds[group] = np.argmin(growth)
        held[classes, folds[group]] += rows
    return _spread(table, folds, n_folds)


def _spread(table: csr_array, folds: NDArray[np.intp], n_folds: int) -> NDArray[np.intp]:
    """Move groups until no fold has all groups of a class, each such that this holds for the fewest classes after it.

    It may fail, after as many moves as there are groups. Source: Minton et al. 1992, "Minimizing conflicts: a heuristic
    repair method for constraint satisfaction and scheduling problems".
    """
    of_class, moved = table.tocsc(), -1
    held = np.stack([groups_of_classes(table[folds == fold]) for fold in range(n_folds)], axis=1)
    totals = held.sum(axis=1, keepdims=True)
    for _ in range(len(folds)):
        gathered = np.flatnonzero(((held == totals) & (totals > 1)).any(axis=1))
        if not len(gathered):
            break
        moves = []
        for group in of_class.indices[of_class.indptr[gathered[0]] : of_class.indptr[gathered[0] + 1]]:
            classes, fold = _row(table, group)[0], folds[group]
            others = held[classes] - (np.arange(n_folds) == fold)
            growth = (others == totals[classes] - 1).sum(axis=0)
            moves += [(growth[to] - growth[fold], group, to) for to in range(n_folds) if to != fold and group != moved]
        _, moved, to = min(moves)
        classes = _row(table, moved)[0]
        held[classes, folds[moved]] -= 1
        held[classes, to] += 1
        folds[moved] = to
    return folds


def draw_groups(table: csr_array, count: int, order: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return which groups are held out, shape (G,): the first ``count`` in this order that leave rows of every class.

    They are fewer where no others do.
    """
    left, held_out = table.sum(axis=0), np.zeros(table.shape[0], bool)
    for group in order:
        if held_out.sum() == count:
            break
        classes, rows = _row(table, group)
        if (left[classes] > rows).all():
            held_out[group] = True
            left[classes] -= rows
    return held_out


def _row(table: csr_array, row: int) -> tuple[NDArray, NDArray]:
    """Return the columns and values that are stored of a row."""
    within = slice(table.indptr[row], table.indptr[row + 1])
    return table.indices[within], table.data[within]
