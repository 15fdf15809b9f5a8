"""Classifiers come from what methods are solved from: tall data, wide data."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.classifying import assert_scores, sklearn_scores
from helpers.samples import labelled
from naive_judging import fisher_linear_scores
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.naive_bayes import GaussianNB

from mmpca_dist import MarginPCA, class_moments
from mmpca_dist.errors import InputError
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.predictors.gaussian import naive_bayes, quadratic_discriminant
from mmpca_dist.predictors.linear import fisher_linear, linear_discriminant
from mmpca_dist.predictors.reduced_moments import ReducedMoments
from mmpca_dist.statistics.gather import gather_statistics
from mmpca_dist.tables.readers.memory import ArrayDataset


def statistics_of(X, y, *, standardize=False):
    """Return what methods are solved from, of rows in memory."""
    return gather_statistics(Rows.of(ArrayDataset(X, y), Threads(1)), precision="double", standardize=standardize)


@pytest.mark.parametrize(("n", "d"), [(150, 6), (24, 60)])
@pytest.mark.parametrize("options", [{}, {"center": True}, {"standardize": True}])
@pytest.mark.parametrize("variant", ["pca", "m-pca1a", "random"])
def test_statistics_of_tall_and_of_wide_data(n, d, variant, options):
    """Fewer rows than columns live in the space they span; components, theirs or not, reduce them all the same."""
    X, y = labelled(n, d, 2, seed=13)
    reducer = MarginPCA(4, "pca" if variant == "random" else variant, precision="double", **options).fit(X, y)
    if variant == "random":
        reducer.components_ = np.random.default_rng(13).standard_normal((4, d))
    statistics = statistics_of(X, y, standardize=options.get("standardize", False))
    reduced = ReducedMoments.of_statistics(statistics, reducer.components_, center=options.get("center", False))
    Z = reducer.transform(X)
    assert_scores(linear_discriminant(reduced), sklearn_scores(LinearDiscriminantAnalysis().fit(Z, y), Z), Z, 1e-7)
    assert_scores(naive_bayes(reduced), sklearn_scores(GaussianNB().fit(Z, y), Z), Z, 1e-7)
    assert_scores(fisher_linear(reduced), fisher_linear_scores(Z, y, Z), Z, 1e-7)


def test_wide_data_with_more_components_than_the_scatter_within_classes_has():
    """From 12 rows in two classes it has rank 10; with 11 components, Fisher's rule takes the pseudo-inverse."""
    X, y = labelled(12, 40, 2, seed=14)
    reducer = MarginPCA(11, precision="double").fit(X, y)
    reduced = ReducedMoments.of_statistics(statistics_of(X, y), reducer.components_)
    Z = reducer.transform(X)
    assert_scores(fisher_linear(reduced), fisher_linear_scores(Z, y, Z), Z, 1e-6)


def test_pooled_scatters_make_the_classifiers_that_need_their_sum(limits):
    X, y = labelled(90, 4, 6, seed=15)
    limits.pooled_bytes = 6 * 4 * 4 * 8 - 1
    moments = class_moments(X, y, precision="double")
    assert moments.pooled
    reduced = ReducedMoments.of(moments, np.eye(4), precision="double")
    assert_scores(linear_discriminant(reduced), sklearn_scores(LinearDiscriminantAnalysis().fit(X, y), X), X, 1e-7)
    assert_scores(fisher_linear(reduced), fisher_linear_scores(X, y, X), X, 1e-7)
    for name, rule in (("qda", quadratic_discriminant), ("naive-bayes", naive_bayes)):
        with pytest.raises(InputError, match=f"{name} needs the scatter of each class, and those of 6 classes in 4"):
            rule(reduced)
