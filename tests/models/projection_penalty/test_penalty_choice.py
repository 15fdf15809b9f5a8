"""The choice of alpha and of the number of components by rows held out, with reductions of the rows that train."""

import dask.array as da
import numpy as np
import pytest
from helpers.penalties import EXACT, LOSSES, problem, regression
from naive_penalties import errors_in_folds
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA

from mmpca_dist import PLS, ProjectionPenaltyClassifier, ProjectionPenaltyRegressor
from mmpca_dist.errors import InputError

GRID = (1e-2, 1.0, 100.0)
SIZES = (1, 2, 3)


def chosen(model):
    """Return the pair with the least errors: the largest alpha of equal ones, then the fewest components."""
    errors = model.candidate_errors_
    pairs = [(errors[i, j], -GRID[j], SIZES[i]) for i in range(len(errors)) for j in range(len(GRID))]
    return min(pairs)[2], -min(pairs)[1]


@pytest.mark.parametrize("standardize", [False, pytest.param(True, marks=pytest.mark.e2e)])
@pytest.mark.parametrize("reduction", ["m-pca0", "pca", "fisher", "m-pca1b", "m-pca2", "pls"])
@pytest.mark.parametrize(("n", "d"), [(90, 6), (30, 40)])
def test_reductions_do_not_see_the_rows_held_out(reduction, n, d, standardize):
    X, y, _ = problem(n, d, 2, seed=3, n_classes=3)
    X = X * np.linspace(1, 3, d)
    settings = {"loss": "squared", "standardize": standardize, "precision": "double"}
    model = ProjectionPenaltyClassifier(
        reduction, n_components="auto", sizes=SIZES, alpha="auto", alphas=GRID, **settings
    ).fit(X, y)
    expected = errors_in_folds(
        lambda K, alpha: ProjectionPenaltyClassifier(reduction, n_components=K, alpha=alpha, **settings),
        X, y, model.candidate_sizes_.astype(int), GRID,
    )  # fmt: skip
    assert model.fitted_by_fold_
    # the passes that folds share standardise by all rows, so that a row or two on the border may differ
    np.testing.assert_allclose(model.candidate_errors_, expected, atol=2 if standardize else 0)
    K, alpha = chosen(model)
    assert (model.weights_.shape[1], model.alpha_) == (K, alpha)
    final = ProjectionPenaltyClassifier(reduction, n_components=K, alpha=alpha, **settings).fit(X, y)
    np.testing.assert_allclose(model.coef_, final.coef_, atol=1e-8 * np.abs(final.coef_).max())


def test_a_supervised_reduction_of_all_rows_would_judge_itself():
    """On noise, a reduction that has seen the labels of the rows held out seems better than it is."""
    honest, blind = [], []
    for seed in range(10):
        X, y, _ = problem(60, 20, 2, seed=seed)
        X = np.random.default_rng(seed).normal(size=X.shape)
        settings = {"alpha": "auto", "alphas": (1e6,), "loss": "squared", "epsilon": 1e-6, "precision": "double"}
        honest.append(ProjectionPenaltyClassifier("pls", n_components=1, **settings).fit(X, y).candidate_errors_[0])
        whole = PLSRegression(1, scale=False).fit(X, y).x_weights_.T
        blind.append(ProjectionPenaltyClassifier(whole, **settings).fit(X, y).candidate_errors_[0])
    difference = np.subtract(honest, blind)
    assert difference.mean() > 3 * difference.std(ddof=1) / np.sqrt(len(difference))


