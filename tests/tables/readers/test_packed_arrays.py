"""Arrays whose attributes say what stored values stand for are read as xarray reads them."""

import numpy as np
import pytest
import xarray as xr
import zarr
from scipy.sparse import csr_array

from mmpca_dist import MarginPCA, open_dataset
from mmpca_dist.errors import InputError

N, D = 60, 4
NUMBERS = np.random.default_rng(5).normal(20, 3, (N, D))
LABELS = np.arange(N) % 3
ENCODINGS = {
    "scale and offset": {"dtype": "int16", "scale_factor": 0.001, "add_offset": 20.0, "_FillValue": -32768},
    "scale alone": {"dtype": "int32", "scale_factor": 0.01},
    "missing_value": {"dtype": "int16", "scale_factor": 0.01, "missing_value": np.int16(-1)},
    "fill of floats": {"dtype": "float32", "_FillValue": -9999.0},
    "fill of whole numbers": {"dtype": "uint8", "_FillValue": 255},
    "unsigned in signed": {"dtype": "int8", "_Unsigned": "true", "_FillValue": -1, "scale_factor": 0.5},
}


def stored(path, encoding, version, gaps=True):
    X = NUMBERS.copy() if gaps else np.rint(NUMBERS)
    X[[3, 40], [1, 2]] = np.nan if gaps else 20
    table = xr.Dataset({"X": (("row", "band"), X), "y": (("row",), LABELS.astype("i4"))})
    chunks = {"chunks": (16, D), "compressors": None}
    table.to_zarr(path, zarr_format=version, consolidated=False, encoding={"X": {**encoding, **chunks}})
    return xr.open_zarr(path, consolidated=False)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", ENCODINGS)
def test_rows_are_the_values_of_xarray(tmp_path, name, version):
    gaps = any("issing" in key or "Fill" in key for key in ENCODINGS[name])
    peer = stored(tmp_path / "t.zarr", ENCODINGS[name], version, gaps)["X"].values
    dataset = open_dataset(tmp_path / "t.zarr", missing="mean")
    for start, stop in ((0, N), (10, 33), (39, 41)):
        np.testing.assert_allclose(dataset.stored.read(start, stop), peer[start:stop], rtol=1e-6)
    assert np.isnan(peer).any() == gaps


def test_a_gap_is_refused_unless_means_stand_for_it(tmp_path):
    stored(tmp_path / "t.zarr", ENCODINGS["scale and offset"], 3)
    with pytest.raises(InputError, match="Found nan in row 3, column 1"):
        MarginPCA(2, "pca").fit(open_dataset(tmp_path / "t.zarr"))
    X = xr.open_zarr(tmp_path / "t.zarr", consolidated=False)["X"].values
    filled = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    found = MarginPCA(2, "pca", missing="mean", precision="double").fit(
        open_dataset(tmp_path / "t.zarr", missing="mean")
    )
    peer = MarginPCA(2, "pca", precision="double").fit(filled, LABELS)
    np.testing.assert_allclose(found.components_, peer.components_, atol=1e-9)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("kind", ["int16", "float32", "int64"])
def test_labels_of_the_fill_value_are_none(tmp_path, kind, version):
    labels = LABELS.astype(float)
    labels[7] = np.nan
    table = xr.Dataset({"X": (("row", "band"), NUMBERS), "y": (("row",), labels)})
    table.to_zarr(tmp_path / "t.zarr", zarr_format=version, consolidated=False,
                  encoding={"y": {"dtype": kind, "_FillValue": -9}})  # fmt: skip
    with pytest.raises(InputError, match="Row 7 has no label"):
        open_dataset(tmp_path / "t.zarr").read_labels(0, N)
    dataset = open_dataset(tmp_path / "t.zarr", unlabelled="skip")
    assert dataset.n_rows == N - 1
    np.testing.assert_array_equal(dataset.read_labels(0, N - 1), np.delete(LABELS, 7))


@pytest.mark.parametrize("version", [2, 3])
def test_pixels_of_a_packed_cube(tmp_path, version):
    cube = NUMBERS.reshape(6, 10, D).copy()
    cube[2, 3, 0] = np.nan
    marks = LABELS.reshape(6, 10).astype(float)
    marks[5, 9] = np.nan
    table = xr.Dataset({"X": (("y_", "x_", "band"), cube), "y": (("y_", "x_"), marks)})
    table.to_zarr(tmp_path / "t.zarr", zarr_format=version, consolidated=False,
                  encoding={"X": ENCODINGS["scale and offset"], "y": {"dtype": "uint8", "_FillValue": 0}})  # fmt: skip
    peer = xr.open_zarr(tmp_path / "t.zarr", consolidated=False)
    dataset = open_dataset(tmp_path / "t.zarr", missing="mean", unlabelled="skip")
    np.testing.assert_allclose(dataset.stored.read(0, N), peer["X"].values.reshape(N, D), rtol=1e-12)
    known = ~np.isnan(peer["y"].values.ravel())
    np.testing.assert_array_equal(dataset.read_labels(0, dataset.n_rows), peer["y"].values.ravel()[known])


