"""Moments from the stored values of CSR rows are those of the definition, and of dense rows."""

import dask.array as da
import numpy as np
import pytest
from helpers.samples import assert_same_on_threads, even_edges, on_dense, product_bound, take
from naive import exact_class_moments
from scipy.sparse import csr_array, random_array

from mmpca_dist import MarginPCA, class_moments
from mmpca_dist.errors import InputError
from mmpca_dist.passes.folds import folds_of
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.statistics import from_rows
from mmpca_dist.statistics.fold_moments import class_fold_moments
from mmpca_dist.statistics.scatters import pooled_weights
from mmpca_dist.tables.readers.memory import rows_in_memory


def sparse_rows(n, d, n_classes, density=0.04, seed=0, dtype=np.float64):
    """Rows with columns that all, a few, or no rows store, and a class of one row."""
    rng = np.random.default_rng(seed)
    X = random_array((n, d), density=density, format="lil", rng=rng, data_sampler=rng.standard_normal)
    X[:, 1], X[:, d - 1] = 0, 0
    y = rng.integers(n_classes - 1, size=n)
    y[n // 2] = n_classes - 1
    X[:, 0] = np.where(y % 2, 3.0, 0.0)[:, None]  # one integer in every class
    return csr_array(X).astype(dtype), y


@pytest.fixture
def never_dense(monkeypatch):
    on_dense(monkeypatch, lambda _: pytest.fail("rows were made dense"))


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize(("n", "d", "n_classes"), [(300, 40, 2), (400, 25, 7), (300, 20, 120)])
def test_scatters_are_those_of_the_definition(n, d, n_classes, pooled, precision, never_dense):
    X, y = sparse_rows(n, d, n_classes)
    X = csr_array(np.hstack([X.toarray(), np.zeros((n, 40))]))  # 0.05 of all values, or fewer
    classes, counts = np.unique(y, return_counts=True)
    _, means, scatters = exact_class_moments(X.toarray(), y, classes)
    weights = pooled_weights(counts) if pooled else None
    found, _ = take(X, y, precision=precision, weights=weights, edges=even_edges(n, 130))
    np.testing.assert_array_equal(found.counts, counts)
    np.testing.assert_allclose(found.means, means, rtol=0, atol=1e-14)
    expected = scatters if not pooled else np.tensordot(weights, scatters, axes=1)
    raw = np.einsum("ni,nj->ij", np.abs(X.toarray()), np.abs(X.toarray()))
    for each, true in zip(found.scatters, expected, strict=True):
        rounding = 4 * np.finfo(np.float64).eps * raw * (counts.max() if pooled else 1)
        allowed = product_bound(true, n, precision) + rounding
        assert (np.abs(each - true) <= allowed).all()
        np.testing.assert_array_equal(each, each.T)


@pytest.mark.parametrize("pooled", [False, True])
def test_bits_do_not_depend_on_threads(pooled, never_dense):
    X, y = sparse_rows(2000, 100, 9, seed=1, dtype=np.float32)
    weights = pooled_weights(np.bincount(y)) if pooled else None
    assert_same_on_threads(X, y, weights=weights, edges=even_edges(2000, 70))


def test_a_column_of_one_integer_in_each_class_has_no_scatter(never_dense):
    X, y = sparse_rows(900, 100, 7, seed=2)
    assert not class_moments(X, y).scatters[:, 0].any()


@pytest.mark.parametrize(("value", "precision"), [(1e9, "single"), (100, "double"), (0.1, "single")])
def test_a_column_far_from_zero_is_taken_relative_to_its_centre(value, precision):
    """Or one that is constant, but no integer: its sum of squares and that of its mean differ by rounding."""
    X, y = sparse_rows(600, 100, 3, seed=3)
    X = X.tolil()
    X[:, 50] = (value + (np.random.default_rng(3).standard_normal((600, 1)) if value > 1 else 0)) * np.ones((600, 1))
    X = csr_array(X)
    found, expected = (class_moments(rows, y, precision=precision) for rows in (X, X.toarray()))
    np.testing.assert_array_equal(found.scatters, expected.scatters)


def test_more_stored_values_than_a_twentieth_are_made_dense(monkeypatch, limits):
    X, y = sparse_rows(600, 100, 3, density=0.03)
    assert X.nnz < 0.05 * 600 * 100
    summed = []
    monkeypatch.setattr(from_rows, "sparse_moments", lambda *given: summed.append(1))
    class_moments(X, y)
    assert summed
    summed.clear()
    X = csr_array(X[:, :50].toarray() + (np.arange(50) < 2))
    expected = class_moments(X.toarray(), y)
    np.testing.assert_array_equal(class_moments(X, y).scatters, expected.scatters)
    assert not summed
    blocks = da.from_array(np.vstack([X.toarray(), np.zeros((600, 50))]), (600, 50)).map_blocks(csr_array)
    limits.unit_bytes = 8 * 50 * 600
    class_moments(blocks, np.tile(y, 2))
    assert summed == [1], "each task counts the values of its own blocks"


@pytest.mark.parametrize("name", ["pca", "m-pca0", "m-pca1a", "m-pca1b"])
@pytest.mark.parametrize("standardize", [False, True])
def test_components_are_those_of_dense_rows(name, standardize):
    X, y = sparse_rows(3000, 60, 3, seed=4)
    found, expected = (
        MarginPCA(3, name, precision="double", standardize=standardize).fit(rows, y) for rows in (X, X.toarray())
    )
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-11)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9)


