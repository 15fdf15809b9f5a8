"""Evaluations by groups and by times: from files, by every route, resumed, and choices within what trains."""

import naive_evaluation
import numpy as np
import pyarrow as pa
import pytest
from helpers.evaluating import scored, timeless, with_all_columns
from helpers.samples import batch_of
from helpers.tables import auto, config_of, labelled, write_npz, write_parquet, write_zarr
from helpers.watching import watched

from mmpca_dist.configuration.schema import load_config
from mmpca_dist.errors import ConfigError, InputError, OutputError
from mmpca_dist.jobs.events import Callback
from mmpca_dist.jobs.inputs import Inputs
from mmpca_dist.jobs.job import open_job, run_stage
from mmpca_dist.passes import folds as row_folds
from mmpca_dist.passes.folds import deal_groups, group_table
from mmpca_dist.predictors import fits
from mmpca_dist.predictors.classifiers import ClassifierSection
from mmpca_dist.runs import evaluation_scores
from mmpca_dist.runs.evaluate import evaluate, preview_evaluation
from mmpca_dist.runs.fit import stages_of

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
    return write_parquet(path, X, Y, size=50, patient=patient, day=day)


def in_zarr(path, day=WHEN):
    return write_zarr(path, X, Y, 31, beside={"patient": np.char.add("p", GROUPS.astype("U2")), "day": day})


def asked(output, uri, evaluation, **changes):
    """Return a configuration; of Parquet, what is not the column of the splits is left out."""
    others = {"patient", "day"} - {evaluation["column"]} if str(uri).endswith(".parquet") else ()
    dataset = {"uri": str(uri), "drop": sorted(others)}
    return config_of(output, uri, **changes, dataset=dataset, evaluation=evaluation)


@pytest.mark.parametrize(
    "kind",
    ["groups", "windows", *(pytest.param(kind, marks=pytest.mark.e2e) for kind in ("shares of groups", "boundary"))],
)
@pytest.mark.parametrize("merged", [True, False])
def test_errors_are_the_twins(kind, merged, tmp_path, monkeypatch):
    """By merged moments, which medians and a search of neighbours need too, and of rows in memory."""
    monkeypatch.setattr(evaluation_scores, "route", lambda *_: (merged, not merged))
    methods = ["pca", "m-pca0", "m-pca1b", "m-pca2"]
    evaluation = {**KINDS[kind], "classifiers": ["fisher", "naive-bayes", "svm"], "margins": True}
    config = asked(tmp_path / "out", in_parquet(tmp_path / "rows.parquet"), evaluation, methods=methods)
    records, splits, results = scored(config)
    assert results["score"]["passes"]
    expected = naive_evaluation.evaluate(X, Y, splits, with_all_columns(config))
    found = {(record["split"], line["method"], line["n_components"], line["classifier"]): line["errors"]
             for record in records for line in record["errors"]}  # fmt: skip
    assert found.keys() == expected.keys()
    for key, (_, errors, close) in expected.items():
        assert abs(found[key] - errors) <= close, key
    parts = splits.codes(batch_of(Y))
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
        write_npz(tmp_path / "rows.npz", X, Y),
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


