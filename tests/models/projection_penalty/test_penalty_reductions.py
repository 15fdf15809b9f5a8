"""The reductions that projection penalties take: methods, arrays, transformers, linear or not."""

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse
from helpers.penalties import EXACT, LOSSES, problem, signs
from naive_penalties import penalized_model
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.decomposition import NMF, PCA, LatentDirichletAllocation
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem

from mmpca_dist import PLS, MarginPCA, ProjectionPenaltyClassifier
from mmpca_dist.errors import InputError


@pytest.mark.parametrize(
    "reduction",
    ["m-pca0", {"name": "m-pca1a", "pairing": "one-vs-one"}, "m-pca2", "fisher", "pls", "bm2pca"],
    ids=lambda value: value if isinstance(value, str) else value["name"],
)
def test_any_method_is_a_reduction(reduction):
    X, y = load_wine(return_X_y=True)
    model = ProjectionPenaltyClassifier(reduction, n_components=2, alpha=5.0, standardize=True, precision="double")
    model.fit(X, y)
    name = reduction if isinstance(reduction, str) else reduction["name"]
    reducer = {"pls": PLS}.get(name)
    if name.startswith("m-pca"):
        options = {} if isinstance(reduction, str) else {"pairing": reduction["pairing"]}
        reducer = MarginPCA(2, name, standardize=True, precision="double", **options).fit(X, y)
        given = ProjectionPenaltyClassifier(reducer.components_, alpha=5.0, standardize=True, precision="double")
        np.testing.assert_allclose(model.coef_, given.fit(X, y).coef_, rtol=1e-6, atol=1e-9)
        fitted = clone(given).set_params(reduction=reducer).fit(X, y)
        np.testing.assert_allclose(model.coef_, fitted.coef_, rtol=1e-6, atol=1e-9)
    assert model.score(X, y) > 0.95 and model.weights_.shape == (3, 6 if name == "bm2pca" else 2)


def test_a_linear_transformer_of_scikit_learn_is_its_matrix():
    X, y = load_wine(return_X_y=True)
    for transformer in (PCA(3), PCA(3).fit(X)):
        model = ProjectionPenaltyClassifier(transformer, alpha=10.0, loss="squared").fit(X, y)
        given = ProjectionPenaltyClassifier(PCA(3).fit(X).components_, alpha=10.0, loss="squared").fit(X, y)
        np.testing.assert_allclose(model.coef_, given.coef_, atol=1e-12)


@pytest.mark.e2e
def test_features_of_another_transformer_are_appended():
    """Topics of counts: the model is one of [x; phi(x)] whose coefficients of phi bear epsilon."""
    rng = np.random.default_rng(10)
    X = rng.poisson(1.5, size=(70, 8)).astype(float)
    y = (X[:, 0] + X[:, 1] + rng.normal(size=70) > 3).astype(int)
    topics = FrozenEstimator(LatentDirichletAllocation(3, random_state=0).fit(X))
    Z = topics.transform(X)
    settings = {"alpha": 1.0, **EXACT}
    for loss, penalty, epsilon in [*((loss, "l2", 0.05) for loss in LOSSES), ("logistic", "l2", 20.0),
                                   ("squared", "l2", 3.0), ("hinge", "l1", 0.05), ("logistic", "l1", 2.0)]:  # fmt: skip
        given = {"loss": loss, "penalty": penalty, "epsilon": epsilon, **settings}
        model = ProjectionPenaltyClassifier(topics, **given).fit(X, y)
        both, P = np.hstack([X, Z]), np.eye(11)[8:]
        w, b, least = penalized_model(both, signs(y), P, 1.0, epsilon, loss, penalty, appended=3)
        np.testing.assert_allclose(model.decision_function(X), both @ w + b, atol=1e-3)
        np.testing.assert_allclose(model.coef_[0], w, atol=2e-3 * np.abs(w).max())
        np.testing.assert_allclose(model.weights_[0], w[8:], atol=2e-3 * np.abs(w).max())
        assert model.coef_.shape == (1, 11) and model.n_features_in_ == 8
        assert model.objective_[0] == pytest.approx(least, rel=1e-5)
        sparse = ProjectionPenaltyClassifier(topics, **given).fit(scipy.sparse.csr_array(X), y)
        np.testing.assert_allclose(sparse.decision_function(X), model.decision_function(X), atol=1e-5)
        lazy = ProjectionPenaltyClassifier(topics, **given).fit(da.from_array(X, (20, 8)), y)
        scores = lazy.decision_function(da.from_array(X, (20, 8)))
        assert dask.is_dask_collection(scores)
        np.testing.assert_allclose(scores.compute(), model.decision_function(X), atol=1e-5)
    unfitted = ProjectionPenaltyClassifier(LatentDirichletAllocation(3, random_state=0), loss="squared").fit(X, y)
    assert unfitted.coef_.shape == (1, 11)
    with pytest.raises(InputError, match="fit it to some rows first"):
        clone(unfitted).fit(da.from_array(X, (20, 8)), y)
    with pytest.raises(InputError, match="StandardScaler"):
        clone(unfitted).set_params(standardize=True).fit(X, y)


