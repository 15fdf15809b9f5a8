"""Groups are never on both sides, nor are rows at equal times; and what trains is before what is held out in time."""

import pickle

import naive_evaluation
import numpy as np
import pytest
from distributed import Client, LocalCluster
from helpers.samples import batch_of, even_edges
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedGroupKFold
from test_splits import split

from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.column_splits import group_splits, time_splits
from mmpca_dist.passes.folds import deal_groups, group_table
from mmpca_dist.passes.schedulers import Cluster, Threads
from mmpca_dist.tables.column import column_in_memory
from mmpca_dist.tables.readers.memory import rows_in_memory
from mmpca_dist.tables.roles import TIME
from mmpca_dist.tables.times import order_keys


def of_groups(y, names, **options):
    return split(group_splits, y, rows_in_memory(np.zeros((len(names), 1)), names, "the groups"), **options)


def of_times(y, times, **options):
    rows = rows_in_memory(np.zeros((len(times), 1)), None, "the times")
    column = column_in_memory(np.asarray(times), "the times")
    return split(time_splits, y, rows.labelled_by(column, TIME), **options)


def patients(n=3000, n_groups=60, n_classes=3, seed=0):
    """Return labels and groups of unequal sizes, whose shares of the classes differ."""
    rng = np.random.default_rng(seed)
    groups = rng.choice(n_groups, n, p=rng.dirichlet(np.full(n_groups, 2.0)))
    shares = rng.dirichlet(np.full(n_classes, 2.0), n_groups)
    y = np.asarray([rng.choice(n_classes, p=shares[group]) for group in groups])
    return y, groups


def unevenness(y, groups, folds):
    """The squares of the folds' shares of every class, and of all rows, added up: at least (C + 1) / folds."""
    of_fold = [folds == fold for fold in sorted(set(folds.tolist()))]
    classes = [np.ones(len(y), bool), *(y == label for label in sorted(set(y.tolist())))]
    return sum(np.mean(fold[rows]) ** 2 for rows in classes for fold in of_fold)


@given(seed=st.integers(0, 10_000), n_folds=st.integers(2, 6), n_classes=st.integers(1, 4))
def test_each_group_goes_where_folds_are_then_most_even(seed, n_folds, n_classes):
    """Dealt again by the twin, in exact arithmetic."""
    y, groups = patients(120, 15, n_classes, seed)
    table = group_table(groups, y, (15, n_classes))
    order = np.random.default_rng(seed).permutation(15)
    folds = deal_groups(table, n_folds, order)
    naive_evaluation.assert_dealt(table.toarray().tolist(), n_folds, order.tolist(), folds.tolist())


@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.parametrize("n_groups", [12, 60, 500])
def test_folds_are_about_as_even_as_scikit_learns(n_groups, n_classes):
    """No more than a hundredth above what StratifiedGroupKFold gives, over ten tables."""
    mine, theirs = [], []
    for seed in range(10):
        y, groups = patients(3000, n_groups, n_classes, seed)
        folds, codes = np.zeros(len(y), int), np.unique(groups, return_inverse=True)[1]
        for number, (_, test) in enumerate(StratifiedGroupKFold(5).split(y, y, groups)):
            folds[test] = number
        theirs.append(unevenness(y, groups, folds))
        mine.append(unevenness(y, groups, deal_groups(group_table(codes, y, (codes.max() + 1, n_classes)), 5)[codes]))
    assert np.mean(mine) <= 1.01 * np.mean(theirs)
    assert min(mine) >= (n_classes + 1) / 5 - 1e-9


