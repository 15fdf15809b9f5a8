"""Classifiers come from whatever methods are solved from: tall data, wide data, passes of products."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.classifying import assert_scores, sklearn_scores
from helpers.samples import labelled
from naive_judging import fisher_linear_scores
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.naive_bayes import GaussianNB

from mmpca_dist import MarginPCA
from mmpca_dist.datasets.dataset import make_spans
from mmpca_dist.datasets.readers.memory import ArrayDataset
from mmpca_dist.errors import InputError
from mmpca_dist.predictors.gaussian import naive_bayes
from mmpca_dist.predictors.linear import fisher_linear, linear_discriminant
from mmpca_dist.predictors.reduced_moments import ReducedMoments
from mmpca_dist.solvers.block_passes import statistics_in_passes
from mmpca_dist.solvers.needs import Needs
from mmpca_dist.solvers.options import SolverOptions
from mmpca_dist.statistics.census import take_census
from mmpca_dist.statistics.gather import gather_statistics
from mmpca_dist.statistics.rows import Rows
from mmpca_dist.statistics.schedulers import Threads
from mmpca_dist.statistics.tree_reduction import Tasks


def statistics_of(X, y, *, solver=None, standardize=False):
    """Return what methods are solved from, of rows in memory."""
    dataset = ArrayDataset(X, y)
    spans, scheduler = make_spans(dataset), Threads(1)
    census = take_census(dataset, spans, Tasks(scheduler=scheduler))
    options = {"precision": "double", "standardize": standardize}
    rows = Rows(dataset=dataset, census=census, spans=spans, scheduler=scheduler)
    if solver is None:
        return gather_statistics(rows, **options)
    how = SolverOptions(solver, 2, 2, 1e-4)
    return statistics_in_passes(rows, Needs(n_components=3), how, **options)


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
    """Of 12 rows in two classes it has rank 10; with 11 components, Fisher's rule takes the pseudo-inverse."""
    X, y = labelled(12, 40, 2, seed=14)
    reducer = MarginPCA(11, precision="double").fit(X, y)
    reduced = ReducedMoments.of_statistics(statistics_of(X, y), reducer.components_)
    Z = reducer.transform(X)
    assert_scores(fisher_linear(reduced), fisher_linear_scores(Z, y, Z), Z, 1e-6)


def test_statistics_from_passes():
    """In the basis they know the scatter; outside of it, or from a sketch, they say that they do not."""
    X, y = labelled(200, 30, 3, seed=15)
    statistics = statistics_of(X, y, solver="krylov")
    components = statistics.loadings(np.eye(statistics.moments.n_features)[:, :3])
    reduced, Z = ReducedMoments.of_statistics(statistics, components), X @ components.T
    assert_scores(fisher_linear(reduced), fisher_linear_scores(Z, y, Z), Z, 1e-7)
    sketch = statistics_of(X, y, solver="nystroem")
    for found, rows in ((statistics, np.eye(30)[:2]), (sketch, sketch.loadings(np.eye(sketch.moments.n_features)))):
        with pytest.raises(InputError, match="never formed: take the moments of the reduced rows"):
            ReducedMoments.of_statistics(found, rows)
    with pytest.raises(InputError, match=r"shape \(3, 29\); of 30 columns"):
        ReducedMoments.of_statistics(statistics, components[:, :29])
