"""Folds of groups: the rows of a group are all in the same fold."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack


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
    Where one does all the same, groups then move to other folds.

    Parameters
    ----------
    table : CSR array of shape (G, C)
        Rows of each class in each group, as of `group_table`.
    order : int array of shape (G,), optional
        The order of groups of the same size; by default that of their numbers.
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
