"""Ingest keeps rows sparse where they are, and the group it writes is one that AnnData's layout describes."""

import gzip
import itertools

import numpy as np
import pytest
import scipy.sparse
import zarr
from click.testing import CliRunner
from helpers import each
from helpers.ingested import ingest
from helpers.tables import counts_like_text, write_csr
from sklearn.datasets import dump_svmlight_file
from zarr.codecs import Crc32cCodec, ShardingCodec

from mmpca_dist import class_moments, open_dataset
from mmpca_dist.errors import InputError, PlanError

N, D = 120, 40
PARTS, X, Y = counts_like_text(N, D, 3, seed=0, share=0.05)
SOURCES = ("zarr", "parts npz", "scipy npz", "libsvm", "libsvm.gz", "dense npz", "csv")


def source(folder, kind, *, parts=PARTS, rows=X, labels=Y):
    """Write the rows in one of the formats, and return the address."""
    data, indices, indptr = parts
    path = folder / f"a.{kind.split()[-1]}"
    if kind == "zarr":
        return write_csr(path, parts, rows.shape, labels=labels)
    if kind == "parts npz":
        np.savez(path, data=data, indices=indices, indptr=indptr, shape=rows.shape, y=labels)
    elif kind == "scipy npz":
        scipy.sparse.save_npz(path, scipy.sparse.csr_array(rows))
        with np.load(path) as saved:
            np.savez_compressed(path, y=labels, **saved)
    elif kind == "dense npz":
        np.savez(path, X=rows, y=labels)
    elif kind == "csv":
        table = np.column_stack([rows, labels])
        path.write_text("\n".join(",".join(f"{value:g}" for value in row) for row in table))
    else:
        with (gzip.open if kind.endswith("gz") else open)(path, "wb") as file:
            dump_svmlight_file(scipy.sparse.csr_array(rows), labels, file, zero_based=False)
    return str(path)


@pytest.mark.parametrize(("kind", "chunk_bytes"), [*itertools.product(SOURCES, [100, 1 << 20]), ("zarr", 1)])
def test_rows_come_back_as_they_were_whatever_form_is_written(kind, chunk_bytes, tmp_path, limits):
    limits.csr_chunks_per_shard = 4
    uri = source(tmp_path, kind)
    for sparse in (None, True, False) if chunk_bytes == 100 else (None,):
        manifest = ingest(uri, tmp_path / "made.zarr", sparse=sparse, chunk_bytes=chunk_bytes, overwrite=True)
        expected = kind not in ("dense npz", "csv") if sparse is None else sparse
        dataset = open_dataset(tmp_path / "made.zarr")
        assert dataset.sparse == manifest["sparse"] == expected
        assert dataset.dtype == np.float32 == np.dtype(manifest["dtype"])
        for start, stop in ((0, N), (5, 6), (33, 90)):
            np.testing.assert_array_equal(dataset.read_rows(start, stop), X[start:stop])
            np.testing.assert_array_equal(dataset.read_labels(start, stop), Y[start:stop])


