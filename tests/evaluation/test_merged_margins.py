"""Margins of folds whose rows are never in memory as a whole, beside those of rows that are."""

from dataclasses import replace
from itertools import pairwise

import naive_evaluation
import numpy as np
import pytest
from helpers.classifying import moments_of
from helpers.evaluating import KNN, scored, timeless
from helpers.samples import batch_of
from helpers.tables import config_of, labelled, write_npz
from naive_judging import signed_distance, wasserstein

from mmpca_dist import MarginPCA
from mmpca_dist.evaluation.margins import LDA, QUANTILES, signed_distances
from mmpca_dist.evaluation.sampled_margins import Sampling
from mmpca_dist.evaluation.splits import fold_splits
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.passes.tree_reduction import concatenated
from mmpca_dist.predictors.classifiers import ClassifierSection
from mmpca_dist.predictors.fits import choose_C, fit_rows, linear_parts
from mmpca_dist.predictors.linear import fisher_linear, linear_discriminant
from mmpca_dist.runs import evaluation_scores
from mmpca_dist.tables.readers.memory import rows_in_memory

METHODS = ["pca", "m-pca0", "m-pca1b", "fisher", "lasso"]


def margins_of(tmp_path, monkeypatch, name, direct, **changes):
    """Return the records, evaluated with all rows in memory or by merging moments."""
    with monkeypatch.context() as patched:
        if direct:
            patched.setattr(evaluation_scores, "route", lambda *_: (False, True))
        else:
            patched.setattr(LIMITS, "direct_bytes", 0)
            patched.setattr(evaluation_scores, "read_all", pytest.fail)
        records, splits, _ = scored(config_of(tmp_path / name, tmp_path / "rows.npz", **changes))
        return records, splits


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("classifiers", [["fisher", "naive-bayes"], ["fisher", "svm", {"name": "logistic", "C": 10}]])
@pytest.mark.parametrize("splits", [{"splits": "folds", "folds": 3}, {"splits": "shares", "count": 2, "train": "2/3"}])
@pytest.mark.parametrize("n_classes", [pytest.param(2, marks=pytest.mark.e2e), 3])
def test_of_few_rows_they_are_those_of_rows_in_memory(
    n_classes, splits, classifiers, standardize, monkeypatch, tmp_path
):
    X, y = labelled(90, 5, n_classes, seed=1, separation=0.8)
    write_npz(tmp_path / "rows.npz", X * [1, 2, 5, 1, 0.5], np.asarray(["ash", "oak", "yew"])[y])
    settings = {
        "methods": METHODS, "n_components": [1, 3], "standardize": standardize,
        "evaluation": {**splits, "classifiers": classifiers},
    }  # fmt: skip
    merged, _ = margins_of(tmp_path, monkeypatch, "merged", False, **settings)
    direct, _ = margins_of(tmp_path, monkeypatch, "direct", True, **settings)
    assert len(merged) == len(direct)
    for found, expected in zip(merged, direct, strict=True):
        assert not found["notes"]
        assert found["margin_rows"] == found["rows"]
        keys = ("method", "n_components", "classifier")
        assert [[line[key] for key in keys] for line in found["margins"]] == [
            [line[key] for key in keys] for line in expected["margins"]
        ]
        assert len(found["margins"]) == 11 * (1 if "svm" not in classifiers else 2)
        for line, other in zip(found["margins"], expected["margins"], strict=True):
            for name in ("minimum", "quantiles", "edges", "wasserstein"):
                np.testing.assert_allclose(line[name], other[name], rtol=1e-6, atol=1e-7)
            assert np.abs(np.subtract(line["histogram"], other["histogram"])).sum() <= 4  # at the edge of a bar


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize(("name", "n_classes"), [("fisher", 3), ("lda", 2), ("svm", 2)])
@pytest.mark.parametrize("direct", [False, True])
def test_before_and_after_are_in_the_same_units(direct, name, n_classes, standardize, monkeypatch, tmp_path):
    """As by hand; and an orthonormal basis of all columns, standardised or not, changes no distance."""
    X, y = labelled(90, 5, n_classes, seed=1, separation=0.8)
    X = X * [1, 2, 50, 1, 0.01] + [0, 3, 0, -1, 0]
    write_npz(tmp_path / "rows.npz", X, y)
    settings = {
        "methods": ["pca", "m-pca0"], "n_components": [2, 5], "standardize": standardize,
        "evaluation": {"splits": "folds", "folds": 3, "classifiers": [name, KNN]},
    }  # fmt: skip
    records, splits = margins_of(tmp_path, monkeypatch, "out", direct, **settings)
    config = config_of("out", tmp_path / "rows.npz", **settings)
    expected = naive_evaluation.margins(config.evaluation.classifiers[0], X, y, splits, config)
    scale = max(np.abs(distances).max() for distances in expected.values())
    for record in records:
        assert [line["method"] for line in record["margins"]] == ["", "pca", "pca", "m-pca0", "m-pca0"]
        before = expected[record["split"], "", 5]
        for line in record["margins"]:
            after = expected[record["split"], line["method"], line["n_components"]]
            np.testing.assert_allclose(line["minimum"], min(after), atol=1e-4 * scale)
            np.testing.assert_allclose(line["wasserstein"], wasserstein(after, before), atol=1e-4 * scale)
            if line["n_components"] == 5:
                assert line["wasserstein"] < 1e-4 * scale


