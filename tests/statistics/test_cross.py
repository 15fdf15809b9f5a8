"""Supervised PCA for continuous targets: X^T H Y from one pass, whatever the type, the chunks and the mean."""

import dask
import dask.array as da
import naive
import numpy as np
import pytest
from helpers.estimators import DASK_FORMS, dask_forms
from helpers.samples import angle_bound, largest_angle, watched
from helpers.tables import labelled, with_targets
from naive_regressions import exact_cross_scatter

from mmpca_dist import SupervisedPCA, class_moments
from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.statistics.from_rows import moments_of
from mmpca_dist.statistics.widened_rows import widened
from mmpca_dist.statistics.working_statistics import tall_statistics
from mmpca_dist.tables.readers.memory import rows_in_memory
from mmpca_dist.tables.readers.memory import with_targets as as_targets

EPS = np.finfo(np.float64).eps


def target_rows(X, Y):
    names = [f"t{j}" for j in range(np.asarray(Y).reshape(len(X), -1).shape[1])]
    return as_targets(rows_in_memory(X, None, "X"), Y, names)


def moments(X, Y, threads=1):
    """Return the moments of widened rows [x | y], and those of the columns that follow from them."""
    return moments_of(widened(target_rows(X, Y)), precision="single", scheduler=Threads(threads))


def of_columns(widened_moments):
    return tall_statistics(widened_moments, precision="single").moments


def assert_cross(found, X, Y):
    """Against exact arithmetic, within the bound of a sum of n products (as in ``samples.product_bound``).

    A chunk's mean is stored to a unit of |mean|, which a merge multiplies by the distance between two means.
    """
    X, Y = np.asarray(X), np.asarray(Y).reshape(len(X), -1)
    scatter, squares, target_squares = exact_cross_scatter(X, Y)
    n, spread, target_spread = len(X), np.sqrt(squares), np.sqrt(target_squares)
    stored = EPS * np.sqrt(n)
    mean, target_mean = X.astype(float).mean(axis=0), Y.astype(float).mean(axis=0)
    bound = 2 * (n + 8) * EPS * np.outer(spread, target_spread)
    bound += 2 * stored * (np.outer(np.abs(mean), target_spread) + np.outer(spread, np.abs(target_mean)))
    found = of_columns(found)
    off = np.abs(np.diag(found.scatters[0]) - squares)
    assert (np.abs(found.targets.cross - scatter) <= bound).all()
    assert (off <= 2 * (n + 8) * EPS * squares + 4 * stored * np.abs(mean) * spread).all()
    np.testing.assert_allclose(found.mean, mean, rtol=n * EPS)
    assert found.n_rows == n


@pytest.fixture
def small_units(monkeypatch):
    """Return a function that sets how many rows a reading unit has, so that many are merged."""
    return lambda rows, X: monkeypatch.setattr(LIMITS, "unit_bytes", rows * X.shape[1] * X.dtype.itemsize)


@pytest.mark.parametrize("rows", [1, 7, 20, 1000])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint16", "int64", "bool", "float16", "float32", "float64", ">f4"])
def test_every_type_of_rows_and_every_chunking(dtype, rows, small_units):
    X, Y = with_targets(60, 4, 2, seed=1)
    X = (X > 3 if dtype == "bool" else np.clip(X * 10, 0, 120)).astype(dtype)
    small_units(rows, X)
    assert_cross(moments(X, Y), X, Y)


@pytest.mark.parametrize("mean", [1e4, 1e6, 1e8])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_means_far_larger_than_the_spread_cost_no_digits(dtype, mean, small_units):
    X, Y = with_targets(60, 3, 2, seed=2, mean=mean)
    X = X.astype(dtype)
    small_units(13, X)
    assert_cross(moments(X, Y), X, Y)


def test_more_rows_than_a_block_of_products():
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((5000, 3)) + 1e3, rng.standard_normal(5000) - 1e3
    found = of_columns(moments(X, y))
    expected = (X - X.mean(axis=0)).T @ (y - y.mean())
    bound = 2 * 5000 * EPS * np.sqrt(np.diag(found.scatters[0]) * found.targets.squares[0, 0])
    assert (np.abs(found.targets.cross[:, 0] - expected) <= bound).all()


def test_constant_columns_have_no_scatter_at_all(small_units):
    X, Y = with_targets(60, 3, 2, seed=4)
    X[:, 1], Y[:, 0] = 0.1, 1e30
    small_units(7, X)
    found = of_columns(moments(X, Y))
    assert not found.targets.cross[1].any() and not found.targets.cross[:, 0].any()
    assert found.scatters[0, 1, 1] == found.targets.squares[0, 0] == 0
    assert SupervisedPCA(target="continuous", standardize=True).fit(X, Y[:, 1]).scale_[1] == 1


