"""Peers of what tables need: weights and covariates of statsmodels, maps and covariates of scanpy."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from helpers.tables import labelled
from scipy.sparse import csr_array, csr_matrix, issparse
from statsmodels.stats.weightstats import DescrStatsW

from mmpca_dist import MarginPCA, class_moments, open_dataset
from mmpca_dist.tables.row_maps.row_by_row import Log1p, NormalizeTotal


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


def test_maps_of_counts_are_those_of_scanpy(tmp_path):
    anndata, scanpy = pytest.importorskip("anndata"), pytest.importorskip("scanpy")
    counts = csr_array(np.random.default_rng(3).poisson(0.7, (60, 12)).astype(np.float32))
    adata = anndata.AnnData(csr_matrix(counts), obs=pd.DataFrame({"cell": ["a", "b"] * 30}))
    adata.write_h5ad(tmp_path / "cells.h5ad")
    maps = [NormalizeTotal(to=1e4).fitted({}), Log1p().fitted({})]
    found = open_dataset(tmp_path / "cells.h5ad", label="cell").read_sparse(0, 60)
    for each in maps:
        found = each(found)
    assert issparse(found)
    scanpy.pp.normalize_total(adata, target_sum=1e4)
    scanpy.pp.log1p(adata)
    np.testing.assert_allclose(found.toarray(), adata.X.toarray(), rtol=1e-6)


def test_covariates_that_classes_share_are_what_scanpy_regresses_out():
    """It knows no classes: both remove the same where covariates have the same mean in every class."""
    anndata, scanpy = pytest.importorskip("anndata"), pytest.importorskip("scanpy")
    X, y = labelled(120, 5, 3, seed=4, mean=10.0)
    rng = np.random.default_rng(4)
    covariates = pd.DataFrame({"depth": rng.normal(5, 2, 120), "age": rng.normal(40, 9, 120)})
    covariates -= covariates.groupby(y).transform("mean")
    X = X + covariates.to_numpy() @ rng.normal(0, 1, (2, 5))
    adata = anndata.AnnData(X.copy(), obs=covariates.set_axis([str(row) for row in range(120)]))
    scanpy.pp.regress_out(adata, list(covariates))
    for variant in ("pca", "m-pca0"):
        found = MarginPCA(3, variant).fit(X, y, covariates=covariates)
        expected = MarginPCA(3, variant, precision="double").fit(np.asarray(adata.X), y)
        np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-6)
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-5)
