"""Files are told by what they hold: those of a folder, those that a pattern names, and those of any suffix."""

import re
import shutil
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.ingested import ingest
from helpers.tables import labelled

from mmpca_dist import open_dataset
from mmpca_dist.errors import InputError
from mmpca_dist.runs.check import check
from mmpca_dist.stores import storage


def frame(seed, n=20):
    X, y = labelled(n, 2, 2, seed=seed)
    return pd.DataFrame(X, columns=["a", "b"]).assign(label=y)


FRAMES = [frame(seed) for seed in range(3)]


def write(path, table):
    path.parent.mkdir(parents=True, exist_ok=True)
    (table.to_feather if path.name.lower().endswith((".arrow", ".feather")) else table.to_parquet)(path)


def rows_of(dataset):
    return dataset.read_rows(0, dataset.n_rows)


FOLDERS = {
    "upper case": ("a.parquet", "b.PARQUET", "c.Parquet"),
    "other suffixes": ("a.parquet", "b.parq", "c.parquet.gzip"),
    "Hive": ("000000_0", "000001_0", "000002_0"),
    "Hive among others": ("000000_0", "b.parquet", "c.pq"),
    "snappy": ("part-0.snappy.parquet", "part-1.snappy.parquet", "part-2.parquet.snappy"),
    "Arrow": ("a.arrow", "b.ARROW", "c.feather"),
}


@pytest.mark.parametrize("names", FOLDERS.values(), ids=FOLDERS)
def test_all_files_of_a_folder_are_read(names, tmp_path):
    for name, table in zip(names, FRAMES, strict=True):
        write(tmp_path / "t" / name, table)
    (tmp_path / "t/README.md").write_text("About the rows.")
    expected = pd.concat(FRAMES)
    dataset = open_dataset(tmp_path / "t")
    np.testing.assert_array_equal(rows_of(dataset), expected[["a", "b"]])
    np.testing.assert_array_equal(dataset.read_labels(0, 60), expected["label"])
    assert check(str(tmp_path / "t")).classes == {str(k): n for k, n in expected["label"].value_counts().items()}


def test_partitions_and_patterns(tmp_path):
    for name, table in zip(("year=1/x.PARQUET", "year=2/000000_0", "year=3/z.parq"), FRAMES, strict=True):
        write(tmp_path / "t" / name, table)
    expected = pd.concat([table.assign(year=i) for i, table in enumerate(FRAMES, 1)])
    np.testing.assert_array_equal(rows_of(open_dataset(tmp_path / "t")), expected[["a", "b", "year"]])
    for name, table in zip(("p1.parquet", "p2.parquet", "q.parquet"), FRAMES, strict=True):
        write(tmp_path / "parts" / name, table)
    for pattern, n in (("*.parquet", 3), ("p*.parquet", 2), ("*", 3), ("p[2]*", 1)):
        np.testing.assert_array_equal(
            rows_of(open_dataset(tmp_path / "parts" / pattern)),
            pd.concat(FRAMES)[["a", "b"]][: 20 * n] if n > 1 else FRAMES[1][["a", "b"]],
        )
    with pytest.raises(InputError, match=r"No file in .* is named like x"):
        open_dataset(tmp_path / "parts" / "x*.parquet")


@pytest.mark.parametrize("name", ["a.parquet.bak", "a.parquet~", "b.old", "x.arrow", "x.tmp"])
def test_rows_that_may_not_be_meant_are_refused_by_name(name, tmp_path):
    write(tmp_path / "t/a.parquet", FRAMES[0])
    write(tmp_path / f"t/{name}", FRAMES[1])
    with pytest.raises(
        InputError, match=rf"{re.escape(name)} holds .* rows, beside|a\.parquet holds Parquet rows, beside"
    ):
        open_dataset(tmp_path / "t")


SUFFIXES = ["t.PARQUET", "t.parq", "t.parquet.gzip", "t", "t.data", "part-00000"]


