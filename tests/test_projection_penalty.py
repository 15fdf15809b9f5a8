"""Projection penalties as estimators: against the twin, their limits, parts, choice of alpha, and kinds of rows."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse
from helpers.samples import labelled
from naive_penalties import losses, objective, penalized_model
from sklearn.base import clone
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import load_diabetes, load_digits, load_wine
from sklearn.decomposition import NMF, PCA, LatentDirichletAllocation
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_estimator
from threadpoolctl import threadpool_limits

from mmpca_dist import PLS, MarginPCA, ProjectionPenaltyClassifier, ProjectionPenaltyRegressor
from mmpca_dist.errors import InputError
from mmpca_dist.methods import penalty_fit
from mmpca_dist.solvers.penalties import SparsePenalty, SubspacePenalty

LOSSES = ["squared", "logistic", "hinge", "squared hinge"]
EXACT = {"tolerance": 1e-9, "precision": "double"}


def problem(n, d, K, seed=0, n_classes=2, mean=2.0):
    X, y = labelled(n, d, n_classes, seed=seed, mean=mean, separation=0.5)
    return X, y, np.random.default_rng(seed + 1).normal(size=(K, d))


def signs(y, positive=1):
    return np.where(y == positive, 1.0, -1.0)


def check_twin(model, number, X, y, P, alpha, epsilon, loss, penalty="l2", fit_intercept=True):
    """The objective is the twin's, and so are coefficients: as near as objectives that near allow, or nearer."""
    w, b, least = penalized_model(X, y, P, alpha, epsilon, loss, penalty, fit_intercept)
    assert model.objective_[number] == pytest.approx(least, rel=1e-7)
    size = max(np.abs(w).max(), 1e-3)
    np.testing.assert_allclose(model.coef_[number], w, atol=1e-4 * size)
    assert model.intercept_[number] == pytest.approx(b, abs=1e-4 * size * np.abs(X).sum(axis=1).max())
    v = model.weights_[number]
    np.testing.assert_allclose(model.coef_inside_[number], P.T @ v, atol=1e-9)
    np.testing.assert_allclose(model.coef_outside_[number], model.coef_[number] - P.T @ v, atol=1e-9)
    reached = objective(X, y, P, alpha, epsilon, loss, penalty, model.coef_[number], model.intercept_[number], v)
    assert reached == pytest.approx(model.objective_[number], rel=1e-9)


@pytest.mark.fast
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 1.0])
@pytest.mark.parametrize("penalty", ["l2", "l1"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("n", "d"), [(60, 6), (14, 24)])
def test_it_is_its_twin(n, d, loss, penalty, epsilon):
    X, y, P = problem(n, d, 2, seed=n)
    model = ProjectionPenaltyClassifier(P, alpha=0.7, epsilon=epsilon, loss=loss, penalty=penalty, **EXACT).fit(X, y)
    check_twin(model, 0, X, signs(y), P, 0.7, epsilon, loss, penalty)
    assert model.gaps_[0] <= 1e-7 and model.proved_[0] == (epsilon > 0 or (loss == "squared" and penalty == "l2"))


@pytest.mark.parametrize("penalty", ["l2", "l1"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("n", "d"), [(40, 5), (10, 16)])
def test_without_an_intercept(n, d, loss, penalty):
    X, y, P = problem(n, d, 2, seed=3)
    settings = {"alpha": 2.0, "epsilon": 0.1, "loss": loss, "penalty": penalty, "fit_intercept": False, **EXACT}
    model = ProjectionPenaltyClassifier(P, **settings).fit(X, y)
    check_twin(model, 0, X, signs(y), P, 2.0, 0.1, loss, penalty, fit_intercept=False)
    assert model.intercept_[0] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_several_classes_are_models_of_each_against_the_rest(loss):
    X, y, P = problem(80, 5, 2, seed=4, n_classes=3)
    model = ProjectionPenaltyClassifier(P, alpha=1.0, epsilon=0.01, loss=loss, **EXACT).fit(X, y)
    for number in range(3):
        check_twin(model, number, X, signs(y, number), P, 1.0, 0.01, loss)
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores, X @ model.coef_.T + model.intercept_, atol=1e-9)
    assert model.predict(X).tolist() == scores.argmax(axis=1).tolist()
    parts = model.transform(X)
    np.testing.assert_allclose(parts, X @ np.concatenate([model.coef_inside_, model.coef_outside_]).T, atol=1e-9)


@pytest.mark.parametrize("mean", [0.0, 1e6])
@pytest.mark.parametrize("loss", LOSSES)
def test_constant_columns_repeated_rows_and_a_mean_far_from_zero(loss, mean):
    X, y, P = problem(50, 5, 2, seed=5, mean=0.0)
    X[:, 2] = 4.0
    X = np.concatenate([X, X[:10]])
    y = np.concatenate([y, y[:10]])
    model = ProjectionPenaltyClassifier(P, alpha=1.0, epsilon=0.1, loss=loss, **EXACT).fit(X + mean, y)
    w, _, least = penalized_model(X, signs(y), P, 1.0, 0.1, loss)
    assert model.objective_[0] == pytest.approx(least, rel=1e-6)
    np.testing.assert_allclose(model.coef_[0], w, atol=1e-4)
    near = ProjectionPenaltyClassifier(P, alpha=1.0, epsilon=0.1, loss=loss, **EXACT).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X + mean), near.decision_function(X), atol=1e-4)