@pytest.mark.parametrize("mean", [3.0, 1e6])
@pytest.mark.parametrize("shape", [(80, 5), (12, 40)])
@pytest.mark.parametrize("q", [1, 2, 3])
def test_components_are_the_eigenvectors_of_the_hsic_matrix(q, shape, mean):
    X, Y = with_targets(*shape, q, seed=5, mean=mean)
    # The twin multiplies as it is written; the mean, which H removes, goes off first lest it drown in rounding.
    S = naive.hsic_matrix(X - X.mean(axis=0), Y - Y.mean(axis=0), np.dot)
    y = Y[:, 0] if q == 1 else Y
    reducer = SupervisedPCA(target="continuous").fit(X, y)
    values, vectors = naive.eigenpairs(S)
    error = 10 * len(X) * EPS * max(1.0, mean / 1e2) * np.trace(S)
    assert reducer.components_.shape == (q, shape[1])
    np.testing.assert_allclose(reducer.eigenvalues_, values[:q], rtol=0, atol=error)
    for k in range(1, q + 1):
        assert largest_angle(reducer.components_[:k], vectors[:, :k]) <= angle_bound(S, k, error)
    np.testing.assert_allclose(reducer.components_ @ reducer.components_.T, np.eye(q), atol=1e-12)
    assert (reducer.components_[np.arange(q), np.abs(reducer.components_).argmax(axis=1)] > 0).all()
    assert not hasattr(reducer, "classes_")


def test_standardize_is_a_scaling_of_the_columns_before():
    X, Y = with_targets(70, 4, 2, seed=6)
    X = X * np.logspace(-2, 2, 4)
    inside = SupervisedPCA(target="continuous", standardize=True).fit(X, Y)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    before = SupervisedPCA(target="continuous").fit(scaled, Y)
    np.testing.assert_allclose(inside.components_, before.components_, atol=1e-10)
    np.testing.assert_allclose(inside.transform(X), before.transform(scaled), atol=1e-10)


def test_numbers_of_two_classes_are_a_linear_kernel_on_the_classes():
    X, y = labelled(60, 5, 2, seed=7)
    one = SupervisedPCA(target="continuous").fit(X, y)
    other = SupervisedPCA(1, kernel="linear", precision="double").fit(X, y)
    np.testing.assert_allclose(one.components_, other.components_, atol=1e-11)
    np.testing.assert_allclose(one.eigenvalues_, other.eigenvalues_, rtol=1e-11)


def test_targets_that_repeat_others_add_no_component():
    X, Y = with_targets(90, 5, 2, seed=8)
    Y = np.column_stack([Y, Y[:, 0] * 3.3, Y @ [1.0, -2.0], np.full(90, 7.0)])
    reducer = SupervisedPCA(target="continuous").fit(X, Y)
    assert reducer.components_.shape == (2, 5)
    with pytest.raises(InputError, match=r"n_components=3 is more than the 2 .* limit is the number of targets, 5"):
        SupervisedPCA(3, target="continuous").fit(X, Y)


def test_a_target_that_varies_with_no_column_is_refused():
    rng = np.random.default_rng(9)
    X = rng.standard_normal((50, 3))
    design = np.column_stack([np.ones(50), X])
    y = rng.standard_normal(50)
    residue = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    for useless in (np.full(50, 2.5), residue):
        with pytest.raises(InputError, match="vary with none of the columns"):
            SupervisedPCA(target="continuous").fit(X, useless)


@pytest.mark.parametrize("form", DASK_FORMS)
def test_dask_collections_give_the_components_of_the_rows_in_memory(form, small_units):
    X, Y = with_targets(90, 4, 2, seed=10)
    small_units(20, X)
    expected = SupervisedPCA(target="continuous").fit(X, Y)
    rows, targets = dask_forms(X, Y)[form]
    found = SupervisedPCA(target="continuous").fit(rows, targets)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-11)
    assert_cross(found.moments_, X, Y)
    one = SupervisedPCA(target="continuous").fit(rows, targets[:, 0] if targets is Y else da.from_array(Y[:, 0], 90))
    np.testing.assert_allclose(
        one.components_, SupervisedPCA(target="continuous").fit(X, Y[:, 0]).components_, atol=1e-11
    )


def test_the_bits_do_not_depend_on_the_workers(small_units):
    X, Y = with_targets(3000, 6, 3, seed=11)
    small_units(100, X)
    expected = SupervisedPCA(target="continuous").fit(X, Y).components_
    for options in ({"scheduler": "threads", "num_workers": 1}, {"scheduler": "threads", "num_workers": 7}):
        with dask.config.set(**options):
            found = SupervisedPCA(target="continuous").fit(da.from_array(X, (100, 6)), da.from_array(Y, (100, 3)))
        np.testing.assert_array_equal(found.components_, expected)
    for threads in (1, 5):
        np.testing.assert_array_equal(moments(X, Y, threads).scatters, moments(X, Y).scatters)


