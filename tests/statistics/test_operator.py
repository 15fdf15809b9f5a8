"""Scatters applied to vectors: the same as formed row by row, whatever the rows, the chunks and where they run."""

import dask.array as da
import naive
import numpy as np
import pytest
from helpers.operators import URI, WORK, assert_applied, bits, bound_on, make_operator, some_blocks
from helpers.samples import even_edges, shuffled
from helpers.tables import labelled
from threadpoolctl import threadpool_limits

from mmpca_dist import LOL, MarginPCA
from mmpca_dist.errors import InputError
from mmpca_dist.passes.schedulers import Cluster, Threads
from mmpca_dist.statistics.scatter_operator import Block
from mmpca_dist.tables.compose import open_dataset


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("chunk", [1, 7, 1000])
@pytest.mark.parametrize("shape", [(60, 7), (11, 40), (3, 3)])
def test_every_shape_and_chunking(shape, chunk, precision):
    X, y = labelled(*shape, 3, seed=1)
    operator = make_operator(X, y, precision, edges=even_edges(shape[0], chunk))
    assert_applied(operator, X, y, some_blocks(shape[1], 3))


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "bool", "float16", "float32", "float64", ">f4"])
def test_every_type_of_rows(dtype, precision):
    X, y = labelled(60, 6, 3, seed=2)
    X = (X > 3 if dtype == "bool" else np.clip(X * 10, 0, 120)).astype(dtype)
    assert_applied(make_operator(X, y, precision, edges=even_edges(60, 13)), X, y, some_blocks(6, 3))


@pytest.mark.parametrize("precision", ["single", "double"])
def test_more_rows_than_a_block_of_products(precision):
    X, y = labelled(5000, 4, 2, seed=3)
    assert_applied(make_operator(X, y, precision), X, y, some_blocks(4, 2))


@pytest.mark.parametrize("precision", ["single", "double"])
def test_panels_of_fewer_rows_than_a_unit(limits, precision):
    """Many columns make panels of 64 rows."""
    X, y = labelled(150, 5, 2, seed=4)
    limits.centred_bytes = 64
    assert_applied(make_operator(X, y, precision), X, y, some_blocks(5, 2))


@pytest.mark.parametrize("mean", [1e4, 1e6])
@pytest.mark.parametrize("precision", ["single", "double"])
def test_means_far_larger_than_the_spread_cost_no_digits(precision, mean):
    X, y = labelled(80, 6, 3, seed=5, mean=mean)
    assert_applied(make_operator(X, y, precision, edges=even_edges(80, 9)), X, y, some_blocks(6, 3))


@pytest.mark.parametrize("mean", [1e4, 1e5])
def test_single_precision_rows_far_from_zero(mean):
    """The rows themselves are rounded; what is made of them is not."""
    X, y = labelled(80, 6, 3, seed=6, mean=mean)
    X = X.astype(np.float32)
    assert_applied(make_operator(X, y, "single", edges=even_edges(80, 9)), X, y, some_blocks(6, 3))


def test_a_provisional_centre_that_is_off_is_put_right():
    """The classes' first rows are far from the others: the means that are left are large."""
    X, y = labelled(200, 5, 2, seed=7)
    operator = make_operator(X, y, "double")
    operator.centres += 3.0
    assert_applied(operator, X, y, some_blocks(5, 2))
    np.testing.assert_allclose(operator.means, [X[y == label].mean(axis=0) for label in (0, 1)], rtol=1e-13)


@pytest.mark.parametrize("precision", ["single", "double"])
def test_more_classes_than_rows_in_a_unit(precision):
    X, y = labelled(300, 5, 70, seed=18)
    assert_applied(make_operator(X, y, precision, edges=even_edges(300, 40)), X, y, some_blocks(5, 70))


def test_a_class_without_rows_in_a_unit():
    X, y = labelled(40, 4, 3, seed=9)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    assert_applied(make_operator(X, y, edges=even_edges(40, 5)), X, y, some_blocks(4, 3))


@pytest.mark.parametrize("precision", ["single", "double"])
def test_standardised_columns(precision):
    X, y = labelled(80, 6, 3, seed=10)
    scale = 10.0 ** np.arange(-3, 3)
    operator = make_operator(X * scale, y, precision, edges=even_edges(80, 9), scale=scale)
    plain = make_operator(X, y, precision, edges=even_edges(80, 9))
    blocks = some_blocks(6, 3)
    for found, block in zip(operator.apply(blocks), blocks, strict=True):
        expected = naive.scatter_image(X, y, dict(enumerate(block.weights)), block.vectors)
        # scaling columns by what is no power of two rounds them once more
        assert (np.abs(found - expected) <= 2 * bound_on(plain, X, y, block)).all()
    trace = sum(naive.class_squares(X, y).values())
    np.testing.assert_allclose(operator.trace(np.ones(3)), trace, rtol=100 * np.finfo(WORK[precision]).eps)