@pytest.mark.parametrize("name", SUFFIXES)
def test_a_file_of_any_suffix(name, tmp_path):
    for kind in ("parquet", "arrow"):
        write(tmp_path / f"x.{kind}", FRAMES[0])
        (tmp_path / f"x.{kind}").rename(tmp_path / name)
        if kind == "parquet" or "par" not in name.lower() or name == "part-00000":
            np.testing.assert_array_equal(rows_of(open_dataset(tmp_path / name)), FRAMES[0][["a", "b"]])
            assert check(str(tmp_path / name)).n_rows == 20


TEXT = {
    "t.csv.zip": {"compression": "zip"}, "t.csv.zst": {"compression": "zstd"}, "t.data": {}, "t.tab": {"sep": "\t"},
    "t": {}, "t.dat": {"sep": ";"}, "t.txt": {}, "t.CSV": {}, "t.csv.gz": {}, "t.gz": {"compression": "gzip"},
}  # fmt: skip


@pytest.mark.parametrize("name", TEXT)
def test_text_of_any_suffix(name, tmp_path):
    FRAMES[0].to_csv(tmp_path / name, index=False, **{"compression": None, **TEXT[name]})
    ingest(tmp_path / name, tmp_path / "out.zarr", dtype="float64")
    np.testing.assert_array_equal(rows_of(open_dataset(tmp_path / "out.zarr")), FRAMES[0][["a", "b"]])
    assert check(str(tmp_path / name)).n_rows == 20


def test_libsvm_without_its_suffix(tmp_path):
    for name in ("t.txt", "t", "t.data"):
        (tmp_path / name).write_text("# note\n1 1:0.5 2:1\n0 1:1 3:2\n1 2:1\n")
        assert ingest(tmp_path / name, tmp_path / "out.zarr", overwrite=True)["columns"] == 3


def test_what_is_no_table_is_named_with_the_formats(tmp_path):
    (tmp_path / "x").write_bytes(bytes(100))
    (tmp_path / "y.jsonl").write_text('{"a": 1, "label": 2}\n')
    (tmp_path / "folder").mkdir()
    for name in ("x", "folder", "y.jsonl"):
        with pytest.raises(InputError, match=rf"{name} is .* Parquet \(\.parquet, .* a Zarr group .* folders of"):
            open_dataset(tmp_path / name)
    for names in (["zarr.json", "X/zarr.json"], ["a.csv", "b.csv"]):
        with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
            for name in names:
                archive.writestr(name, "a,label\n1,2\n")
        with pytest.raises(InputError, match=r"archive of .* Unpack it first"):
            check(str(tmp_path / "x.zip"))


def test_anndata_of_any_suffix(tmp_path):
    anndata = pytest.importorskip("anndata", reason="writes the files")
    adata = anndata.AnnData(np.arange(12.0).reshape(4, 3), obs=pd.DataFrame({"label": list("abab")}, list("wxyz")))
    (tmp_path / "t").mkdir()
    adata.write_h5ad(tmp_path / "t/a.h5ad")
    for name in ("b.H5AD", "c"):
        shutil.copy(tmp_path / "t/a.h5ad", tmp_path / "t" / name)
    np.testing.assert_array_equal(rows_of(open_dataset(tmp_path / "t")), np.tile(adata.X, (3, 1)))
    for name in ("a.h5ad", "b.H5AD", "c"):
        np.testing.assert_array_equal(rows_of(open_dataset(tmp_path / "t" / name)), adata.X)


def test_old_and_empty_anndata_end_in_a_sentence(tmp_path):
    h5py = pytest.importorskip("h5py", reason="writes the files")
    obs = np.zeros(4, [("index", "S4"), ("label", "i1")])
    files = {
        "flat": {"X": np.ones((4, 3)), "obs": obs}, "empty": {}, "no rows": {"obs/label": np.zeros(4)},
        "sparse": {"X/data": np.ones(4), "obs/label": np.zeros(4)},
        "number": {"X": 1.0, "obs/label": np.zeros(4)},
    }  # fmt: skip
    words = ["before 0.7", "no other rows", "no other rows", "before 0.7", r"shape \(\)"]
    for (name, arrays), expected in zip(files.items(), words, strict=True):
        with h5py.File(tmp_path / f"{name}.h5ad", "w") as file:
            for place, values in arrays.items():
                file[place] = values
            if name == "sparse":
                file["X"].attrs["h5sparse_format"] = b"csr"
        for attempt in (open_dataset, lambda path: check(str(path))):
            with pytest.raises(InputError, match=expected):
                attempt(tmp_path / f"{name}.h5ad")