@pytest.mark.parametrize("penalty", ["l2", pytest.param("l1", marks=pytest.mark.e2e)])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("is_given", [True, pytest.param(False, marks=pytest.mark.e2e)])
def test_every_loss_shares_passes_with_its_own_reduction_of_each_fold(is_given, loss, penalty, limits):
    X, y, P = problem(80, 5, 2, seed=5, n_classes=3)
    limits.unit_bytes, limits.smallest_unit_bytes = 25 * 8 * 5, 1
    reduction, settings = P if is_given else "m-pca0", {"loss": loss, "penalty": penalty, **EXACT}
    model = ProjectionPenaltyClassifier(reduction, n_components=2, alpha="auto", alphas=GRID, **settings).fit(X, y)
    expected = errors_in_folds(
        lambda K, alpha: ProjectionPenaltyClassifier(
            reduction, n_components=K, alpha=alpha, **settings | {"tol": 1e-6}
        ),
        X, y, [2], GRID,
    )  # fmt: skip
    # rough fits may differ in a row or two that lie on the border
    np.testing.assert_allclose(model.candidate_errors_, expected[0], atol=0 if loss == "squared" else 3)
    least = model.candidate_errors_ == model.candidate_errors_.min()
    assert model.alpha_ == np.max(np.asarray(GRID)[least])
    again = ProjectionPenaltyClassifier(reduction, n_components=2, alpha=model.alpha_, **settings).fit(X, y)
    np.testing.assert_allclose(model.coef_, again.coef_, atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.e2e
def test_the_choice_is_the_same_for_any_chunks_and_kinds_of_rows(loss, limits):
    X, y, _ = problem(120, 5, 2, seed=7, n_classes=3)
    model = ProjectionPenaltyClassifier(
        "pca", n_components="auto", sizes=SIZES, alpha="auto", alphas=GRID, loss=loss, **EXACT
    )
    whole = clone(model).fit(X, y)
    limits.unit_bytes, limits.smallest_unit_bytes = 16 * 8 * 5, 1
    in_units = clone(model).fit(X, y)
    chunked = clone(model).fit(da.from_array(X, chunks=(17, 5)), da.from_array(y, chunks=17))
    sparse = clone(model).fit(csr_array(X), y)
    assert whole.candidate_gaps_.shape == whole.candidate_errors_.shape and whole.candidate_gaps_.max() <= 1e-3
    for other in (in_units, chunked, sparse):
        np.testing.assert_allclose(other.candidate_errors_, whole.candidate_errors_, atol=0)
        np.testing.assert_allclose(other.coef_, whole.coef_, atol=1e-4 * np.abs(whole.coef_).max())


@pytest.mark.parametrize("fit_intercept", [True, pytest.param(False, marks=pytest.mark.e2e)])
@pytest.mark.parametrize("standardize", [pytest.param(False, marks=pytest.mark.e2e), True])
@pytest.mark.parametrize(
    ("n", "d", "mean", "penalty"),
    [
        (60, 6, 5, "l2"), (60, 6, 5, "l1"), (14, 20, 0, "l2"), (60, 6, 1e6, "l2"),
        pytest.param(14, 20, 0, "l1", marks=pytest.mark.e2e),
    ],
)  # fmt: skip
def test_the_regressor_chooses_from_moments_of_the_folds(n, d, mean, penalty, standardize, fit_intercept, limits):
    X, Y, _ = regression(n, d, 2)
    X = X * np.linspace(1, 3, d) + mean
    limits.unit_bytes, limits.smallest_unit_bytes = 8 * 8 * d, 1
    settings = {"penalty": penalty, "standardize": standardize, "fit_intercept": fit_intercept, **EXACT}
    settings |= {"epsilon": 1.0, "max_iter": 100}
    if mean == 1e6 and not fit_intercept:
        pytest.skip("without an intercept rows so far from zero leave no digits")
    if penalty == "l1" and standardize:
        pytest.skip("the passes that folds share standardise by all rows, which absolute values depend on")
    model = ProjectionPenaltyRegressor("pls", n_components="auto", sizes=SIZES, alpha="auto", alphas=GRID, **settings)
    model.fit(X, Y)
    expected = errors_in_folds(
        lambda K, alpha: ProjectionPenaltyRegressor("pls", n_components=K, alpha=alpha, **settings), X, Y, SIZES, GRID
    )
    assert model.fitted_by_fold_
    np.testing.assert_allclose(model.candidate_errors_, expected, rtol=1e-6 if penalty == "l2" else 1e-2)
    K, alpha = chosen(model)
    assert (model.weights_.shape[1], model.alpha_) == (K, alpha)


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("reduction", ["pca", "random-projection", "hsic"])
@pytest.mark.parametrize(("n", "d"), [(60, 6), (14, 20)])
@pytest.mark.e2e
def test_the_regressor_takes_methods_that_ignore_targets(n, d, reduction, standardize):
    X, Y, _ = regression(n, d, 2)
    X = X * np.linspace(1, 3, d)
    settings = {"standardize": standardize, "epsilon": 0.1, "precision": "double"}
    model = ProjectionPenaltyRegressor(
        reduction, n_components="auto", sizes=SIZES, alpha="auto", alphas=GRID, **settings
    )
    model.fit(X, Y)
    expected = errors_in_folds(
        lambda K, alpha: ProjectionPenaltyRegressor(reduction, n_components=K, alpha=alpha, **settings),
        X, Y, model.candidate_sizes_.astype(int), GRID,
    )  # fmt: skip
    np.testing.assert_allclose(model.candidate_errors_, expected.reshape(model.candidate_errors_.shape), rtol=1e-6)
    if reduction == "pca" and not standardize:
        own = ProjectionPenaltyRegressor(PCA(2).fit(X), alpha=1.0, **settings).fit(X, Y)
        named = ProjectionPenaltyRegressor("pca", n_components=2, alpha=1.0, **settings).fit(X, Y)
        np.testing.assert_allclose(named.coef_, own.coef_, rtol=1e-7)


def test_only_the_number_of_components_is_chosen():
    X, y, _ = problem(90, 6, 2, seed=1)
    model = ProjectionPenaltyClassifier("pca", n_components="auto", sizes=SIZES, alpha=10.0, loss="squared").fit(X, y)
    assert model.candidate_errors_.shape == (3, 1) and model.candidates_.tolist() == [10.0]
    assert model.weights_.shape[1] == SIZES[int(np.argmin(model.candidate_errors_[:, 0]))]
    regressor = ProjectionPenaltyRegressor("pls", n_components="auto", alpha=1.0).fit(X, X[:, 0] + X[:, 1] ** 2)
    assert regressor.candidate_sizes_.tolist() == [1, 2, 3, 4, 6]


def test_what_was_fitted_to_all_rows_says_so(limits):
    X, y, P = problem(90, 6, 2, seed=1)
    settings = {"alpha": "auto", "alphas": GRID, "loss": "squared"}
    assert not ProjectionPenaltyClassifier(PCA(2), **settings).fit(X, y).fitted_by_fold_
    assert ProjectionPenaltyClassifier(PCA(2).fit(X), **settings).fit(X, y).fitted_by_fold_
    assert ProjectionPenaltyClassifier(P, **settings).fit(X, y).fitted_by_fold_
    limits.direct_bytes = 0
    moments = ProjectionPenaltyClassifier("m-pca0", n_components=2, **settings).fit(X, y)
    assert moments.fitted_by_fold_ and not moments.fitted().remarks
    searched = ProjectionPenaltyClassifier("m-pca2", n_components=2, **settings).fit(X, y)
    assert not searched.fitted_by_fold_ and "held out" in searched.fitted().remarks[-1]


@pytest.mark.parametrize(("settings", "expected"), [
    ({"n_components": "auto", "sizes": ()}, "sizes=.* must be a list"),
    ({"n_components": "auto", "sizes": (0,)}, "a value among sizes"),
    ({"n_components": "automatic"}, "n_components='automatic' must be"),
    ({"n_components": "auto", "reduction": "bm2pca"}, "give n_components as a number"),
])  # fmt: skip
def test_choices_that_are_refused(settings, expected):
    X, y, _ = problem(40, 5, 2)
    with pytest.raises(InputError, match=expected):
        ProjectionPenaltyClassifier(**{"reduction": "pca", **settings}).fit(X, y)


def test_a_size_that_the_first_fold_does_not_reach_is_tried_in_the_others():
    X, y, _ = problem(40, 4, 2)
    X[:, 3] = 0
    X[0, 3] = 5  # row 0 is in the first fold: without it, one direction less
    model = ProjectionPenaltyClassifier("pca", n_components="auto", sizes=(3, 4), alpha=1.0, loss="squared").fit(X, y)
    assert model.candidate_sizes_.tolist() == [3, 4]


def test_the_reduction_of_a_regressor_keeps_its_own_size_whatever_is_chosen():
    X, Y, _ = regression(100, 20)
    reduction = PLS(n_components=13, target="continuous")
    for penalty in ("l2", "l1"):
        model = ProjectionPenaltyRegressor(reduction, alpha="auto", alphas=(1.0, 10.0), penalty=penalty).fit(X, Y)
        assert model.weights_.shape[1] == 13


def test_a_fold_without_components_is_named():
    X, y = np.zeros((10, 3)), np.array([0, 1] * 5)
    X[0] = 1
    with pytest.raises(InputError, match=r"Without the rows of a fold.* give both as numbers.* finds no component"):
        ProjectionPenaltyClassifier("pca", n_components=1, alpha="auto").fit(X, y)


def test_another_fit_refuses_what_the_first_would():
    X, y, _ = problem(40, 5, 2)
    model = ProjectionPenaltyClassifier(PCA(2).fit(X), loss="squared").fit(X, y)
    with pytest.raises(InputError, match="give n_components as a number"):
        model.set_params(reduction="bm2pca", n_components="auto").fit(X, y)