def test_csr_rows_and_columns_beside_rows(tmp_path):
    dense = np.where(NUMBERS > 20, np.rint(NUMBERS), 0)
    rows, group = csr_array(dense.astype("i2")), zarr.open_group(tmp_path / "t.zarr", mode="w")
    X = group.create_group("X", attributes={"encoding-type": "csr_matrix", "shape": [N, D]})
    for name in ("data", "indices", "indptr"):
        X.create_array(name, data=getattr(rows, name))
    X["data"].attrs["scale_factor"] = 0.25
    group.create_array("y", data=LABELS)
    group.create_array("w", data=np.arange(N, dtype="i2")).attrs.update(scale_factor=0.1, add_offset=5.0)
    dataset = open_dataset(tmp_path / "t.zarr")
    np.testing.assert_array_equal(dataset.stored.read(0, N).toarray(), dense * 0.25)
    values, there = dataset.stored.column("w", "weight").read(0, N)
    np.testing.assert_allclose(values, np.arange(N) * 0.1 + 5)
    assert there.all()
    X["data"].attrs["add_offset"] = 1.0
    with pytest.raises(InputError, match="add_offset, which values that are not stored would have"):
        open_dataset(tmp_path / "t.zarr")


@pytest.mark.parametrize("attributes", [{"scale_factor": "a"}, {"add_offset": [1, 2]}, {"scale_factor": 0}])
def test_attributes_that_are_no_numbers_are_refused_by_name(tmp_path, attributes):
    group = zarr.open_group(tmp_path / "t.zarr", mode="w")
    group.create_array("X", data=np.ones((N, D), "i2")).attrs.update(attributes)
    group.create_array("y", data=LABELS)
    with pytest.raises(InputError, match=f"attribute {next(iter(attributes))}"):
        open_dataset(tmp_path / "t.zarr")


def test_arrays_of_zarr_itself_keep_their_fill_values(tmp_path):
    group = zarr.open_group(tmp_path / "t.zarr", mode="w", zarr_format=2)
    X = np.zeros((N, D), "i2")
    group.create_array("X", data=X, fill_value=0, config={"write_empty_chunks": True})
    group.create_array("y", data=LABELS, fill_value=0)
    dataset = open_dataset(tmp_path / "t.zarr")
    assert dataset.dtype == np.int16
    np.testing.assert_array_equal(dataset.stored.read(0, N), X)


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"_Unsigned": True}, "_Unsigned True, which must be 'true' or 'false'"),
        ({"_FillValue": {"a": 1}}, "which is no value"),
        ({"missing_value": [[1, 2], [3]]}, "which is no value"),
    ],
)
def test_attributes_of_no_meaning_are_refused(tmp_path, attributes, words):
    group = zarr.open_group(tmp_path / "t.zarr", mode="w")
    group.create_array("X", data=np.ones((N, D), "i2")).attrs.update(attributes)
    group.create_array("y", data=LABELS)
    with pytest.raises(InputError, match=words):
        open_dataset(tmp_path / "t.zarr")


def test_of_version_2_the_fill_value_of_the_array_counts_as_for_xarray(tmp_path):
    group = zarr.open_group(tmp_path / "t.zarr", mode="w", zarr_format=2)
    for name, values, axes in (("X", NUMBERS, ["row", "band"]), ("y", LABELS.astype("i2"), ["row"])):
        fill = 0 if name == "y" else None
        array = group.create_array(name, shape=values.shape, dtype=values.dtype, chunks=values.shape, fill_value=fill)
        array[...] = values
        array.attrs["_ARRAY_DIMENSIONS"] = axes
    group["y"].attrs["_FillValue"] = 2
    peer = xr.open_zarr(tmp_path / "t.zarr", consolidated=False)["y"].values
    dataset = open_dataset(tmp_path / "t.zarr", unlabelled="skip")
    np.testing.assert_array_equal(dataset.read_labels(0, dataset.n_rows), peer[~np.isnan(peer)])
