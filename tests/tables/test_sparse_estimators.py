"""Estimators take scipy.sparse matrices, and Dask arrays of CSR blocks, for the rows that they are."""

import dask.array as da
import numpy as np
import pytest
import scipy.sparse
from helpers.estimators import CONTINUOUS, make
from helpers.estimators import VARIED as ALL
from helpers.samples import on_dense
from helpers.tables import counts_like_text
from sklearn.base import clone

from mmpca_dist import MarginPCA, NearestOpposite, SupervisedPCA, class_moments
from mmpca_dist.errors import InputError
from mmpca_dist.tables.readers.memory import rows_in_memory

N, D = 90, 7
PARTS, X, Y = counts_like_text(N, D, 3, seed=3, dtype="float64")
FORMATS = ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")


@pytest.mark.parametrize("name", ALL)
def test_fit_and_transform_of_csr_rows(name):
    """Components to the bit; of the projections, those of double precision agree to the rounding of d products."""
    sparse = scipy.sparse.csr_array(PARTS, shape=(N, D))
    dense, found = make(name, n_components=2).fit(X, Y), make(name, n_components=2).fit(sparse, Y)
    np.testing.assert_array_equal(found.components_, dense.components_)
    assert found.n_features_in_ == D
    Z, expected = found.transform(sparse), dense.transform(X)
    assert type(Z) is np.ndarray and Z.dtype == np.float64
    np.testing.assert_allclose(Z, expected, rtol=0, atol=1e-13 * np.abs(X).max() * np.abs(dense.components_).sum())
    np.testing.assert_array_equal(found.inverse_transform(expected), dense.inverse_transform(expected))


@pytest.mark.parametrize("array", [True, False], ids=["array", "matrix"])
@pytest.mark.parametrize("form", FORMATS)
def test_every_format_and_type(form, array):
    make_one = getattr(scipy.sparse, f"{form}_{'array' if array else 'matrix'}")
    expected = MarginPCA(2).fit(X, Y)
    for dtype in (np.float64, np.int32, np.uint8):
        rows = make_one(X.astype(dtype))
        found = MarginPCA(2).fit(rows, Y)
        if dtype != np.uint8:  # small integers become single precision
            np.testing.assert_array_equal(found.components_, expected.components_)
        assert found.transform(rows).dtype == np.float64
    assert MarginPCA(2).fit(X, Y).transform(make_one(X.astype(np.float32))).dtype == np.float32


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_targets(name):
    targets = X[:, :2] @ np.asarray([[1.0, 2], [3, -1]]) + np.arange(N)[:, None] / N
    expected = clone(CONTINUOUS[name]).fit(X, targets)
    found = clone(CONTINUOUS[name]).fit(scipy.sparse.csr_matrix(X), targets)
    np.testing.assert_array_equal(found.components_, expected.components_)
    parts = clone(CONTINUOUS[name])
    for rows in (np.s_[:40], np.s_[40:]):
        parts.partial_fit(scipy.sparse.csr_matrix(X[rows]), targets[rows])
    np.testing.assert_allclose(parts.eigenvalues_, expected.eigenvalues_, rtol=1e-12)


def test_partial_fit_moments_and_neighbours():
    rows = scipy.sparse.csr_array(X)
    expected, found = class_moments(X, Y), class_moments(rows, Y)
    np.testing.assert_array_equal(found.scatters, expected.scatters)
    one, other = MarginPCA(2), MarginPCA(2)
    for part in (np.s_[:50], np.s_[50:]):
        one.partial_fit(X[part], Y[part])
        other.partial_fit(rows[part], Y[part])
    np.testing.assert_array_equal(one.components_, other.components_)
    dense, sparse = NearestOpposite().fit(X, Y), NearestOpposite().fit(rows, Y)
    for queries in ((), (X[:9], Y[:9])):
        asked = (scipy.sparse.csc_matrix(queries[0]), queries[1]) if queries else ()
        for a, b in zip(dense.kneighbors(*queries), sparse.kneighbors(*asked), strict=True):
            np.testing.assert_array_equal(a, b)
    with pytest.raises(InputError, match=r"Found 1e\+200 in row 4, column 2 of X: squared distances overflow"):
        huge = X[:9].copy()
        huge[4, 2] = 1e200
        sparse.kneighbors(scipy.sparse.csr_array(huge), Y[:9])


