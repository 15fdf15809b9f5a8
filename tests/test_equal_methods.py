"""How often tests find a difference between two methods that are equal, over many data sets."""

from __future__ import annotations

import numpy as np
import pytest

from mmpca_dist.datasets.dataset import make_spans
from mmpca_dist.datasets.readers.memory import rows_in_memory
from mmpca_dist.evaluation.comparisons import SIGNIFICANT
from mmpca_dist.evaluation.splits import fold_splits, share_splits
from mmpca_dist.evaluation.tables import ErrorTable
from mmpca_dist.statistics.census import take_census
from mmpca_dist.statistics.rows import Rows
from mmpca_dist.statistics.schedulers import Threads
from mmpca_dist.statistics.tree_reduction import Tasks

DATA_SETS = 2000
SLACK = 3 * np.sqrt(0.05 * 0.95 / DATA_SETS)
"""Three standard deviations of a rate of 5% over so many data sets: 1.5%."""


def dealt(kind, y, seed):
    """Return which rows train in each of 50 splits, shape (50, n)."""
    dataset, scheduler = rows_in_memory(np.zeros((len(y), 1)), y, "rows"), Threads(1)
    spans = make_spans(dataset)
    census = take_census(dataset, spans, Tasks(scheduler=scheduler))
    if kind == "shares":
        splits = share_splits(
            Rows(dataset=dataset, census=census, spans=spans, scheduler=scheduler), "4/5", n_splits=50, seed=seed
        )
    else:
        splits = fold_splits(
            Rows(dataset=dataset, census=census, spans=spans, scheduler=scheduler), 5, n_splits=10, seed=seed
        )
    codes = splits.codes(0, len(y), y)
    return np.concatenate([codes != part for part in splits.held_out])


def errors_by_nearest_mean(X, y, train):
    """Return how many rows held out are nearer to the other class's mean of the rows that train, for each split."""
    first, second = ((train & (y == c)) @ X / np.sum(train & (y == c), axis=1)[:, None] for c in (0, 1))
    direction, midway = second - first, (first + second) / 2
    scores = direction @ X.T - np.sum(direction * midway, axis=1)[:, None]
    return np.sum(((scores > 0) != (y == 1)) & ~train, axis=1)


def rates(kind, n, columns, distance):
    """Return in which share of data sets the t-test and the sign test find that two equal methods differ.

    Each method has columns of its own; all are drawn alike, so that none is better. Classifiers are fitted anew in
    every split, and splits share most of the rows that they train on.
    """
    y, found = np.arange(n) % 2, []
    for seed in range(DATA_SETS):
        rng, train = np.random.default_rng(seed), dealt(kind, y, seed)
        tables = (rng.standard_normal((n, columns)) + distance * y[:, None] for _ in range(2))
        one, other = (errors_by_nearest_mean(X, y, train).tolist() for X in tables)
        same = {"n_components": columns, "used": columns, "classifier": "nearest mean"}
        records = [
            {"split": j, "rows": int(held_out),
             "errors": [{"method": "one", "errors": one[j], **same}, {"method": "other", "errors": other[j], **same}]}
            for j, held_out in enumerate(np.sum(~train, axis=1))
        ]  # fmt: skip
        cell = ErrorTable.of(records, n).cells("one")[1]
        found.append((cell.differs, cell.test.p_value <= SIGNIFICANT))
    return np.mean(found, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["shares", "repeated folds"])
@pytest.mark.parametrize(("n", "columns", "distance"), [(60, 20, 0.4), (300, 3, 1.0)])
def test_two_equal_methods_differ_in_one_data_set_of_twenty(kind, n, columns, distance):
    """At the 5% level, in 2% to 8%; the sign test, which takes splits for independent, in many more.

    The bounds are further from 5% than the chance of the draw reaches.
    """
    corrected, sign = rates(kind, n, columns, distance)
    print(f"corrected t-test {corrected:.1%}, sign test (one-sided) {sign:.1%}")
    assert SLACK < 0.03
    assert 0.02 <= corrected <= 0.08
    assert sign > 0.1 + SLACK, "of these splits only, as reports say"
