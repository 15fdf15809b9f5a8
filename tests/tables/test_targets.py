"""Numbers to predict: methods that follow from moments of [x, y], with weights, gaps and covariates."""

import dask.array as da
import numpy as np
import pytest
import scipy.sparse
from helpers.tables import with_targets
from naive_regressions import lasso
from sklearn.cross_decomposition import PLSRegression
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from mmpca_dist import (
    PLS,
    FisherDiscriminant,
    LassoSelection,
    MarginPCA,
    ProjectionPenaltyRegressor,
    RidgeDirections,
    SupervisedPCA,
)
from mmpca_dist.errors import InputError

REDUCERS = {
    "pls": lambda: PLS(2, target="continuous"),
    "hsic": lambda: SupervisedPCA(target="continuous"),
    "ridge": lambda: RidgeDirections(target="continuous"),
    "lasso": lambda: LassoSelection(3, target="continuous"),
    "penalty": lambda: ProjectionPenaltyRegressor("pls", n_components=1, epsilon=0.1),
}
METHODS = pytest.mark.parametrize("method", list(REDUCERS))
SHAPES = pytest.mark.parametrize(("n", "d"), [(90, 6), (30, 45)])


def assert_same(found, expected, tolerance=1e-8):
    """Components and means, up to rounding; the signs are fixed by the methods."""
    size = np.abs(expected.components_).max()
    np.testing.assert_allclose(found.components_, expected.components_, atol=tolerance * size)
    np.testing.assert_allclose(found.mean_, expected.mean_, rtol=tolerance)


@METHODS
@SHAPES
@pytest.mark.parametrize("standardize", [False, True])
def test_weights_are_repeated_rows(n, d, method, standardize):
    X, Y = with_targets(n, d, 2, seed=1)
    weights = np.random.default_rng(1).integers(0, 4, n)
    expected = REDUCERS[method]().set_params(standardize=standardize).fit(X.repeat(weights, 0), Y.repeat(weights, 0))
    for rows, targets, w in (
        (X, Y, weights),
        (scipy.sparse.csr_array(X), Y, weights),
        (da.from_array(X, (11, d)), da.from_array(Y, (7, 2)), da.from_array(weights, 13)),
    ):
        found = REDUCERS[method]().set_params(standardize=standardize).fit(rows, targets, sample_weight=w)
        assert_same(found, expected)


@METHODS
@SHAPES
def test_gaps_are_imputed_means(n, d, method):
    X, y = with_targets(n, d, 1, seed=2, mean=1e3)
    X[np.random.default_rng(2).random(X.shape) < 0.1] = np.nan
    imputed = SimpleImputer().fit_transform(X)
    expected = REDUCERS[method]().fit(imputed, y)
    found = REDUCERS[method]().set_params(missing="mean").fit(X, y)
    assert_same(found, expected)
    np.testing.assert_allclose(found.transform(X), expected.transform(imputed), rtol=1e-6, atol=1e-6)


@METHODS
@SHAPES
@pytest.mark.parametrize("weighted", [False, True])
def test_covariates_are_removed_as_beside_the_targets(n, d, method, weighted):
    """The slopes are those of least squares onto targets and covariates, and the rest of the rows is fitted to."""
    X, Y = with_targets(n, d, 2, seed=3)
    rng = np.random.default_rng(3)
    Z = np.column_stack([Y[:, 0] + rng.standard_normal(n), rng.standard_normal(n)])
    X = X + Z @ rng.standard_normal((2, d))
    w = rng.uniform(0.5, 3, n) if weighted else np.ones(n)
    design, roots = np.column_stack([np.ones(n), Y, Z]), np.sqrt(w)[:, None]
    slopes = np.linalg.lstsq(roots * design, roots * X, rcond=None)[0][-2:]
    V = X - (Z - np.average(Z, axis=0, weights=w)) @ slopes
    expected = REDUCERS[method]().fit(V, Y, sample_weight=w)
    found = REDUCERS[method]().fit(X, Y, sample_weight=w, covariates=Z)
    assert_same(found, expected, 1e-7)