def test_duplicates_are_summed_and_the_matrix_is_left_alone():
    """As scipy means them; columns in any order, int64 indices."""
    data, indices, indptr = (np.repeat(PARTS[0], 2) / 2, np.repeat(PARTS[1], 2), PARTS[2] * 2)
    twice = scipy.sparse.csr_matrix((data, indices.astype(np.int64), indptr.astype(np.int64)), shape=(N, D))
    kept = [part.copy() for part in (twice.data, twice.indices, twice.indptr)]
    found, expected = MarginPCA(2).fit(twice, Y), MarginPCA(2).fit(X, Y)
    np.testing.assert_array_equal(found.components_, expected.components_)
    np.testing.assert_allclose(found.transform(twice), expected.transform(X), atol=1e-12)
    for before, after in zip(kept, (twice.data, twice.indices, twice.indptr), strict=True):
        np.testing.assert_array_equal(before, after)


def test_what_scipy_calls_no_matrix_of_numbers():
    with pytest.raises(InputError, match="features must be numbers"):
        rows_in_memory(scipy.sparse.csr_array(X + 1j), Y)
    with pytest.raises(ValueError, match="NaN"):
        MarginPCA(2).fit(scipy.sparse.csr_array(np.where(X > 3, np.nan, X)), Y)
    with pytest.raises(ValueError, match="6 features"):
        MarginPCA(2).fit(X, Y).transform(scipy.sparse.csr_array(X[:, :6]))


def dask_forms(kind):
    """Return the same rows in Dask arrays of CSR blocks."""
    blocks = {
        "rows": da.from_array(X, (17, D)),
        "row and column chunks": da.from_array(X, (17, 3)),
        "one chunk": da.from_array(X, (N, D)),
        "empty chunks": da.from_array(X, ((0, 50, 0, 40), (D,))),
    }
    return {name: array.map_blocks(kind) for name, array in blocks.items()}


@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.csr_array])
@pytest.mark.parametrize("form", dask_forms(scipy.sparse.csr_array))
@pytest.mark.parametrize("name", ["m-pca0", "m-pca1b", "m-pca2", "fisher"])
def test_dask_arrays_of_csr_blocks(name, form, kind, monkeypatch, limits):
    """Whatever the blocks are: they are cut where dense rows in memory are cut, and never made dense whole."""
    limits.unit_bytes = 20 * D * 8
    most = []
    on_dense(monkeypatch, lambda rows: most.append(rows.shape[0]))
    rows = dask_forms(kind)[form]
    found = make(name, n_components=2, precision="double").fit(rows, da.from_array(Y, 30))
    assert 0 < max(most) <= 20
    expected = make(name, n_components=2, precision="double").fit(X, Y)
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9 if name == "fisher" else 1e-11)
    Z = found.transform(rows)
    assert isinstance(Z, da.Array) and Z.dtype == np.float64
    np.testing.assert_allclose(Z.compute(), found.transform(X), atol=1e-11)


def test_a_class_that_only_one_block_holds():
    order = np.argsort(Y, kind="stable")
    rows = da.from_array(X[order], (int(np.sum(Y == 0)), D)).map_blocks(scipy.sparse.csr_array)
    found, expected = (MarginPCA(2, precision="double").fit(one, Y[order]) for one in (rows, X[order]))
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-11)
    targets = X[order] @ np.arange(D) + 1.0
    found, expected = (SupervisedPCA(target="continuous").fit(one, targets) for one in (rows, X[order]))
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-11)
