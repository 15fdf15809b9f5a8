"""The kernel form of projection penalties solves the paper's problem, and its certificate is true."""

import warnings

import numpy as np
import pytest
from helpers.kernels import POLY, SHAPES, overlapping, reduction_of, signs
from naive_kernels import degree_two_features, projection_penalty
from scipy.optimize import linprog
from sklearn.datasets import load_wine, make_blobs
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from mmpca_dist import GeneralizedDiscriminantAnalysis, KernelProjectionPenaltyClassifier, ProjectionPenaltyClassifier
from mmpca_dist.models.projection_penalty.kernel import margin_solvers
from mmpca_dist.models.projection_penalty.kernel.margin_solvers import MarginProblem, Point


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("epsilon", [0, 1e-5, 0.1])
@pytest.mark.parametrize("alpha", [1e-3, 0.1, 10])
def test_it_solves_the_primal_problem_of_the_paper(alpha, epsilon, shape, seed):
    X, y = overlapping(*SHAPES[shape], seed)
    R = reduction_of(X.shape[1], 2, seed + 10)
    model = KernelProjectionPenaltyClassifier(R, alpha=alpha, epsilon=epsilon, tol=1e-9, **POLY).fit(X, y)
    F = degree_two_features(X, 0.3, 1.0)
    w, v, _, least = projection_penalty(F, X @ R.T, signs(y), alpha, epsilon)
    # both are within 1e-9 of the minimum, and so near to each other as its curvature in w, 2 alpha, makes them
    np.testing.assert_allclose(model.objective_[0], least, rtol=1e-7, atol=1e-9)
    assert model.gaps_[0] <= 1e-9
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
    assert model.n_iter_ >= 1


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
    options = {"alpha": 0.05, "epsilon": epsilon, "tol": 1e-9}
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
        PCA(2), epsilon=1e12, alpha=0.3, tol=1e-10, **options
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


@pytest.mark.parametrize("epsilon", [0, 1e-9, 1e-5, 1])
@pytest.mark.parametrize("alpha", [1e-8, 1e-4, 1.0, 1e4, 1e10])
def test_the_certificate_holds_for_every_alpha(alpha, epsilon):
    """Rows in units that differ a thousandfold, with one reduced feature, on which the classes overlap."""
    X, y = load_wine(return_X_y=True)
    model = KernelProjectionPenaltyClassifier(PCA(1), alpha=alpha, epsilon=epsilon)
    model.fit(X, y)
    assert (model.gaps_ <= 1e-6).all()
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
        assert primal * (1 - gap) <= least + 1e-7
        assert gap > 1e-3
    for move in (1e-4, -1e-4):  # off the equality constraints; 1e-6 is the square of what is missed, amplified
        point = Point(best.beta + move * (U[:, 0] + 0.1), best.u, best.b)
        _, primal, gap, _ = problem.certified(point)
        assert primal * (1 - gap) <= least + 1e-6


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


@pytest.mark.parametrize("separation", [0, 5, 1000])
def test_gaps_mean_what_they_mean_without_a_kernel(separation):
    """Relative to the objective, or to a thousandth of that at zero, the number of rows, where it is smaller."""
    X, y = overlapping(40, 3, 1)
    X = X + separation * y[:, None]
    settings = {"alpha": 1e-3, "epsilon": 0.1, "tol": 1e-2}
    R = reduction_of(3, 1, 2)
    plain = ProjectionPenaltyClassifier(R, loss="hinge", **{**settings, "tol": 1e-9}).fit(X, y)
    model = KernelProjectionPenaltyClassifier(R, kernel="linear", **settings).fit(X, y)
    least = projection_penalty(X, X @ R.T, signs(y), 1e-3, 0.1)[3]
    for each in (plain, model):
        above = (each.objective_[0] - least) / max(each.objective_[0], 40 / 1000)
        assert -1e-7 < above <= each.gaps_[0] + 1e-7 <= settings["tol"]


def test_multipliers_of_a_million_are_refined():
    """Where images are nearly dependent, the active-set method needs several steps for one change of its sets."""
    X, y = make_blobs(n_samples=300, random_state=0, centers=2, cluster_std=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = KernelProjectionPenaltyClassifier(PCA(1), alpha=1e-8).fit(X, y)
    assert model.gaps_[0] <= 1e-6
    assert np.abs(model.dual_coef_).max() > 1e6


def test_the_kernel_values_of_libsvm_alone_do_not_suffice():
    """Why solutions are refined: at epsilon 1e-5, 24 bits leave two digits of the part that is penalised."""
    X, y = load_wine(return_X_y=True)
    plain, refined = [], []

    def record(problem, start, tolerance):
        plain.append(problem.certified(start[0]).gap)
        found = original(problem, start, tolerance)
        refined.append(found.gap)
        return found

    original = margin_solvers.refined
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(margin_solvers, "refined", record)
        model = KernelProjectionPenaltyClassifier(PCA(1)).fit(X, y)
    assert max(plain) > 1e-3
    assert (model.gaps_ <= 1e-6).all()


def test_where_the_gap_stays_wide_a_warning_says_so(monkeypatch):
    X, y = load_wine(return_X_y=True)
    monkeypatch.setattr(margin_solvers, "refined", lambda problem, start, tolerance: problem.certified(start[0]))
    with pytest.warns(ConvergenceWarning, match=r"objective for class 1 is proved to be within .*solver='clarabel'"):
        model = KernelProjectionPenaltyClassifier(PCA(1), max_iter=10).fit(X, y)
    assert (model.gaps_ > 1e-6).any()
