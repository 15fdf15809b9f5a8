"""Groups are never on both sides, nor are rows at equal times; and what trains is before what is held out in time."""

from __future__ import annotations

import pickle

import naive_evaluation
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from distributed import Client, LocalCluster
from helpers.evaluating import config_of, scored, store, timeless
from helpers.resuming import write_rows
from helpers.samples import even_edges, labelled
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedGroupKFold
from test_splits import split

from mmpca_dist.configuration.schema import load_config
from mmpca_dist.datasets.times import order_keys
from mmpca_dist.errors import ConfigError, InputError, OutputError
from mmpca_dist.evaluation.column_splits import TimesInMemory, as_column, group_splits, time_splits
from mmpca_dist.evaluation_runs import score_stage
from mmpca_dist.evaluation_runs.stages import evaluate, preview_evaluation
from mmpca_dist.jobs.configured_splits import splits_of
from mmpca_dist.jobs.events import Callback
from mmpca_dist.jobs.open_job import open_job
from mmpca_dist.jobs.run_stage import run_stage
from mmpca_dist.predictors import fits
from mmpca_dist.predictors.classifiers import ClassifierSection
from mmpca_dist.runs.stages import stages_of
from mmpca_dist.statistics import class_folds
from mmpca_dist.statistics.group_folds import deal_groups, group_table
from mmpca_dist.statistics.schedulers import Cluster, Threads


def of_groups(y, names, **options):
    return split(group_splits, y, as_column(np.asarray(names), "the groups"), **options)


def of_times(y, times, **options):
    return split(time_splits, y, TimesInMemory(np.asarray(times), "the times"), **options)


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
    codes = found.codes(0, len(y), y)
    assert len({codes[s].tobytes() for s in range(3)}) == 3  # the splits differ
    for s in range(3):
        for part in found.held_out:
            train = found.training(0, len(y), y, part)[s]
            np.testing.assert_array_equal(train, codes[s] != part)
            assert not set(names[train]) & set(names[~train])
            assert set(y[train]) == {0, 1, 2}
        counted = [[np.sum((codes[s] == p) & (y == c)) for p in range(found.n_parts)] for c in range(3)]
        np.testing.assert_array_equal(found.counts[s], counted)
    n_groups = len(set(names))
    if "share" in options:
        held_out = [len(set(names[codes[s] == 1])) for s in range(3)]
        assert held_out == [n_groups - (2 * n_groups * 2 + 3) // 6] * 3
    np.testing.assert_array_equal(found.groups(0, 50), np.searchsorted(np.unique(names), names[:50]))
    np.testing.assert_array_equal(found.only(2).codes(10, 90, y[10:90]), codes[2:, 10:90])


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
        np.testing.assert_array_equal(other.codes(0, 900, y), expected.codes(0, 900, y))
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
    codes = found.codes(0, 100, y)
    assert (codes[:, :10] == 0).all()
    np.testing.assert_array_equal(codes.sum(axis=1), 50)


@given(
    seed=st.integers(0, 10_000), n=st.integers(8, 80), windows=st.integers(1, 5), kind=st.sampled_from("iufMd"),
)  # fmt: skip
def test_windows_are_the_twins(seed, n, windows, kind):
    """Of times with ties, in any order: numbers below zero, unsigned ones, fractions, and dates."""
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
    (codes,) = found.codes(0, n, y)
    assert codes.tolist() == expected
    for part in found.held_out:
        (train,) = found.training(0, n, y, part)
        assert max(times[train]) < min(times[codes == part])
        np.testing.assert_array_equal(train, codes < part)
    assert found.n_train.tolist() == [[int(np.sum(codes < part)) for part in found.held_out]]
    assert found.n_tested.tolist() == [[int(np.sum(codes == part)) for part in found.held_out]]


@pytest.mark.parametrize(
    ("times", "boundary", "first"),
    [
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
    ],
)
def test_a_boundary(times, boundary, first):
    y = np.arange(10) % 2
    if first is None:
        with pytest.raises(InputError, match="the boundary 2024-01-01T00:00:00 has no rows before it"):
            of_times(y, times, boundary=boundary)
        return
    assert of_times(y, times, boundary=boundary).codes(0, 10, y).tolist() == [[0] * first + [1] * (10 - first)]


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
         "All rows of the label '0' are in one group of the groups: while it is held out, none is left to train on"),
        (of_groups, [0, 1] * 3, [1, 1, 2, 2, 3, 3], {"share": 0.9}, "of 0.9 of 3 groups .* leaves none to hold"),
        (of_groups, [0, 1] * 3, [1, 1, 2, 2, 3, 3], {"share": 0.1}, "of 0.1 of 3 groups .* leaves none to train on"),
        (of_groups, [0, 0, 1, 1, 2, 2], [1, 1, 2, 2, 3, 3], {"share": 0.7},
         "holds out 1, and more than 0 would leave a class without rows to train on"),
        (of_groups, [0, 1] * 3, [1.5, 2, 3] * 2, {}, "Label 1.5 at position 0 of the groups is not a whole number"),
        (of_groups, [0, 1] * 3, [1, 2] * 2, {}, "There are parts for 4 rows, and .* has 6"),
        (of_times, [0, 1] * 3, [1] * 6, {"windows": 1}, "1 windows of later and later rows do not have rows"),
        (of_times, [0, 1] * 3, [1, np.nan] * 3, {"windows": 1}, "Row 1 has the time nan in the times. Leave"),
        (of_times, [0, 1] * 3, ["a"] * 6, {"windows": 1}, "The times in the times have type <U1; they"),
        (of_times, [0, 1] * 3, np.arange(6), {"boundary": "2024-01-01"}, "'2024-01-01' is no number, and"),
        (of_times, [0, 1] * 3, np.arange(6).astype("M8[D]"), {"boundary": 3}, "3 is no date, and the times holds"),
        (of_times, [0, 1] * 3, np.arange(6), {"boundary": 9}, "the boundary 9 has no rows before it"),
        (of_times, [0, 1] * 3, np.arange(6).astype(np.uint8), {"boundary": 0}, "the boundary 0 has no rows before it"),
        (of_times, [0, 1] * 3, np.arange(6).astype(np.uint8), {"boundary": -3}, "the boundary -3 has no rows before"),
        (of_times, [0, 0, 0, 1, 1, 1], np.arange(6), {"boundary": 3},
         "No row of class 1 trains in split 0 by times of the times, and every class must have some"),
    ],
)  # fmt: skip
def test_what_is_refused(make, y, column, options, message):
    with pytest.raises(InputError, match=message):
        make(y, column, **options)


