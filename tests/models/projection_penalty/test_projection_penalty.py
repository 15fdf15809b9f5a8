"""Projection penalties solve the paper's problem, for classes and for continuous targets."""

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse
from helpers.penalties import EXACT, LOSSES, check_twin, problem, regression, signs
from helpers.watching import watched
from naive_penalties import penalized_model
from sklearn.base import clone
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import load_diabetes, load_digits
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from mmpca_dist import PLS, ProjectionPenaltyClassifier, ProjectionPenaltyRegressor
from mmpca_dist.errors import InputError
from mmpca_dist.optimise.penalties import SubspacePenalty
from mmpca_dist.optimise.proximal_newton import SparseSweep


@pytest.mark.fast
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 1.0])
@pytest.mark.parametrize("penalty", ["l2", "l1"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("n", "d"), [(60, 6), (14, 24)])
def test_it_is_its_twin(n, d, loss, penalty, epsilon):
    X, y, P = problem(n, d, 2, seed=n)
    model = ProjectionPenaltyClassifier(P, alpha=0.7, epsilon=epsilon, loss=loss, penalty=penalty, **EXACT).fit(X, y)
    check_twin(model, 0, X, signs(y), P, 0.7, epsilon, loss, penalty)
    assert model.gaps_[0] <= 1e-7 and model.proved_ == (epsilon > 0 or (loss == "squared" and penalty == "l2"))


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
        model = ProjectionPenaltyClassifier(P, alpha=0.1, epsilon=0.01, loss=loss, **EXACT | {"max_iter": passes})
        model.fit(X, y)
        assert model.objective_[0] * (1 - model.gaps_[0]) <= least * (1 + 1e-9) <= model.objective_[0] * (1 + 2e-9)
        assert model.n_iter_ <= passes
    assert "raise max_iter" in " ".join(clone(model).set_params(max_iter=2).fit(X, y).fitted().unconverged)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 1.0])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("n", "d"), [(60, 6), (14, 24)])
def test_gaps_of_absolute_values_close_at_a_tiny_alpha(n, d, loss, epsilon):
    """Sums of multipliers times rows must be at most alpha, which is no more than their rounding."""
    X, y, P = problem(n, d, 2, seed=n)
    for alpha in (1e-8, 1e-6, 1e-4):
        model = ProjectionPenaltyClassifier(P, alpha=alpha, epsilon=epsilon, loss=loss, penalty="l1").fit(X, y)
        assert model.gaps_[0] <= 1e-5
        if n > d:  # the minimum of the twin is 1e-6 too large where it is itself as small
            least = penalized_model(X, signs(y), P, alpha, epsilon, loss, "l1")[2]
            assert model.objective_[0] * (1 - model.gaps_[0]) <= least * (1 + 1e-9) <= model.objective_[0] * (1 + 2e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("alpha", [1e-6, 1e-2, 1.0])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize(("n", "d"), [(60, 6), (14, 24)])
def test_no_bound_of_absolute_values_lies_above_the_minimum(n, d, loss, alpha, monkeypatch):
    """At every pass, far from the minimum and at it, whatever the scales of columns."""
    bounds = watched(monkeypatch, SparseSweep, "_corrected_bound")
    X, y, P = problem(n, d, 2, seed=24)
    model = ProjectionPenaltyClassifier(P, alpha=alpha, epsilon=0.1, loss=loss, penalty="l1", **EXACT)
    for scales in (np.ones(d), 10.0 ** np.linspace(-2, 2, d)):
        model.fit(X * scales, y)
        assert np.max(bounds) <= model.objective_[0] * (1 + 1e-14)
        assert n < d or np.max(bounds) >= model.objective_[0] * (1 - 1e-9)
        bounds.clear()


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


def test_squared_losses_follow_from_moments():
    """No further pass, and rows that come later extend the fit."""
    X, y = load_digits(return_X_y=True)
    whole = ProjectionPenaltyClassifier("m-pca0", n_components=5, alpha=10.0, loss="squared", precision="double")
    whole.fit(X, y)
    parts = clone(whole).fit(X[:900], y[:900]).partial_fit(X[900:], y[900:])
    assert whole.n_iter_ == 1
    np.testing.assert_allclose(parts.coef_, whole.coef_, atol=1e-9)
    stored = ProjectionPenaltyClassifier.from_moments(
        whole.moments_, n_components=5, reduction="m-pca0", alpha=10.0, loss="squared", precision="double"
    )
    np.testing.assert_allclose(stored.coef_, whole.coef_, atol=1e-12)
    assert not hasattr(ProjectionPenaltyClassifier(loss="hinge"), "partial_fit")


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
    ({"alpha": "Auto"}, "must be a number of more than 0 and at most .*, or 'auto'"),
    ({"alpha": True}, "alpha=True must be a number"),
    ({"loss": "squared_hinge"}, "Did you mean 'squared hinge'"),
    ({"reduction": {"name": "m-pca1a", "pairing": "xyz"}}, "pairing='xyz' must be one of"),
    ({"reduction": {"name": "ridge", "alpha": -3}}, "alpha=-3 must be a number of at least 0"),
    ({"alpha": "auto", "alphas": (1, -1)}, "a value among alphas"),
    ({"fit_intercept": "no"}, "fit_intercept='no' must be True or False"),
    ({"reduction": np.eye(5)[:2], "n_components": 3}, "n_components=3 is more than the 2 that the reduction has"),
])  # fmt: skip
def test_what_is_refused(settings, message):
    X, y, _ = problem(40, 5, 2)
    with pytest.raises(InputError, match=message):
        ProjectionPenaltyClassifier(**settings).fit(X, y)


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


@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_the_objective_of_a_regressor_of_scaled_columns_without_an_intercept(penalty):
    X, Y, P = regression(50, 4, seed=2)
    settings = {"penalty": penalty, "fit_intercept": False, **EXACT}
    model = ProjectionPenaltyRegressor(P, standardize=True, **settings).fit(X, Y[:, 0])
    plain = ProjectionPenaltyRegressor(P, **settings).fit(StandardScaler().fit_transform(X), Y[:, 0])
    assert model.objective_[0] == pytest.approx(plain.objective_[0], rel=1e-8)
