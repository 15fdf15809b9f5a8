"""Problems for projection penalties, and the comparison of a model with its twin."""

import numpy as np
import pytest
from naive_penalties import objective, penalized_model

from helpers.tables import labelled

LOSSES = ["squared", "logistic", "hinge", "squared hinge"]
EXACT = {"tol": 1e-9, "precision": "double"}


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


def regression(n, d, q=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 5
    Y = X @ rng.normal(size=(d, q)) + rng.normal(size=(n, q)) + 10
    return X, Y, rng.normal(size=(2, d))