X, Y = labelled(240, 5, 3, seed=5, separation=0.6)
GROUPS = np.random.default_rng(2).integers(24, size=240)
WHEN = np.random.default_rng(3).integers(60, size=240)
DAYS = np.datetime64("2020-01-01", "D") + WHEN
KINDS = {
    "groups": {"splits": "groups", "column": "patient", "folds": 4, "count": 2},
    "shares of groups": {"splits": "groups", "column": "patient", "train": "3/4", "count": 3},
    "windows": {"splits": "time", "column": "day", "windows": 3},
    "boundary": {"splits": "time", "column": "day", "boundary": "2020-02-10"},
}


def in_parquet(path, day=DAYS, patient=GROUPS):
    table = {**{f"x{j}": column for j, column in enumerate(X.T)}, "patient": patient, "day": day, "label": Y}
    pq.write_table(pa.table(table), path, row_group_size=50)
    return path


def in_zarr(path, day=WHEN):
    uri = write_rows(path, X, Y, 31)
    group = zarr.open_group(uri, mode="a")
    for name, values in (("patient", np.char.add("p", GROUPS.astype("U2"))), ("day", day)):
        group.create_array(name, shape=values.shape, chunks=(31,), dtype=values.dtype)[...] = values
    return uri


def asked(output, uri, evaluation, **changes):
    """Return a configuration; of Parquet, what is not the column of the splits is left out."""
    others = {"patient", "day"} - {evaluation["column"]} if str(uri).endswith(".parquet") else ()
    dataset = {"uri": str(uri), "drop": sorted(others)}
    return config_of(output, uri, **changes, dataset=dataset, evaluation=evaluation)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("merged", [True, False])
def test_errors_are_the_twins(kind, merged, tmp_path, monkeypatch):
    """By merged moments, which medians and a search of neighbours need too, and of rows in memory."""
    monkeypatch.setattr(score_stage, "merges", lambda *_: merged)
    methods = ["pca", "m-pca0", "m-pca1b", "m-pca2"]
    evaluation = {**KINDS[kind], "classifiers": ["fisher", "naive-bayes", "svm"], "margins": True}
    config = asked(tmp_path / "out", in_parquet(tmp_path / "rows.parquet"), evaluation, methods=methods)
    records, splits, results = scored(config)
    assert [one["name"] for one in results["plan"]["passes"]] == results["score"]["passes"]
    expected = naive_evaluation.evaluate(X, Y, splits, config)
    found = {(record["split"], line["method"], line["n_components"], line["classifier"]): line["errors"]
             for record in records for line in record["errors"]}  # fmt: skip
    assert found.keys() == expected.keys()
    for key, (_, errors, close) in expected.items():
        assert abs(found[key] - errors) <= close, key
    parts = splits.codes(0, 240, Y)
    assert [record["rows"] for record in records] == [
        int(np.sum(own == part)) for own in parts for part in splits.held_out
    ]
    sides = [naive_evaluation.sides(own, part, config) for own in parts for part in splits.held_out]
    assert [record["training"] for record in records] == [int(train.sum()) for train, _ in sides]
    if "groups" in kind:
        assert not any(set(GROUPS[own == part]) & set(GROUPS[own != part]) for own in parts for part in splits.held_out)
    elif kind == "boundary":
        assert ((parts[0] == 1) == (np.datetime64("2020-02-10") <= DAYS)).all()
    else:
        assert parts[0].tolist() == naive_evaluation.time_parts(DAYS.tolist(), 3)