@pytest.mark.parametrize("name", ["fisher", "lda", "svm"])
def test_of_fewer_rows_than_columns(name, monkeypatch, tmp_path):
    """They are coordinates in the span of the rows; what lda leaves out depends on the columns."""
    X, y = labelled(60, 90, 3, seed=7, separation=2.0)
    write_npz(tmp_path / "rows.npz", X, y)
    wanted = {"splits": "folds", "folds": 3, "classifiers": [name, KNN]}
    settings = {"methods": ["pca"], "n_components": [2], "evaluation": wanted}
    records, splits = margins_of(tmp_path, monkeypatch, "out", True, **settings)
    parts = splits.codes(batch_of(y))[0]
    spec = ClassifierSection(name=LDA if name == "lda" else name, C=1.0 if name == "svm" else None)
    for part, record in enumerate(records):
        train = parts != part
        fitted = (
            fit_rows(spec, X[train], y[train]) if name != "fisher" else fisher_linear(moments_of(X[train], y[train]))
        )
        expected = signed_distances(fitted, X[~train], y[~train])
        before, after = record["margins"]
        np.testing.assert_allclose(before["quantiles"], np.percentile(expected, QUANTILES), rtol=1e-6, atol=1e-8)
        Z = MarginPCA(2, variant="pca", precision="double", solver="dual").fit(X[train], y[train]).transform(X)
        fitted = (
            fit_rows(ClassifierSection(name="svm"), Z[train], y[train])
            if name == "svm"
            else ({"fisher": fisher_linear, "lda": linear_discriminant}[name](moments_of(Z[train], y[train])))
        )
        moved = signed_distances(fitted, Z[~train], y[~train])
        np.testing.assert_allclose(after["quantiles"], np.percentile(moved, QUANTILES), rtol=1e-6, atol=1e-8)


RIDGE = {"name": "sklearn.linear_model.RidgeClassifier", "label": "ridge"}


