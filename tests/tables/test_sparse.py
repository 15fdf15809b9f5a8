"""CSR rows are read as they were written, whoever wrote them, and every method takes them for the rows they are."""

import pickle

import numpy as np
import pytest
import scipy.sparse
import zarr
from helpers.runs import same_models, through
from helpers.samples import on_dense
from helpers.tables import counts_like_text, make_config, write_csr
from hypothesis import given
from hypothesis import strategies as st
from naive import dense_rows

import mmpca_dist.runs.projection as projection
from mmpca_dist import load_model, open_dataset, run
from mmpca_dist.limits import LIMITS
from mmpca_dist.methods.base.registry import METHODS
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.runs.fit import preview
from mmpca_dist.runs.projection import Projector, project_rows
from mmpca_dist.runs.row_tables import RowTable
from mmpca_dist.tables.compose import open_rows
from mmpca_dist.tables.readers.zarr_sparse import _Stretches
from mmpca_dist.tables.spans import make_spans

N, D = 103, 9
RANGES = [(0, N), (0, 1), (N - 1, N), (5, 41), (20, 40), (39, 62), (51, 52)]


@pytest.mark.parametrize(
    ("dtype", "index", "v2"),
    [
        ("float32", "int32", False), ("float32", "int64", False), ("float32", "uint32", True),
        ("float64", "int64", True), ("float16", "int32", False), ("uint8", "uint32", False),
        ("int32", "int32", True), ("bool", "int64", False), ("bool", "int32", True),
    ],
)  # fmt: skip
def test_a_layout_written_by_hand(dtype, index, v2, tmp_path):
    """Rows without values, zeros that are stored, columns in no order; numbers of any kind become floats."""
    (data, indices, indptr), _, y = counts_like_text(N, D, 3, seed=0, dtype=dtype)
    parts = (data, indices.astype(index), indptr.astype(index))
    dataset = pickle.loads(  # noqa: S301  (as workers get it)
        pickle.dumps(open_dataset(write_csr(tmp_path / "a.zarr", parts, (N, D), v2=v2, chunks=37, labels=y)))
    )
    expected = dense_rows(data, indices, indptr, (N, D))
    assert dataset.sparse and not dataset.in_memory
    assert (dataset.n_rows, dataset.n_features, dataset.nnz) == (N, D, len(data))
    assert dataset.dtype == (np.float64 if dtype in ("float64", "int32") else np.float32)
    assert dataset.n_bytes == sum(part.nbytes for part in parts)
    assert np.any(data == 0) and 0 in np.diff(indptr), "the sample lacks what this test is about"
    for start, stop in RANGES:
        rows = dataset.read_sparse(start, stop)
        assert isinstance(rows, scipy.sparse.csr_array) and rows.has_canonical_format
        assert rows.dtype == dataset.dtype and rows.nnz == indptr[stop] - indptr[start]
        np.testing.assert_array_equal(rows.toarray(), expected[start:stop])
        np.testing.assert_array_equal(dataset.read_rows(start, stop), expected[start:stop])
        out = np.full((stop - start, D), 7, dataset.dtype)
        assert dataset.read_rows(start, stop, out) is out
        np.testing.assert_array_equal(out, expected[start:stop])
        np.testing.assert_array_equal(dataset.read_labels(start, stop), y[start:stop])


@given(st.integers(1, 40), st.integers(1, 12), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=9))
def test_stretches_in_any_order_are_those_of_the_array(n, chunk, stretches):
    """What is kept of the last chunk never changes what is read."""
    array = zarr.create_array({}, data=np.arange(n), chunks=(chunk,))
    reader = _Stretches(array)
    for one, other in stretches:
        start, stop = min(one, other, n), min(max(one, other), n)
        np.testing.assert_array_equal(reader.read(start, stop), np.arange(start, stop))