def test_partial_fit_is_exact_and_takes_up_a_fit():
    X, Y = with_targets(90, 4, 2, seed=12)
    expected = SupervisedPCA(target="continuous").fit(X, Y)
    pieces = SupervisedPCA(target="continuous").partial_fit(X[:1], Y[:1]).partial_fit(X[1:40], Y[1:40])
    extended = SupervisedPCA(target="continuous").partial_fit(X[:9] + 50, Y[:9]).fit(X[:40], Y[:40])
    for reducer in (pieces, extended):
        reducer.partial_fit(X[40:], Y[40:])
        np.testing.assert_allclose(reducer.components_, expected.components_, atol=1e-11)
        np.testing.assert_allclose(reducer.eigenvalues_, expected.eigenvalues_, rtol=1e-11)
        assert reducer.moments_.n_rows == 90
    with pytest.raises(InputError, match="The earlier rows had 2 targets, and these have 1"):
        pieces.partial_fit(X, Y[:, :1])
    with pytest.raises(InputError, match="another kind of target"):
        pieces.set_params(target="classes").partial_fit(X, np.arange(90) % 2)
    assert pieces.fit(X, np.arange(90) % 3).classes_.tolist() == [0, 1, 2]
    with pytest.raises(InputError, match="another kind of target"):
        pieces.set_params(target="continuous").partial_fit(X, Y)


def test_one_pass_reads_every_row_once(small_units):
    read = []
    X, Y = with_targets(60, 4, 2, seed=17)
    small_units(25, X)
    rows = watched(target_rows(X, Y), lambda start, stop: read.append((start, stop)))
    moments_of(widened(rows), precision="single", scheduler=Threads(1))
    assert sorted(read) == [(0, 25), (25, 50), (50, 60)]


def test_merging_is_exact_whatever_the_parts():
    X, Y = with_targets(60, 3, 2, seed=13, mean=1e5)
    for cut in (1, 30, 59):
        merged = moments(X[:cut], Y[:cut]).merge(moments(X[cut:], Y[cut:]))
        assert_cross(merged, X, Y)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_named(value, small_units):
    X, Y = with_targets(60, 4, 2, seed=14)
    small_units(20, X)
    rows, targets = X.copy(), Y.copy()
    rows[43, 2] = targets[51, 1] = value
    reducer = SupervisedPCA(target="continuous")
    with pytest.raises(InputError, match=f"Found {value} in row 43, column 2, in rows 40 to 49 of the Dask"):
        reducer.fit(da.from_array(rows, (10, 4)), Y)
    with pytest.raises(InputError, match=f"Found {value} in row 51 of the target \\('target 1'\\)"):
        reducer.fit(da.from_array(X, (10, 4)), targets)
    for bad in ((rows, Y), (X, targets)):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            reducer.fit(*bad)


def test_squares_beyond_double_precision_are_refused():
    X, Y = with_targets(40, 3, 1, seed=15)
    reducer = SupervisedPCA(target="continuous")
    with pytest.raises(InputError, match="too large even for double precision"):
        reducer.fit(X * 1e200, Y)
    with pytest.raises(InputError, match="too large even for double precision"):
        reducer.fit(X, Y * 1e200)


def test_what_cannot_be_a_continuous_target_is_refused():
    X, y = labelled(40, 3, 2, seed=16)
    reducer = SupervisedPCA(target="continuous")
    names = np.asarray(["a", "b"])[y]
    with pytest.raises(InputError, match="The targets in y have type <U1; they must be numbers"):
        reducer.fit(X, names)
    with pytest.raises(InputError, match="The targets in y have type <U1; they must be numbers"):
        reducer.fit(da.from_array(X, (10, 3)), names)
    with pytest.raises(InputError, match="shape"):
        reducer.fit(da.from_array(X, (10, 3)), np.zeros((40, 2, 2)))
    with pytest.raises(InputError, match="40 rows and y 39 labels"):
        reducer.fit(da.from_array(X, (10, 3)), np.zeros(39))
    with pytest.raises(InputError, match="no classes where the target is continuous"):
        reducer.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(InputError, match="must be one of classes, continuous"):
        SupervisedPCA(target="regression").fit(X, y)
    for kernel in ("delta", np.eye(2)):
        with pytest.raises(InputError, match="kernel must be left out"):
            SupervisedPCA(target="continuous", kernel=kernel).fit(X, y)
    with pytest.raises(InputError, match="Class moments know nothing of continuous targets"):
        SupervisedPCA.from_moments(class_moments(X, y), target="continuous")
    with pytest.raises(InputError, match=r"Labels in .* they must be one value a row"):
        SupervisedPCA().fit(da.from_array(X, (10, 3)), np.zeros((40, 2)))
