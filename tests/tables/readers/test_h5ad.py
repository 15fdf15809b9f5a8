"""AnnData's files, one or several: rows, labels and names, as anndata itself reads them, and with the bits of Zarr."""

import itertools

import fsspec
import numpy as np
import pandas as pd
import pytest
from helpers.evaluating import scored
from helpers.ingested import ingest
from helpers.runs import hash_of_command, refreshed, through
from helpers.tables import config_of, labelled, write_csr, write_zarr
from helpers.watching import without_library
from scipy.sparse import csr_array

from mmpca_dist import class_moments, load_model, open_dataset, run
from mmpca_dist.errors import InputError
from mmpca_dist.tables.compose import column_of, open_rows

h5py = pytest.importorskip("h5py")
from helpers.h5ad_files import write_h5ad  # noqa: E402  (needs h5py)

X, Y = labelled(300, 8, 3, seed=4)
X = np.round(2 * X) * (np.random.default_rng(0).random(X.shape) < 0.4)
KINDS = np.asarray(["B cell", "T cell", "NK"])[Y]
OBS = {
    "cell_type": (KINDS, "category"), "batch": (np.asarray(list("pqr"))[np.arange(300) // 7 % 3], "category"),
    "donor": (np.arange(300) % 6, "number"), "note": (KINDS, "text"), "age": (np.linspace(20, 60, 300), "number"),
    "count": (np.arange(300) % 4, "masked"), "fresh": (np.arange(300) % 2 == 0, "number"),
}  # fmt: skip
no_report = pytest.mark.usefixtures("no_report")


def part(rows, obs=OBS):
    return {name: (np.asarray(values)[rows], kind) for name, (values, kind) in obs.items()}


def write(path, X=X, obs=OBS, dense=True, **options):
    return write_h5ad(path, np.asarray(X) if dense else csr_array(X), obs, **options)


def write_parts(folder, dense=True, edges=(0, 100, 200, 300)):
    folder.mkdir()
    for i, (start, stop) in enumerate(itertools.pairwise(edges)):
        write(folder / f"s{9 + i}.h5ad", X[start:stop], part(slice(start, stop)), dense)
    return folder


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("options", [{}, {"compression": "gzip", "chunks": True}])
def test_rows_names_and_columns(dense, options, tmp_path):
    dataset = open_dataset(write(tmp_path / "a.h5ad", dense=dense, **options), label="cell_type")
    assert (dataset.n_rows, dataset.n_features, dataset.sparse) == (300, 8, not dense)
    assert dataset.feature_names == [f"g{i}" for i in range(8)]
    for start, stop in ((0, 300), (33, 150), (299, 300)):
        np.testing.assert_array_equal(dataset.read_rows(start, stop), X[start:stop])
        np.testing.assert_array_equal(dataset.read_sparse(start, stop).toarray(), X[start:stop])
        np.testing.assert_array_equal(dataset.read_labels(start, stop), KINDS[start:stop])
        for name, (values, _) in OBS.items():
            np.testing.assert_array_equal(column_of(dataset.stored, name, "").read(start, stop)[0], values[start:stop])
    assert open_dataset(tmp_path / "a.h5ad", label="obs/donor").read_labels(3, 5).tolist() == [3, 4]


@pytest.mark.parametrize("name", OBS)
def test_no_column_is_read_value_by_value(name, tmp_path, monkeypatch):
    """A look for a name "in" a dataset would be."""
    dataset = open_dataset(write(tmp_path / "a.h5ad"), label="cell_type")
    monkeypatch.setattr(h5py.Dataset, "__iter__", lambda self: pytest.fail(f"{self.name} is iterated"))
    values, _ = column_of(dataset.stored, name, "").read(33, 150)
    np.testing.assert_array_equal(values, np.asarray(OBS[name][0])[33:150])


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("several", [False, True])
def test_moments_have_the_bits_of_the_same_rows_in_zarr(dense, several, tmp_path):
    """Three files of a hundred rows are three chunks; one that is not chunked has the grid of rows in memory."""
    uri = write_parts(tmp_path / "a", dense) if several else write(tmp_path / "a.h5ad", dense=dense)
    rows = open_dataset(uri, label="cell_type")
    if dense:
        other = write_zarr(tmp_path / "t.zarr", X, KINDS, 100 if several else 300)
    else:
        csr = csr_array(X)
        parts = csr.data, csr.indices, csr.indptr
        other = write_csr(tmp_path / "t.zarr", parts, X.shape, chunks=csr.nnz, labels=KINDS)
    found, expected = class_moments(rows), class_moments(open_dataset(other))
    if dense or not several:
        np.testing.assert_array_equal(found.scatters, expected.scatters)
        np.testing.assert_array_equal(found.means, expected.means)
    np.testing.assert_allclose(found.scatters, expected.scatters, rtol=1e-12, atol=1e-9)
    assert found.classes.tolist() == sorted(set(KINDS))


def test_files_of_a_folder_and_of_a_pattern_in_natural_order(tmp_path):
    folder = write_parts(tmp_path / "atlas")
    write(folder / "other.h5ad")
    (folder / "._s1.h5ad").write_bytes(b"of an operating system")
    some = open_dataset(f"{folder}/s*.h5ad", label="cell_type")
    np.testing.assert_array_equal(some.read_rows(0, 300), X)
    assert open_dataset(folder, label="cell_type").n_rows == 600
    assert [name.rpartition("/")[2] for name in some.addresses] == ["s9.h5ad", "s10.h5ad", "s11.h5ad"]
    assert "s10.h5ad" in some.describe_chunk(150)
    with pytest.raises(InputError, match=r"is named like z\*.h5ad"):
        open_dataset(f"{folder}/z*.h5ad", label="cell_type")
    names = [f"g{i}" for i in range(7)] + ["gene"]
    write(folder / "s12.h5ad", X, OBS, names=names)
    with pytest.raises(InputError, match=r"s12.h5ad and .*s9.h5ad differ in the name of column 7: 'gene' and 'g7'"):
        open_dataset(f"{folder}/s*.h5ad", label="cell_type")
    write(folder / "s12.h5ad", X[:, :5], OBS)
    with pytest.raises(InputError, match="differ in the number of columns: 5 and 8"):
        open_dataset(f"{folder}/s*.h5ad", label="cell_type")
    write(folder / "s12.h5ad", X, {})
    with pytest.raises(InputError, match=r"s12.h5ad has no column 'cell_type' \(dataset.label\)"):
        open_dataset(f"{folder}/s*.h5ad", label="cell_type")


def test_layers_unlabelled_rows_and_another_place(tmp_path):
    kinds = np.where(np.arange(300) % 5 > 0, KINDS, None)
    path = write(tmp_path / "a.h5ad", X, {"cell_type": (kinds, "category")}, layers={"counts": csr_array(X + 1)})
    with pytest.raises(InputError, match=r"Row 0 has no label in .*obs/cell_type"):
        open_dataset(path, label="cell_type").read_labels(0, 10)
    rows = open_dataset(path, label="cell_type", features="layers/counts", unlabelled="skip")
    assert rows.n_rows == 240 and rows.sparse
    keep = np.arange(300) % 5 > 0
    np.testing.assert_array_equal(rows.read_rows(0, 240), X[keep] + 1)
    np.testing.assert_array_equal(rows.read_labels(0, 240), KINDS[keep])
    with pytest.raises(InputError, match=r"no 'layers/count' .* Did you mean 'layers/counts'"):
        open_dataset(path, label="cell_type", features="layers/count")
    with fsspec.open("memory://h5/a.h5ad", "wb") as file:
        file.write((tmp_path / "a.h5ad").read_bytes())
    np.testing.assert_array_equal(open_rows("memory://h5/a.h5ad").read(40, 60), X[40:60])
    write_h5ad(path, X, OBS)  # nothing keeps the file open


def test_what_is_no_such_file_is_refused(tmp_path, monkeypatch):
    def sole(label="cell_type", name="a.h5ad"):
        return open_dataset(tmp_path / name, label=label)

    write(tmp_path / "a.h5ad")
    with pytest.raises(InputError, match=r"no column 'cell_typ' \(dataset.label\). Did you mean 'cell_type'"):
        sole("cell_typ")
    with pytest.raises(InputError, match=r"dataset.drop is \['age'\], but .* is AnnData"):
        open_dataset(tmp_path / "a.h5ad", label="cell_type", drop=["age"])
    content = (tmp_path / "a.h5ad").read_bytes()
    (tmp_path / "cut.h5ad").write_bytes(content[: len(content) // 2])
    (tmp_path / "none.h5ad").write_bytes(b"text")
    for name in ("cut.h5ad", "none.h5ad"):
        with pytest.raises(InputError, match=r"Cannot read .* as AnnData: .* Copy it again"):
            sole(name=name)
    with h5py.File(tmp_path / "link.h5ad", "w") as file:
        file["X"] = h5py.ExternalLink(str(tmp_path / "a.h5ad"), "X")
    with pytest.raises(InputError, match="lies in another file"):
        open_rows(tmp_path / "link.h5ad")
    with h5py.File(tmp_path / "a.h5ad", "a") as file:
        file["X"][7, 2] = np.nan
    with pytest.raises(InputError, match=r"Found nan in row 7, column 2 \('g2'\)"):
        class_moments(sole())

    without_library(monkeypatch, "h5py")
    with pytest.raises(InputError, match=r"is an HDF5 file. Install 'mmpca-dist\[h5ad\]' to read it"):
        sole()


@no_report
@pytest.mark.parametrize("dense", [True, pytest.param(False, marks=pytest.mark.e2e)])
def test_runs_evaluations_transforms_refreshes_and_ingests(dense, tmp_path):
    maps = [{"name": "normalize-total", "to": 100}, "log1p"]
    counts = np.abs(X) + (np.arange(8) == 0)
    folder = tmp_path / "atlas"
    folder.mkdir()
    for i, rows in enumerate((slice(0, 120), slice(120, 300))):
        write(folder / f"s{i}.h5ad", counts[rows], part(rows), dense)
    beside = {"covariates": ["batch"], "weight": "count"}
    dataset = {"label": "cell_type", "maps": maps, "columns": ["g5", "g0", "g3"], **beside}
    evaluation = {"splits": "groups", "column": "donor", "folds": 3, "classifiers": ["fisher"], "margins": False}
    methods = ["pca", "m-pca0"]
    config = config_of(tmp_path / "out", folder, methods=methods, dataset=dataset, evaluation=evaluation)
    run(config)
    records, _, _ = scored(config)
    assert len(records) == 3
    mapped = np.log1p(counts[:, [5, 0, 3]] / counts[:, [5, 0, 3]].sum(axis=1, keepdims=True) * 100)
    keep = np.asarray(OBS["count"][0]) > 0
    plain = write_zarr(tmp_path / "t.zarr", mapped[keep], KINDS[keep], 50)
    for name in ("batch", "count"):
        np.save(tmp_path / f"{name}.npy", np.asarray(OBS[name][0])[keep])
    beside = {"covariates": [str(tmp_path / "batch.npy")], "weight": str(tmp_path / "count.npy")}
    run(config_of(tmp_path / "same", plain, methods=["m-pca0"], dataset=beside))
    model, expected = (load_model(str(tmp_path / name), "m-pca0") for name in ("out", "same"))
    np.testing.assert_allclose(np.abs(model.components_), np.abs(expected.components_), atol=1e-9)
    new = write(tmp_path / "new.h5ad", counts[:50], {"batch": part(slice(0, 50))["batch"]}, dense)
    through(tmp_path / "out", new, tmp_path / "p", methods=["m-pca0"])
    Z = open_rows(str(tmp_path / "p/projected/m-pca0.zarr")).read(0, 50)
    batches = pd.DataFrame({"batch": OBS["batch"][0][:50]})
    np.testing.assert_allclose(Z, model.transform(mapped[:50], covariates=batches), atol=1e-6)
    more = write(tmp_path / "more.h5ad", counts[:50], part(slice(0, 50)), dense)
    live = refreshed(tmp_path / "out", more, tmp_path / "live")["folder"]
    assert load_model(live, "pca").components_.shape == (2, 3)
    ingest(f"{folder}/s*.h5ad", tmp_path / "in.zarr", label="cell_type", keep=["donor"])
    written = open_dataset(tmp_path / "in.zarr")
    np.testing.assert_array_equal(written.read_rows(0, 300), counts)
    np.testing.assert_array_equal(column_of(written.stored, "donor", "").read(0, 300)[0], OBS["donor"][0])


@pytest.mark.e2e
def test_the_command_gives_the_bits_of_the_same_rows_in_zarr(tmp_path):
    write_zarr(tmp_path / "t.zarr", X, KINDS, 100)
    expected = hash_of_command(tmp_path, str(tmp_path / "t.zarr"))
    atlas = str(write_parts(tmp_path / "atlas"))
    assert hash_of_command(tmp_path, atlas, dataset={"label": "cell_type"}) == expected


@pytest.mark.parametrize("dense", [True, False])
def test_anndata_reads_the_same_of_its_own_files(dense, tmp_path):
    anndata = pytest.importorskip("anndata")
    obs = pd.DataFrame({name: pd.Categorical(values) if kind == "category" else values
                        for name, (values, kind) in OBS.items()}, index=[f"c{i}" for i in range(300)])  # fmt: skip
    obs["count"] = pd.array(OBS["count"][0], dtype="Int64")
    adata = anndata.AnnData(X if dense else csr_array(X), obs=obs)
    adata.var_names = [f"gene{i}" for i in range(8)]
    adata.raw = adata
    adata.write_h5ad(tmp_path / "a.h5ad", compression=None if dense else "gzip")
    for place in ("X", "raw/X"):
        rows = open_dataset(tmp_path / "a.h5ad", label="cell_type", features=place)
        assert rows.feature_names == adata.var_names.tolist() and rows.sparse != dense
        np.testing.assert_array_equal(rows.read_rows(0, 300), X)
    for name, (values, _) in OBS.items():
        np.testing.assert_array_equal(column_of(rows.stored, name, "").read(10, 200)[0], values[10:200])
    ours = anndata.read_h5ad(write(tmp_path / "b.h5ad", dense=dense))
    np.testing.assert_array_equal(ours.X if dense else ours.X.toarray(), X)
    assert ours.obs["cell_type"].tolist() == KINDS.tolist(), "the files of the other tests are AnnData's"


def test_a_file_without_any_label_is_one_of_a_folder_and_numbers_may_have_two_types(tmp_path):
    (tmp_path / "cells").mkdir()
    names, z = np.asarray(["a", "b"] * 20, dtype=object), np.arange(40)
    for name, given, numbers in (("one", names, z), ("two", np.full(40, None, dtype=object), z + 0.5)):
        obs = {"cell_type": (given, "category"), "z": (numbers, "number")}
        write_h5ad(tmp_path / "cells" / f"{name}.h5ad", X[:40], obs)
    rows = open_dataset(tmp_path / "cells", label="cell_type", unlabelled="skip")
    assert rows.n_rows == 40 and np.unique(rows.read_labels(0, 40)).tolist() == ["a", "b"]
    column = column_of(open_dataset(tmp_path / "cells", label="cell_type").stored, "z", "dataset.covariates")
    np.testing.assert_array_equal(column.read(0, 80)[0], np.append(z, z + 0.5))