def test_transformers_that_seem_linear_on_some_rows_are_not_taken_for_it():
    X, y, _ = problem(60, 6, 2, seed=18, mean=1e3)
    X[:20] = X[0]
    same = Nystroem(n_components=5, gamma=0.1, random_state=0)
    assert ProjectionPenaltyClassifier(same, loss="squared", precision="double").fit(X, y).coef_.shape == (1, 11)
    white = ProjectionPenaltyClassifier(PCA(2, whiten=True), loss="squared", precision="double").fit(X, y)
    assert white.coef_.shape == (1, 8)
    counts = np.abs(X - 1e3)
    factors = ProjectionPenaltyClassifier(NMF(2, random_state=0, max_iter=500), loss="squared").fit(counts, y)
    assert factors.coef_.shape == (1, 8)


def test_rows_that_come_later_need_a_reduction_that_is_fitted():
    X, y, _ = problem(80, 6, 2, seed=19)
    assert not hasattr(ProjectionPenaltyClassifier(PCA(2), loss="squared"), "partial_fit")
    for reduction in (PCA(2).fit(X), FrozenEstimator(Nystroem(n_components=4, random_state=0).fit(X))):
        whole = ProjectionPenaltyClassifier(reduction, loss="squared", alpha=2.0, precision="double").fit(X, y)
        parts = ProjectionPenaltyClassifier(reduction, loss="squared", alpha=2.0, precision="double")
        parts.partial_fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
        np.testing.assert_allclose(parts.decision_function(X), whole.decision_function(X), atol=1e-8)


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("of_reduction", [False, True])
def test_a_fitted_reduction_is_of_columns_in_their_own_units(standardize, of_reduction):
    """With a free subspace and an infinite alpha, coefficients lie in the span of its directions for raw rows."""
    X, y, _ = problem(100, 5, 2, seed=20)
    y[:25] = 1 - y[:25]
    X = X * [3, 1, 1, 1, 0.3]
    reducer = MarginPCA(2, "pca", standardize=of_reduction, precision="double").fit(X, y)
    raw = reducer.projection()[0].T
    model = ProjectionPenaltyClassifier(reducer, alpha=1e8, epsilon=0, standardize=standardize, **EXACT).fit(X, y)
    left = np.linalg.lstsq(raw.T, model.coef_[0], rcond=None)[1]
    assert left.max(initial=0.0) < 1e-8 * np.sum(model.coef_**2)


def test_what_an_estimator_asks_for_itself_is_kept():
    X, y = load_digits(return_X_y=True)
    model = ProjectionPenaltyClassifier(MarginPCA(n_components=3), loss="squared").fit(X, y)
    assert model.weights_.shape == (10, 3)
    lazy = da.from_array(X, (500, 16))
    features = FrozenEstimator(Nystroem(n_components=4, gamma=1e-3, random_state=0).fit(X))
    assert ProjectionPenaltyClassifier(features, loss="squared").fit(lazy, y).coef_.shape == (10, 68)


@pytest.mark.parametrize(("reduction", "message"), [
    (PCA, "is the class PCA: give an instance"),
    ({"variant": "pca"}, "lacks the name of a method"),
    (1e-200 * np.eye(5)[:2], "out of reach: scale it"),
    (MarginPCA(2, standardize=True), "standardize=True of the reduction, but not here"),
])  # fmt: skip
def test_reductions_that_are_refused(reduction, message):
    X, y, _ = problem(40, 5, 2)
    with pytest.raises(InputError, match=message):
        ProjectionPenaltyClassifier(reduction).fit(X, y)


def test_a_transformer_needs_rows():
    X, y, _ = problem(40, 5, 2)
    moments = ProjectionPenaltyClassifier("pca", loss="squared", n_components=2).fit(X, y).moments_
    with pytest.raises(InputError, match="What PCA makes of rows follows from rows alone"):
        ProjectionPenaltyClassifier.from_moments(moments, reduction=PCA(2), loss="squared")
