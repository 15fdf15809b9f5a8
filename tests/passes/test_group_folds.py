"""Folds of groups leave rows of every class to train on, wherever any folds do."""

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array

from mmpca_dist.passes.folds import deal_groups


def serves(table, folds, n_folds):
    """Whether every fold has rows, and every class has rows outside each fold."""
    outside = [table[folds != fold] for fold in range(n_folds)]
    return all((rows.sum(axis=0) > 0).all() and len(rows) < len(table) for rows in outside)


@pytest.mark.parametrize("n_folds", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_every_class_trains_if_any_dealing_lets_it(seed, n_folds):
    """Tables of up to eight groups, each with few of up to seven classes, against all ways to deal them."""
    rng = np.random.default_rng(seed)
    n_served = 0
    for _ in range(1200):
        shape = rng.integers(3, 9), rng.integers(2, 8)
        table = rng.integers(1, 3, shape) * (rng.random(shape) < 0.35)
        table = table[table.any(axis=1)]
        if len(table) < n_folds or ((table > 0).sum(axis=0) < 2).any():
            continue
        if not serves(table, deal_groups(csr_array(table), n_folds), n_folds):
            ways = itertools.product(range(n_folds), repeat=len(table))
            assert not any(serves(table, np.asarray(folds), n_folds) for folds in ways), table.tolist()
        else:
            n_served += 1
    assert n_served > 90


def test_groups_that_cannot_be_dealt_are_dealt_all_the_same():
    """Among three groups, any two of which share a class, two are in one of two folds."""
    folds = deal_groups(csr_array(np.asarray([[1, 1, 0], [0, 1, 1], [1, 0, 1]])), 2)
    assert sorted(np.bincount(folds)) == [1, 2]
