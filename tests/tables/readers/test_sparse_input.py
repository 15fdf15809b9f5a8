"""CSR rows that cannot be used end in one sentence; AnnData's labels and names are found where it puts them."""

import numpy as np
import pytest
import scipy.sparse
import zarr
from helpers import each
from helpers.tables import counts_like_text, write_csr

from mmpca_dist import class_moments, open_dataset
from mmpca_dist.errors import InputError
from mmpca_dist.passes.census import take_census
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.tables.column import MissingChunks
from mmpca_dist.tables.compose import open_rows

N, D = 60, 9
PARTS, X, Y = counts_like_text(N, D, 3, seed=0)
DATA, INDICES, INDPTR = PARTS
FIRST = int(np.argmax(np.diff(INDPTR) > 1))
"""A row with more than one value."""
AT = int(INDPTR[FIRST])


def store(folder, *, data=DATA, indices=INDICES, indptr=INDPTR, shape=(N, D), labels=Y, **options):
    return write_csr(folder / "a.zarr", (data, indices, indptr), shape, labels=labels, **options)


def changed(values, at, value):
    """Return a copy with one entry replaced."""
    values = np.array(values)
    values[at] = value
    return values


def edited(folder, edit, **options):
    """Write a good matrix, and let ``edit`` change its group."""
    uri = store(folder, **options)
    edit(zarr.open_group(uri, mode="r+")["X"])
    return uri


def npz(folder, **arrays):
    parts = {"data": DATA, "indices": INDICES, "indptr": INDPTR, "shape": np.asarray([N, D]), "y": Y}
    kept = {name: value for name, value in {**parts, **arrays}.items() if value is not None}
    np.savez(folder / "a.npz", **kept)
    return str(folder / "a.npz")


def without(folder, chunk):
    uri = store(folder)
    (folder / "a.zarr" / "X" / chunk).unlink()
    return uri


def damaged(folder, name, file="c/0"):
    uri = store(folder)
    (folder / "a.zarr" / "X" / name / file).write_bytes(b"nonsense")
    return uri


OPENING = {
    # name: (makes the address, arguments, what the message must say)
    "columns": (lambda f: store(f, form="csc_matrix"), {}, ["is no CSC matrix: it has indptr of shape"]),
    "another form": (lambda f: store(f, form="dataframe"), {}, [
        "encoding-type 'dataframe'", "arrays data, indices and indptr", "dataset.features"]),
    "no indices": (lambda f: edited(f, lambda X: X.__delitem__("indices")), {}, ["lacks the flat arrays indices"]),
    "no shape": (lambda f: edited(f, lambda X: X.attrs.__delitem__("shape")), {}, [r"shape None; .* \[n, d\]"]),
    "no columns": (lambda f: store(f, shape=(N, 0)), {}, ["no columns"]),
    "complex": (lambda f: store(f, data=DATA + 1j), {}, ["complex", "must be numbers"]),
    "columns by fractions": (lambda f: store(f, indices=INDICES + 0.5), {}, ["indices have type float64", "integers"]),
    "labels": (lambda f: store(f, labels=Y[1:]), {}, ["60 rows and 59 labels"]),
    "more rows": (lambda f: store(f, shape=(N + 1, D), labels=[*Y, 0]), {}, [
        "no CSR matrix", r"shape \(61,\).* 61 rows"]),
    "values and columns": (lambda f: store(f, data=DATA[1:]), {}, ["values in data and .* columns in indices"]),
    "ends beyond": (lambda f: store(f, indptr=INDPTR + 1), {}, ["indptr from 1 to", "write it again"]),
    "ends fall": (lambda f: store(f, indptr=changed(INDPTR, 5, len(DATA))), {}, ["falls from .* to .* at row 5"]),
    "missing values": (lambda f: without(f, "data/c/1"), {}, [
        r"lacks 1 of the chunks of 'X/data'", r"\(1,\): entries 50 to 99", "missing_chunks: fill"]),
    "missing columns": (lambda f: without(f, "indices/c/0"), {}, ["'X/indices'", "entries 0 to 49"]),
    "missing ends": (lambda f: without(f, "indptr/c/1"), {}, ["'X/indptr'", "entries 50 to 60"]),
    "damaged ends": (lambda f: damaged(f, "indptr"), {}, ["Cannot read .*X/indptr", "restore them"]),
    "unknown rows": (store, {"features": "Y"}, ["no array 'Y' .dataset.features."]),
    "npz by columns": (lambda f: npz(f, format=np.asarray(b"csc")), {}, [
        "'csc' form", r"save_npz\(path, X.tocsr\(\)\)"]),
    "npz shape": (lambda f: npz(f, shape=np.asarray([N, D, 1])), {}, [r"'shape' of .* \[60, 9, 1\]"]),
    "npz ends": (lambda f: npz(f, indptr=INDPTR[:-1]), {}, ["no CSR matrix", "60 rows"]),
    "npz without labels": (lambda f: npz(f, y=None), {}, ["no array 'y'", "holds data, indices, indptr, shape"]),
    "npz lacks a part": (lambda f: npz(f, indptr=None), {}, ["no array 'X'", "holds data, indices, shape"]),
    "npz label count": (lambda f: npz(f, y=Y[1:]), {}, ["60 rows and 59 labels"]),
}  # fmt: skip