@pytest.mark.parametrize(("evaluation", "table", "message"), [
    ({"splits": "groups", "column": "patint"}, {}, "no column 'patint' .*Did you mean 'patient'"),
    ({"splits": "time", "column": "dy", "windows": 2}, {}, "no column 'dy' .*Did you mean 'day'"),
    ({"splits": "groups", "column": "patient"}, {"patient": pa.array([None, *GROUPS[1:]])}, "Row 0|row 0"),
    ({"splits": "time", "column": "day", "windows": 2}, {"day": pa.array([None, *WHEN[1:]])}, "Row 0|row 0"),
    ({"splits": "groups", "column": "patient", "folds": 25}, {}, "has 24 groups, fewer than the 25 folds"),
])  # fmt: skip
def test_columns_that_do_not_serve_are_refused_before_anything_is_written(evaluation, table, message, tmp_path):
    config = asked(tmp_path / "out", in_parquet(tmp_path / "rows.parquet", **table), evaluation)
    with pytest.raises(InputError, match=message):
        evaluate(config)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("evaluation", "message"), [
    ({"splits": "groups"}, "splits: groups, time, given and listed take a column"),
    ({"splits": "time", "column": "day"}, "takes either windows, how many there are, or a boundary"),
    ({"splits": "time", "column": "day", "windows": 2, "boundary": 3}, "takes either windows, how many there are"),
    ({"splits": "folds", "windows": 2}, "evaluation.windows is of splits: time"),
    ({"splits": "time", "column": "day", "windows": 2, "folds": 3}, "folds is of splits: folds or blocks or groups"),
])  # fmt: skip
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
    monkeypatch.setattr("sklearn.model_selection.StratifiedKFold", lambda *_, **__: pytest.fail("folds of rows"))
    monkeypatch.setattr(row_folds.ClassFolds, "of", lambda *_: pytest.fail("folds of rows"))
    monkeypatch.setattr("mmpca_dist.passes.folds.numbers_within", lambda *_: pytest.fail("folds of rows"))
    dealt = []
    for module in (fits, row_folds):
        monkeypatch.setattr(module, "deal_groups", lambda *given, of=module: dealt.append(of) or deal_groups(*given))
    methods = [
        {"name": "bm2pca", "C": "auto", "candidates": [1, 10]},
        {"name": "projection-penalty", "alpha": "auto", "alphas": [0.1, 1], "loss": "logistic"},
    ]
    classifiers = [{"name": "svm", "C": "nested"}, {"name": "svm", "C": "auto", "label": "auto"}]
    evaluation = {**KINDS["shares of groups"], "count": 1, "margins": False, "classifiers": classifiers}
    config = asked(tmp_path / "out", in_parquet(tmp_path / "rows.parquet"), evaluation, methods=methods)
    records, *_ = scored(config)
    assert len(records[0]["errors"]) == 2 * 3
    assert {module.__name__.rsplit(".")[-1] for module in dealt} == {"fits", "folds"}


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
    evaluation = {"splits": "groups", "column": "patient", "folds": 3}
    config = auto(tmp_path / "out", uri, dataset={"drop": ["patient", "day"]}, evaluation=evaluation)
    drawn = watched(monkeypatch, Inputs, "draw_splits")
    with open_job(config, Callback()) as job:
        for stage in stages_of(config)[:3]:
            run_stage(job, stage)
        assert job.results["choose"]["n_splits"] == 3
    ((codes,),) = {tuple(map(tuple, splits.codes(batch_of(Y)))) for splits in drawn}
    assert not any(set(GROUPS[np.equal(codes, p)]) & set(GROUPS[np.not_equal(codes, p)]) for p in range(3))
    in_parquet(uri, patient=np.roll(GROUPS, 1))
    with pytest.raises(OutputError, match="a different run"), open_job(config, Callback()):
        pass


def test_many_given_parts_say_that_groups_take_folds(tmp_path):
    X, y = labelled(303, 3, 2, seed=1)
    np.save(tmp_path / "parts.npy", np.arange(303) // 3)
    evaluation = {"splits": "given", "column": str(tmp_path / "parts.npy")}
    uri = write_npz(tmp_path / "rows.npz", X, y)
    plan = preview_evaluation(config_of(tmp_path / "out", uri, evaluation=evaluation))
    words = "Every method is fitted 101 times: for fewer, splits: groups deals the names in the column into folds."
    assert plan.note == words
    assert dict(plan.rows())["splits"] == "every method is fitted 101 times"


def test_resumed_evaluations_of_groups_are_the_same(tmp_path):
    config = asked(tmp_path / "out", in_parquet(tmp_path / "rows.parquet"), KINDS["groups"])
    records, *_ = scored(config)
    (tmp_path / "out" / "evaluation" / "splits" / "00003.json").unlink()
    (tmp_path / "out" / "evaluation" / "records" / "score.json").unlink()
    assert timeless(scored(config)[0]) == timeless(records)