def test_files_of_one_table_in_another_order(tmp_path):
    (tmp_path / "t").mkdir()
    for i, table in enumerate(FRAMES):
        columns = ["label", "b", "a"] if i == 1 else ["a", "b", "label"]
        pq.write_table(pa.Table.from_pandas(table[columns], preserve_index=False), tmp_path / f"t/{i}.parquet")
    np.testing.assert_array_equal(rows_of(open_dataset(tmp_path / "t")), pd.concat(FRAMES)[["a", "b"]])


def test_files_of_a_bucket(bucket, tmp_path):
    for name, table in zip(("a.parquet", "b.PARQUET", "000001_0"), FRAMES, strict=True):
        write(tmp_path / name, table)
        storage.write_bytes(f"{bucket}/t/{name}", (tmp_path / name).read_bytes())
    expected = pd.concat([FRAMES[2], *FRAMES[:2]])[["a", "b"]]  # in natural order
    for uri in (f"{bucket}/t", f"{bucket}/t/*"):
        np.testing.assert_array_equal(rows_of(open_dataset(uri)), expected)
    np.testing.assert_array_equal(rows_of(open_dataset(f"{bucket}/t/000001_0")), FRAMES[2][["a", "b"]])
    FRAMES[0].to_csv(tmp_path / "t.data", index=False)
    storage.write_bytes(f"{bucket}/t.data", (tmp_path / "t.data").read_bytes())
    assert check(f"{bucket}/t.data").n_rows == 20


@pytest.mark.parametrize("name", ["b.csv", "b.csv.gz", "b.tsv", "b.jsonl", "b.xlsx"])
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_text_beside_files_of_a_table_is_not_passed_over(name, kind, tmp_path):
    write(tmp_path / f"t/a.{kind}", FRAMES[0])
    (tmp_path / "t" / name).write_text("a,b,label\n1,2,0\n")
    (tmp_path / "t/README.md").write_text("Rows of 2020.")
    for attempt in (open_dataset, lambda path: check(str(path))):
        with pytest.raises(InputError, match=f"{name} holds other rows, beside files named .*Move it away, or name"):
            attempt(tmp_path / "t")
    assert open_dataset(f"{tmp_path}/t/*.{kind}").n_rows == 20


def test_an_index_level_of_any_file_is_no_feature(tmp_path):
    write(tmp_path / "t/a.parquet", FRAMES[0])
    write(tmp_path / "t/b.parquet", FRAMES[1].set_axis(pd.Index(np.arange(20) * 1.5, name="score")))
    dataset = open_dataset(tmp_path / "t", missing="mean")
    assert dataset.feature_names == ["a", "b"]
    np.testing.assert_array_equal(rows_of(dataset), pd.concat(FRAMES[:2])[["a", "b"]])


def test_a_file_that_lacks_the_label_has_rows_without_one(tmp_path):
    write(tmp_path / "t/a.parquet", FRAMES[0])
    write(tmp_path / "t/b.parquet", FRAMES[1].drop(columns="label"))
    checked = check(str(tmp_path / "t"))
    assert (checked.n_unlabelled, checked.n_rows) == (20, 40)
    assert open_dataset(tmp_path / "t", unlabelled="skip").n_rows == 20


def test_a_table_that_is_called_text_is_read_and_several_texts_are_refused(tmp_path):
    FRAMES[0].to_parquet(tmp_path / "p.csv")
    FRAMES[0].to_feather(tmp_path / "f.txt")
    for name in ("p.csv", "f.txt"):
        np.testing.assert_array_equal(rows_of(open_dataset(tmp_path / name)), FRAMES[0][["a", "b"]])
        assert check(str(tmp_path / name)).n_rows == 20
    (tmp_path / "t").mkdir()
    for name in ("a.csv", "b.csv"):
        FRAMES[0].to_csv(tmp_path / "t" / name, index=False)
    for uri in (f"{tmp_path}/t", f"{tmp_path}/t/*.csv"):
        with pytest.raises(InputError, match=r"text\. Write each file as Parquet into one folder"):
            check(uri)