def test_the_group_is_laid_out_as_anndata_does_with_checksums(tmp_path, limits):
    limits.csr_chunks_per_shard = 4
    manifest = ingest(source(tmp_path, "zarr"), tmp_path / "made.zarr", chunk_bytes=80)
    group = zarr.open_group(str(tmp_path / "made.zarr"), mode="r")
    assert dict(group["X"].attrs) == {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": [N, D]}
    stored = scipy.sparse.csr_array(tuple(group["X"][part][:] for part in ("data", "indices", "indptr")), shape=(N, D))
    np.testing.assert_array_equal(stored.toarray(), X)
    assert stored.has_canonical_format and group["X/indptr"].dtype == np.int64
    for part, entries in (("data", 20), ("indices", 20), ("indptr", 10)):
        array = group["X"][part]
        assert array.chunks == (entries,) and array.shards == (4 * entries,)
        assert isinstance(array.metadata.codecs[0], ShardingCodec)
        assert isinstance(array.metadata.codecs[0].codecs[-1], Crc32cCodec)
    assert manifest["bytes"] > open_dataset(tmp_path / "made.zarr").n_bytes
    shard = tmp_path / "made.zarr" / "X" / "data" / "c" / "1"
    good = shard.read_bytes()
    shard.write_bytes(good[:50] + bytes([good[50] ^ 4]) + good[51:])
    with pytest.raises(InputError, match=r"Cannot read rows \d+ to \d+ of .*made.zarr/X, entries .*[Cc]hecksum"):
        class_moments(open_dataset(tmp_path / "made.zarr"))


def libsvm(folder, share, *, n=40, d=100):
    rows = scipy.sparse.random(n, d, share, format="csr", random_state=0) + scipy.sparse.csr_array(
        ([1.0], ([0], [d - 1])), shape=(n, d)
    )
    with (folder / "a.svm").open("wb") as file:
        dump_svmlight_file(rows, np.arange(n) % 2, file, zero_based=False)
    return str(folder / "a.svm"), rows.nnz


@pytest.mark.parametrize("share", [0.02, 0.1, 0.15, 0.5])
def test_libsvm_text_is_sparse_where_that_takes_a_quarter_of_the_space(share, tmp_path):
    """8 bytes a value and 8 a row, to 4 of a dense value: about one value in eight, less for short rows."""
    uri, nnz = libsvm(tmp_path, share)
    found = ingest(uri, tmp_path / "made.zarr")["sparse"]
    assert found == (8 * nnz + 8 * 41 <= 0.25 * 40 * 100 * 4)
    assert found == (share <= 0.1)


def test_rows_without_any_value(tmp_path):
    empty = (np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(N + 1, np.int32))
    for kind in ("zarr", "parts npz"):
        ingest(source(tmp_path, kind, parts=empty), tmp_path / "made.zarr", overwrite=True)
        dataset = open_dataset(tmp_path / "made.zarr")
        assert dataset.nnz == 0 and dataset.read_sparse(3, 9).shape == (6, D)
        assert not dataset.read_rows(0, N).any()


def test_types(tmp_path):
    """CSR rows are floats: single where that is exact, or what was asked for."""
    for dtype, asked, expected in (
        ("uint8", None, "float32"), ("int32", None, "float64"), ("float64", None, "float64"),
        ("float64", "float32", "float32"), ("bool", "float64", "float64"),
    ):  # fmt: skip
        parts, rows, _ = counts_like_text(N, D, 3, seed=0, dtype=dtype)
        uri = source(tmp_path, "parts npz", parts=parts)
        assert ingest(uri, tmp_path / "a.zarr", dtype=asked, overwrite=True)["dtype"] == expected
        np.testing.assert_array_equal(open_dataset(tmp_path / "a.zarr").read_rows(0, N), rows)
    np.savez(tmp_path / "h.npz", X=X.astype(np.float16), y=Y)
    assert ingest(tmp_path / "h.npz", tmp_path / "h.zarr", sparse=True)["dtype"] == "float32"


def bad_parts(at, what):
    data, indices, indptr = (part.copy() for part in PARTS)
    {"data": data, "indices": indices, "indptr": indptr}[what][at] = {"data": np.nan, "indices": D, "indptr": 10**6}[
        what
    ]
    return data, indices, indptr


ROW = int(np.searchsorted(PARTS[2], 7, side="right")) - 1
BAD = {
    # name: (makes the source, what the message must say)
    "not finite": (lambda f: source(f, "parts npz", parts=bad_parts(7, "data")), [
        rf"Found nan in row {ROW}, column {PARTS[1][7]}, in rows 0 to 119 of .*a.npz"]),
    "no such column": (lambda f: source(f, "parts npz", parts=bad_parts(7, "indices")), [rf"Row {ROW} .* column 40"]),
    "ends": (lambda f: source(f, "parts npz", parts=bad_parts(7, "indptr")), ["falls from 1000000 to .* at row 7"]),
    "labels": (lambda f: source(f, "parts npz", labels=Y[1:]), ["120 rows and 119 labels"]),
    "by columns": (lambda f: columns(f), ["'csc' form", "X.tocsr"]),
    "nan in text": (lambda f: text(f, "0 1:1\n1 2:nan 90:1\n"), ["Feature 1 of .*a.svm has .*NaN in row 1 .line 2."]),
    "too large": (lambda f: text(f, "0 1:1\n\n1 2:1e39 90:1\n"), [r"row 1 .line 3.", "too large a number for float32"]),
    "not increasing": (lambda f: text(f, "0 1:1\n1 9:1 90:1 2:3\n"), ["'2:3' in line 2", "indices must increase"]),
}  # fmt: skip


def columns(folder):
    scipy.sparse.save_npz(folder / "b.npz", scipy.sparse.csc_array(X))
    with np.load(folder / "b.npz") as saved:
        np.savez(folder / "a.npz", y=Y, **saved)
    return str(folder / "a.npz")


def text(folder, lines):
    (folder / "a.svm").write_text(lines)
    return str(folder / "a.svm")


def test_bad_rows_are_explained_and_leave_nothing(tmp_path):
    for (make, patterns), folder in each(BAD.values(), tmp_path):
        uri = make(folder)
        with pytest.raises(InputError) as caught:
            ingest(uri, folder / "made.zarr", sparse=True)
        for pattern in patterns:
            assert caught.match(pattern)
        assert not list(folder.glob("made.zarr*"))


def test_rows_that_do_not_fit_the_disk_are_refused_by_what_is_stored(tmp_path, monkeypatch):
    uri = source(tmp_path, "zarr")
    need = len(PARTS[0]) * 8 + (N + 1) * 8
    assert need < X.nbytes
    for free in (need, need - 1):
        monkeypatch.setattr("shutil.disk_usage", lambda _, free=free: type("Usage", (), {"free": free}))
        if free == need:
            ingest(uri, tmp_path / "made.zarr")
        else:
            with pytest.raises(PlanError, match="120 rows of 40 columns as float32"):
                ingest(uri, tmp_path / "other.zarr")


@pytest.mark.e2e
def test_the_command_line(tmp_path, prefect_server):
    from mmpca_pipelines.cli import cli

    uri = source(tmp_path, "libsvm")
    for flags in ((), ("--dense",), ("--sparse",)):
        done = CliRunner().invoke(cli, ["ingest", uri, str(tmp_path / "a.zarr"), "--overwrite", *flags])
        assert done.exit_code == 0, done.output
        assert open_dataset(tmp_path / "a.zarr").sparse == (flags != ("--dense",))
    (tmp_path / "b.csv").write_text("id,a,kind,b\nu,1,x,2\nv,3,y,4\n")
    leave_out = ["ingest", str(tmp_path / "b.csv"), str(tmp_path / "b.zarr"), "--label", "kind", "--drop", "id"]
    for flags, kept in (((), ["a", "b"]), (("--drop", "b", "--overwrite"), ["a"])):
        done = CliRunner().invoke(cli, [*leave_out, *flags])
        assert done.exit_code == 0, done.output
        assert open_dataset(tmp_path / "b.zarr").feature_names == kept
