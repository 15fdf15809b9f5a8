"""Random projection: orthonormal directions that know the width alone, and the factor that keeps distances."""

import naive
import numpy as np
import pytest
from helpers.tables import counts_like_text, labelled

from mmpca_dist import RandomProjection


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("shape", [(60, 8), (12, 40)])
def test_directions_are_gaussian_rows_made_orthonormal(shape, seed):
    X, y = labelled(*shape, 2, seed=1)
    reducer = RandomProjection(5, seed=seed).fit(X, y)
    np.testing.assert_allclose(reducer.components_, naive.random_directions(5, shape[1], seed), atol=1e-13)
    np.testing.assert_allclose(reducer.components_ @ reducer.components_.T, np.eye(5), atol=1e-13)
    other = RandomProjection(5, seed=seed + 1).fit(X, y)
    assert np.abs(other.components_ - reducer.components_).max() > 0.1


def test_nothing_but_the_width_matters():
    X, y = labelled(60, 8, 2, seed=2)
    expected = RandomProjection(3).fit(X, y).components_
    for rows, labels in ((X * 1e6 - 4, y), (X[:5], y[:5]), (X, (y + np.arange(60)) % 3), (X.astype("f4"), y)):
        np.testing.assert_array_equal(RandomProjection(3).fit(rows, labels).components_, expected)


def test_fewer_components_are_the_first_ones():
    X, y = labelled(60, 8, 2, seed=3)
    largest = RandomProjection(6).fit(X, y).components_
    for k in range(1, 7):
        np.testing.assert_allclose(RandomProjection(k).fit(X, y).components_, largest[:k], atol=1e-13)


@pytest.mark.parametrize("options", [{}, {"center": True}, {"standardize": True}])
@pytest.mark.parametrize("k", [1, 3, 8])
def test_projected_rows_carry_the_factor(k, options):
    X, y = labelled(60, 8, 2, seed=4)
    reducer = RandomProjection(k, precision="double", **options).fit(X, y)
    rows = X - X.mean(axis=0) if options else X
    if "standardize" in options:
        rows = rows / X.std(axis=0)
    Z = reducer.transform(X)
    np.testing.assert_allclose(Z, np.sqrt(8 / k) * rows @ reducer.components_.T, atol=1e-12)
    np.testing.assert_allclose(reducer.transform(reducer.inverse_transform(Z)), Z, atol=1e-10)
    if k == 8:
        np.testing.assert_allclose(np.linalg.norm(Z, axis=1), np.linalg.norm(rows, axis=1), rtol=1e-12)
        np.testing.assert_allclose(reducer.inverse_transform(Z), X, atol=1e-10)


def test_squared_lengths_are_kept_on_average():
    """The mean over seeds of |Z|^2 / |x|^2 is 1, with a standard error of at most sqrt(2 / (K m)) for m seeds."""
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((2, 30)), np.asarray([0, 1])
    ratios = [
        np.sum(RandomProjection(3, seed=seed).fit(X, y).transform(X) ** 2, axis=1) / np.sum(X**2, axis=1)
        for seed in range(400)
    ]
    assert (np.abs(np.mean(ratios, axis=0) - 1) < 5 * np.sqrt(2 / (3 * 400))).all()


@pytest.mark.parametrize("shape", [(60, 8), (12, 40)])
def test_values_are_variances_of_the_rows(shape):
    X, y = labelled(*shape, 3, seed=6)
    reducer = RandomProjection(4, precision="double").fit(X, y)
    np.testing.assert_allclose(reducer.eigenvalues_, (X @ reducer.components_.T).var(axis=0), rtol=1e-10)
    np.testing.assert_allclose(reducer.total_, X.var(axis=0).sum(), rtol=1e-10)


def test_one_pass_takes_the_mean_of_many_columns():
    _, X, y = counts_like_text(60, 40, 3, seed=7)
    reducer = RandomProjection(4, solver="krylov", center=True).fit(X, y)
    np.testing.assert_array_equal(reducer.components_, RandomProjection(4).fit(X, y).components_)
    np.testing.assert_allclose(reducer.transform(X).mean(axis=0), 0, atol=1e-5)
    assert np.isnan(reducer.eigenvalues_).all()