@pytest.mark.parametrize(
    ("classifiers", "expected"),
    [
        (["svm", KNN, RIDGE, "fisher"], ["svm", "ridge"]),
        ([KNN, "lda", "fisher"], ["fisher"]),
        ([KNN, "qda", "lda"], ["lda"]),
        (["lda", "svm"], ["svm"]),
    ],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_linear_classifiers_of_rows_measure_them_and_of_dense_rows_else_fisher_or_lda(
    classifiers, expected, sparse, monkeypatch, tmp_path
):
    write_npz(tmp_path / "rows.npz", *labelled(60, 5, 2, seed=9), sparse=sparse)
    wanted = {"splits": "folds", "folds": 2, "classifiers": classifiers}
    records, _ = margins_of(tmp_path, monkeypatch, "out", True, n_components=[1, 3], evaluation=wanted)
    of_rows = {"svm", "ridge"} & set(expected)
    for record in records:
        found = list(dict.fromkeys(line["classifier"] for line in record["margins"]))
        assert found == (expected if of_rows or not sparse else [])


@pytest.mark.parametrize("direct", [False, True])
def test_a_nested_penalty_before_is_chosen_without_splitting_groups(direct, monkeypatch, tmp_path):
    """As for reduced rows: groups of equal rows would let rows choose by themselves."""
    X, y = labelled(40, 4, 2, seed=5, separation=0.4)
    X, y, groups = np.repeat(X, 3, axis=0), np.repeat(y, 3), np.repeat(np.arange(40), 3)
    write_npz(tmp_path / "rows.npz", X, y)
    np.save(tmp_path / "groups.npy", groups)
    wanted = {"splits": "groups", "column": str(tmp_path / "groups.npy"), "folds": 2,
              "classifiers": [{"name": "svm", "C": "nested"}]}  # fmt: skip
    records, splits = margins_of(tmp_path, monkeypatch, "out", direct, evaluation=wanted)
    parts = splits.part_of_name[0][groups]
    for part, record in enumerate(records):
        train = parts != part
        spec = ClassifierSection(name="svm", C="nested")
        C = choose_C([spec], X[train], y[train], groups[train])["svm"]
        expected = signed_distances(fit_rows(spec, X[train], y[train], C), X[~train], y[~train])
        np.testing.assert_allclose(record["margins"][0]["minimum"], expected.min(), rtol=1e-5)


def test_sparse_rows_are_divided_alone_and_the_record_says_so(monkeypatch, tmp_path):
    X, y = labelled(60, 4, 2, seed=7, separation=0.8)
    X = np.where(np.abs(X) > 0.5, X, 0) * [1, 100, 1, 1e-2]
    write_npz(tmp_path / "rows.npz", X, y, sparse=True)
    wanted = {"splits": "folds", "folds": 2, "classifiers": ["svm"]}
    records, splits = margins_of(tmp_path, monkeypatch, "out", True, standardize=True, evaluation=wanted)
    for part, record in enumerate(records):
        train = splits.codes(batch_of(y))[0] != part
        rows = X / X[train].std(axis=0)
        expected = naive_evaluation.distances_of(
            ClassifierSection(name="svm"), rows[train], y[train], rows[~train], y[~train]
        )
        np.testing.assert_allclose(record["margins"][0]["minimum"], min(expected), rtol=1e-4)
        (note,) = record["notes"]
        assert note.endswith("Their means are not subtracted, as they are from reduced rows.")


@pytest.mark.parametrize("direct", [False, True])
def test_where_no_classifier_is_linear_the_record_says_so(direct, monkeypatch, tmp_path):
    write_npz(tmp_path / "rows.npz", *labelled(60, 3, 2, seed=6))
    wanted = {"splits": "folds", "folds": 2, "classifiers": ["naive-bayes", KNN]}
    records, _ = margins_of(tmp_path, monkeypatch, "out", direct, evaluation=wanted)
    assert [record["margins"] for record in records] == [[], []]
    told = "such as svm or logistic, and there was none from naive-bayes, knn."
    assert all(len(record["notes"]) == 1 and record["notes"][0].endswith(told) for record in records)


@pytest.mark.parametrize("classifier", ["fisher", "svm"])
def test_of_many_rows_they_are_those_of_a_sample(classifier, monkeypatch, limits, tmp_path):
    """Fitted to moments of all rows that train, or reduced rows; in the original columns of an SVM, to a sample."""
    limits.margin_rows = 70
    limits.margin_sample_bytes = 8 * 4 * 300
    X, y = labelled(900, 4, 2, seed=2, separation=0.6)
    write_npz(tmp_path / "rows.npz", X, y)
    settings = {"n_components": [4], "evaluation": {"splits": "folds", "folds": 3, "classifiers": [classifier]}}
    records, splits = margins_of(tmp_path, monkeypatch, "merged", False, **settings)
    parts = splits.codes(batch_of(y))[0]
    sampling = Sampling.of(splits, 4, classifier == "svm")
    sample = sampling.take(replace(batch_of(y), X=X), parts, y)
    for part, record in enumerate(records):
        before, after = record["margins"]
        measured = sampling.is_measured(sample, part)
        rows, labels = sample["X"][measured], sample["code"][measured]
        assert 40 < len(rows) < 100
        assert sum(before["histogram"]) == record["margin_rows"] == len(rows)
        train = parts != part
        if classifier == "svm":
            chosen = sampling.is_fitted_to(sample, part)
            assert 150 < np.count_nonzero(chosen) < 250
            fitted = fit_rows(ClassifierSection(name="svm"), sample["X"][chosen], sample["code"][chosen])
        else:
            fitted = fisher_linear(moments_of(X[train], y[train]))
        distances = [
            signed_distance(x, label, *linear_parts(fitted), [0, 1]) for x, label in zip(rows, labels, strict=True)
        ]
        np.testing.assert_allclose(before["minimum"], min(distances), rtol=1e-6)
        np.testing.assert_allclose(before["quantiles"], np.percentile(distances, [1, 5, 25, 50, 75, 95, 99]), rtol=1e-6)
        if classifier == "svm":
            fitted = fit_rows(ClassifierSection(name="svm"), X[train], y[train])
        moved = [
            signed_distance(x, label, *linear_parts(fitted), [0, 1]) for x, label in zip(rows, labels, strict=True)
        ]
        np.testing.assert_allclose(after["minimum"], min(moved), rtol=1e-6)  # all components keep all distances
        np.testing.assert_allclose(after["wasserstein"], wasserstein(moved, distances), rtol=1e-6, atol=1e-9)
        assert len(record["notes"]) == 1 + (classifier == "svm")
        assert "smallest of a sample" in record["notes"][0]


def test_the_sample_is_the_same_whatever_the_stretches_of_rows(limits):
    limits.margin_sample_bytes = 8 * 3 * 400
    limits.margin_rows = 100
    X, y = labelled(2000, 3, 2, seed=3)
    splits = dealt(y)
    parts = splits.codes(batch_of(y))[0]
    sampling = Sampling.of(splits, 3, True)
    whole = sampling.take(replace(batch_of(y), X=X), parts, y)
    edges = [0, 1, 700, 1999, 2000]
    batches = [replace(batch_of(y[a:b], a), X=X[a:b]) for a, b in pairwise(edges)]
    joined = concatenated(*(sampling.take(each, parts[each.rows], y[each.rows]) for each in batches))
    for name in ("X", "hash", "part", "code"):
        np.testing.assert_array_equal(whole[name], joined[name])
    assert 300 < len(whole["X"]) < 600
    assert not Sampling.of(splits, 3, False).fitted.any()


def test_a_rare_class_and_a_small_part_are_in_the_sample(limits):
    limits.margin_sample_bytes = 0
    y = np.r_[np.zeros(5000, int), np.ones(30, int)]
    X = np.random.default_rng(4).standard_normal((len(y), 2))
    splits = dealt(y)
    sampling = Sampling.of(splits, 2, True)
    parts = splits.codes(batch_of(y))[0]
    sample = sampling.take(replace(batch_of(y), X=X), parts, y)
    for part in range(4):
        train = sampling.is_fitted_to(sample, part)
        assert np.count_nonzero(sample["code"][train] == 1) == np.count_nonzero((y == 1) & (parts != part))
        assert 30 < np.count_nonzero(sampling.is_measured(sample, part)) < 100


def dealt(y):
    return fold_splits(Rows.of(rows_in_memory(np.zeros((len(y), 1)), y, "rows"), Threads(1)), 4)


@pytest.mark.parametrize("classifiers", [["fisher"], ["svm"]])
def test_the_same_bits_for_any_workers_and_none_where_they_are_not_wanted(classifiers, monkeypatch, limits, tmp_path):
    limits.margin_rows = 100
    write_npz(tmp_path / "rows.npz", *labelled(600, 4, 2, seed=5, separation=0.6))
    found = []
    for workers in (1, 3):
        records, _ = margins_of(
            tmp_path, monkeypatch, f"{workers}", False, compute={"workers": workers},
            evaluation={"splits": "folds", "folds": 3, "classifiers": classifiers},
        )  # fmt: skip
        found.append(timeless(records))
    assert found[0] == found[1] and all(record["margins"] for record in found[0])
    wanted = {"splits": "folds", "folds": 3, "classifiers": classifiers, "margins": False}
    records, _ = margins_of(tmp_path, monkeypatch, "none", False, evaluation=wanted)
    assert all(record["margins"] == [] and not record["notes"] for record in records)
    assert [record["errors"] for record in records] == [record["errors"] for record in found[0]]