@SHAPES
def test_components_are_those_of_the_usual_regressions(n, d):
    X, Y = with_targets(n, d, 2, seed=4)
    X, Y = X * np.linspace(0.5, 3, d), Y * [1.0, 30.0]
    rotations = PLSRegression(2, scale=False, tol=1e-13, max_iter=100_000).fit(X, Y).x_rotations_
    np.testing.assert_allclose(
        np.abs(PLS(2, target="continuous").fit(X, Y).components_), np.abs(rotations.T), atol=1e-7
    )
    coef = Ridge(alpha=0.3).fit(X, Y).coef_
    directions = RidgeDirections(alpha=0.3, target="continuous").fit(X, Y)
    own = directions.components_
    np.testing.assert_allclose(np.linalg.pinv(coef) @ coef, np.linalg.pinv(own) @ own, atol=1e-7)
    fitted = np.linalg.eigvalsh(np.cov((X @ coef.T).T, bias=True))[::-1]
    np.testing.assert_allclose(directions.eigenvalues_, fitted, rtol=1e-7)
    one = RidgeDirections(alpha=0.3, target="continuous").fit(X, Y[:, 0])
    np.testing.assert_allclose(np.abs(one.components_[0]), np.abs(Ridge(alpha=0.3).fit(X, Y[:, 0]).coef_), atol=1e-8)


def test_the_lasso_uses_the_columns_of_its_twin():
    X, y = with_targets(80, 7, 1, seed=5)
    X = X * np.logspace(-1, 1, 7)
    found = LassoSelection(4, target="continuous").fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    for K in (1, 2, 3, 4):
        below = found.eigenvalues_[K - 1] * (1 - 1e-6)
        used = np.flatnonzero(np.abs(lasso(scaled, y[:, 0] - y.mean(), below)) > 1e-12)
        assert set(found.columns_[:K]) >= set(used) and found.columns_[K - 1] in used


def test_partial_fit_takes_weights_gaps_and_covariates():
    X, Y = with_targets(90, 5, 2, seed=6)
    X[::7, 2] = np.nan
    rng = np.random.default_rng(6)
    Z, w = rng.standard_normal((90, 1)), rng.uniform(0.5, 2, 90)
    whole = PLS(2, target="continuous", missing="mean").fit(X, Y, sample_weight=w, covariates=Z)
    pieces = PLS(2, target="continuous", missing="mean")
    for part in (slice(0, 40), slice(40, 41), slice(41, 90)):
        pieces.partial_fit(X[part], Y[part], sample_weight=w[part], covariates=Z[part])
    np.testing.assert_allclose(pieces.components_, whole.components_, atol=1e-9)


def test_methods_of_classes_refuse_numbers_and_pca_takes_their_rows():
    X, Y = with_targets(60, 5, 1, seed=7)
    moments = PLS(target="continuous").fit(X, Y).moments_
    np.testing.assert_allclose(
        MarginPCA.from_moments(moments, "pca", 2).components_,
        MarginPCA(2, "pca", precision="double").fit(X, np.arange(60) % 2).components_, atol=1e-9,
    )  # fmt: skip
    for reducer in (FisherDiscriminant, MarginPCA):
        with pytest.raises(InputError, match="takes classes, and there are numbers to predict: slice"):
            reducer.from_moments(moments)


def test_targets_and_covariates_of_single_precision_rows_in_dask_keep_their_digits():
    X, Y = with_targets(60, 6, 2, seed=8)
    X, Y = X.astype(np.float32), Y * [1e-3, 1e6] + 1e4
    Z = np.random.default_rng(8).standard_normal((60, 1)) + 1e4
    for covariates in (None, Z):
        expected = PLS(2, target="continuous").fit(X, Y, covariates=covariates)
        lazy = da.from_array(X, (7, 6)), da.from_array(Y, (7, 2))
        assert_same(PLS(2, target="continuous").fit(*lazy, covariates=covariates), expected, 1e-7)


@pytest.mark.parametrize("scale", [1e8, 1e-8])
def test_slopes_of_covariates_do_not_depend_on_the_units_of_targets(scale):
    X, Y = with_targets(90, 5, 2, seed=9)
    Z = Y[:, 1:] + np.random.default_rng(9).standard_normal((90, 1))
    one = PLS(2, target="continuous").fit(X + Z, Y, covariates=Z)
    other = PLS(2, target="continuous").fit(X + Z, Y * [scale, 1], covariates=Z)
    np.testing.assert_allclose(other.adjustment_.slopes, one.adjustment_.slopes, rtol=1e-7)
