"""Partial least squares and ridge from class moments: those of the rows, and of scikit-learn."""

import dask.array as da
import naive_regressions as naive
import numpy as np
import pytest
import scipy.sparse
from helpers.tables import labelled, with_targets
from sklearn.cross_decomposition import PLSRegression
from sklearn.linear_model import Ridge

from mmpca_dist import PLS, RidgeDirections, SupervisedPCA, class_moments
from mmpca_dist.errors import InputError

SHAPES = [(90, 6), (300, 20), (12, 40), (40, 41)]


def assert_rotations(reducer, expected, tolerance):
    """Up to signs; a component's error is divided by its length."""
    turned = expected * np.sign(np.sum(reducer.components_ * expected, axis=1))[:, None]
    lengths = np.linalg.norm(expected, axis=1)[:, None]
    np.testing.assert_allclose(reducer.components_ / lengths, turned / lengths, rtol=0, atol=tolerance)


@pytest.mark.parametrize("mean", [3.0, 1e4])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("shape", SHAPES)
def test_pls_takes_scores_out_of_rows_and_targets(shape, n_classes, mean):
    X, y = labelled(*shape, n_classes, seed=1, mean=mean)
    expected, explained = naive.pls(X, naive.targets(y), 4)
    reducer = PLS(4, precision="double").fit(X, y)
    # Rounding of the mean, 1e4 spreads, and of products, over the smallest of the values that are divided by.
    tolerance = 1e-9 * max(1.0, mean / 1e2)
    assert_rotations(reducer, expected.T, tolerance)
    np.testing.assert_allclose(reducer.eigenvalues_ * len(X), explained, rtol=tolerance, atol=tolerance * explained[0])
    centred = naive.targets(y) - naive.targets(y).mean(axis=0)
    np.testing.assert_allclose(reducer.total_ * len(X), np.sum(centred**2), rtol=1e-12)


@pytest.mark.parametrize("kind", [1, 3, "2 classes", "4 classes"])
@pytest.mark.parametrize("shape", SHAPES)
def test_orthogonal_directions_are_taken_out_first(shape, kind):
    if isinstance(kind, int):
        X, Y = with_targets(*shape, kind, seed=21)
        reducer = PLS(1, orthogonal=2, target="continuous", center=True).fit(X, Y)
    else:
        X, y = labelled(*shape, int(kind[0]), seed=21)
        Y = naive.targets(y)
        reducer = PLS(1, orthogonal=2, precision="double", center=True).fit(X, y)
    expected, explained = naive.opls(X, Y, 1, 2)
    assert_rotations(reducer, expected.T, 1e-8)
    np.testing.assert_allclose(reducer.eigenvalues_ * len(X), explained, rtol=1e-8)
    with pytest.raises(InputError, match="vip_ is for orthogonal=0"):
        _ = reducer.vip_
    if kind == 1:  # what one target is predicted as is what so many directions more predict without it
        score, theirs = reducer.transform(X), PLSRegression(3, scale=False).fit(X, Y).predict(X)
        ours = np.linalg.lstsq(np.c_[score, np.ones(len(X))], Y, rcond=None)[0]
        np.testing.assert_allclose(
            np.c_[score, np.ones(len(X))] @ ours, theirs.reshape(Y.shape), atol=1e-8 * np.abs(Y).max()
        )


def test_fewer_orthogonal_directions_than_asked_for():
    """Two columns leave one direction beside that of the target, and rows without it."""
    X, Y = with_targets(50, 2, 1, seed=22)
    np.testing.assert_array_equal(*(PLS(1, orthogonal=k, target="continuous").fit(X, Y).components_ for k in (1, 5)))


