"""Signed distances to the hyperplane of a linear classifier, and what a record says of them."""

import json
from dataclasses import replace

import numpy as np
import pytest
from helpers.classifying import moments_of
from helpers.tables import labelled
from helpers.watching import allocated
from naive_judging import signed_distance, wasserstein
from scipy.sparse import csr_array
from sklearn.svm import LinearSVC

from mmpca_dist import MarginPCA
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.eigen.options import SolverOptions
from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.cost_meter import Meter
from mmpca_dist.evaluation.margins import BARS, QUANTILES, margin_record, margin_records, robust_edges, signed_distances
from mmpca_dist.evaluation.reductions import Reduction, Reductions
from mmpca_dist.evaluation.request import Classifiers
from mmpca_dist.evaluation.scores import Part, score
from mmpca_dist.methods.base.statistics_for import class_statistics
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.passes.units import BLOCK_ROWS
from mmpca_dist.predictors.classifiers import ClassifierSection
from mmpca_dist.predictors.fits import FittedRows, fit_rows, linear_parts
from mmpca_dist.predictors.gaussian import naive_bayes
from mmpca_dist.predictors.linear import fisher_linear, linear_discriminant
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.readers.memory import rows_in_memory

NAMES = np.array(["a", "b", "c", "d"])


def spec(name, **settings):
    return ClassifierSection(name=name, **settings)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_distances_are_those_of_the_twin(n_classes):
    """Rules, fitted rows and estimators; text as labels; rows dense and sparse."""
    Z, codes = labelled(120, 5, n_classes, seed=1)
    y, labels = NAMES[codes], NAMES[:n_classes]
    reduced = moments_of(Z, y)
    for fitted in (
        fit_rows(spec("svm", bias=True), Z, y),
        fit_rows(spec("logistic"), Z, y),
        fisher_linear(reduced),
        linear_discriminant(reduced),
        fit_rows(spec("sklearn.linear_model.LogisticRegression", options={"max_iter": 1000}), Z, y),
    ):
        coef, intercept = linear_parts(fitted)
        expected = [signed_distance(z, label, coef, intercept, labels) for z, label in zip(Z, y, strict=True)]
        found = signed_distances(fitted, Z, y)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(signed_distances(fitted, csr_array(Z), y), expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(found > 0, fitted.predict(Z) == y)


def test_a_margin_that_is_known():
    """Two rows on each side of the line x + y = 1: of all lines it is the farthest from them."""
    Z = np.array([[0.0, 0.0], [-1.0, 1.0], [1.0, 1.0], [3.0, -1.0]])
    y = np.array([0, 0, 1, 1])
    found = signed_distances(fit_rows(spec("svm", C=1e4, bias=True, options={"intercept_scaling": 1e3}), Z, y), Z, y)
    np.testing.assert_allclose(found, np.sqrt(0.5), rtol=1e-3)
    wrong = signed_distances(
        fit_rows(spec("svm", C=1e4, bias=True, options={"intercept_scaling": 1e3}), Z, y), Z, 1 - y
    )
    np.testing.assert_allclose(wrong, -np.sqrt(0.5), rtol=1e-3)


def test_the_centre_of_a_rule_counts():
    """Rows ten million spreads from zero keep nine digits of what they differ by."""
    Z, y = labelled(200, 4, 3, seed=2, mean=0.0)
    near = signed_distances(linear_discriminant(moments_of(Z, y)), Z, y)
    far = signed_distances(linear_discriminant(moments_of(Z + 1e7, y)), Z + 1e7, y)
    np.testing.assert_allclose(far, near, atol=1e-6 * np.abs(near).max())


def test_classes_with_the_same_coefficients_have_no_hyperplane_between_them():
    model = LinearSVC().fit(*labelled(90, 3, 3, seed=3))
    model.coef_, model.intercept_ = np.array([[1.0, 0, 0], [1, 0, 0], [0, 2, 0]]), np.array([0.0, 1, 0])
    fitted = FittedRows("svm", np.arange(3), model)
    found = signed_distances(fitted, np.array([[1.0, 1, 5], [3, 1, 5]]), np.array([0, 2]))
    np.testing.assert_allclose(found, [(1 - 2) / 5**0.5, (2 - 4) / 5**0.5])
    model.coef_[:] = 1
    assert signed_distances(fitted, np.ones((1, 3)), np.array([0])) is None


def test_what_has_no_distances():
    Z, y = labelled(60, 3, 2, seed=4)
    assert signed_distances(naive_bayes(moments_of(Z, y)), Z, y) is None
    assert signed_distances(fit_rows(spec("svm"), np.zeros((60, 2)), y), np.zeros((60, 2)), y) is None
    with pytest.raises(InputError, match="7"):
        signed_distances(fit_rows(spec("svm"), Z, y), Z, y + 7)


def test_a_record():
    rng = np.random.default_rng(5)
    before, after = rng.standard_normal(300) + 1, rng.standard_normal(200) / 2
    record = margin_record(after, before, method="pca", n_components=3, classifier="svm")
    low, high = robust_edges(after)
    assert json.loads(json.dumps(record)) == record
    assert (record["method"], record["n_components"], record["classifier"]) == ("pca", 3, "svm")
    assert record["minimum"] == after.min()
    np.testing.assert_allclose(record["quantiles"], [np.percentile(after, q) for q in QUANTILES])
    np.testing.assert_allclose(record["wasserstein"], wasserstein(after.tolist(), before.tolist()))
    bars = np.minimum(np.floor((np.clip(after, low, high) - low) / (high - low) * BARS), BARS - 1).astype(int)
    assert record["histogram"] == np.bincount(bars, minlength=BARS).tolist()
    assert record["edges"] == [low, high]
    same = margin_record(before, before, method="", n_components=9, classifier="svm")
    assert same["wasserstein"] == 0
    assert sum(same["histogram"]) == 300
    flat = margin_record(np.ones(4), before, method="pca", n_components=1, classifier="svm")
    assert flat["edges"] == [1.0, 1.0]
    assert sum(flat["histogram"]) == 4


def test_edges_leave_out_what_lies_far_out():
    distances = np.random.default_rng(6).standard_normal(1000)
    low, high = robust_edges(np.append(distances, [1e6, -1e9]))
    assert -4.5 < low < -2.5
    assert 2.5 < high < 4.5
    assert robust_edges(np.array([1.0, 2.0, 3.0])) == (1.0, 3.0)


def items_of(X, y, train, sizes=(1, 3)):
    """Return (reduced rows, reductions) of two methods, as an evaluation has them."""
    blocks, items, width = [], [], 0
    for method in ("pca", "m-pca0"):
        for size in sizes:
            reducer = MarginPCA(size, variant=method, precision="double").fit(X[train], y[train])

            def moments(reducer=reducer):
                return moments_of(reducer.transform(X[train]), y[train])

            items.append(Reduction(method, size, np.arange(width, width + size), moments, size))
            blocks.append(reducer.transform(X))
            width += size
    part = Part(Batch.of_arrays(np.concatenate(blocks, axis=1), label=y), train, ~train)
    return part, Reductions(np.empty((X.shape[1], 0)), None, items)


def records_of(X, part, reductions, *specs, **penalties):
    classifiers = Classifiers(specs, penalties)
    fitted = score(reductions.items, classifiers, classifiers.specs, part, Meter()).fitted
    return margin_records(X, part, reductions, classifiers, fitted)


@pytest.mark.parametrize("shape", [(150, 6), (60, 90)])
@pytest.mark.parametrize("names", [["svm", "naive-bayes"], ["fisher", "naive-bayes"], ["lda", "naive-bayes"]])
def test_records_of_a_split(names, shape):
    """Fitted to the rows that train, in the original columns and in the reduced ones; measured on the others."""
    codes = np.random.default_rng(7).integers(3, size=shape[0])
    X = np.random.default_rng(8).standard_normal(shape) + 2 * np.eye(3, shape[1])[codes]
    y, train = NAMES[codes], np.arange(len(X)) % 3 > 0
    part, reductions = items_of(X, y, train)
    records = records_of(X, part, reductions, *map(spec, names))
    assert [(r["method"], r["n_components"]) for r in records] == [
        ("", shape[1]), ("pca", 1), ("pca", 3), ("m-pca0", 1), ("m-pca0", 3),
    ]  # fmt: skip
    assert {r["classifier"] for r in records} == {names[0]}

    def fit(Z):
        if names[0] == "svm":
            return fit_rows(spec("svm"), Z, y[train])
        return {"fisher": fisher_linear, "lda": linear_discriminant}[names[0]](moments_of(Z, y[train]))

    before = signed_distances(fit(X[train]), X[~train], y[~train])
    columns = [np.arange(1), np.arange(1, 4), np.arange(4, 5), np.arange(5, 8)]
    Z = part.rows.X
    reduced = [signed_distances(fit(Z[train][:, own]), Z[~train][:, own], y[~train]) for own in columns]
    for record, distances in zip(records, [before, *reduced], strict=True):
        scale = np.abs(distances).max()
        np.testing.assert_allclose(record["minimum"], distances.min(), atol=1e-5 * scale)
        np.testing.assert_allclose(record["quantiles"], np.percentile(distances, QUANTILES), atol=1e-5 * scale)
        np.testing.assert_allclose(record["wasserstein"], wasserstein(distances, before), atol=1e-5 * scale)
        assert sum(record["histogram"]) == (~train).sum()


def test_which_classifiers_have_records():
    """Linear ones that are fitted to rows, sparse or not; else fisher; else lda. Without hyperplane there are none."""
    X, y = labelled(90, 5, 2, seed=9)
    train = np.arange(90) % 3 > 0
    part, reductions = items_of(X, y, train)
    knn, ridge = "sklearn.neighbors.KNeighborsClassifier", "sklearn.linear_model.RidgeClassifier"
    found = records_of(csr_array(X), part, reductions, *map(spec, ["svm", knn, ridge, "fisher"]))
    assert [r["classifier"] for r in found] == ["svm"] * 5 + ["RidgeClassifier"] * 5
    assert records_of(csr_array(X), part, reductions, spec("fisher")) == []
    assert records_of(X, part, reductions, spec("naive-bayes"), spec(knn)) == []
    for names, told in (([knn, "lda", "fisher"], "fisher"), ([knn, "qda", "lda"], "lda"), (["lda", "svm"], "svm")):
        found = records_of(X, part, reductions, *map(spec, names))
        assert [r["classifier"] for r in found] == [told] * 5
    Z = part.rows.X
    empty = replace(part, rows=replace(part.rows, X=np.where(np.arange(Z.shape[1]) == 0, 0, Z)))
    found = records_of(X, empty, reductions, spec("svm"))
    assert [(r["method"], r["n_components"]) for r in found] == [("", 5), ("pca", 3), ("m-pca0", 1), ("m-pca0", 3)]
    chosen = records_of(X, part, reductions, spec("svm", C="auto"), svm=0.01)
    assert chosen == records_of(X, part, reductions, spec("svm", C=0.01))


@pytest.mark.parametrize("name", ["fisher", "lda"])
def test_many_classes_take_no_scatter_each(name):
    """For 100 classes they would be 72 MB."""
    X, y = labelled(800, 300, 100, seed=10)
    part, reductions = items_of(X, y, np.arange(800) < 640, sizes=(2,))
    classifiers = Classifiers([spec(name)])
    fitted = score(reductions.items, classifiers, classifiers.specs, part, Meter()).fitted
    with allocated() as memory:
        assert margin_records(X, part, reductions, classifiers, fitted)
    assert memory.peak < 8 * (10 * 300**2 + 3 * BLOCK_ROWS * 300) < 8 * 100 * 300**2 / 2


@pytest.mark.parametrize("shape", [(150, 6), (60, 90)])
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("standardize", [False, True])
def test_statistics_at_hand_serve_where_they_are_as_good_as_the_rows(shape, precision, standardize, monkeypatch):
    """In double precision nothing is formed from rows, and the margins are the same."""
    codes = np.random.default_rng(11).integers(3, size=shape[0])
    X = 5 + np.random.default_rng(12).standard_normal(shape) + 2 * np.eye(3, shape[1])[codes]
    y, train = NAMES[codes], np.arange(len(X)) % 3 > 0
    part, reductions = items_of(X, y, train)
    rows = Rows.of(rows_in_memory(X[train], y[train], "rows"), Threads(1))
    statistics = class_statistics(rows, Needs(), SolverOptions(), precision=precision, standardize=standardize)
    classifiers = Classifiers([spec("fisher")])
    reductions = replace(reductions, mean=statistics.mean, scale=statistics.scale)
    fitted = score(reductions.items, classifiers, classifiers.specs, part, Meter()).fitted
    expected = margin_records(X, part, reductions, classifiers, fitted)
    if statistics.precision == "double":
        monkeypatch.setattr("mmpca_dist.evaluation.margins._columns_of", pytest.fail)
    at_hand = margin_records(X, part, reductions, classifiers, fitted, statistics)
    for found, other in zip(at_hand, expected, strict=True):
        np.testing.assert_allclose(found["quantiles"], other["quantiles"], rtol=1e-8)
        np.testing.assert_allclose(found["wasserstein"], other["wasserstein"], rtol=1e-8, atol=1e-12)