@pytest.mark.parametrize("kind", ["groups", "windows"])
def test_formats_and_types_of_columns_do_not_matter(kind, tmp_path):
    """Dates, timestamps with and without a zone, whole numbers and fractions of Parquet; arrays of Zarr, and a file."""
    microseconds = DAYS.astype("M8[us]")
    np.save(tmp_path / "days.npy", DAYS)
    np.save(tmp_path / "patients.npy", GROUPS)
    uris = [
        in_parquet(tmp_path / "date.parquet", pa.array(DAYS.astype(object), pa.date32())),
        in_parquet(tmp_path / "time.parquet", pa.array(microseconds, pa.timestamp("us"))),
        in_parquet(
            tmp_path / "zone.parquet", pa.array(microseconds, pa.timestamp("us", "Europe/Paris")), GROUPS.astype("U")
        ),
        in_parquet(tmp_path / "half.parquet", WHEN / 2, pa.array(GROUPS.astype("U")).dictionary_encode()),
        in_zarr(tmp_path / "rows.zarr"),
        in_zarr(tmp_path / "half.zarr", WHEN / 2),
        store(tmp_path / "rows.npz", X, Y),
    ]
    found = []
    for number, uri in enumerate(uris):
        evaluation = {**KINDS[kind], "classifiers": ["fisher"], "margins": False}
        if str(uri).endswith(".npz"):
            evaluation["column"] = str(tmp_path / ("days.npy" if kind == "windows" else "patients.npy"))
        records, *_ = scored(asked(tmp_path / f"out-{number}", uri, evaluation))
        found.append(
            [(record["split"], record["rows"], *(line["errors"] for line in record["errors"])) for record in records]
        )
    if kind == "windows":
        assert all(other == found[0] for other in found)
    else:  # names are numbered in their order, which that of text is not
        assert found[0] == found[1] == found[6] and found[2] == found[3] and found[4] == found[5]


