"""The passes of projection penalties: how many, in turn, what they lose to rounding, and what they advise."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.penalties import EXACT, LOSSES, problem, signs
from naive_penalties import losses
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from mmpca_dist import ProjectionPenaltyClassifier
from mmpca_dist.errors import InputError
from mmpca_dist.optimise import minimise
from mmpca_dist.optimise.interior_rows import HingeInterior
from mmpca_dist.optimise.loss_sums import LOSSES as LOSSES_BY_NAME
from mmpca_dist.optimise.loss_sums import SumLosses
from mmpca_dist.optimise.penalties import SparsePenalty
from mmpca_dist.passes.centred_rows import CentredRows


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
    """Classes overlap. A pass is what costs out of core."""
    X, y, P = problem(2000, 12, 3, seed=seed)
    model = ProjectionPenaltyClassifier(P, alpha=alpha, epsilon=0.01, loss=loss, tol=1e-6).fit(X, y)
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
    """The passes of one turn do not count against ``max_iter`` of another."""
    X, y = load_wine(return_X_y=True)
    monkeypatch.setattr(minimise, "HESSIAN_BYTES", 8 * 14**2)
    model = ProjectionPenaltyClassifier("pca", n_components=5, loss=loss, alpha=1e-2, max_iter=110).fit(X, y)
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
    step = SumLosses(model[:, :3], model[:, 3], loss, None, np.arange(2), None, np.arange(2), change)
    terms = SimpleNamespace(levels=np.ones((40, 2, 1)), signs=y.T[:, :, None], trains=trains.T)
    sums, _ = step.of_block(CentredRows(X), terms, None)
    for fraction, reached in zip(loss.fractions, sums.along, strict=True):
        at = model - (1 - fraction) * change
        expected = [(losses("squared hinge", y[k], X @ at[k, :3] + at[k, 3]) * trains[k]).sum() for k in range(2)]
        np.testing.assert_allclose(reached, expected)


@pytest.mark.parametrize("standardize", [False, True])
def test_gaps_that_stay_large_advise_to_standardise(standardize):
    X, y, P = problem(60, 4, 2, seed=30)
    wide = X * [1e-4, 1, 1, 1e4]
    settings = {"alpha": 1e-4, "max_iter": 2, "standardize": standardize}
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
    monkeypatch.setattr(minimise, "HESSIAN_BYTES", 2 * 8 * 5**2)
    in_turn = ProjectionPenaltyClassifier(P, **settings).fit(X, y)
    assert in_turn.candidates_.tolist() == [0.1, 10.0] and in_turn.n_iter_ > together.n_iter_
    np.testing.assert_array_equal(in_turn.candidate_errors_, together.candidate_errors_)
    np.testing.assert_allclose(in_turn.coef_, together.coef_, rtol=1e-3, atol=1e-4)


def test_logistic_models_without_second_derivatives_are_the_same(monkeypatch):
    X, y, P = problem(80, 6, 2, seed=15)
    with_them = ProjectionPenaltyClassifier(P, alpha=1.0, **EXACT).fit(X, y)
    monkeypatch.setattr(minimise, "LARGEST_HESSIAN", 0)
    without = ProjectionPenaltyClassifier(P, alpha=1.0, **EXACT).fit(X, y)
    np.testing.assert_allclose(without.coef_, with_them.coef_, atol=1e-4)
    assert without.n_iter_ > with_them.n_iter_ and without.gaps_[0] <= 1e-9


@pytest.mark.parametrize("settings", [{"loss": "hinge"}, {"penalty": "l1"}])
def test_too_many_columns_for_a_matrix_are_refused(settings, monkeypatch):
    X, y, P = problem(60, 6, 2)
    monkeypatch.setattr(minimise, "WIDEST", 5)
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
