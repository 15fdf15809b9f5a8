"""Scatters of sparse rows applied to vectors: those of the same dense rows, however far from zero the columns lie."""

import numpy as np
import pytest
import scipy.sparse
from helpers.operators import assert_applied, bits, make_operator, some_blocks
from helpers.samples import even_edges
from helpers.tables import labelled

from mmpca_dist import LOL, MarginPCA
from mmpca_dist.errors import InputError
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.statistics import scatter_operator as operators
from mmpca_dist.statistics.scatter_operator import Block
from mmpca_dist.tables.readers.memory import rows_in_memory
from mmpca_dist.tables.spans import spans_of

SUMS = {"single": np.dtype(np.float32), "double": np.dtype(np.float64)}


def thinned(n, d, n_classes, seed, *, share=0.3, dtype="f8"):
    """Return rows most of whose values are zero, some rows all zero, and labels."""
    X, y = labelled(n, d, n_classes, seed)
    present = np.random.default_rng(seed).random(X.shape) < share
    present[[0, n // 2, n - 1]] = False
    return np.where(present, X, 0.0).astype(dtype), y


def make_sparse(X, y, precision="double", *, stored=None, **options):
    """Return the operator of rows in CSR form, which store the values that are not zero, and those of ``stored``."""
    rows = scipy.sparse.coo_array(X if stored is None else (X != 0) | stored)
    values = X[rows.coords]
    rows = scipy.sparse.csr_array((values, rows.coords), shape=X.shape)
    assert rows.nnz == len(values)
    return make_operator(X, y, dataset=rows_in_memory(rows, y), sums=SUMS[precision], **options)


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("chunk", [1, 17, 60])
def test_every_chunking(chunk, precision):
    """A few columns at a time, by few tasks whatever the units."""
    X, y = thinned(60, 70, 3, seed=12, share=0.15)
    operator = make_sparse(X, y, precision, edges=even_edges(60, chunk), threads=2)
    assert_applied(operator, X, y, some_blocks(70, 3, widths=(3, 33, 64)))
    joined = operators.sparse_spans(operator.rows.dataset, operator.rows.spans)
    assert len(joined) <= 2
    assert [joined[0].start, joined[-1].stop] == [0, 60]


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("mean", [1e4, 1e6, -1e6])
@pytest.mark.parametrize("kind", ["all rows", "all rows but one", "all of one class", "zeros among them"])
def test_columns_far_from_zero_cost_no_digits(kind, mean, dtype, precision):
    """Far from zero are the stored values of some columns; the bound knows of distances from the centres alone."""
    X, y = thinned(120, 8, 3, seed=20, dtype=dtype)
    far = np.zeros(X.shape, bool)
    far[:, [1, 6]] = True
    if kind == "all rows but one":
        far[17, 1] = far[40, 6] = False
    if kind == "all of one class":
        far[y != 1] = False
    X[far] = np.random.default_rng(21).normal(mean, 0.5, far.sum())
    if kind == "zeros among them":
        X[far & (np.arange(120)[:, None] % 40 == 3)] = 0
    assert_applied(make_sparse(X, y, precision, stored=far, edges=even_edges(120, 50)), X, y, some_blocks(8, 3))


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("kind", [make_sparse, make_operator])
def test_constant_columns_and_a_class_of_one_row(kind, dtype, precision):
    """Of double precision, the constants are no numbers of single precision."""
    X, y = thinned(90, 6, 3, seed=22, dtype=dtype)
    y[y == 0] = 1
    y[5] = 0
    X[:, 2], X[:, 4] = 0.1, 1e6 / 3
    operator = kind(X, y, precision, edges=even_edges(90, 20))
    assert_applied(operator, X, y, some_blocks(6, 3))
    assert not operator.squares[0].any(), "one row has no scatter"
    assert not operator.squares[:, [2, 4]].any(), "a constant column has no scatter, to the bit"
    (image,) = operator.apply([Block(np.ones(3), np.eye(6))])
    assert not image[[2, 4]].any() and not image[:, [2, 4]].any()
    np.testing.assert_array_equal(operator.means[:, [2, 4]], np.tile(X[0, [2, 4]].astype(float), (3, 1)))


@pytest.mark.parametrize("precision", ["single", "double"])
def test_many_classes_and_zeros_that_are_stored(precision):
    X, y = thinned(400, 9, 80, seed=23)
    stored = np.random.default_rng(24).random(X.shape) < 0.3
    assert np.sum(stored & (X == 0)) > 100, "the sample lacks what this test is about"
    operator = make_sparse(X, y, precision, stored=stored, edges=even_edges(400, 33))
    assert_applied(operator, X, y, some_blocks(9, 80))


def test_rows_without_any_value():
    X, y = np.zeros((20, 4)), np.arange(20) % 2
    operator = make_sparse(X, y)
    (image,) = operator.apply([Block(np.ones(2), np.eye(4))])
    assert not image.any() and not operator.squares.any() and not operator.means.any()


def test_sums_that_overflow_single_precision_are_refused():
    X, y = thinned(50, 4, 2, seed=25)
    operator = make_sparse(X * 1e25, y, "single")
    with pytest.raises(InputError, match="set precision: double"):
        operator.apply(some_blocks(4, 2))
    with pytest.raises(InputError, match="even for double precision"):
        make_sparse(X * 1e200, y).apply(some_blocks(4, 2))


# --------------------------------------------------------------------------------------------------------- estimators


@pytest.mark.parametrize("make", [lambda **o: MarginPCA(3, **o), lambda **o: LOL(3, **o)])
def test_sparse_rows_have_the_components_of_dense_ones(make):
    X, y = thinned(300, 40, 3, seed=14)
    options = {"precision": "double", "passes": 10, "tolerance": 0.0}
    found = make(solver="krylov", **options).fit(scipy.sparse.csr_array(X), y)
    expected = make(solver="dense", **options).fit(X, y)
    np.testing.assert_allclose(np.abs(found.components_ @ expected.components_.T), np.eye(3), atol=1e-6)
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-9)


@pytest.mark.parametrize("make", [lambda **o: MarginPCA(3, **o), lambda **o: LOL(3, **o)])
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("solver", ["krylov"])
def test_a_column_far_from_zero_leaves_the_components_alone(solver, precision, make):
    """Distances of components are those of scatters whose spectra are far apart, to about the rounding."""
    X, y = thinned(300, 40, 3, seed=26)
    X *= 0.7 ** np.arange(40)
    X[:, 7] = 1e4 + np.random.default_rng(27).standard_normal(300)
    expected = make(solver="dense", precision="double").fit(X, y)
    found = make(solver=solver, precision=precision, passes=12, tolerance=0.0).fit(scipy.sparse.csr_array(X), y)
    unit = 300 * np.finfo(SUMS[precision]).eps
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=unit)
    np.testing.assert_allclose(np.abs(found.components_ @ expected.components_.T), np.eye(3), atol=1e-4)


