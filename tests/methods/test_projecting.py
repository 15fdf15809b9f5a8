"""Rows go through a reducer, and back: centred, scaled and typed as promised."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from helpers.estimators import UNITS, make
from helpers.samples import labelled
from sklearn.linear_model import LinearRegression

from mmpca_dist import MarginPCA


@pytest.mark.parametrize("name", ["m-pca0", "lol", "fisher", "pls", "ridge", "lasso"])
def test_inverse_transform_is_the_least_squares_reconstruction(name):
    """The row nearest to the mean among those that project to Z."""
    X, y = labelled(60, 5, 3, seed=12)
    for options in ({"center": True}, {"center": False}, {"standardize": True}):
        reducer = make(name, n_components=2, **options).fit(X, y)
        Z = reducer.transform(X)
        back = reducer.inverse_transform(Z)
        np.testing.assert_allclose(reducer.transform(back), Z, atol=1e-10 * max(1, np.abs(Z).max()))
        units = 1.0 if reducer.scale_ is None else reducer.scale_
        centred = (X - reducer.mean_) / units
        design = reducer.components_.T
        fitted = design @ LinearRegression(fit_intercept=False).fit(design, centred.T).coef_.T
        np.testing.assert_allclose((back - reducer.mean_) / units, fitted.T, atol=1e-9)


def test_projection_is_uncentred_unless_asked_for():
    X, y = labelled(40, 4, 2, seed=13)
    plain, centred = (MarginPCA(2, center=c, precision="double").fit(X, y) for c in (False, True))
    np.testing.assert_allclose(plain.transform(X), X @ plain.components_.T, atol=1e-12)
    np.testing.assert_allclose(centred.transform(X), (X - X.mean(axis=0)) @ plain.components_.T, atol=1e-11)


@pytest.mark.parametrize("options", [{"center": True}, {"standardize": True}])
@pytest.mark.parametrize("mean", [1e4, 1e6])
def test_centred_projection_of_single_precision_rows_far_from_zero(mean, options):
    """The mean goes off in double before the product: what is lost is a rounding of centred rows, not of the mean."""
    rng = np.random.default_rng(20)
    y = np.arange(600) % 3
    X = (rng.standard_normal((600, 4)) * [4.0, 2.0, 1.0, 0.5] + y[:, None] + mean).astype(np.float32)
    exact_rows = X.astype(float)
    for name in ("m-pca0", "m-pca1b", "fisher"):
        reducer = make(name, n_components=2, **options).fit(X, y)
        rows = exact_rows - exact_rows.mean(axis=0)
        if "standardize" in options:
            rows /= exact_rows.std(axis=0)
        exact = rows @ reducer.components_.T
        # d products and the row itself, rounded: (d + 2) units of |x - mean| |v|; Fisher's v is divided by sd.
        allowed = 6 * UNITS["single"] * np.linalg.norm(rows, axis=1).max() * np.linalg.norm(reducer.components_, axis=1)
        if "standardize" in options:
            allowed *= exact_rows.std(axis=0).max() / exact_rows.std(axis=0).min()
        for Z in (reducer.transform(X), reducer.transform(da.from_array(X, (70, 4))).compute()):
            assert Z.dtype == np.float32
            assert (np.abs(Z - exact) <= allowed).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8"])
def test_rows_of_single_precision_stay_so(dtype):
    X, y = labelled(40, 4, 2, seed=14)
    X = (X * 10 + 60).astype(dtype)
    Z = MarginPCA(2).fit(X, y).transform(X)
    assert Z.dtype == (np.float32 if dtype == "float32" else np.float64)