@pytest.mark.parametrize("factor", [1e-25, 1e18, 1e30])
def test_sizes_beyond_the_squares_of_single_precision(factor):
    """Columns are brought near to one by powers of two, also where they differ among each other."""
    X, y = labelled(60, 5, 2, seed=11)
    X = X * np.where(np.arange(5) % 2, factor, 1.0)
    powers = 2.0 ** -np.round(np.log2(X.std(axis=0)))
    operator = make_operator(X, y, "single", powers=powers.astype(np.float32))
    near = make_operator(X * powers, y, "single")
    blocks = [Block(b.weights, b.vectors * powers[:, None]) for b in some_blocks(5, 2)]
    for found, block in zip(operator.apply(blocks), blocks, strict=True):
        brought = Block(block.weights, block.vectors / powers[:, None])
        expected = naive.scatter_image(X * powers, y, dict(enumerate(block.weights)), brought.vectors)
        assert (np.abs(found * powers[:, None] - expected) <= bound_on(near, X * powers, y, brought)).all()
    np.testing.assert_allclose(operator.means, [X[y == label].mean(axis=0) for label in (0, 1)], rtol=1e-5)
    np.testing.assert_allclose(operator.squares * powers**2, near.apply([]) or near.squares, rtol=1e-4)


def test_a_pass_for_means_and_squares_alone():
    X, y = labelled(50, 4, 2, seed=12)
    operator = make_operator(X, y, edges=even_edges(50, 8))
    assert operator.apply([]) == []
    squares = [((X[y == label] - X[y == label].mean(axis=0)) ** 2).sum(axis=0) for label in (0, 1)]
    np.testing.assert_allclose(operator.squares, squares, rtol=1e-12)


# --------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_named(value, later):
    X, y = labelled(50, 4, 2, seed=13)
    operator = make_operator(X, y, edges=even_edges(50, 8))
    if later:
        operator.apply(some_blocks(4, 2))
    X[37, 2] = value
    for blocks in (some_blocks(4, 2), []) if not later else (some_blocks(4, 2),):
        with pytest.raises(InputError, match=rf"Found {value} in row 37, column 2"):
            operator.apply(blocks)


@pytest.mark.parametrize(("precision", "factor"), [("single", 1e25), ("double", 1e200)])
def test_products_that_overflow_are_refused(precision, factor):
    X, y = labelled(50, 4, 2, seed=14)
    for blocks in (some_blocks(4, 2), []):
        operator = make_operator(X * factor, y, precision, edges=even_edges(50, 8))
        with pytest.raises(InputError, match="squares are too large"):
            operator.apply(blocks)
    operator = make_operator(X, y, precision, edges=even_edges(50, 8))
    operator.apply([])
    X *= factor  # a later pass over rows that have changed meanwhile
    with pytest.raises(InputError, match="squares are too large"):
        operator.apply(some_blocks(4, 2))


# ----------------------------------------------------------------------------------------------------- the same bits


@pytest.fixture(scope="module")
def reference():
    return bits(Threads(1))


@pytest.mark.parametrize("threads", [2, 4])
def test_the_same_bits_for_any_number_of_threads_and_any_order(threads, reference):
    assert bits(Threads(threads), shuffled(open_dataset(URI), threads)) == reference


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [2], indirect=True)
def test_the_same_bits_for_worker_processes(cluster, reference):
    assert bits(Cluster(cluster)) == reference


@pytest.mark.parametrize("solver", ["dense", "krylov"])
@pytest.mark.parametrize("variant", ["m-pca0", "m-pca2"])
def test_the_same_bits_whatever_the_threads_of_blas(variant, solver):
    X, y = labelled(600, 300, 3, seed=15)
    found = []
    for count in (1, 2):
        with threadpool_limits(count, user_api="blas"):
            reducer = MarginPCA(5, variant, solver=solver, passes=2).fit(X, y)
        found.append(
            (reducer.components_.tobytes(), reducer.eigenvalues_.tobytes(), str(vars(reducer).get("certificate_")))
        )
    assert found[0] == found[1]


def test_dask_arrays_are_their_rows(limits):
    """Chunks on both axes; the chunks of rows make other sums than an array in memory."""
    X, y = labelled(90, 12, 3, seed=16)
    lazy, labels = da.from_array(X, chunks=(13, 5)), da.from_array(y, chunks=13)
    limits.unit_bytes = 20 * X.shape[1] * X.itemsize
    for estimator in (MarginPCA(3, "m-pca0"), LOL(3)):
        estimator.set_params(solver="krylov", precision="double")
        expected = estimator.fit(X, y).components_
        found = estimator.fit(lazy, labels).components_
        np.testing.assert_allclose(found, expected, atol=1e-12)
