"""Lance tables: columns and fixed-size lists, fragments, removed rows, and the version of the time of opening."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from helpers.runs import model_hash, through
from helpers.tables import labelled, make_config, write_zarr
from helpers.watching import without_library

from mmpca_dist import class_moments, load_model, open_dataset, run
from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.tables.compose import column_of, open_rows

lance = pytest.importorskip("lance")

X, Y = labelled(300, 4, 3, seed=6)
X = X.astype(np.float32)
KINDS = np.asarray(["ant", "bee", "cow"])[Y]
NAMES = list("abcd")
no_report = pytest.mark.usefixtures("no_report")


def write(path, form="columns", X=X, kinds=KINDS, rows_per_file=100):
    if form == "columns":
        columns = dict(zip(NAMES, X.T, strict=True))
    else:
        columns = {"vector": pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])}
    more = {} if kinds is None else {"label": kinds, "place": np.arange(len(X)) % 5}
    lance.write_dataset(pa.table({**columns, **more}), str(path), max_rows_per_file=rows_per_file)
    return str(path)


def opened(path, form="columns", **options):
    more = {"features": "vector"} if form == "lists" else {"drop": ["place"]}
    return open_dataset(path, **{**more, **options})


@pytest.mark.parametrize("form", ["columns", "lists"])
def test_rows_labels_and_columns(form, tmp_path, monkeypatch):
    dataset = opened(write(tmp_path / "t.lance", form), form)
    assert dataset.chunk_edges.tolist() == [0, 100, 200, 300]
    assert dataset.feature_names == (NAMES if form == "columns" else None)
    for start, stop in ((0, 300), (30, 250), (100, 200), (299, 300)):
        np.testing.assert_array_equal(dataset.read_rows(start, stop), X[start:stop])
        np.testing.assert_array_equal(dataset.read_labels(start, stop), KINDS[start:stop])
    np.testing.assert_array_equal(column_of(dataset.stored, "place", "").read(95, 105)[0], np.arange(95, 105) % 5)
    monkeypatch.setattr(LIMITS, "unit_bytes", 60 * 16)
    assert dataset.chunk_edges.tolist() == [0, 60, 100, 160, 200, 260, 300]
    if form == "columns":
        assert opened(tmp_path / "t.lance", "columns", columns=["c", "a"]).n_features == 2


@pytest.mark.parametrize("form", ["columns", "lists"])
def test_moments_have_the_bits_of_the_same_rows_in_zarr(form, tmp_path):
    found = class_moments(opened(write(tmp_path / "t.lance", form), form))
    expected = class_moments(open_dataset(write_zarr(tmp_path / "t.zarr", X, Y, 100)))
    np.testing.assert_array_equal(found.scatters, expected.scatters)
    np.testing.assert_array_equal(found.means, expected.means)


def test_removed_rows_and_the_version_of_the_time_of_opening(tmp_path):
    path = write(tmp_path / "t.lance")
    before = opened(path)
    lance.dataset(path).delete("place = 2")
    after, kept = opened(path), np.arange(300) % 5 != 2
    assert after.n_rows == kept.sum() and after.fingerprint() != before.fingerprint()
    np.testing.assert_array_equal(after.read_rows(0, after.n_rows), X[kept])
    np.testing.assert_array_equal(after.read_labels(50, 150), KINDS[kept][50:150])
    np.testing.assert_array_equal(before.read_rows(90, 110), X[90:110])


@no_report
def test_runs_and_transforms(tmp_path):
    frame = pd.DataFrame(X, columns=NAMES).assign(label=KINDS, place=np.arange(300) % 5)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=100)
    hashes = set()
    for uri in (write(tmp_path / "t.lance"), str(tmp_path / "t.parquet")):
        dataset = {"uri": uri, "covariates": ["place"]}
        run(make_config(f"{uri}-run", methods=["m-pca0"], n_components=[2], dataset=dataset))
        hashes.add(model_hash(f"{uri}-run", ["m-pca0"]))
    assert len(hashes) == 1
    vectors = {"uri": write(tmp_path / "v.lance", "lists"), "features": "vector"}
    run(make_config(tmp_path / "out", methods=["pca"], n_components=[2], dataset=vectors))
    new = write(tmp_path / "new.lance", "lists", X[:40], None)
    through(tmp_path / "out", new, tmp_path / "p")
    Z = open_rows(str(tmp_path / "p/projected/pca.zarr")).read(0, 40)
    expected = load_model(str(tmp_path / "out"), "pca").transform(X[:40])
    np.testing.assert_allclose(Z, expected, rtol=1e-5, atol=1e-5)


def test_what_cannot_be_read_is_refused(tmp_path, monkeypatch):
    path = write(tmp_path / "t.lance")
    with pytest.raises(InputError, match=r"no column 'lable' \(dataset.label\). Did you mean 'label'"):
        open_dataset(path, label="lable")
    (tmp_path / "none.lance").mkdir()
    with pytest.raises(InputError, match=r"Cannot read .*none.lance"):
        open_dataset(tmp_path / "none.lance")
    for file in (tmp_path / "t.lance/data").iterdir():
        file.write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"Cannot read rows 0 to 9 of .*t.lance"):
        opened(path).read_rows(0, 10)

    without_library(monkeypatch, "lance")
    with pytest.raises(InputError, match=r"is a Lance table. Install 'mmpca-dist\[lance\]' to read it"):
        open_dataset(path)