@pytest.mark.parametrize("kind", [np.int64, "U"])
@pytest.mark.parametrize("options", [{"folds": 4}, {"share": "2/3"}])
def test_no_group_is_on_both_sides(options, kind):
    y, groups = patients()
    names = groups.astype(kind)
    found = of_groups(y, names, n_splits=3, seed=4, **options)
    codes = found.codes(batch_of(y))
    assert len({codes[s].tobytes() for s in range(3)}) == 3  # the splits differ
    for s in range(3):
        for part in found.held_out:
            train = found.training(batch_of(y), part)[s]
            np.testing.assert_array_equal(train, codes[s] != part)
            assert not set(names[train]) & set(names[~train])
            assert set(y[train]) == {0, 1, 2}
        counted = [[np.sum((codes[s] == p) & (y == c)) for p in range(found.n_parts)] for c in range(3)]
        np.testing.assert_array_equal(found.counts[s], counted)
    n_groups = len(set(names))
    if "share" in options:
        held_out = [len(set(names[codes[s] == 1])) for s in range(3)]
        assert held_out == [n_groups - (2 * n_groups * 2 + 3) // 6] * 3
    np.testing.assert_array_equal(found.valued(batch_of(y)).roles["group"], np.unique(names, return_inverse=True)[1])
    np.testing.assert_array_equal(found.only(2).codes(batch_of(y[10:90], 10)), codes[2:, 10:90])


def test_groups_are_the_same_for_any_chunks_and_workers():
    y, groups = patients(900, 40)
    expected = of_groups(y, groups, n_splits=2, seed=3)
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster, Client(
        cluster
    ) as client:  # fmt: skip
        others = [
            of_groups(y, groups, n_splits=2, seed=3, edges=even_edges(900, 7), scheduler=Threads(3)),
            of_groups(y, groups, n_splits=2, seed=3, edges=even_edges(900, 50), scheduler=Cluster(client)),
            pickle.loads(pickle.dumps(expected)),  # noqa: S301
        ]
    for other in others:
        np.testing.assert_array_equal(other.codes(batch_of(y)), expected.codes(batch_of(y)))
    assert not np.array_equal(of_groups(y, groups, seed=5).part_of_name, expected.part_of_name[:1])


def test_twenty_thousand_groups():
    """Folds of 100,000 rows differ by less than a hundredth, in all and in each class."""
    rng = np.random.default_rng(1)
    groups = rng.permutation(np.append(np.arange(20_000), rng.integers(20_000, size=80_000)))
    y = rng.integers(10, size=100_000)
    found = of_groups(y, groups)
    sizes = found.counts[0]
    assert np.ptp(sizes.sum(axis=0)) < 0.01 * 20_000 and (np.ptp(sizes, axis=1) < 0.01 * 10_000).all()


def test_more_groups_than_classes_may_be_are_taken(limits):
    limits.max_classes = 20
    names = np.arange(60) // 2
    splits = of_groups(np.arange(60) % 2, names, folds=3)
    assert splits.n_tested.sum() == 60
    limits.max_groups = 29
    with pytest.raises(InputError, match="The column of groups takes more than 29 values"):
        of_groups(np.arange(60) % 2, names, folds=3)


def test_a_class_of_one_group_trains_in_shares():
    """Its group is never held out; the others are, as many as asked for."""
    y, groups = np.repeat([0, 1], [10, 90]), np.arange(100) // 10
    found = of_groups(y, groups, share="1/2", n_splits=20)
    codes = found.codes(batch_of(y))
    assert (codes[:, :10] == 0).all()
    np.testing.assert_array_equal(codes.sum(axis=1), 50)


@given(
    seed=st.integers(0, 10_000), n=st.integers(8, 80), windows=st.integers(1, 5), kind=st.sampled_from("iufMd"),
)  # fmt: skip
def test_windows_are_the_twins(seed, n, windows, kind):
    """Ranks of times with ties, in any order: numbers below zero, unsigned ones, fractions, and dates."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(-20, 20, size=n)
    times = {
        "i": numbers, "u": (numbers + 20).astype(np.uint8), "f": (numbers / 8).astype(np.float32),
        "d": numbers * 1e-300, "M": np.datetime64("1970-01-03", "D") + numbers,
    }[kind]  # fmt: skip
    y = np.zeros(n, int)
    y[1::2] = 1
    expected = naive_evaluation.time_parts(times.tolist(), windows)
    trained = {part: set(y[[own < part for own in expected]].tolist()) for part in range(1, windows + 1)}
    if set(expected) != set(range(windows + 1)) or any(classes != {0, 1} for classes in trained.values()):
        with pytest.raises(InputError):
            of_times(y, times, windows=windows)
        return
    found = of_times(y, times, windows=windows, edges=even_edges(n, 7), scheduler=Threads(2))
    (codes,) = found.codes(batch_of(y))
    assert codes.tolist() == expected
    for part in found.held_out:
        (train,) = found.training(batch_of(y), part)
        assert max(times[train]) < min(times[codes == part])
        np.testing.assert_array_equal(train, codes < part)
    assert found.n_train.tolist() == [[int(np.sum(codes < part)) for part in found.held_out]]
    assert found.n_tested.tolist() == [[int(np.sum(codes == part)) for part in found.held_out]]


@pytest.mark.parametrize(("times", "boundary", "first"), [
    (np.arange(10), 4, 4),
    (np.arange(10), 3.5, 4),
    (np.arange(10).astype(np.uint8), "4", 4),
    (np.arange(10) + 1_600_000_000_000_000_000, 1_600_000_000_000_000_004, 4),
    (np.arange(10) + 1_600_000_000_000_000_000, "1600000000000000004", 4),
    (np.arange(10) / 4, 1, 4),
    (np.arange(10) / 4, 0.9, 4),
    (np.datetime64("2024-01-01", "D") + np.arange(10), "2024-01-05", 4),
    (np.datetime64("2024-01-01", "D") + np.arange(10), "2024-01-04T12:00", 4),
    (np.datetime64("2024-01-01T00:00", "ns") + np.arange(10), "2024-01-01T00:00:00", None),
    (np.datetime64("2024-01-01T00:00", "h") + np.arange(10), "2024-01-01T05:00+01:00", 4),
])  # fmt: skip
def test_a_boundary(times, boundary, first):
    y = np.arange(10) % 2
    if first is None:
        with pytest.raises(InputError, match="the boundary 2024-01-01T00:00:00 has no rows before it"):
            of_times(y, times, boundary=boundary)
        return
    assert of_times(y, times, boundary=boundary).codes(batch_of(y)).tolist() == [[0] * first + [1] * (10 - first)]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2))
def test_keys_are_in_the_order_of_doubles(numbers):
    times = np.asarray(numbers)
    keys = order_keys(times)
    assert all((a < b) == (p < q) and (a == b) == (p == q) for a, p in zip(times, keys, strict=True)
               for b, q in zip(times, keys, strict=True))  # fmt: skip


@pytest.mark.parametrize(
    ("make", "y", "column", "options", "message"),
    [
        (of_groups, [0, 1] * 3, ["x"] * 6, {}, "All rows of the groups are in the group x; there must be"),
        (of_groups, [0, 1] * 3, [1, 1, 2, 2, 3, 3], {"folds": 4}, "has 3 groups, fewer than the 4 folds"),
        (of_groups, [0, 1, 1] * 2, [1, 2, 3] * 2, {"folds": 2},
         "With the groups of the groups, no row with the label '0' trains while some part"),
        (of_groups, [0, 1] * 3, [1, 1, 2, 2, 3, 3], {"share": 0.9}, "of 0.9 of 3 groups .* leaves none to hold"),
        (of_groups, [0, 1] * 3, [1, 1, 2, 2, 3, 3], {"share": 0.1}, "of 0.1 of 3 groups .* leaves none to train on"),
        (of_groups, [0, 0, 1, 1, 2, 2], [1, 1, 2, 2, 3, 3], {"share": 0.7},
         "holds out 1, and more than 0 would leave a class without rows to train on"),
        (of_groups, [0, 1] * 3, [1.5, 2, 3] * 2, {}, "Label 1.5 at position 0 of the groups is not a whole number"),
        (of_groups, [0, 1] * 3, [1, 2] * 2, {}, "There are parts for 4 rows, and .* has 6"),
        (of_times, [0, 1] * 3, [1] * 6, {"windows": 1}, "1 windows of later and later rows do not have rows"),
        (of_times, [0, 1] * 3, [1, np.nan] * 3, {"windows": 1}, "Row 1 has no time in the times. Give it one"),
        (of_times, [0, 1] * 3, ["a"] * 6, {"windows": 1}, "The times in the times have type <U1; they"),
        (of_times, [0, 1] * 3, np.arange(6), {"boundary": "2024-01-01"}, "'2024-01-01' is no number, and"),
        (of_times, [0, 1] * 3, np.arange(6).astype("M8[D]"), {"boundary": 3}, "3 is no date, and the times holds"),
        (of_times, [0, 1] * 3, np.arange(6), {"boundary": 9}, "the boundary 9 has no rows before it"),
        (of_times, [0, 1] * 3, np.arange(6), {"boundary": "1e999999999"}, "'1e999999999' is no number, and"),
        (of_times, [0, 1] * 3, np.arange(6).astype(np.uint8), {"boundary": 0}, "the boundary 0 has no rows before it"),
        (of_times, [0, 1] * 3, np.arange(6).astype(np.uint8), {"boundary": -3}, "the boundary -3 has no rows before"),
        (of_times, [0, 0, 0, 1, 1, 1], np.arange(6), {"boundary": 3},
         "With the times of the times, no row with the label '1' trains while some part"),
    ],
)  # fmt: skip
def test_what_is_refused(make, y, column, options, message):
    with pytest.raises(InputError, match=message):
        make(y, column, **options)