def test_a_chunk_that_two_units_share_is_read_once(tmp_path, monkeypatch):
    parts, _, y = counts_like_text(N, D, 3, seed=1)
    dataset = open_dataset(write_csr(tmp_path / "a.zarr", parts, (N, D), chunks=37, labels=y))
    dataset.read_sparse(0, 1)
    read = []
    get = zarr.Array.__getitem__
    monkeypatch.setattr(zarr.Array, "__getitem__", lambda array, key: read.append((array.path, key)) or get(array, key))
    for start in range(1, N):
        dataset.read_sparse(start, start + 1)
    chunks = [key.start // 37 for path, key in read if path.endswith("data")]
    assert sorted(chunks) == list(range(-(-len(parts[0]) // 37)))


def test_units_are_bounded_by_dense_rows_and_cut_as_those(limits, tmp_path):
    """The same grid as that of the same rows in a dense file, whence the same bits."""
    parts, X, y = counts_like_text(N, D, 3, seed=0)
    np.savez(tmp_path / "dense.npz", X=X, y=y)
    limits.unit_bytes = 20 * X.strides[0]
    dense = open_dataset(tmp_path / "dense.npz")
    sparse = open_dataset(write_csr(tmp_path / "a.zarr", parts, (N, D), labels=y))
    assert make_spans(sparse) == make_spans(dense)
    assert max(stop - start for span in make_spans(sparse) for start, stop in span.units) == 20


def write_kinds(folder, parts, X, y):
    """Write the same rows dense and in every sparse form; return the addresses."""
    data, indices, indptr = parts
    np.savez(folder / "dense.npz", X=X, y=y)
    np.savez(folder / "parts.npz", data=data, indices=indices, indptr=indptr, shape=X.shape, y=y)
    scipy.sparse.save_npz(folder / "saved.npz", scipy.sparse.csr_array(X))
    with np.load(folder / "saved.npz") as saved:
        np.savez_compressed(folder / "saved.npz", y=y, **saved)
    return {
        "dense": str(folder / "dense.npz"),
        "parts": str(folder / "parts.npz"),
        "saved by scipy": str(folder / "saved.npz"),
        "zarr": write_csr(folder / "a.zarr", parts, X.shape, labels=y),
    }


@pytest.mark.parametrize(("shape", "kind"), [
    ("tall", "zarr"),
    pytest.param("wide", "parts", marks=pytest.mark.e2e),
    pytest.param("standardized", "saved by scipy", marks=pytest.mark.e2e),
])  # fmt: skip
def test_every_method_gives_the_bits_of_the_dense_rows(shape, kind, tmp_path, limits, no_report):
    """Components to the last bit; projections by products of CSR rows, up to the rounding of d products."""
    n, d = (20, 40) if shape == "wide" else (150, 12)
    parts, X, y = counts_like_text(n, d, 3, seed=2)
    limits.unit_bytes = 40 * X.strides[0]
    uris = write_kinds(tmp_path, parts, X, y)
    changes = {"precision": "double", "standardize": shape == "standardized", "n_components": 2}
    for name in ("dense", kind):
        run(make_config(tmp_path / name, uris[name], **changes))
    for method in METHODS:
        dense, sparse = (load_model(str(tmp_path / name), method) for name in ("dense", kind))
        np.testing.assert_array_equal(sparse.components_, dense.components_)
        np.testing.assert_array_equal(sparse.eigenvalues_, dense.eigenvalues_)
        Z = open_dataset(tmp_path / kind / "projected" / f"{method}.zarr")
        np.testing.assert_array_equal(Z.read_labels(0, n), y)
        expected = dense.transform(X.astype(float))
        A, mean, _ = dense.projection()
        sizes = (np.abs(X) + (0 if mean is None else np.abs(mean))) @ np.abs(A)
        atol = 4 * d * np.finfo(float).eps * sizes.max() + 1e-13 * np.abs(expected).max()
        np.testing.assert_allclose(Z.read_rows(0, n), expected, rtol=0, atol=atol)


@pytest.mark.slow
def test_single_precision_and_workers_make_no_difference(tmp_path, no_report):
    parts, X, y = counts_like_text(150, 12, 3, seed=3)
    uris = write_kinds(tmp_path, parts, X, y)
    compute = {"cluster": "local", "workers": 2}
    changes = {"precision": "single", "n_components": 2, "methods": ["m-pca0", "m-pca1b"]}
    run(make_config(tmp_path / "dense", uris["dense"], **changes))
    run(make_config(tmp_path / "sparse", uris["zarr"], compute=compute, **changes))
    same_models(tmp_path / "sparse", tmp_path / "dense", changes["methods"], atol=0)


@pytest.mark.parametrize("centred", [False, True])
def test_rows_are_projected_without_being_made_dense(centred, tmp_path, monkeypatch):
    parts, X, y = counts_like_text(N, D, 3, seed=4)
    dataset = open_dataset(write_csr(tmp_path / "a.zarr", parts, (N, D), labels=y))
    on_dense(monkeypatch, lambda _: pytest.fail("rows were made dense"))
    rng = np.random.default_rng(0)
    matrix, mean = rng.standard_normal((D, 2)).astype(np.float32), X.mean(axis=0) if centred else None
    monkeypatch.setattr(projection, "output_chunk_rows", lambda *_: 25)
    project_rows(
        dataset,
        [Projector("a", matrix, mean)],
        [RowTable(str(tmp_path / "z.zarr"), "zarr", ("a",), ("a_0", "a_1"))],
        Tasks(scheduler=Threads(2)),
    )
    expected = (X.astype(float) - (0 if mean is None else mean)) @ matrix.astype(float)
    found = open_dataset(tmp_path / "z.zarr").read_rows(0, N)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)  # rounded once to single


def test_a_model_of_dense_rows_takes_sparse_ones_without_labels(tmp_path, no_report):

    parts, X, y = counts_like_text(N, D, 3, seed=5)
    uris = write_kinds(tmp_path, parts, X, y)
    run(make_config(tmp_path / "out", uris["dense"], methods=["pca"]))
    uri = write_csr(tmp_path / "b.zarr", parts, (N, D))
    assert open_rows(uri).label is None
    found = through(tmp_path / "out", uri, tmp_path / "new")
    assert not found["labels"]
    Z = zarr.open_array(f"{tmp_path}/new/projected/pca.zarr/X")[:]
    np.testing.assert_allclose(
        Z, load_model(str(tmp_path / "out"), "pca").transform(X.astype(float)), rtol=1e-12, atol=1e-12
    )


@pytest.mark.e2e
def test_the_plan_counts_stored_bytes_and_holds(tmp_path):
    n, d = 60_000, 400
    X = scipy.sparse.random(n, d, 0.02, format="csr", dtype=np.float32, random_state=0)
    y = np.asarray(X[:, :5].sum(axis=1) > 0.05).astype(int).ravel()
    uri = write_csr(tmp_path / "a.zarr", (X.data, X.indices, X.indptr), X.shape, chunks=1 << 18, labels=y)
    config = make_config(tmp_path / "out", uri, methods=["pca", "m-pca1b"], precision="single", n_components=8)
    plan = preview(config)
    stored = X.nnz * 8 + (n + 1) * 4
    assert [p.bytes for p in plan.passes if p.name != "sample"] == [stored] * 2 < [n * d * 4 // 10] * 2
    results = run(config)
    assert max(results[stage]["memory"] for stage in ("reduce", "project")) <= results["plan"]["memory"]
    assert results["reduce"]["bytes"] + results["project"]["bytes"] == sum(p.bytes for p in plan.passes)


def test_text_of_twenty_newsgroups(real_path, tmp_path):
    """15,935 x 62,061: a unit of dense rows is all that is ever made dense; the words that most use make a table."""
    from helpers.ingested import ingest

    from mmpca_dist import MarginPCA

    manifest = ingest(real_path("newsgroups20.npz"), tmp_path / "a.zarr")
    assert manifest["sparse"] and manifest["classes"] == 20
    stored, loaded = open_dataset(tmp_path / "a.zarr"), open_dataset(real_path("newsgroups20.npz"))
    assert (stored.n_rows, stored.n_features, stored.nnz) == (15_935, 62_061, 1_272_569)
    assert stored.n_bytes < 11 << 20
    largest = max(stop - start for span in make_spans(stored) for start, stop in span.units)
    assert largest * stored.row_bytes <= LIMITS.unit_bytes
    rows, y = stored.read_sparse(0, stored.n_rows), stored.read_labels(0, stored.n_rows)
    assert (rows != loaded.read_sparse(0, stored.n_rows)).nnz == 0
    frequent = np.argsort(-np.diff(rows.tocsc().indptr), kind="stable")[:60]
    words = rows[:, frequent]
    sparse, dense = (MarginPCA(8).fit(X, y) for X in (words, words.toarray()))
    np.testing.assert_array_equal(sparse.components_, dense.components_)