def test_opening(tmp_path):
    for (make, arguments, patterns), folder in each(OPENING.values(), tmp_path):
        uri = make(folder)
        with pytest.raises(InputError) as caught:
            open_dataset(uri, **arguments)
        for pattern in patterns:
            assert caught.match(pattern)
        assert "\n" not in str(caught.value)


READING = {
    "not finite": (lambda f: store(f, data=changed(DATA, AT, np.nan)), [
        rf"Found nan in row {FIRST}, column {INDICES[AT]}, in rows 0 to 59 of .*a.zarr/X", "entries 0 to",
        "fill or drop"]),
    "infinite": (lambda f: npz(f, data=changed(DATA, AT, -np.inf)), [
        rf"Found -inf in row {FIRST}, column {INDICES[AT]}"]),
    "column too large": (lambda f: store(f, indices=changed(INDICES, AT, D)), [
        rf"Row {FIRST} has a value in column 9", "numbered 0 to 8", "write it again"]),
    "column below zero": (lambda f: npz(f, indices=changed(INDICES, AT, -1)), [
        rf"Row {FIRST} has a value in column -1"]),
    "a column twice": (lambda f: store(f, indices=changed(INDICES, AT, INDICES[AT + 1])), [
        rf"Row {FIRST} has column {INDICES[AT + 1]} twice", r"X.sum_duplicates\(\)"]),
    "a column twice in npz": (lambda f: npz(f, indices=changed(INDICES, AT, INDICES[AT + 1])), ["twice, in rows 0 to"]),
    "damaged values": (lambda f: damaged(f, "data"), ["Cannot read rows 0 to 59 of .*a.zarr/X", "restore it"]),
    "damaged columns": (lambda f: damaged(f, "indices"), ["Cannot read rows 0 to 59 of .*a.zarr/X", "restore it"]),
}  # fmt: skip


def test_reading(tmp_path):
    for (make, patterns), folder in each(READING.values(), tmp_path):
        dataset = open_dataset(make(folder))
        with pytest.raises(InputError) as caught:
            class_moments(dataset)
        for pattern in patterns:
            assert caught.match(pattern)
        assert "\n" not in str(caught.value)


def test_a_missing_chunk_of_values_may_be_accepted(tmp_path):
    """They are then zeros, and the rows are what they would be with these."""
    dataset = open_dataset(without(tmp_path, "data/c/0"), missing_chunks="fill")
    expected = scipy.sparse.csr_array((np.where(np.arange(len(DATA)) < 50, 0, DATA), INDICES, INDPTR), (N, D))
    np.testing.assert_array_equal(dataset.read_rows(0, N), expected.toarray())


def test_other_groups_than_x_and_files_that_change(tmp_path):
    uri = write_csr(tmp_path / "a.zarr", PARTS, (N, D), labels=Y, name="counts")
    dataset = open_dataset(uri, features="counts")
    np.testing.assert_array_equal(dataset.read_rows(0, N), X)
    before = dataset.fingerprint()
    assert before == open_dataset(uri, features="counts").fingerprint()
    zarr.open_group(uri, mode="r+")["counts/data"][3] = 77
    assert dataset.fingerprint() != before


def test_an_npz_of_csr_rows_is_loaded_by_each_process(tmp_path):
    dataset = open_dataset(npz(tmp_path, data=DATA.astype(np.uint16), format=np.asarray(b"csr")))
    assert dataset.sparse and dataset.dtype == np.float32 and dataset.nnz == len(DATA)
    assert dataset.n_bytes == len(DATA) * 8 + (N + 1) * 4 and dataset.facts.resident_bytes == 2 * dataset.n_bytes
    np.testing.assert_array_equal(dataset.read_rows(5, 40), X[5:40])
    np.testing.assert_array_equal(dataset.read_sparse(5, 40).toarray(), X[5:40])
    both = npz(tmp_path, X=X + 1)
    np.testing.assert_array_equal(open_dataset(both).read_rows(0, N), X + 1)  # rows that are named win
    assert open_rows(npz(tmp_path, y=None)).label is None


def anndata_group(folder, *, codes=Y, categories=("ant", "bee", "cat"), masked=N, v2=False):
    """Write rows, a table of rows with labels in several forms, and a table of columns, as AnnData lays them out."""
    uri = write_csr(folder / "a.zarr", PARTS, (N, D), v2=v2)
    group = zarr.open_group(uri, mode="r+")
    table = group.create_group("obs")
    table.create_array("batch", data=(Y + 10).astype(np.int64), chunks=(20,))
    kind = table.create_group("kind")
    kind.attrs.update({"encoding-type": "categorical", "ordered": False})
    kind.create_array("codes", data=np.asarray(codes, np.int8), chunks=(20,))
    names = kind.create_array("categories", shape=(len(categories),), dtype=str)
    names[:] = np.asarray(categories, dtype=object)
    maybe = table.create_group("maybe")
    maybe.attrs["encoding-type"] = "nullable-integer"
    maybe.create_array("values", data=Y, chunks=(20,))
    maybe.create_array("mask", data=np.arange(N) == masked, chunks=(20,))
    table.create_group("other").attrs["encoding-type"] = "dataframe"
    columns = group.create_group("var")
    columns.attrs["_index"] = "gene"
    genes = columns.create_array("gene", shape=(D,), dtype=str)
    genes[:] = np.asarray([f"g{j}" for j in range(D)], dtype=object)
    return uri


