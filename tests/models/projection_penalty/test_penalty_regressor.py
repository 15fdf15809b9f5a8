"""Projection penalties for continuous targets."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from helpers.penalties import EXACT, check_twin, regression
from sklearn.base import clone
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from mmpca_dist import PLS, ProjectionPenaltyRegressor
from mmpca_dist.errors import InputError


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