def test_folds_are_those_of_dense_rows(never_dense, limits):
    X, y = sparse_rows(1200, 60, 3, seed=5)
    y[600] = 0
    limits.unit_bytes = 8 * 60 * 17
    parts = []
    for dataset in (rows_in_memory(X, y, "sparse"), rows_in_memory(X.toarray(), y)):
        rows = Rows.of(dataset, Threads(2))
        parts.append(class_fold_moments(rows, folds_of(rows, 3), precision="double"))
    for found, expected in zip(*parts, strict=True):
        np.testing.assert_array_equal(found.counts, expected.counts)
        np.testing.assert_allclose(found.scatters, expected.scatters, rtol=0, atol=1e-12 * expected.scatters.max())


def test_values_whose_squares_are_lost_are_refused():
    X, y = sparse_rows(900, 100, 3, seed=6)
    X.data[:] = np.sign(X.data)
    with pytest.raises(InputError, match="vary by less than"):
        MarginPCA(2).fit(X * 1e-200, y)
    with pytest.raises(InputError, match="too large even for double precision"):
        class_moments(X * 1e200, y)


def test_products_of_values_in_one_loop():
    """The compiled loops beside NumPy, with rows left out and in another order."""
    from mmpca_dist.statistics.sparse_products import add_products, add_rows, mirror

    X, _ = sparse_rows(50, 12, 3, density=0.3, seed=7)
    chosen = np.asarray([30, 2, 7, 49])
    sums = np.zeros((12, 12))
    add_products(X.data, 2 * X.data, X.indices, X.indptr, chosen, sums)
    some = X.toarray()[chosen]
    np.testing.assert_allclose(np.triu(2 * some.T @ some), sums, atol=1e-13)
    mirror(sums)
    np.testing.assert_array_equal(sums, sums.T)
    totals = np.zeros((2, 12))
    add_rows(X.data, X.indices, X.indptr, np.arange(50) % 2, totals)
    np.testing.assert_allclose(totals, [X.toarray()[::2].sum(axis=0), X.toarray()[1::2].sum(axis=0)], atol=1e-13)


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize(("start", "step"), [(1.6e9, 1.0), (1.6e9, 10.0), (0.1, 1e-9), (1e10, 100.0)])
def test_columns_far_from_zero_keep_what_they_vary_by(start, step, pooled):
    """Sums of squares cancel to zero, and the rows are made dense."""
    rng, m = np.random.default_rng(0), 2
    X, y = np.zeros((60, 60)), np.repeat(np.arange(30), m)
    X[:, 0] = start + step * (np.arange(60) % 2)
    X[np.arange(60), 1 + rng.integers(0, 59, 60)] = 1
    weights = np.ones((1, 30)) if pooled else None
    found, _ = take(csr_array(X), y, weights=weights)
    expected = exact_class_moments(X, y, np.unique(y))[2]
    expected = expected.sum(axis=0)[None] if pooled else expected
    np.testing.assert_allclose(found.scatters[:, 0, 0], expected[:, 0, 0], rtol=1e-6)


@pytest.mark.parametrize("density", [0.005, 0.04])
def test_sums_over_some_of_the_classes(density, never_dense):
    """Rows of classes with weight zero are in no product, as of pooled parts."""
    X, y = sparse_rows(600, 60, 4, density=density, seed=8)
    weights = np.asarray([[1.0, 1, 0, 0], [0, 0, 1, 1], [0, 3, 0, 5]])
    (found, _), scatters = take(X, y, weights=weights), exact_class_moments(X.toarray(), y, np.unique(y))[2]
    expected = np.einsum("kc,cij->kij", weights, scatters)
    np.testing.assert_allclose(found.scatters, expected, rtol=0, atol=1e-12 * expected.max())