@pytest.mark.parametrize("v2", [False, True], ids=["v3", "v2"])
def test_labels_and_names_of_anndata(v2, tmp_path):
    uri = anndata_group(tmp_path, v2=v2)
    plain, named, maybe = (open_dataset(uri, label=f"obs/{name}") for name in ("batch", "kind", "maybe"))
    np.testing.assert_array_equal(maybe.read_labels(3, 50), Y[3:50])
    np.testing.assert_array_equal(plain.read_labels(3, 50), Y[3:50] + 10)
    np.testing.assert_array_equal(named.read_labels(3, 50), np.asarray(["ant", "bee", "cat"])[Y[3:50]])
    assert named.feature_names == [f"g{j}" for j in range(D)]
    assert class_moments(named).classes.tolist() == ["ant", "bee", "cat"]
    before = named.fingerprint()
    zarr.open_group(uri, mode="r+")["obs/kind/codes"][0] = (Y[0] + 1) % 3
    assert named.fingerprint() != before


def test_dense_rows_have_labels_of_anndata_too(tmp_path):
    uri = anndata_group(tmp_path)
    zarr.open_group(uri, mode="r+").create_array("layer", data=X)
    dataset = open_dataset(uri, features="layer", label="obs/kind")
    assert not dataset.sparse and dataset.read_labels(0, 3).tolist() == [("ant", "bee", "cat")[c] for c in Y[:3]]


def test_labels_of_anndata_that_are_none(tmp_path):
    uri = anndata_group(tmp_path, codes=changed(Y, 17, -1), masked=18)
    with pytest.raises(InputError, match=r"no array 'y' .dataset.label.; it holds obs/batch, obs/kind, obs/maybe, "):
        open_dataset(uri)
    with pytest.raises(InputError, match=r"no array 'obs/kid' .*Did you mean 'obs/kind'"):
        open_dataset(uri, label="obs/kid")
    with pytest.raises(InputError, match=r"'obs/other' .*encoding-type 'dataframe'; they must be an array, or"):
        open_dataset(uri, label="obs/other")
    with pytest.raises(InputError, match=r"Row 17 has no label in .*obs/kind\."):
        open_dataset(uri, label="obs/kind").read_labels(0, N)
    with pytest.raises(InputError, match=r"Row 18 has no label in .*obs/maybe\."):
        open_dataset(uri, label="obs/maybe").read_labels(5, N)


def test_missing_chunks_of_categories_are_the_first_one(tmp_path):
    """As with plain labels: accepted where that class is seen elsewhere."""
    uri = anndata_group(tmp_path)
    (tmp_path / "a.zarr" / "obs" / "kind" / "codes" / "c" / "1").unlink()
    dataset = open_dataset(uri, label="obs/kind")
    assert dataset.label_column.missing == MissingChunks(20, ((20, 40),), "ant")
    from mmpca_dist.tables.spans import make_spans

    census = take_census(dataset, make_spans(dataset), Tasks(scheduler=Threads(1)))
    assert census.sizes[0] == 20 + np.sum(np.delete(Y, np.s_[20:40]) == 0)


@pytest.mark.parametrize("strings", ["object", "str"])
@pytest.mark.parametrize("form", ["csr_matrix", "csr_array", "dense"])
def test_a_group_that_anndata_wrote(form, strings, tmp_path):
    anndata = pytest.importorskip("anndata")
    import pandas as pd

    names = pd.Series(np.asarray(["ant", "bee", "cat"], dtype=object)[Y], dtype=strings)
    table = pd.DataFrame({"kind": names.astype("category"), "name": names, "number": Y})
    table.index = pd.Index([f"r{i}" for i in range(N)], dtype=strings)
    columns = pd.DataFrame(index=pd.Index([f"g{j}" for j in range(D)], dtype=strings))
    rows = X if form == "dense" else getattr(scipy.sparse, form)(X)
    with anndata.settings.override(allow_write_nullable_strings=True):
        anndata.AnnData(rows, obs=table, var=columns).write_zarr(tmp_path / "a.zarr")
    for label, expected in (("kind", names), ("name", names), ("number", Y)):
        dataset = open_dataset(tmp_path / "a.zarr", label=f"obs/{label}")
        assert dataset.sparse == (form != "dense") and dataset.feature_names == columns.index.tolist()
        np.testing.assert_array_equal(dataset.read_rows(0, N), X)
        np.testing.assert_array_equal(
            dataset.read_labels(0, N), np.asarray(expected, dtype=dataset.read_labels(0, 1).dtype)
        )