@pytest.mark.parametrize("factor", [1e-30, 1e-20, 1e20, 1e30])
def test_sizes_beyond_the_squares_of_single_precision(factor):
    """Then sums are double."""
    X, y = thinned(200, 12, 3, seed=28)
    found = MarginPCA(3, solver="krylov").fit(scipy.sparse.csr_array(X * factor), y)
    expected = MarginPCA(3, solver="krylov", precision="double").fit(scipy.sparse.csr_array(X), y)
    np.testing.assert_allclose(found.eigenvalues_ / factor / factor, expected.eigenvalues_, rtol=1e-5)
    np.testing.assert_allclose(np.abs(found.components_ @ expected.components_.T), np.eye(3), atol=1e-3)


@pytest.mark.parametrize("precision", ["single", "double"])
def test_the_same_bits_for_any_number_of_threads(precision, limits):
    """There are several tasks of several units each."""
    X, y = thinned(4000, 30, 5, seed=29)
    X[:, 3] += 1e4
    dataset = rows_in_memory(scipy.sparse.csr_array(X), y)
    limits.sparse_task_bytes = dataset.n_bytes // 7
    limits.unit_bytes = dataset.n_bytes // 15
    joined = operators.sparse_spans(dataset, spans_of(even_edges(4000, 211)))
    assert len(joined) > 4 and max(len(span.units) for span in joined) > 1
    expected = bits(Threads(1), dataset, precision)
    for threads in (2, 4):
        assert bits(Threads(threads), dataset, precision) == expected