@pytest.mark.parametrize("shape", SHAPES)
def test_vip_is_that_of_its_formula(shape):
    X, y = labelled(*shape, 4, seed=4)
    np.testing.assert_allclose(PLS(3, precision="double").fit(X, y).vip_, naive.vip(X, naive.targets(y), 3), rtol=1e-8)
    Z, Y = with_targets(*shape, 2, seed=5)
    numbers = PLS(3, target="continuous", standardize=True).fit(Z, Y)
    np.testing.assert_allclose(numbers.vip_, naive.vip((Z - Z.mean(axis=0)) / Z.std(axis=0), Y, 3), rtol=1e-8)
    np.testing.assert_allclose(np.mean(numbers.vip_**2), 1, rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("shape", SHAPES)
def test_pls_is_that_of_scikit_learn(shape, n_classes):
    X, y = labelled(*shape, n_classes, seed=2)
    indicators = (y[:, None] == np.arange(n_classes)).astype(float)
    theirs = PLSRegression(3, scale=False, tol=1e-16, max_iter=100_000).fit(X, indicators)
    ours = PLS(3, center=True, precision="double").fit(X, y)
    # scikit-learn finds weights by a power method that ends where they change by less than the root of tol
    assert_rotations(ours, theirs.x_rotations_.T, 1e-11 if n_classes == 2 else 1e-6)
    signs = np.sign(np.sum(ours.components_ * theirs.x_rotations_.T, axis=1))
    np.testing.assert_allclose(ours.transform(X) * signs, theirs.transform(X), atol=1e-5 * np.abs(X).max())
    plain = PLS(3, precision="double").fit(X, y)
    np.testing.assert_allclose(plain.transform(X), X @ ours.components_.T, atol=1e-10)


def test_two_classes_as_one_column_or_two_are_the_same_pls():
    X, y = labelled(80, 6, 2, seed=3)
    signs = PLSRegression(4, scale=False).fit(X, 2.0 * y - 1).x_rotations_.T
    reducer = PLS(4, precision="double").fit(X, y)
    assert_rotations(reducer, signs, 1e-11)
    expected, _ = naive.pls(X, np.stack([y == 0, y == 1], axis=1).astype(float), 4)
    assert_rotations(reducer, expected.T, 1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8"])
@pytest.mark.parametrize("make", [PLS, RidgeDirections])
def test_single_precision_and_every_type(make, dtype):
    """Products of single precision: components to 1e-3 of their length, relative errors below that."""
    X, y = labelled(200, 6, 3, seed=4)
    X = (X * 10 + 60).astype(dtype)
    single, double = make(2).fit(X, y), make(2, precision="double").fit(X, y)
    assert (single.relative_errors_ < 1e-3).all()
    assert_rotations(single, double.components_, 1e-3)


@pytest.mark.parametrize("shares", [[2, 198], [100, 100], [1, 1, 198]])
def test_every_balance_of_classes(shares):
    rng = np.random.default_rng(6)
    y = np.repeat(np.arange(len(shares)), shares)
    X = rng.standard_normal((200, 5)) + rng.standard_normal((len(shares), 5))[y]
    assert_rotations(PLS(3, precision="double").fit(X, y), naive.pls(X, naive.targets(y), 3)[0].T, 1e-9)
    W = naive.ridge(X, naive.targets(y), 2.0)
    found = RidgeDirections(alpha=2.0, precision="double").fit(X, y).components_
    np.testing.assert_allclose(found.T @ found, W @ W.T, atol=1e-10 * np.abs(W).max() ** 2)


def test_constant_columns_have_no_loadings():
    X, y = labelled(80, 5, 3, seed=7)
    X[:, 2] = 0.1
    for reducer in (PLS(3), RidgeDirections(), PLS(3, standardize=True)):
        found = reducer.fit(X, y).components_
        assert not found[:, 2].any()
        rest = np.delete(X, 2, axis=1)
        np.testing.assert_allclose(np.delete(found, 2, axis=1), reducer.fit(rest, y).components_, atol=1e-6)


def test_pls_ends_where_nothing_is_left_to_explain():
    """Rows that are orthogonal to the classes but for one direction."""
    rng = np.random.default_rng(8)
    y = np.repeat([0, 1], 50)
    noise = rng.standard_normal((50, 4))
    X = np.concatenate([noise, noise])  # equal in both classes
    X = np.column_stack([X - X.mean(axis=0), y])
    for precision in ("single", "double"):
        reducer = PLS(precision=precision).fit(X, y)
        np.testing.assert_allclose(reducer.components_, [[0, 0, 0, 0, 1]], atol=1e-6)
        np.testing.assert_allclose(reducer.eigenvalues_, reducer.total_, rtol=1e-6)
    with pytest.raises(InputError, match="n_components=2 is more than the 1 components that PLS finds"):
        PLS(2).fit(X, y)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 10.0])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("shape", SHAPES)
def test_ridge_is_that_of_scikit_learn_turned(shape, n_classes, alpha):
    """W V with V orthogonal: W W^T is the same, and what is fitted along components is uncorrelated."""
    if alpha == 0 and shape[0] <= shape[1]:
        return
    X, y = labelled(*shape, n_classes, seed=9)
    Y = naive.targets(y)
    ours = RidgeDirections(alpha=alpha, precision="double").fit(X, y)
    theirs = np.atleast_2d(Ridge(alpha=alpha, solver="svd").fit(X, Y).coef_)
    size = np.abs(theirs).max()
    # Least squares divides by the smallest eigenvalue of the scatter, 1e-6 of the trace for 20 columns.
    tolerance = 1e-7 if alpha == 0 else 1e-9
    np.testing.assert_allclose(theirs.T, naive.ridge(X, Y, alpha), atol=tolerance * size)
    found = ours.components_
    np.testing.assert_allclose(found.T @ found, theirs.T @ theirs, atol=tolerance * size**2 * len(theirs))
    if n_classes == 2:
        assert_rotations(ours, theirs, tolerance)
    Z = (X - X.mean(axis=0)) @ found.T
    np.testing.assert_allclose(Z.T @ Z / len(X), np.diag(ours.eigenvalues_), atol=tolerance * ours.total_)
    assert (np.diff(ours.eigenvalues_) <= 0).all()
    assert ours.eigenvalues_.sum() <= ours.total_