@pytest.mark.parametrize(
    ("evaluation", "table", "message"),
    [
        ({"splits": "groups", "column": "patint"}, {}, "no column 'patint' .*Did you mean 'patient'"),
        ({"splits": "time", "column": "dy", "windows": 2}, {}, "no column 'dy' .*Did you mean 'day'"),
        ({"splits": "groups", "column": "patient"}, {"patient": pa.array([None, *GROUPS[1:]])}, "Row 0|row 0"),
        ({"splits": "time", "column": "day", "windows": 2}, {"day": pa.array([None, *WHEN[1:]])}, "Row 0|row 0"),
        (
            {"splits": "groups", "column": "patient"},
            {"patient": np.ones(240, int)},
            "are in the group 1; there must be",
        ),
        ({"splits": "groups", "column": "patient", "folds": 25}, {}, "has 24 groups, fewer than the 25 folds"),
    ],
)
def test_errors_are_the_same_in_memory_and_merged(evaluation, table, message, tmp_path, monkeypatch):
    said = []
    for merged in (True, False):
        monkeypatch.setattr(score_stage, "merges", lambda *_, merged=merged: merged)
        config = asked(tmp_path / "out", in_parquet(tmp_path / "rows.parquet", **table), evaluation)
        with pytest.raises(InputError, match=message) as caught:
            evaluate(config)
        said.append(str(caught.value))
    assert said[0] == said[1] and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("evaluation", "message"),
    [
        ({"splits": "groups"}, "splits: groups, time and given take a column"),
        ({"splits": "time", "column": "day"}, "takes either windows, how many there are, or a boundary"),
        ({"splits": "time", "column": "day", "windows": 2, "boundary": 3}, "takes either windows, how many there are"),
        ({"splits": "folds", "windows": 2}, "evaluation.windows is of splits: time"),
        (
            {"splits": "time", "column": "day", "windows": 2, "folds": 3},
            "evaluation.folds is of splits: folds or groups",
        ),
    ],
)
def test_settings_that_do_not_fit_together(evaluation, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        config_of(tmp_path / "out", "bundled:iris", evaluation=evaluation)


def test_dates_need_no_quotes_in_yaml(tmp_path):
    (tmp_path / "my.yaml").write_text(
        "{dataset: {uri: 'bundled:iris'}, methods: pca, n_components: 2, output: out, "
        "evaluation: {splits: time, column: day, boundary: 2020-02-10}}"
    )
    assert load_config(tmp_path / "my.yaml").evaluation.boundary == "2020-02-10"


def test_choices_within_the_rows_that_train_keep_groups_together(tmp_path, monkeypatch):
    """C of classifiers, C of bm2pca, and alpha and components of penalties: none takes folds of single rows."""
    monkeypatch.setattr(fits, "StratifiedKFold", lambda *_, **__: pytest.fail("folds of rows"))
    monkeypatch.setattr(class_folds.ClassFolds, "of", lambda *_: pytest.fail("folds of rows"))
    monkeypatch.setattr("mmpca_dist.statistics.class_folds.numbers_within", lambda *_: pytest.fail("folds of rows"))
    dealt = []
    for module in (fits, class_folds):
        monkeypatch.setattr(module, "deal_groups", lambda *given, of=module: dealt.append(of) or deal_groups(*given))
    methods = [
        {"name": "bm2pca", "C": "auto", "candidates": [1, 10]},
        {"name": "projection-penalty", "alpha": "auto", "alphas": [0.1, 1], "loss": "logistic"},
    ]
    classifiers = [{"name": "svm", "C": "nested"}, {"name": "svm", "C": "auto", "label": "auto"}]
    evaluation = {**KINDS["shares of groups"], "count": 1, "margins": False, "classifiers": classifiers}
    config = asked(tmp_path / "out", in_parquet(tmp_path / "rows.parquet"), evaluation, methods=methods)
    records, *_ = scored(config)
    assert len(records[0]["errors"]) == 4
    assert {module.__name__.rsplit(".")[-1] for module in dealt} == {"fits", "class_folds"}


def test_rows_of_a_group_that_are_alike_do_not_choose_a_penalty():
    """Each group repeats one row: in folds of rows every row held out has trained, too."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 6)
    Z, y = 0.1 * rng.standard_normal((40, 60))[groups], rng.integers(2, size=40)[groups]
    Z[:, 0] += 0.4 * y
    spec = [ClassifierSection(name="svm", C="nested", bias=True)]
    folds = deal_groups(group_table(groups, y, (40, 2)), 5)[groups]
    by_hand = naive_evaluation.chosen_penalty(spec[0], Z, y, 0, [(folds != f, folds == f) for f in range(5)])
    assert fits.choose_C(spec, Z, y, groups)["svm"] == by_hand != fits.choose_C(spec, Z, y)["svm"]


def test_the_number_of_components_is_chosen_in_folds_of_groups(tmp_path, monkeypatch):
    uri = in_parquet(tmp_path / "rows.parquet")
    settings = {"dataset": {"uri": str(uri), "drop": ["patient", "day"]}, "n_components": "auto"}
    evaluation = {"splits": "groups", "column": "patient", "folds": 3}
    config = config_of(tmp_path / "out", uri, **settings, evaluation=evaluation)
    drawn = []
    monkeypatch.setattr(score_stage, "splits_of", lambda job: drawn.append(splits_of(job)) or drawn[-1])
    with open_job(config, Callback()) as job:
        for stage in stages_of(config)[:3]:
            run_stage(job, stage)
        assert job.results["choose"]["n_splits"] == 3
    ((codes,),) = {tuple(map(tuple, splits.codes(0, 240, Y))) for splits in drawn}
    assert not any(set(GROUPS[np.equal(codes, p)]) & set(GROUPS[np.not_equal(codes, p)]) for p in range(3))
    in_parquet(uri, patient=np.roll(GROUPS, 1))
    with pytest.raises(OutputError, match="a different run"), open_job(config, Callback()):
        pass


def test_many_given_parts_say_that_groups_take_folds(tmp_path):
    X, y = labelled(303, 3, 2, seed=1)
    np.save(tmp_path / "parts.npy", np.arange(303) // 3)
    evaluation = {"splits": "given", "column": str(tmp_path / "parts.npy")}
    plan = preview_evaluation(config_of(tmp_path / "out", store(tmp_path / "rows.npz", X, y), evaluation=evaluation))
    assert (
        plan.note
        == "Every method is fitted 101 times: for fewer, splits: groups deals the names in the column into folds."
    )
    assert dict(plan.rows())["splits"] == "every method is fitted 101 times"


def test_resumed_evaluations_of_groups_are_the_same(tmp_path):
    config = asked(tmp_path / "out", in_parquet(tmp_path / "rows.parquet"), KINDS["groups"])
    records, *_ = scored(config)
    (tmp_path / "out" / "evaluation" / "splits" / "00003.json").unlink()
    (tmp_path / "out" / "evaluation" / "records" / "score.json").unlink()
    assert timeless(scored(config)[0]) == timeless(records)