@pytest.mark.parametrize(("loss", "plain"), [
    ("logistic", LogisticRegression(C=1 / 6, tol=1e-10, max_iter=10_000)),
    ("hinge", SVC(kernel="linear", C=1 / 6, tol=1e-9)),
    ("squared", RidgeClassifier(alpha=3.0)),
])  # fmt: skip
def test_an_infinite_epsilon_gives_the_plain_model(loss, plain):
    X, y, P = problem(70, 5, 2, seed=6)
    model = ProjectionPenaltyClassifier(P, alpha=3.0, epsilon=1e9, loss=loss, **EXACT).fit(X, y)
    plain.fit(X, y)
    np.testing.assert_allclose(model.coef_[0], np.ravel(plain.coef_), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model.intercept_, plain.intercept_, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("penalty", ["l2", "l1"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_free_subspace_and_an_infinite_alpha_give_the_model_in_the_reduced_space(loss, penalty):
    X, y, P = problem(90, 5, 2, seed=7)
    y[:20] = 1 - y[:20]  # so that the reduced rows do not tell the classes apart
    model = ProjectionPenaltyClassifier(P, alpha=1e7, epsilon=0, loss=loss, penalty=penalty, **EXACT).fit(X, y)
    w, _, least = penalized_model(X @ P.T, signs(y), np.eye(2), 1.0, 0.0, loss)  # of two columns, which are free
    assert model.objective_[0] == pytest.approx(least, rel=1e-5)
    np.testing.assert_allclose(model.coef_[0], P.T @ w, rtol=1e-3, atol=1e-5)
    assert np.abs(model.coef_outside_).max() < 1e-5


def test_the_penalty_is_the_smallest_over_v():
    rng = np.random.default_rng(8)
    P, w = rng.normal(size=(3, 7)), rng.normal(size=(4, 7))
    for epsilon in (0.0, 1e-6, 1.0, 1e3):
        penalty = SubspacePenalty.of(P, epsilon)
        if epsilon:
            R = np.linalg.inv(np.eye(7) + P.T @ P / epsilon)
            np.testing.assert_allclose(penalty.matrix(), R, atol=1e-8)
            c, alphas = rng.normal(size=(4, 7)), rng.uniform(1, 2, 4)
            expected = np.einsum("mr,rs,ms->m", c, np.linalg.inv(R), c) / (4 * alphas)
            np.testing.assert_allclose(penalty.conjugate(c, alphas)[0], expected, rtol=1e-6)
        for each in w:
            rows = np.concatenate([P.T, np.sqrt(epsilon) * np.eye(3)])
            v, *_ = np.linalg.lstsq(rows, np.append(each, np.zeros(3)), rcond=None)
            least = np.sum((each - P.T @ v) ** 2) + epsilon * v @ v
            assert penalty.values(each[None])[0] == pytest.approx(least, abs=1e-9)
            np.testing.assert_allclose(penalty.weights(each[None])[0], v, atol=1e-8)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared hinge"])
def test_a_gap_is_never_less_than_what_the_objective_misses(loss):
    """After any number of passes: the bound lies below the minimum."""
    X, y, P = problem(80, 6, 2, seed=9)
    least = penalized_model(X, signs(y), P, 0.1, 0.01, loss)[2]
    for passes in range(1, 14):
        model = ProjectionPenaltyClassifier(P, alpha=0.1, epsilon=0.01, loss=loss, **EXACT | {"max_sweeps": passes})
        model.fit(X, y)
        assert model.objective_[0] * (1 - model.gaps_[0]) <= least * (1 + 1e-9) <= model.objective_[0] * (1 + 2e-9)
        assert model.n_iter_ <= passes
    assert "raise max_sweeps" in " ".join(clone(model).set_params(max_sweeps=2).fit(X, y)._remarks())


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
    with pytest.raises(InputError, match="fit it first"):
        clone(unfitted).fit(da.from_array(X, (20, 8)), y)
    with pytest.raises(InputError, match="StandardScaler"):
        clone(unfitted).set_params(standardize=True).fit(X, y)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", ["csr", "dask", "dask csr", "float32"])
def test_kinds_of_rows(kind, loss):
    X, y, P = problem(120, 6, 2, seed=11)
    X = np.where(np.abs(X - 2) < 0.3, 0.0, X).astype(np.float32).astype(float)
    dense = ProjectionPenaltyClassifier(P, alpha=0.5, loss=loss, **EXACT).fit(X, y)
    csr = scipy.sparse.csr_array(X)
    rows = {
        "csr": csr,
        "dask": da.from_array(X, (50, 6)),
        "dask csr": da.from_array(X, (50, 6)).map_blocks(scipy.sparse.csr_array, meta=csr[:0]),
        "float32": X.astype(np.float32),
    }[kind]
    model = clone(dense).fit(rows, y)
    np.testing.assert_allclose(model.coef_, dense.coef_, atol=1e-4 * np.abs(dense.coef_).max())
    scores = model.decision_function(rows)
    assert dask.is_dask_collection(scores) == kind.startswith("dask")
    np.testing.assert_allclose(np.asarray(scores), dense.decision_function(X), atol=1e-3)
    assert np.asarray(model.predict(rows)).tolist() == dense.predict(X).tolist()


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_standardised_columns_are_those_of_a_scaler_in_front(loss, standardize):
    X, y, P = problem(60, 5, 2, seed=12)
    X = X * [1, 10, 100, 0.1, 1]
    model = ProjectionPenaltyClassifier(P, alpha=1.0, loss=loss, standardize=standardize, **EXACT).fit(X, y)
    plain = ProjectionPenaltyClassifier(P, alpha=1.0, loss=loss, **EXACT)
    twin = make_pipeline(StandardScaler(), plain).fit(X, y) if standardize else plain.fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), twin.decision_function(X), atol=1e-4)
    np.testing.assert_allclose(model.decision_function(X), (X @ model.coef_.T + model.intercept_)[:, 0], atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
def test_alpha_is_chosen_by_errors_in_folds(loss):
    X, y, P = problem(90, 6, 2, seed=13, n_classes=3)
    grid = (1e-2, 1.0, 100.0)
    model = ProjectionPenaltyClassifier(P, alpha="auto", alphas=grid, loss=loss, **EXACT).fit(X, y)
    folds = _ranks(y) % 5
    expected = []
    for alpha in grid:
        wrong = 0
        for fold in range(5):
            train = folds != fold
            one = ProjectionPenaltyClassifier(P, alpha=alpha, loss=loss, **EXACT | {"tolerance": 1e-6})
            wrong += np.count_nonzero(one.fit(X[train], y[train]).predict(X[~train]) != y[~train])
        expected.append(wrong)
    # rough fits may differ in a row or two that lie on the border
    np.testing.assert_allclose(model.candidate_errors_, expected, atol=0 if loss == "squared" else 3)
    chosen = grid[max(i for i in range(3) if model.candidate_errors_[i] == model.candidate_errors_.min())]
    assert model.alpha_[0] == chosen
    again = ProjectionPenaltyClassifier(P, alpha=chosen, loss=loss, **EXACT).fit(X, y)
    np.testing.assert_allclose(model.coef_, again.coef_, atol=1e-5)


def _ranks(y):
    """Return the number of each row within its class."""
    return np.asarray([np.count_nonzero(y[:i] == y[i]) for i in range(len(y))])


def test_squared_losses_follow_from_moments():
    """No further pass, and rows that come later extend the fit."""
    X, y = load_digits(return_X_y=True)
    whole = ProjectionPenaltyClassifier("m-pca0", n_components=5, alpha=10.0, loss="squared", precision="double")
    whole.fit(X, y)
    parts = clone(whole).fit(X[:900], y[:900]).partial_fit(X[900:], y[900:])
    assert whole.n_iter_ == 0
    np.testing.assert_allclose(parts.coef_, whole.coef_, atol=1e-9)
    stored = ProjectionPenaltyClassifier.from_moments(
        whole.moments_, n_components=5, reduction="m-pca0", alpha=10.0, loss="squared", precision="double"
    )
    np.testing.assert_allclose(stored.coef_, whole.coef_, atol=1e-12)
    assert not hasattr(ProjectionPenaltyClassifier(loss="hinge"), "partial_fit")


def regression(n, d, q=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 5
    Y = X @ rng.normal(size=(d, q)) + rng.normal(size=(n, q)) + 10
    return X, Y, rng.normal(size=(2, d))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("penalty", ["l2", "l1"])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize(("n", "d"), [(50, 6), (12, 20)])
def test_the_regressor_is_its_twin(n, d, epsilon, penalty, fit_intercept):
    X, Y, P = regression(n, d, 2)
    model = ProjectionPenaltyRegressor(
        P, alpha=3.0, epsilon=epsilon, penalty=penalty, fit_intercept=fit_intercept, **EXACT
    ).fit(X, Y)
    for number, y in enumerate(Y.T):
        check_twin(model, number, X, y, P, 3.0, epsilon, "squared", penalty, fit_intercept)
    np.testing.assert_allclose(model.predict(X), X @ model.coef_.T + model.intercept_, atol=1e-9)


def test_the_regressor_chooses_alpha_by_squared_errors_in_folds():
    X, Y, P = regression(80, 6, seed=1)
    y, grid = Y[:, 0], (0.1, 10.0, 1000.0)
    model = ProjectionPenaltyRegressor(P, alpha="auto", alphas=grid, precision="double").fit(X, y)
    folds, expected = np.arange(80) % 5, []
    for alpha in grid:
        fits = [ProjectionPenaltyRegressor(P, alpha=alpha).fit(X[folds != k], y[folds != k]) for k in range(5)]
        expected.append(sum(((fits[k].predict(X[folds == k]) - y[folds == k]) ** 2).sum() for k in range(5)))
    np.testing.assert_allclose(model.candidate_errors_, expected, rtol=1e-8)
    assert model.alpha_[0] == grid[int(np.argmin(expected))]


def test_reductions_and_limits_of_the_regressor():
    X, y = load_diabetes(return_X_y=True)
    by_name = ProjectionPenaltyRegressor("pls", n_components=2, alpha=0.1).fit(X, y)
    P = PLS(2, target="continuous").fit(X, y).components_
    np.testing.assert_allclose(by_name.coef_, ProjectionPenaltyRegressor(P, alpha=0.1).fit(X, y).coef_, rtol=1e-8)
    other = ProjectionPenaltyRegressor(PLSRegression(2, scale=False), alpha=0.1, epsilon=0).fit(X, y)
    free = ProjectionPenaltyRegressor(P, alpha=0.1, epsilon=0).fit(X, y)
    np.testing.assert_allclose(other.coef_, free.coef_, rtol=1e-6)  # the same subspace
    plain = ProjectionPenaltyRegressor(P, alpha=0.1, epsilon=1e9).fit(X, y)
    np.testing.assert_allclose(plain.coef_, Ridge(alpha=0.1).fit(X, y).coef_, rtol=1e-6)
    reduced = ProjectionPenaltyRegressor(P, alpha=1e10, epsilon=0).fit(X, y)
    np.testing.assert_allclose(
        reduced.predict(X), PLSRegression(2, scale=False).fit(X, y).predict(X).ravel(), rtol=1e-5
    )
    parts = clone(by_name).fit(X[:200], y[:200]).partial_fit(X[200:], y[200:])
    np.testing.assert_allclose(parts.coef_, by_name.coef_, rtol=1e-8)
    lazy = clone(by_name).fit(da.from_array(X, (100, 10)), y)
    np.testing.assert_allclose(lazy.predict(da.from_array(X, (100, 10))).compute(), by_name.predict(X), rtol=1e-8)
    with pytest.raises(InputError, match="takes classes, and y holds numbers"):
        ProjectionPenaltyRegressor("m-pca0").fit(X, y)


@pytest.mark.parametrize("estimator", [
    ProjectionPenaltyClassifier(n_components=1),
    ProjectionPenaltyClassifier(n_components=1, loss="hinge", penalty="l1"),
    ProjectionPenaltyClassifier(n_components=1, loss="squared", reduction="pca"),
    ProjectionPenaltyRegressor(n_components=1),
    ProjectionPenaltyRegressor(n_components=1, penalty="l1"),
])  # fmt: skip
def test_scikit_learns_checks(estimator):
    check_estimator(estimator)


@pytest.mark.parametrize(("settings", "message"), [
    ({"reduction": "m-pca"}, "Unknown method 'm-pca'.*Did you mean 'm-pca"),
    ({"reduction": {"name": "m-pca2", "serch": "exact"}}, "m-pca2 has no option 'serch'.*Did you mean 'search'"),
    ({"reduction": np.ones((2, 4))}, "reduction has 4 columns, but the rows have 5"),
    ({"reduction": np.ones(5)}, "shape .5,., must be the name of a method, a transformer, or an array"),
    ({"alpha": 0}, "alpha=0 must"),
    ({"epsilon": -1}, "epsilon=-1 must"),
    ({"loss": "log"}, "loss='log' must be one of logistic"),
    ({"penalty": "l3"}, "penalty='l3' must be one of l2, l1"),
    ({"alpha": "auto", "alphas": ()}, "alphas=.* must be a list"),
    ({"alpha": "auto", "alphas": (1, -1)}, "a value among alphas"),
    ({"fit_intercept": "no"}, "fit_intercept='no' must be True or False"),
    ({"reduction": np.eye(5)[:2], "n_components": 3}, "n_components=3 is more than the 2 that the reduction has"),
])  # fmt: skip
def test_what_is_refused(settings, message):
    X, y, _ = problem(40, 5, 2)
    with pytest.raises(InputError, match=message):
        ProjectionPenaltyClassifier(**settings).fit(X, y)


def test_losses_of_the_twin_are_those_of_the_issue():
    """Guards the twin: the losses by hand."""
    y, f = np.array([1.0, -1.0]), np.array([0.25, 2.0])
    np.testing.assert_allclose(losses("squared", y, f), [0.5625, 9])
    np.testing.assert_allclose(losses("hinge", y, f), [0.75, 3])
    np.testing.assert_allclose(losses("squared hinge", y, f), [0.5625, 9])
    np.testing.assert_allclose(losses("logistic", y, f), np.log1p(np.exp([-0.25, 2.0])))


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_models_that_do_not_fit_in_memory_together_are_fitted_in_turn(loss, monkeypatch):
    X, y, P = problem(60, 4, 2, seed=14, n_classes=3)
    settings = {"alpha": "auto", "alphas": (0.1, 10.0, 10.0), "loss": loss, "precision": "double"}
    together = ProjectionPenaltyClassifier(P, **settings).fit(X, y)
    monkeypatch.setattr(penalty_fit, "BENDS_BYTES", 2 * 8 * 5**2)
    in_turn = ProjectionPenaltyClassifier(P, **settings).fit(X, y)
    assert in_turn.candidates_.tolist() == [0.1, 10.0] and in_turn.n_iter_ > together.n_iter_
    np.testing.assert_array_equal(in_turn.candidate_errors_, together.candidate_errors_)
    np.testing.assert_allclose(in_turn.coef_, together.coef_, rtol=1e-3, atol=1e-4)


def test_logistic_models_without_second_derivatives_are_the_same(monkeypatch):
    X, y, P = problem(80, 6, 2, seed=15)
    with_them = ProjectionPenaltyClassifier(P, alpha=1.0, **EXACT).fit(X, y)
    monkeypatch.setattr(penalty_fit, "LARGEST_BENDS", 0)
    without = ProjectionPenaltyClassifier(P, alpha=1.0, **EXACT).fit(X, y)
    np.testing.assert_allclose(without.coef_, with_them.coef_, atol=1e-4)
    assert without.n_iter_ > with_them.n_iter_ and without.gaps_[0] <= 1e-9


@pytest.mark.parametrize("settings", [{"loss": "hinge"}, {"penalty": "l1"}])
def test_too_many_columns_for_a_matrix_are_refused(settings, monkeypatch):
    X, y, P = problem(60, 6, 2)
    monkeypatch.setattr(penalty_fit, "WIDEST", 5)
    with pytest.raises(InputError, match="takes a matrix of 6 x 6 a model; 5 columns are the most"):
        ProjectionPenaltyClassifier(P, **settings).fit(X, y)


def test_parameters_of_sparse_penalties_are_lifted():
    """Derivatives by [w~; v; b] are those by [w; b], w = w~ + P^T v, with the matrix of that map."""
    rng = np.random.default_rng(16)
    P, gradient, root = rng.normal(size=(2, 5)), rng.normal(size=(3, 6)), rng.normal(size=(3, 6, 6))
    bends, penalty = root @ np.swapaxes(root, 1, 2), SparsePenalty(P, 0.1)
    lift = np.zeros((8, 6))
    lift[:5, :5], lift[5:7, :5], lift[7, 5] = np.eye(5), P, 1
    np.testing.assert_allclose(penalty.lifted(gradient), gradient @ lift.T, atol=1e-12)
    np.testing.assert_allclose(penalty.lifted_twice(bends), lift @ bends @ lift.T, atol=1e-12)


def test_rounding_of_moments_in_single_precision_is_in_the_gap():
    """Two nearly equal columns: what is left of them is below what single precision tells apart."""
    rng = np.random.default_rng(17)
    B = rng.normal(size=(300, 4))
    X = np.hstack([B, B + 1e-3 * rng.normal(size=(300, 4))])
    y = (X[:, 4] > X[:, 0]).astype(int)
    exact = ProjectionPenaltyClassifier(np.eye(2, 8), loss="squared", alpha=1e-4, precision="double").fit(X, y)
    assert exact.gaps_[0] < 1e-5
    with pytest.warns(ConvergenceWarning, match="set precision to double"):
        rough = ProjectionPenaltyClassifier(np.eye(2, 8), loss="squared", alpha=1e-4).fit(X, y)
    reached = losses("squared", signs(y), rough.decision_function(X)).sum()
    assert reached * (1 - rough.gaps_[0]) <= exact.objective_[0]


@pytest.mark.parametrize("loss", ["hinge", "squared hinge"])
def test_zeros_of_sparse_models_cost_no_more_than_the_tolerance(loss):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(120, 5)) * [5, 1, 1, 0.2, 3]
        y = (X @ rng.normal(size=5) + 6 * rng.normal(size=120) > 0).astype(int)
        P = rng.normal(size=(2, 5))
        for alpha in (1e-4, 1.0, 30.0):
            model = ProjectionPenaltyClassifier(P, loss=loss, penalty="l1", alpha=alpha).fit(X, y)
            assert model.gaps_[0] <= 2e-5, (seed, alpha)
    assert (model.coef_outside_ == 0).any()


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


def test_standardised_wide_rows_without_an_intercept_stay_centred():
    X, y, P = problem(20, 40, 2, seed=21)
    for loss in LOSSES:
        settings = {"loss": loss, "fit_intercept": False, **EXACT}
        model = ProjectionPenaltyClassifier(P, standardize=True, **settings).fit(X, y)
        plain = ProjectionPenaltyClassifier(P, **settings).fit(StandardScaler().fit_transform(X), y)
        assert model.objective_[0] == pytest.approx(plain.objective_[0], rel=1e-6)
        np.testing.assert_allclose(model.outputs_at_mean_, 0, atol=1e-12)


@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_the_objective_of_a_regressor_of_scaled_columns_without_an_intercept(penalty):
    X, Y, P = regression(50, 4, seed=2)
    settings = {"penalty": penalty, "fit_intercept": False, **EXACT}
    model = ProjectionPenaltyRegressor(P, standardize=True, **settings).fit(X, Y[:, 0])
    plain = ProjectionPenaltyRegressor(P, **settings).fit(StandardScaler().fit_transform(X), Y[:, 0])
    assert model.objective_[0] == pytest.approx(plain.objective_[0], rel=1e-8)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_bits_do_not_depend_on_the_threads_of_blas(loss):
    X, y, _ = problem(1500, 150, 2, seed=22)
    bits = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            bits.append(ProjectionPenaltyClassifier("pca", n_components=5, loss=loss).fit(X, y).coef_.tobytes())
    assert bits[0] == bits[1]


def test_long_components_and_a_small_epsilon_do_not_cancel():
    X, y, P = problem(90, 5, 2, seed=23)
    y[:20] = 1 - y[:20]
    long = ProjectionPenaltyClassifier(1e4 * P, epsilon=1e-3, alpha=1e8, **EXACT).fit(X, y)
    short = ProjectionPenaltyClassifier(P, epsilon=1e-11, alpha=1e8, **EXACT).fit(X, y)
    assert long.objective_[0] == pytest.approx(short.objective_[0], rel=1e-8)
    w, v = long.coef_[0], long.weights_[0]
    outside = w - 1e4 * P.T @ v
    value = losses("logistic", signs(y), long.decision_function(X)).sum() + 1e8 * (outside @ outside + 1e-3 * v @ v)
    assert value == pytest.approx(long.objective_[0], rel=1e-6)


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
