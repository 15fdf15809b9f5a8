"""Signed distances to the hyperplane of a linear classifier, and what a record says of them."""

import json

import numpy as np
import pytest
from helpers.classifying import moments_of
from helpers.tables import labelled
from helpers.watching import allocated
from naive_judging import signed_distance, wasserstein
from scipy.sparse import csr_array
from sklearn.svm import LinearSVC

from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.margins import (
    BARS,
    QUANTILES,
    classifiers_before,
    margin_record,
    robust_edges,
    signed_distances,
)
from mmpca_dist.evaluation.request import Classifiers
from mmpca_dist.passes.units import BLOCK_ROWS
from mmpca_dist.predictors.classifiers import ClassifierSection
from mmpca_dist.predictors.fits import FittedRows, fit_rows, linear_parts
from mmpca_dist.predictors.gaussian import naive_bayes
from mmpca_dist.predictors.linear import fisher_linear, linear_discriminant
from mmpca_dist.tables.batch import Batch

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


@pytest.mark.parametrize("name", ["fisher", "lda"])
def test_many_classes_take_no_scatter_each(name):
    """For 100 classes they would be 72 MB."""
    X, y = labelled(800, 300, 100, seed=10)
    rows = Batch.of_arrays(X, label=y)
    with allocated() as memory:
        (found,) = classifiers_before([spec(name)], rows, Classifiers([spec(name)])).values()
    assert memory.peak < 8 * (10 * 300**2 + 3 * BLOCK_ROWS * 300) < 8 * 100 * 300**2 / 2
    np.testing.assert_array_equal(found.predict(X) == y, signed_distances(found, X, y) > 0)
