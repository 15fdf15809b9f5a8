"""Weights and covariates beside statsmodels: weighted moments, residuals of a regression on class and covariates."""

from __future__ import annotations

import numpy as np
import pandas as pd
import statsmodels.api as sm
from helpers.samples import labelled
from statsmodels.stats.weightstats import DescrStatsW

from mmpca_dist import MarginPCA, class_moments


def test_weighted_moments_are_those_of_statsmodels():
    X, y = labelled(200, 6, 3, seed=1, mean=50.0)
    weights = np.random.default_rng(1).uniform(0, 3, 200)
    moments = class_moments(X, y, precision="double", sample_weight=weights)
    for label in range(3):
        stats = DescrStatsW(X[y == label], weights[y == label], ddof=0)
        np.testing.assert_allclose(moments.counts[label], stats.sum_weights)
        np.testing.assert_allclose(moments.means[label], stats.mean, rtol=1e-12)
        np.testing.assert_allclose(moments.scatters[label], stats.cov * stats.sum_weights, rtol=1e-9)


def test_covariates_are_what_ordinary_least_squares_finds_beside_the_class():
    X, y = labelled(200, 6, 3, seed=2)
    rng = np.random.default_rng(2)
    covariates = pd.DataFrame({"batch": rng.choice(["a", "b", "c"], 200), "age": 40 + 5 * y + rng.normal(0, 9, 200)})
    X = X + (covariates["batch"] == "b").to_numpy()[:, None] * 3 + covariates["age"].to_numpy()[:, None] * 0.2
    Z = pd.get_dummies(covariates, columns=["batch"], drop_first=True).astype(float)
    design = pd.concat([pd.get_dummies(y).astype(float), Z], axis=1)
    slopes = np.stack([sm.OLS(column, design).fit().params.to_numpy()[3:] for column in X.T], axis=1)
    V = X - (Z - Z.mean()).to_numpy() @ slopes
    for variant in ("pca", "m-pca0", "m-pca1b", "m-pca2"):
        found = MarginPCA(3, variant).fit(X, y, covariates=covariates)
        expected = MarginPCA(3, variant, precision="double").fit(V, y)
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9)
        np.testing.assert_allclose(found.transform(X, covariates), expected.transform(V), atol=1e-8)
