"""The kernel form of projection penalties solves the paper's problem, and its certificate is true."""

from __future__ import annotations

import sys
import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from helpers.samples import labelled
from naive_kernels import degree_two_features, projection_penalty
from scipy.optimize import linprog
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_wine, make_blobs
from sklearn.decomposition import PCA, KernelPCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_estimator

from mmpca_dist import GeneralizedDiscriminantAnalysis, KernelProjectionPenaltyClassifier, MarginPCA
from mmpca_dist.errors import InputError
from mmpca_dist.kernels import margin_solvers
from mmpca_dist.kernels.margin_problem import MarginProblem, Point, Solved

POLY = {"kernel": "poly", "degree": 2, "gamma": 0.3, "coef0": 1.0}
SHAPES = {"tall": (30, 3), "wide": (12, 7)}


def overlapping(n, d, seed, classes=2):
    """Rows of classes whose means lie one standard deviation apart."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return rng.standard_normal((n, d)) + y[:, None] * np.eye(classes, d)[y], y


def reduction_of(d, n_components, seed):
    return np.random.default_rng(seed).standard_normal((n_components, d))


def signs(y):
    return np.where(y == y.max(), 1.0, -1.0)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("epsilon", [0, 1e-5, 0.1])
@pytest.mark.parametrize("alpha", [1e-3, 0.1, 10])
def test_it_solves_the_primal_problem_of_the_paper(alpha, epsilon, shape, seed):
    X, y = overlapping(*SHAPES[shape], seed)
    R = reduction_of(X.shape[1], 2, seed + 10)
    model = KernelProjectionPenaltyClassifier(R, alpha=alpha, epsilon=epsilon, tolerance=1e-9, **POLY).fit(X, y)
    F = degree_two_features(X, 0.3, 1.0)
    w, v, _, least = projection_penalty(F, X @ R.T, signs(y), alpha, epsilon)
    # both are within 1e-9 of the minimum, and so near to each other as its curvature in w, 2 alpha, makes them
    np.testing.assert_allclose(model.objective_[0], least, rtol=1e-7, atol=1e-9)
    assert model.duality_gap_[0] <= 1e-9 * model.objective_[0] + 1e-10 * len(y)
    rows = np.concatenate([X, overlapping(10, X.shape[1], seed + 20)[0]])
    outside, inside = model.decision_parts(rows)
    F = degree_two_features(rows, 0.3, 1.0)
    away = 2 * np.sqrt((1e-7 * least + 1e-9) / alpha)
    np.testing.assert_allclose(outside, F @ w, atol=away * np.linalg.norm(F, axis=1).max())
    if epsilon > 1e-3:
        np.testing.assert_allclose(model.weights_[0], v, atol=away / np.sqrt(epsilon))
    np.testing.assert_allclose(outside + inside + model.intercept_[0], model.decision_function(rows), atol=1e-12)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "laplacian", "cosine"])
def test_the_attributes_are_what_the_decision_values_are_made_of(kernel):
    X, y = overlapping(40, 3, seed=30, classes=3)
    X, new = X + 5, overlapping(7, 3, seed=31)[0] + 5
    R = reduction_of(3, 2, 32)
    model = KernelProjectionPenaltyClassifier(R, kernel=kernel, gamma=0.2, degree=2, alpha=0.01).fit(X, y)
    options = {"gamma": 0.2, "degree": 2, "coef0": 0.0}
    values = pairwise_kernels(new, model.X_fit_, metric=kernel, filter_params=True, **options)
    outside, inside = model.decision_parts(new)
    np.testing.assert_allclose(outside, values @ model.dual_coef_.T, atol=1e-9)
    np.testing.assert_allclose(inside, new @ R.T @ model.weights_.T, atol=1e-9)
    np.testing.assert_allclose(model.decision_function(new), outside + inside + model.intercept_, atol=1e-12)
    np.testing.assert_allclose(model.dual_coef_.sum(axis=1), 0, atol=1e-9 * np.abs(model.dual_coef_).max())
    signed = model.dual_coef_ * np.where(y == np.arange(3)[:, None], 1, -1)
    assert signed.min() >= 0 and signed.max() <= 1 / (2 * 0.01) * (1 + 1e-12)
    assert (model.n_iter_ >= 1).all()


def test_alpha_and_the_reduction_may_be_searched():
    X, y = overlapping(60, 4, seed=33, classes=3)
    model = KernelProjectionPenaltyClassifier(GeneralizedDiscriminantAnalysis(shrinkage=0.1))
    grid = {"alpha": [1e-2, 1.0], "reduction__n_components": [1, 2], "epsilon": [1e-5, 0]}
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.5
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("epsilon", [0, 1e-3])
def test_several_classes_have_a_machine_each_against_the_rest(epsilon):
    X, y = overlapping(36, 4, seed=3, classes=3)
    R = reduction_of(4, 2, 4)
    options = {"alpha": 0.05, "epsilon": epsilon, "tolerance": 1e-9}
    model = KernelProjectionPenaltyClassifier(R, **options).fit(X, y)
    assert model.dual_coef_.shape == (3, 36) and model.weights_.shape == (3, 2)
    for label in range(3):
        one = KernelProjectionPenaltyClassifier(R, **options).fit(X, y == label)
        np.testing.assert_allclose(model.decision_function(X)[:, label], one.decision_function(X), atol=1e-7)
    assert (model.predict(X) == model.decision_function(X).argmax(axis=1)).all()


def test_the_second_of_two_classes_is_positive():
    X, y = overlapping(40, 3, seed=5)
    names = np.asarray(["ant", "bee"])[y]
    model = KernelProjectionPenaltyClassifier(PCA(1)).fit(X, names)
    assert model.classes_.tolist() == ["ant", "bee"]
    assert ((model.decision_function(X) > 0) == (model.predict(X) == "bee")).all()
    assert model.score(X, names) > 0.7


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "laplacian"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_penalty_on_v_without_end_leaves_the_plain_machine(kernel, seed):
    X, y = overlapping(40, 3, seed)
    options = {"kernel": kernel, "gamma": 0.5, "degree": 2, "coef0": 1.0}
    model = KernelProjectionPenaltyClassifier(
        PCA(2), epsilon=1e12, alpha=0.3, tolerance=1e-10, **options
    ).fit(X, y)  # fmt: skip
    if kernel == "laplacian":
        options["kernel"] = lambda A, B: np.exp(-0.5 * np.abs(A[:, None] - B).sum(axis=2))
    plain = SVC(C=1 / 0.6, tol=1e-9, **options).fit(X, y)
    expected = np.zeros(40)
    expected[plain.support_] = plain.dual_coef_[0]
    np.testing.assert_allclose(
        model.dual_coef_[0], expected, atol=1e-5
    )  # LIBSVM's, whose kernel is in single precision
    np.testing.assert_allclose(model.intercept_, plain.intercept_, atol=1e-5)
    np.testing.assert_allclose(model.weights_, 0, atol=1e-9)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_without_a_penalty_on_v_a_large_alpha_leaves_the_loss_on_the_reduced_features(seed):
    """The least hinge loss there, by a linear program; the reduced classes overlap, so that it is above 0."""
    X, y = overlapping(40, 3, seed)
    R = reduction_of(3, 1, seed)
    model = KernelProjectionPenaltyClassifier(R, epsilon=0, alpha=1e10).fit(X, y)
    columns = signs(y)[:, None] * np.column_stack([X @ R.T, np.ones(40)])
    cost = np.concatenate([np.zeros(2), np.ones(40)])
    limits = [(None, None)] * 2 + [(0, None)] * 40
    program = linprog(cost, A_ub=-np.column_stack([columns, np.eye(40)]), b_ub=-np.ones(40), bounds=limits)
    assert program.fun > 1
    np.testing.assert_allclose(model.objective_, program.fun, rtol=1e-6)
    assert np.abs(model.decision_parts(X)[0]).max() < 1e-6


@pytest.mark.parametrize("seed", [0, 1])
def test_as_epsilon_falls_the_model_tends_to_that_of_none(seed):
    X, y = overlapping(40, 3, seed)
    R = reduction_of(3, 1, seed)
    none = KernelProjectionPenaltyClassifier(R, epsilon=0, alpha=0.1, tolerance=1e-10).fit(X, y)
    away = []
    for epsilon in (1e-1, 1e-3, 1e-6, 1e-9):
        model = KernelProjectionPenaltyClassifier(R, epsilon=epsilon, alpha=0.1, tolerance=1e-10).fit(X, y)
        away.append(np.abs(model.decision_function(X) - none.decision_function(X)).max())
    assert away[0] > away[1] > away[2]
    assert max(away[2:]) < 1e-4


@pytest.mark.parametrize("epsilon", [0, 1e-9, 1e-5, 1])
@pytest.mark.parametrize("alpha", [1e-8, 1e-4, 1.0, 1e4, 1e10])
def test_the_certificate_holds_for_every_alpha(alpha, epsilon):
    """Rows in units that differ a thousandfold, with one reduced feature, on which the classes overlap."""
    X, y = load_wine(return_X_y=True)
    model = KernelProjectionPenaltyClassifier(PCA(1), alpha=alpha, epsilon=epsilon)
    model.fit(X, y)
    assert (model.duality_gap_ <= 1e-6 * model.objective_ + 1e-10 * len(y)).all()
    assert (model.duality_gap_ > -1e-12 * len(y)).all()
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ridge", [0.0, 1e-5, 1.0])
def test_the_gap_of_any_dual_point_bounds_what_is_missing(ridge, seed):
    """The certificate is no claim of a solver: it holds at every point between 0 and the solution, with any u and b."""
    rng = np.random.default_rng(seed)
    X, y = overlapping(20, 3, seed)
    F, U = X - X.mean(axis=0), rng.standard_normal((20, 2))
    U = np.linalg.qr(U - U.mean(axis=0))[0]
    problem = MarginProblem(F @ F.T, U, np.full(2, ridge), signs(y), 0.5)
    least = projection_penalty(F, U, signs(y), 1.0, ridge)[3]
    best, objective, gap, _ = margin_solvers.solve(problem, "clarabel", 1e-9, 10_000)
    assert abs(objective - least) < 1e-7 and gap < 1e-7
    for share in (0.0, 0.3, 0.9, 1.0):
        point = Point(share * best.beta, best.u + rng.standard_normal(2), float(rng.standard_normal()))
        _, primal, gap, _ = problem.certified(point)
        assert primal >= least - 1e-7
        assert primal - gap <= least + 1e-7
        assert gap > 1e-3
    for move in (1e-4, -1e-4):  # off the equality constraints; 1e-6 is the square of what is missed, amplified
        point = Point(best.beta + move * (U[:, 0] + 0.1), best.u, best.b)
        _, primal, gap, _ = problem.certified(point)
        assert primal - gap <= least + 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_the_intercept_of_a_certified_point_is_the_best_one(seed):
    rng = np.random.default_rng(seed)
    X, y = overlapping(15, 3, seed)
    problem = MarginProblem(X @ X.T, np.zeros((15, 0)), np.zeros(0), signs(y), 0.5)
    beta = signs(y) * rng.uniform(0, 0.5, 15)
    scores = X @ X.T @ beta
    losses = [np.maximum(0, 1 - signs(y) * (scores + b)).sum() for b in signs(y) - scores]  # a minimiser is among these
    point, primal, _, _ = problem.certified(Point(beta, np.zeros(0), 100 * float(rng.standard_normal())))
    assert np.maximum(0, 1 - signs(y) * (scores + point.b)).sum() == pytest.approx(min(losses), rel=1e-12)
    assert primal == pytest.approx(min(losses) + beta @ scores, rel=1e-12)


def test_a_gap_counts_as_closed_relative_to_the_objective_only():
    X, y = overlapping(10, 3, 0)
    problem = MarginProblem(X @ X.T, np.zeros((10, 0)), np.zeros(0), signs(y), 0.5)
    point = Point(np.zeros(10), np.zeros(0), 0.0)
    assert margin_solvers.suffices(problem, Solved(point, 10.0, 0.9e-5), 1e-6)
    assert not margin_solvers.suffices(problem, Solved(point, 10.0, 1.1e-5), 1e-6)
    assert margin_solvers.suffices(problem, Solved(point, 0.0, 1e-10), 1e-6), "rounding, where the objective is 0"


def test_multipliers_of_a_million_are_refined():
    """Where images are nearly dependent, the active-set method needs several steps for one change of its sets."""
    X, y = make_blobs(n_samples=300, random_state=0, centers=2, cluster_std=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = KernelProjectionPenaltyClassifier(PCA(1), alpha=1e-8).fit(X, y)
    assert model.duality_gap_[0] < 1e-6 * model.objective_[0]
    assert np.abs(model.dual_coef_).max() > 1e6


def test_the_kernel_values_of_libsvm_alone_do_not_suffice():
    """Why solutions are refined: at epsilon 1e-5, 24 bits leave two digits of the part that is penalised."""
    X, y = load_wine(return_X_y=True)
    plain, refined = [], []

    def record(problem, start, tolerance):
        plain.append(problem.certified(start).gap)
        found = original(problem, start, tolerance)
        refined.append(found.gap)
        return found

    original = margin_solvers.refined
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(margin_solvers, "refined", record)
        model = KernelProjectionPenaltyClassifier(PCA(1)).fit(X, y)
    assert max(plain) > 1e-3 * model.objective_.max()
    assert (model.duality_gap_ < 1e-6 * model.objective_).all()


def test_where_the_gap_stays_wide_a_warning_says_so(monkeypatch):
    X, y = load_wine(return_X_y=True)
    monkeypatch.setattr(margin_solvers, "refined", lambda problem, start, tolerance: problem.certified(start))
    with pytest.warns(ConvergenceWarning, match=r"objective .* may be .* above the least.*solver='clarabel'"):
        model = KernelProjectionPenaltyClassifier(PCA(1), max_iter=10).fit(X, y)
    assert (model.duality_gap_ > 1e-6 * model.objective_).any()


@pytest.mark.parametrize("solver", ["libsvm", "clarabel"])
def test_equal_rows_with_different_labels(solver):
    X, y = overlapping(24, 3, seed=6)
    X, y = np.concatenate([X, X, X[:4]]), np.concatenate([y, y, 1 - y[:4]])
    R = reduction_of(3, 1, 7)
    model = KernelProjectionPenaltyClassifier(R, alpha=1e-3, epsilon=1e-3, solver=solver, **POLY).fit(X, y)
    least = projection_penalty(degree_two_features(X, 0.3, 1.0), X @ R.T, signs(y), 1e-3, 1e-3)[3]
    np.testing.assert_allclose(model.objective_, least, rtol=1e-6)
    assert least > 4


@pytest.mark.parametrize("epsilon", [0, 1e-4])
def test_reduced_features_that_are_constant_or_depend_on_others(epsilon):
    X, y = overlapping(40, 3, seed=8)
    X = np.column_stack([X, np.full(40, 1.9)])  # whose 7-fold differs from its mean, by rounding
    R = np.asarray([[1.0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 7]])
    model = KernelProjectionPenaltyClassifier(R, epsilon=epsilon, alpha=0.1, tolerance=1e-9).fit(X, y)
    one = KernelProjectionPenaltyClassifier(np.sqrt(2) * R[:1], epsilon=epsilon, alpha=0.1, tolerance=1e-9).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), one.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(model.weights_[0, 0], model.weights_[0, 1], rtol=1e-9)
    assert abs(model.weights_[0, 2]) < 1e-12
    none = KernelProjectionPenaltyClassifier(R[2:], epsilon=epsilon, alpha=0.1, tolerance=1e-9).fit(X, y)
    plain = SVC(C=5, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(none.decision_function(X), plain.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian"])
def test_a_mean_far_larger_than_the_spread_does_no_harm(kernel):
    X, y = overlapping(40, 3, seed=9)
    X = np.round(X * 1024) / 1024  # so that adding the mean is exact
    options = {"kernel": kernel, "gamma": 0.2, "alpha": 0.1, "tolerance": 1e-14}
    R = np.asarray([[1, -1, 0.5]])
    near = KernelProjectionPenaltyClassifier(R, **options).fit(X, y)
    far = KernelProjectionPenaltyClassifier(R, **options).fit(X + 2.0**22, y)
    np.testing.assert_allclose(far.decision_function(X + 2.0**22), near.decision_function(X), atol=1e-5)


def test_rows_of_other_types():
    X, y = overlapping(40, 5, seed=10)
    X = np.where(X > 0, X, 0).astype(np.float32)
    R = reduction_of(5, 2, 11)
    for kernel in ("rbf", "poly", "linear"):
        options = {"kernel": kernel, "alpha": 0.1, "tolerance": 1e-9}
        expected = KernelProjectionPenaltyClassifier(R, **options).fit(X.astype(np.float64), y)
        scores = expected.decision_function(X)
        for rows in (X, csr_matrix(X), pd.DataFrame(X, columns=list("abcde"))):
            model = KernelProjectionPenaltyClassifier(R, **options).fit(rows, y)
            assert model.decision_function(rows).dtype == np.float64
            np.testing.assert_allclose(model.decision_function(rows), scores, atol=1e-5)


def test_names_of_columns_reach_the_reduction():
    X, y = overlapping(40, 3, seed=12)
    frame = pd.DataFrame(X, columns=list("abc"))
    model = KernelProjectionPenaltyClassifier(StandardScaler().set_output(transform="pandas")).fit(frame, y)
    assert model.reduction_.feature_names_in_.tolist() == model.feature_names_in_.tolist() == list("abc")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["c", "b", "a"]])


def test_reductions_that_are_fitted_are_used_as_they_are():
    X, y = overlapping(40, 4, seed=13)
    fitted = PCA(2).fit(X[:10])
    assert KernelProjectionPenaltyClassifier(fitted).fit(X, y).reduction_ is fitted
    unfitted = MarginPCA(2, "m-pca1a")
    model = KernelProjectionPenaltyClassifier(unfitted).fit(X, y)
    assert model.reduction_ is not unfitted and not hasattr(unfitted, "components_")
    np.testing.assert_array_equal(model.reduction_.components_, MarginPCA(2, "m-pca1a").fit(X, y).components_)
    kept = clone(KernelProjectionPenaltyClassifier(FrozenEstimator(fitted))).fit(X, y)
    np.testing.assert_array_equal(kept.reduction_.transform(X), fitted.transform(X))


def test_the_default_reduction_is_a_discriminant_of_the_same_kernel():
    X, y = overlapping(40, 4, seed=14, classes=3)
    reduction = GeneralizedDiscriminantAnalysis(**POLY)
    one, other = (KernelProjectionPenaltyClassifier(r, **POLY).fit(X, y) for r in (None, reduction))
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))


def test_a_function_is_a_kernel():
    X, y = overlapping(40, 4, seed=15)
    named = KernelProjectionPenaltyClassifier(PCA(1), tolerance=1e-9, **POLY).fit(X, y)
    called = KernelProjectionPenaltyClassifier(
        PCA(1), tolerance=1e-9, kernel=lambda A, B: (0.3 * A @ B.T + 1) ** 2
    ).fit(X, y)  # fmt: skip
    np.testing.assert_allclose(called.decision_function(X), named.decision_function(X), atol=1e-6)


MISTAKES = {
    "alpha": ({"alpha": 0}, "alpha=0 must be a number of more than 0"),
    "epsilon": ({"epsilon": -1}, "epsilon=-1 must be a number of at least 0"),
    "endless epsilon": ({"epsilon": np.inf}, "epsilon=inf"),
    "kernel": ({"kernel": "ploy"}, "Did you mean 'poly'"),
    "precomputed": ({"kernel": "precomputed"}, "must be one of 'linear'"),
    "no name": ({"kernel": ["rbf"]}, r"kernel=\['rbf'\] must be one of"),
    "gammas": ({"gamma": np.ones(2)}, "gamma=.* must be a number of more than 0"),
    "gamma": ({"gamma": "scal"}, "gamma='scal' must be a number"),
    "degree": ({"degree": 2.5}, "degree=2.5 must be a whole number"),
    "solver": ({"solver": "libsvn"}, "Did you mean 'libsvm'"),
    "libsvm without epsilon": ({"solver": "libsvm", "epsilon": 0}, "leave solver out"),
    "class": ({"reduction": PCA}, r"give an object, PCA\(...\)"),
    "columns": ({"reduction": np.ones((2, 3))}, r"shape \(2, 3\).*shape \(K, 4\)"),
    "one row": ({"reduction": np.ones(4)}, r"shape \(4,\)"),
    "text": ({"reduction": "pca"}, "reduction is 'pca'"),
    "not finite": ({"reduction": np.full((1, 4), np.nan)}, "finite array"),
    "indefinite": ({"kernel": lambda A, B: -(A @ B.T), "reduction": np.eye(1, 4)}, "not positive semidefinite"),
    "shape": ({"kernel": lambda A, B: A @ A.T[:, :1], "reduction": np.eye(1, 4)}, r"must return finite numbers"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_said(case):
    X, y = overlapping(20, 4, seed=16)
    parameters, message = MISTAKES[case]
    with pytest.raises(InputError, match=message):
        KernelProjectionPenaltyClassifier(**parameters).fit(X, y)


def test_mistakes_in_rows_are_said():
    X, y = overlapping(20, 4, seed=17)
    with pytest.raises(InputError, match="one class"):
        KernelProjectionPenaltyClassifier().fit(X, np.zeros(20, int))
    with pytest.raises(InputError, match="compute"):
        KernelProjectionPenaltyClassifier().fit(da.from_array(X, (5, 4)), y)


class Broken(PCA):
    def transform(self, X):
        return np.full((len(X), 1), np.nan)


def test_reduced_features_that_are_not_finite_are_refused():
    X, y = overlapping(20, 4, seed=18)
    with pytest.raises(InputError, match="reduction Broken returns"):
        KernelProjectionPenaltyClassifier(Broken(1)).fit(X, y)


def test_without_clarabel_the_message_says_what_to_install(monkeypatch):
    X, y = overlapping(20, 4, seed=19)
    monkeypatch.setitem(sys.modules, "clarabel", None)
    with pytest.raises(InputError, match=r"pip install 'mmpca-dist\[qp\]'"):
        KernelProjectionPenaltyClassifier(PCA(1), epsilon=0).fit(X, y)
    assert KernelProjectionPenaltyClassifier(PCA(1)).fit(X, y).score(X, y) > 0.5


@pytest.mark.parametrize(
    "model",
    [
        KernelProjectionPenaltyClassifier(),
        KernelProjectionPenaltyClassifier(KernelPCA(1, kernel="rbf"), epsilon=0, alpha=0.1),
    ],
    ids=["default", "epsilon 0"],
)
def test_every_check_of_scikit_learn_passes(model, monkeypatch):
    monkeypatch.delenv("SCIPY_ARRAY_API", raising=False)
    results = check_estimator(model, on_skip=None, on_fail="raise")
    assert sum(result["status"] == "passed" for result in results) > 40
    skipped = {result["check_name"] for result in results if result["status"] != "passed"}
    assert skipped == {"check_array_api_input"}


def test_many_classes_share_a_table():
    X, y = labelled(60, 4, 5, seed=20)
    model = KernelProjectionPenaltyClassifier(GeneralizedDiscriminantAnalysis(), alpha=1e-3).fit(X, y)
    assert model.decision_function(X).shape == (60, len(model.classes_))
    assert (model.duality_gap_ <= 1e-6 * model.objective_ + 1e-8).all()