def test_ridge_of_columns_that_depend_on_each_other():
    X, y = labelled(60, 4, 3, seed=10)
    X = np.column_stack([X, X[:, 0]])
    with pytest.raises(InputError, match=r"singular up to rounding.*raise alpha"):
        RidgeDirections(alpha=0).fit(X, y)
    expected = naive.ridge(X, naive.targets(y), 1.0)
    found = RidgeDirections(alpha=1.0, precision="double").fit(X, y).components_
    np.testing.assert_allclose(found.T @ found, expected @ expected.T, atol=1e-10)


def test_ridge_has_no_components_of_rounding_errors():
    """Five classes in two columns that vary: the other two of four eigenvalues are zero up to rounding."""
    for seed in range(50):
        X, y = labelled(60, 4, 5, seed=seed)
        X[:, 2:] = 3.0
        covariate = np.random.default_rng(seed).normal(size=60)
        for covariates in (None, covariate):
            reducer = RidgeDirections(standardize=True, precision="double").fit(X, y, covariates=covariates)
            assert reducer.components_.shape == (2, 4)


def test_ridge_of_columns_of_very_different_size_in_single_precision():
    """Products are as good as the lengths of their two columns, so that size alone does no harm."""
    X, y = labelled(300, 5, 2, seed=11)
    X = X * np.asarray([1e-4, 1e4, 1.0, 1e2, 1e-2])
    reducer = RidgeDirections(alpha=0).fit(X, y)
    assert_rotations(reducer, naive.ridge(X, naive.targets(y), 0.0).T, 1e-3)
    assert not reducer.imprecise_.any()


def test_a_class_of_the_moments_without_rows_is_no_target():
    X, y = labelled(60, 5, 2, seed=14)
    for make in (PLS, RidgeDirections):
        stored = class_moments(X, y, precision="double", classes=[0, 1, 2])
        found = make.from_moments(stored, 1, precision="double")
        assert_rotations(found, make(1, precision="double").fit(X, y).components_, 1e-12)


@pytest.mark.parametrize("mean", [3.0, 1e4])
@pytest.mark.parametrize("q", [1, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_pls_of_continuous_targets(shape, q, mean, limits):
    X, Y = with_targets(*shape, q, seed=15, mean=mean)
    limits.unit_bytes = 7 * shape[1] * 8
    reducer = PLS(3, target="continuous").fit(X, Y)
    expected, explained = naive.pls(X, Y, 3)
    tolerance = 1e-9 * max(1.0, mean / 1e2)
    assert_rotations(reducer, expected.T, tolerance)
    np.testing.assert_allclose(reducer.eigenvalues_ * len(X), explained, rtol=tolerance, atol=tolerance * explained[0])
    theirs = PLSRegression(3, scale=False, tol=1e-16, max_iter=100_000).fit(X, Y)
    assert_rotations(reducer, theirs.x_rotations_.T, max(tolerance, 1e-6 if q > 1 else 0))
    assert not hasattr(reducer, "classes_")


def test_pls_of_continuous_targets_in_pieces_of_dask_sparse_and_standardised():
    X, Y = with_targets(90, 5, 2, seed=16)
    for options in ({}, {"standardize": True}):
        expected = PLS(3, target="continuous", **options).fit(X, Y)
        pieces = PLS(3, target="continuous", **options).partial_fit(X[:1], Y[:1])
        for found in (
            pieces.partial_fit(X[1:40], Y[1:40]).partial_fit(X[40:], Y[40:]),
            PLS(3, target="continuous", **options).fit(da.from_array(X, (20, 2)), da.from_array(Y, (30, 2))),
            PLS(3, target="continuous", **options).fit(scipy.sparse.csr_array(X), Y),
        ):
            assert_rotations(found, expected.components_, 1e-10)
            assert found.moments_.n_rows == 90
    rows = (X - X.mean(axis=0)) / X.std(axis=0)
    assert_rotations(expected, naive.pls(rows, Y, 3)[0].T, 1e-9)


def test_continuous_targets_that_cannot_be_used_are_refused():
    X, Y = with_targets(40, 5, 1, seed=17)
    with pytest.raises(InputError, match="targets vary with none of the columns"):
        PLS(target="continuous").fit(X, np.ones(40))
    with pytest.raises(InputError, match="Class moments know nothing of continuous targets"):
        PLS.from_moments(class_moments(X, np.arange(40) % 2), target="continuous")
    with pytest.raises(InputError, match="must be one of classes, continuous"):
        PLS(target="numbers").fit(X, Y)
    with pytest.raises(InputError, match="The targets in y have type object; they must be numbers"):
        PLS(target="continuous").fit(X, scipy.sparse.csr_array(Y))
    with pytest.raises(InputError, match="PLS: Input y contains NaN"):
        PLS(target="continuous", missing="mean").fit(np.where(X > 1, np.nan, X), np.where(Y > 1, np.nan, Y))
    assert SupervisedPCA(target="continuous").fit(X, Y).components_.shape == (1, 5)
