"""Projection penalties as estimators: the twin, limits, certificates, choice of alpha, kinds of rows."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse
from helpers.penalties import EXACT, LOSSES, check_twin, problem, signs
from naive_penalties import losses, penalized_model
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_estimator
from threadpoolctl import threadpool_limits

from mmpca_dist import ProjectionPenaltyClassifier, ProjectionPenaltyRegressor
from mmpca_dist.errors import InputError
from mmpca_dist.methods import penalty_minima
from mmpca_dist.solvers.penalties import SparsePenalty, SubspacePenalty
from mmpca_dist.solvers.sparse_models import SparseSweep
from mmpca_dist.statistics.centred_rows import CentredRows
from mmpca_dist.statistics.hinge_sums import HingeInterior
from mmpca_dist.statistics.loss_sums import SumLosses
from mmpca_dist.statistics.losses import LOSSES as LOSSES_BY_NAME


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
        model = ProjectionPenaltyClassifier(P, alpha=0.1, epsilon=0.01, loss=loss, **EXACT | {"max_sweeps": passes})
        model.fit(X, y)
        assert model.objective_[0] * (1 - model.gaps_[0]) <= least * (1 + 1e-9) <= model.objective_[0] * (1 + 2e-9)
        assert model.n_iter_ <= passes
    assert "raise max_sweeps" in " ".join(clone(model).set_params(max_sweeps=2).fit(X, y)._remarks())


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
    bounds, corrected = [], SparseSweep._corrected_bound
    monkeypatch.setattr(SparseSweep, "_corrected_bound", lambda *args: bounds.append(corrected(*args)) or bounds[-1])
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
    assert model.alpha_ == chosen
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


def test_losses_of_the_twin_are_those_of_the_issue():
    """Guards the twin: the losses by hand."""
    y, f = np.array([1.0, -1.0]), np.array([0.25, 2.0])
    np.testing.assert_allclose(losses("squared", y, f), [0.5625, 9])
    np.testing.assert_allclose(losses("hinge", y, f), [0.75, 3])
    np.testing.assert_allclose(losses("squared hinge", y, f), [0.5625, 9])
    np.testing.assert_allclose(losses("logistic", y, f), np.log1p(np.exp([-0.25, 2.0])))


@pytest.mark.parametrize(("loss", "most"), [("squared hinge", 14), ("hinge", 26)])
@pytest.mark.parametrize("alpha", [0.1, 1.0, 100.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_hinge_losses_take_few_passes(loss, most, alpha, seed):
    """Of classes that overlap: a pass is what costs out of core."""
    X, y, P = problem(2000, 12, 3, seed=seed)
    model = ProjectionPenaltyClassifier(P, alpha=alpha, epsilon=0.01, loss=loss, tolerance=1e-6).fit(X, y)
    assert model.gaps_[0] <= 1e-6 and model.n_iter_ <= most


@pytest.mark.parametrize("penalty", ["l2", "l1"])
@pytest.mark.parametrize("loss", ["hinge", "squared hinge"])
def test_models_that_stall_reach_the_tolerance_by_other_passes(loss, penalty):
    """Rows that can be separated, and a penalty that hardly counts."""
    X, y = load_wine(return_X_y=True)
    for alpha in (1e-4, 1e-2):
        model = ProjectionPenaltyClassifier("pca", n_components=5, loss=loss, penalty=penalty, alpha=alpha).fit(X, y)
        assert model.gaps_.max() <= 1e-5 and model.proved_ and model.n_iter_ > 40


@pytest.mark.parametrize("loss", ["hinge", "squared hinge"])
def test_stalled_models_of_several_turns_go_on(loss, monkeypatch):
    """The passes of one turn do not count against ``max_sweeps`` of another."""
    X, y = load_wine(return_X_y=True)
    monkeypatch.setattr(penalty_minima, "HESSIAN_BYTES", 8 * 14**2)
    model = ProjectionPenaltyClassifier("pca", n_components=5, loss=loss, alpha=1e-2, max_sweeps=110).fit(X, y)
    assert model.gaps_.max() <= 1e-5 and model.n_iter_ > 110


def test_rows_that_move_apart_stay_inside():
    """Slacks and multipliers keep at least a tenth, u and what multipliers add up to are those of the whole step."""
    rng = np.random.default_rng(0)
    a = rng.uniform(1e-9, 1, size=(2, 500))
    s, xi = 10.0 ** rng.uniform(-9, 3, size=(2, 2, 500))
    before = HingeInterior(a, s, xi, 1 - a)
    du = 10 * rng.normal(size=(2, 500))
    after = before.moved_apart(before.change(du, np.full((2, 1), 0.1)))
    for old, new in zip(before.parts, after.parts, strict=True):
        assert np.all(new >= 0.0999 * old)
    np.testing.assert_allclose(after.u, before.u + du, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(after.a + after.rest, 1, atol=1e-12)


def test_losses_along_a_step_are_those_at_its_fractions():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, 3)), rng.choice([-1.0, 1.0], size=(2, 40))
    model, change, trains = rng.normal(size=(2, 4)), rng.normal(size=(2, 4)), rng.choice([0.0, 1.0], size=(2, 40))
    loss = LOSSES_BY_NAME["squared hinge"]
    step = SumLosses(model[:, :3], model[:, 3], loss, None, None, None, np.arange(2), change)
    sums = step._sums(CentredRows(X), np.ones_like(y), y, trains)
    for fraction, reached in zip(loss.fractions, sums.along, strict=True):
        at = model - (1 - fraction) * change
        expected = [(losses("squared hinge", y[k], X @ at[k, :3] + at[k, 3]) * trains[k]).sum() for k in range(2)]
        np.testing.assert_allclose(reached, expected)


@pytest.mark.parametrize("standardize", [False, True])
def test_gaps_that_stay_large_advise_to_standardise(standardize):
    X, y, P = problem(60, 4, 2, seed=30)
    wide = X * [1e-4, 1, 1, 1e4]
    settings = {"alpha": 1e-4, "max_sweeps": 2, "standardize": standardize}
    with pytest.warns(ConvergenceWarning) as caught:
        ProjectionPenaltyClassifier(P, **settings).fit(wide, y)
    assert (
        "standardise the columns, whose scales differ by a factor of 1e+08" in str(caught[0].message)
    ) != standardize
    with pytest.warns(ConvergenceWarning) as caught:
        ProjectionPenaltyClassifier(P, **settings).fit(X, y)
    assert "standardise" not in str(caught[0].message)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_models_that_do_not_fit_in_memory_together_are_fitted_in_turn(loss, monkeypatch):
    X, y, P = problem(60, 4, 2, seed=14, n_classes=3)
    settings = {"alpha": "auto", "alphas": (0.1, 10.0, 10.0), "loss": loss, "precision": "double"}
    together = ProjectionPenaltyClassifier(P, **settings).fit(X, y)
    monkeypatch.setattr(penalty_minima, "HESSIAN_BYTES", 2 * 8 * 5**2)
    in_turn = ProjectionPenaltyClassifier(P, **settings).fit(X, y)
    assert in_turn.candidates_.tolist() == [0.1, 10.0] and in_turn.n_iter_ > together.n_iter_
    np.testing.assert_array_equal(in_turn.candidate_errors_, together.candidate_errors_)
    np.testing.assert_allclose(in_turn.coef_, together.coef_, rtol=1e-3, atol=1e-4)


def test_logistic_models_without_second_derivatives_are_the_same(monkeypatch):
    X, y, P = problem(80, 6, 2, seed=15)
    with_them = ProjectionPenaltyClassifier(P, alpha=1.0, **EXACT).fit(X, y)
    monkeypatch.setattr(penalty_minima, "LARGEST_HESSIAN", 0)
    without = ProjectionPenaltyClassifier(P, alpha=1.0, **EXACT).fit(X, y)
    np.testing.assert_allclose(without.coef_, with_them.coef_, atol=1e-4)
    assert without.n_iter_ > with_them.n_iter_ and without.gaps_[0] <= 1e-9


@pytest.mark.parametrize("settings", [{"loss": "hinge"}, {"penalty": "l1"}])
def test_too_many_columns_for_a_matrix_are_refused(settings, monkeypatch):
    X, y, P = problem(60, 6, 2)
    monkeypatch.setattr(penalty_minima, "WIDEST", 5)
    with pytest.raises(InputError, match="takes a matrix of 6 x 6 a model; 5 columns are the most"):
        ProjectionPenaltyClassifier(P, **settings).fit(X, y)


def test_parameters_of_sparse_penalties_are_lifted():
    """Derivatives by [w~; v; b] are those by [w; b], w = w~ + P^T v, with the matrix of that map."""
    rng = np.random.default_rng(16)
    P, gradient, root = rng.normal(size=(2, 5)), rng.normal(size=(3, 6)), rng.normal(size=(3, 6, 6))
    hessians, penalty = root @ np.swapaxes(root, 1, 2), SparsePenalty(P, 0.1)
    lift = np.zeros((8, 6))
    lift[:5, :5], lift[5:7, :5], lift[7, 5] = np.eye(5), P, 1
    np.testing.assert_allclose(penalty.lifted(gradient), gradient @ lift.T, atol=1e-12)
    np.testing.assert_allclose(penalty.lifted_twice(hessians), lift @ hessians @ lift.T, atol=1e-12)


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


def test_standardised_wide_rows_without_an_intercept_stay_centred():
    X, y, P = problem(20, 40, 2, seed=21)
    for loss in LOSSES:
        settings = {"loss": loss, "fit_intercept": False, **EXACT}
        model = ProjectionPenaltyClassifier(P, standardize=True, **settings).fit(X, y)
        plain = ProjectionPenaltyClassifier(P, **settings).fit(StandardScaler().fit_transform(X), y)
        assert model.objective_[0] == pytest.approx(plain.objective_[0], rel=1e-6)
        np.testing.assert_allclose(model.outputs_at_mean_, 0, atol=1e-12)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared hinge"])
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
