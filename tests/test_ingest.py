"""Ingest: what is read back equals the source, for every format, and a bad source leaves nothing behind."""

from __future__ import annotations

import bz2
import gzip
import json
import re
import subprocess
import sys
import zipfile

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from sklearn.datasets import dump_svmlight_file

from mmpca_dist import open_dataset
from mmpca_dist.datasets import writing
from mmpca_dist.datasets.ingest import ingest
from mmpca_dist.errors import InputError, OutputError, PlanError

NAMES = ["red", "green", "blue", "infra red"]


@pytest.fixture
def table():
    rng = np.random.default_rng(7)
    return rng.standard_normal((257, 4)).astype(np.float32), rng.integers(-1, 3, 257)


@pytest.fixture
def memory():
    """Yield an address in memory, which has no renaming, as object stores have none."""
    fs = fsspec.filesystem("memory")
    yield "memory://ingest/made.zarr"
    if fs.exists("/ingest"):
        fs.rm("/ingest", recursive=True)


def write_csv(path, X, y, *, names=NAMES, delimiter=",", label="label", opener=open, label_at=-1):
    at = label_at % (X.shape[1] + 1)
    with opener(path, "wt", encoding="utf-8") as file:
        if names is not None:
            file.write(delimiter.join([*names[:at], label, *names[at:]]) + "\n")
        for row, value in zip(X, y, strict=True):
            cells = [f"{cell:.9g}" for cell in row]
            file.write(delimiter.join([*cells[:at], str(value), *cells[at:]]) + "\n")
    return path


def write_all(folder, X, y):
    """Write the table in every format; return (source, options of ingest) by name."""
    found = {
        "csv": (write_csv(folder / "a.csv", X, y), {}),
        "csv without names": (write_csv(folder / "b.csv", X, y, names=None), {}),
        "csv.gz": (write_csv(folder / "c.csv.gz", X, y, opener=gzip.open), {}),
        "csv, label first": (write_csv(folder / "d.csv", X, y, label="kind", label_at=0), {"label": "kind"}),
        "csv, label by number": (write_csv(folder / "e.csv", X, y, names=None, label_at=1), {"label": "1"}),
        "tsv": (write_csv(folder / "f.tsv", X, y, delimiter="\t"), {}),
        "semicolons": (write_csv(folder / "g.csv", X, y, delimiter=";"), {}),
    }
    for name, opener in (("h.libsvm", open), ("i.svm.bz2", bz2.open)):
        with opener(folder / name, "wb") as file:
            dump_svmlight_file(X, y, file, zero_based=False)
        found[name.split(".", 1)[1]] = (folder / name, {})
    np.save(folder / "rows.npy", X)
    np.save(folder / "labels.npy", y)
    found["npy"] = (folder / "rows.npy", {"label": str(folder / "labels.npy")})
    np.savez(folder / "a.npz", X=X, y=y)
    np.savez_compressed(folder / "b.npz", rows=X, kind=y)
    found["npz"] = (folder / "a.npz", {})
    found["npz, compressed"] = (folder / "b.npz", {"features": "rows", "label": "kind"})
    columns = {name: X[:, j] for j, name in enumerate(NAMES)} | {"label": y}
    pq.write_table(pa.table(columns), folder / "a.parquet", row_group_size=100)
    found["parquet"] = (folder / "a.parquet", {})
    group = zarr.create_group(folder / "a.zarr")
    group.create_array("X", data=X, chunks=(50, 2))
    group.create_array("y", data=y)
    found["zarr"] = (folder / "a.zarr", {})
    return found


FORMATS = [
    "csv", "csv without names", "csv.gz", "csv, label first", "csv, label by number", "tsv", "semicolons",
    "libsvm", "svm.bz2", "npy", "npz", "npz, compressed", "parquet", "zarr",
]  # fmt: skip


def read_back(uri):
    dataset = open_dataset(uri)
    return dataset.read_rows(0, dataset.n_rows), dataset.read_labels(0, dataset.n_rows)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("chunk_bytes", [1, 160, 800, 1 << 20], ids=lambda size: f"chunk of {size}")
def test_every_format_reads_back_as_its_source(tmp_path, table, name, chunk_bytes):
    X, y = table
    source, options = write_all(tmp_path, X, y)[name]
    seen = []
    manifest = ingest(
        source, tmp_path / "made.zarr", chunk_bytes=chunk_bytes, progress=lambda *a: seen.append(a), **options
    )
    rows, labels = read_back(tmp_path / "made.zarr")
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(labels, y)
    assert rows.dtype == np.float32 and labels.dtype.kind == "i"
    assert json.loads(json.dumps(manifest)) == manifest
    assert (manifest["rows"], manifest["columns"], manifest["classes"]) == (257, 4, 4)
    assert manifest["class_rows"] == {str(c): int(np.sum(y == c)) for c in np.unique(y)}
    assert manifest["bytes"] > X.nbytes and seen[-1][0] == seen[-1][1] and seen == sorted(seen)
    named = name in ("csv", "csv.gz", "csv, label first", "tsv", "semicolons", "parquet")
    assert open_dataset(tmp_path / "made.zarr").feature_names == (NAMES if named else None)
    assert not list(tmp_path.glob("made.zarr.*"))


@pytest.mark.parametrize("name", FORMATS)
def test_source_and_destination_may_be_urls(tmp_path, table, memory, name):
    X, y = table
    source, options = write_all(tmp_path, X, y)[name]
    fsspec.filesystem("memory").put(str(source), f"/ingest/{source.name}", recursive=source.is_dir())
    if name == "npy":
        fsspec.filesystem("memory").put(str(tmp_path / "labels.npy"), "/ingest/labels.npy")
        options = {"label": "memory://ingest/labels.npy"}
    ingest(f"memory://ingest/{source.name}", memory, chunk_bytes=800, **options)
    rows, labels = read_back(memory)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(labels, y)


def test_bundled_and_synthetic_sets_keep_what_is_known_of_them(tmp_path):
    ingest("bundled:digits", tmp_path / "digits.zarr")
    digits = open_dataset(tmp_path / "digits.zarr")
    assert digits.image_shape == (8, 8) and len(digits.feature_names) == 64 and digits.dtype == np.float64
    ingest("synthetic:gaussian?n=1000&d=6", tmp_path / "g.zarr", image_shape=(2, 3))
    assert open_dataset(tmp_path / "g.zarr").image_shape == (2, 3)
    assert dict(zarr.open_group(tmp_path / "g.zarr", mode="r").attrs)["complete"] is True
    with pytest.raises(InputError, match=r"image_shape \(2, 2\) does not make 6 columns"):
        ingest("synthetic:gaussian?n=1000&d=6", tmp_path / "h.zarr", image_shape=(2, 2))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "bool", "float64", ">f4"])
@pytest.mark.parametrize("chunk_bytes", [64, 1 << 20])
def test_rows_keep_their_type(tmp_path, dtype, chunk_bytes):
    X = np.random.default_rng(0).integers(0, 200, (90, 5)).astype(dtype)
    X[:30] = 0  # chunks that are all fill value are stored too
    y = np.arange(90) % 3 == 0
    np.savez(tmp_path / "a.npz", X=X, y=y)
    ingest(tmp_path / "a.npz", tmp_path / "a.zarr", chunk_bytes=chunk_bytes)
    rows, labels = read_back(tmp_path / "a.zarr")
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(labels, y)
    assert rows.dtype == np.dtype(dtype).newbyteorder("=") and labels.dtype == bool
    array = zarr.open_group(tmp_path / "a.zarr", mode="r")["X"]
    assert array.fill_value == 0 or np.isnan(array.fill_value)
    ingest(tmp_path / "a.npz", tmp_path / "b.zarr", chunk_bytes=chunk_bytes, dtype="float32")
    assert read_back(tmp_path / "b.zarr")[0].dtype == np.float32


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
def test_labels_may_be_strings(tmp_path, suffix, table):
    X, _ = table
    y = np.asarray(["élan", "7", "b c", "a much longer name than the others"])[np.arange(257) % 4]
    source = tmp_path / f"a.{suffix}"
    if suffix == "csv":
        write_csv(source, X, y)
    elif suffix == "npz":
        np.savez(source, X=X, y=y)
    else:
        columns = {name: X[:, j] for j, name in enumerate(NAMES)} | {"y": y.tolist()}
        pq.write_table(pa.table(columns), source)
    ingest(source, tmp_path / "a.zarr", chunk_bytes=160)
    np.testing.assert_array_equal(read_back(tmp_path / "a.zarr")[1], y)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["1", "2", "1"], [1, 2, 1]),
        (["+1", "-1", "-1"], [1, -1, -1]),
        (["1.0", "2.0", "1"], [1, 2, 1]),
        (["9007199254740993", "1", "1"], [9007199254740993, 1, 1]),
        (["1", "two", "1"], ["1", "two", "1"]),
        ([" a", '"b, c"', "a "], ["a", "b, c", "a"]),
        (["y", "n", "y"], ["y", "n", "y"]),
        (["NA", "nan", "x"], ["NA", "nan", "x"]),
    ],
)
def test_labels_of_csv_are_integers_where_all_of_them_are(tmp_path, labels, expected):
    lines = [f"{i + 2.5},{i * 3 - 7},{label}" for i, label in enumerate(labels)]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    ingest(tmp_path / "a.csv", tmp_path / "a.zarr")
    assert read_back(tmp_path / "a.zarr")[1].tolist() == expected


@pytest.mark.parametrize(
    ("text", "names", "first_row"),
    [
        ("a,b,label\n1,2,x\n", ["a", "b"], [1, 2]),
        ("\ufeffa,b,c\n1,2,x\n", ["a", "b"], [1, 2]),
        ("0,1,label\n5,6,x\n", ["0", "1"], [5, 6]),  # what pandas writes for an array
        (",a,b,y\n0,5,6,x\n1,7,8,z\n", ["a", "b"], [5, 6]),  # and for its index: row numbers, no feature
        ("\n\na,b,label\r\n\r\n1,2,x\r\n", ["a", "b"], [1, 2]),
        ("1.5,2,x\n3,4,z\n", None, [1.5, 2]),
        ("a, b,label\n1, 2,x", ["a", "b"], [1, 2]),
        ("label,a,b\nx,1,2\n", ["a", "b"], [1, 2]),
    ],
)
def test_header_of_csv_is_recognised(tmp_path, text, names, first_row):
    (tmp_path / "a.csv").write_text(text, newline="")
    ingest(tmp_path / "a.csv", tmp_path / "a.zarr")
    assert open_dataset(tmp_path / "a.zarr").feature_names == names
    assert read_back(tmp_path / "a.zarr")[0][0].tolist() == first_row


CSV = "a,b,label\n1,2,x\n\n3,4,y\n"
BAD = {
    "word": (
        "a.csv",
        CSV + "5,six,x\n",
        r"Column 1 \('b'\) of .*a.csv has 'six' where a number belongs, in row 2 \(line 5\)",
    ),
    "word past row numbers": ("a.csv", ",a,b,y\n0,5,6,x\n1,7,oh,z\n", r"Column 2 \('b'\) .* 'oh' .* row 1 \(line 3\)"),
    "column of words": ("a.csv", "a,b,label\n1,red,x\n", r"Column 1 \('b'\) .* has 'red' where a number belongs"),
    "ragged": ("a.csv", CSV + "5,6\n", r"Row 2 \(line 5\) of .*a.csv has 2 cells where 3 belong"),
    "empty cell": ("a.csv", CSV + "5,,x\n", r"Feature 1 \('b'\) .* an empty cell or NaN in row 2 \(line 5\)"),
    "NaN": ("a.csv", CSV + "nan,4,x\n", r"Feature 0 \('a'\) .* an empty cell or NaN in row 2"),
    "infinite": ("a.csv", CSV + "5,1e39,x\n", r"inf, too large a number for float32 or infinite, in row 2"),
    "no label": ("a.csv", CSV + "5,6,\n", r"The label \(column 2\) in row 2 \(line 5\) of .* is empty"),
    "measurement": ("a.csv", "a,b\n1,2.5\n2,3.5\n", r"row 0 \(line 2\) of .* is 2.5, which is not a whole number"),
    "empty": ("a.csv", "", "is empty"),
    "names only": ("a.csv", "a,b,label\n", "no rows"),
    "one column": ("a.csv", "a\n1\n", "one column"),
    "not gzip": ("a.csv.gz", CSV, "cannot be decompressed"),
    "not UTF-8": ("a.csv", b"a,b,label\n1,2,caf\xe9\n", "UTF-?8"),
    "svm: words": ("a.libsvm", "1 1:2\n# note\n0 1:2 x:3\n", r"'x:3' in line 3 of .* is not 'index:value'"),
    "svm: no value": ("a.libsvm", "1 1:2\n0 1: 2:3\n", r"'1:' in line 2 of .* is not 'index:value'"),
    "svm: label": ("a.libsvm", "1 1:2\nred 1:2\n", r"label 'red' in line 2 .* is not a number"),
    "svm: zero": ("a.libsvm", "1 1:2\n0 0:2 3:1\n", r"'0:2' in line 2 .* indices start at 1"),
    "svm: order": ("a.libsvm", "1 1:2\n0 3:2 2:1\n", r"'2:1' in line 2 .* it follows 3"),
    "svm: NaN": ("a.libsvm", "1 1:2\n\n0 1:nan 2:3\n", r"Feature 0 .* NaN in row 1 \(line 3\)"),
    "svm: CSV": ("a.txt", "1,2,3\n4,5,6\n", "no 'index:value'"),
}


@pytest.mark.parametrize("overwrite", [False, True], ids=["new", "over a good one"])
@pytest.mark.parametrize("name", BAD)
def test_bad_text_is_explained_and_leaves_nothing(tmp_path, name, overwrite):
    file, text, message = BAD[name]
    (tmp_path / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    if overwrite:
        ingest("bundled:iris", tmp_path / "made.zarr")
    with pytest.raises(InputError, match=message):
        ingest(tmp_path / file, tmp_path / "made.zarr", overwrite=overwrite, chunk_bytes=1)
    assert sorted(p.name for p in tmp_path.iterdir()) == [file] + ["made.zarr"] * overwrite
    if overwrite:
        assert open_dataset(tmp_path / "made.zarr").n_rows == 150


def test_a_bad_cell_after_shards_were_written_leaves_nothing(tmp_path, table, memory):
    X, y = table
    X = np.tile(X, (2000, 1))
    X[-1, 2] = np.nan
    path = write_csv(tmp_path / "a.csv", X, np.tile(y, 2000))
    for destination in (tmp_path / "made.zarr", memory):
        blocks = []
        with pytest.raises(InputError, match=r"Feature 2 \('blue'\) .* NaN in row 513999 \(line 514001\)"):
            ingest(path, destination, chunk_bytes=10_000, progress=lambda *a: blocks.append(a))  # noqa: B023
        assert len(blocks) > 2
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]
    assert not fsspec.filesystem("memory").find("/ingest")


def test_bad_numpy_files_are_explained(tmp_path):
    X, y = np.ones((10, 3)), np.arange(10) % 2
    cases = {
        "one": ({"X": X, "y": y[:9]}, "10 rows and 9 labels"),
        "objects": ({"X": X, "y": y.astype(object)}, "pickled Python objects, which are never loaded"),
        "names": ({"x": X, "y": y}, r"no array 'X'; it holds x, y"),
        "words": ({"X": X.astype(str), "y": y}, "features must be numbers"),
        "halves": ({"X": X, "y": y / 2}, "not a whole number"),
        "cube": ({"X": X[None], "y": y[:1]}, r"must have shape \(n, d\)"),
        "hole": ({"X": np.where(np.arange(30).reshape(10, 3) == 16, np.nan, X), "y": y}, "Feature 1 .* NaN in row 5"),
        "none": ({"X": X[:0], "y": y[:0]}, "no rows"),
        "wide": ({"X": X.astype(np.longdouble), "y": y}, "float128|longdouble"),
    }
    for name, (arrays, message) in cases.items():
        np.savez(tmp_path / f"{name}.npz", **arrays)
        with pytest.raises(InputError, match=message):
            ingest(tmp_path / f"{name}.npz", tmp_path / "made.zarr")
    np.savez(tmp_path / "good.npz", X=X, y=y)
    damaged = bytearray((tmp_path / "good.npz").read_bytes())
    damaged[200] ^= 1
    (tmp_path / "bad.npz").write_bytes(damaged)
    with pytest.raises(InputError, match=r"Bad CRC-32|damaged or cut short"):
        ingest(tmp_path / "bad.npz", tmp_path / "made.zarr")
    (tmp_path / "worse.npz").write_bytes(damaged[:100])
    with pytest.raises(InputError, match=r"not a readable \.npz"):
        ingest(tmp_path / "worse.npz", tmp_path / "made.zarr")
    with zipfile.ZipFile(tmp_path / "short.npz", "w") as archive:
        archive.writestr("X.npy", zipfile.ZipFile(tmp_path / "good.npz").read("X.npy")[:-8])
        archive.writestr("y.npy", zipfile.ZipFile(tmp_path / "good.npz").read("y.npy"))
    with pytest.raises(InputError, match="ends early"):
        ingest(tmp_path / "short.npz", tmp_path / "made.zarr")
    with pytest.raises(InputError, match="labels"):
        ingest(tmp_path / "rows.npy", tmp_path / "made.zarr")
    assert not list(tmp_path.glob("made.zarr*"))


@pytest.mark.parametrize("band_rows", [1, 7, 1000])
def test_rows_stored_column_by_column_are_gathered_in_bands(tmp_path, monkeypatch, band_rows):
    """Fortran-ordered arrays in an .npz come out the same, however few rows fit a band."""
    X, y = np.random.default_rng(0).standard_normal((50, 6)), np.arange(50) % 3
    monkeypatch.setattr("mmpca_dist.datasets.sources.BAND_BYTES", band_rows * X.strides[0])
    monkeypatch.setattr("mmpca_dist.datasets.ingest.CHUNK_BYTES", 11 * X.strides[0])
    np.savez_compressed(tmp_path / "f.npz", X=np.asfortranarray(X), y=y)
    ingest(tmp_path / "f.npz", tmp_path / "f.zarr")
    dataset = open_dataset(tmp_path / "f.zarr")
    np.testing.assert_array_equal(dataset.read_rows(0, 50), X)


def test_a_truncated_gzip_is_explained(tmp_path, table):
    X, y = np.tile(table[0], (300, 1)), np.tile(table[1], 300)
    whole = write_csv(tmp_path / "a.csv.gz", X, y, opener=gzip.open).read_bytes()
    for name, data in {"cut": whole[: len(whole) // 2], "flipped": whole[:5000] + b"\0" * 9 + whole[5009:]}.items():
        (tmp_path / f"{name}.csv.gz").write_bytes(data)
        with pytest.raises(InputError, match=r"cannot be decompressed|is not readable|where a number|cells where"):
            ingest(tmp_path / f"{name}.csv.gz", tmp_path / "made.zarr")
    assert not list(tmp_path.glob("made.zarr*"))


def test_too_many_labels_are_measurements(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "MAX_CLASSES", 50)
    np.savez(tmp_path / "a.npz", X=np.ones((100, 2)), y=np.arange(100))
    with pytest.raises(InputError, match=r"100 different labels.*measurements, not classes"):
        ingest(tmp_path / "a.npz", tmp_path / "a.zarr")


def test_options_that_cannot_be_honoured_are_refused(tmp_path, table):
    files = write_all(tmp_path, *table)
    csv, svm = files["csv"][0], files["libsvm"][0]
    for source, options, message in (
        (tmp_path / "no.csv", {}, "does not exist"),
        (tmp_path / "no.npz", {}, "does not exist"),
        (csv, {"label": "lable"}, "no label column 'lable'.*Did you mean 'label'"),
        (csv, {"label": 9}, "no column 9"),
        (csv, {"features": "red"}, "cannot be honoured"),
        (svm, {"label": "y"}, "cannot be honoured"),
        (csv, {"dtype": "int8"}, "'float32' or 'float64'"),
        (csv, {"chunk_bytes": 0}, "must be positive"),
    ):
        with pytest.raises(InputError, match=message):
            ingest(source, tmp_path / "made.zarr", **options)
    assert not list(tmp_path.glob("made.zarr*"))


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        ("a,b,kind\n1,2,0\n3,4,1\n", {}, "column 'kind', the last one"),
        ("a,label,b\n1,0,2\n3,1,4\n", {}, "column 'label'"),
        ("1,2,0\n3,4,1\n", {}, "column 2, the last one"),
        ("a,b,kind\n1,2,0\n3,4,1\n", {"label": "b"}, None),
    ],
)
def test_a_label_column_that_was_guessed_is_told(text, options, told, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    notes = []
    manifest = ingest(tmp_path / "a.csv", tmp_path / "a.zarr", note=notes.append, **options)
    if told is None:
        assert notes == [] and manifest["labels"] == "column 'b'" and not manifest["labels_guessed"]
    else:
        assert notes == [
            f"Labels are taken from {told}, of {tmp_path}/a.csv, since none was named. Name another with --label."
        ]
        assert manifest["labels"] == told and manifest["labels_guessed"]


def test_a_label_column_of_parquet_that_was_guessed_is_told(tmp_path, table):
    X, y = table
    pq.write_table(pa.table({"a": X[:, 0], "y": y}), tmp_path / "a.parquet")
    notes = []
    ingest(tmp_path / "a.parquet", tmp_path / "a.zarr", note=notes.append)
    assert len(notes) == 1 and "column 'y'" in notes[0]
    ingest(tmp_path / "a.parquet", tmp_path / "b.zarr", note=notes.append, label="y")
    ingest("bundled:iris", tmp_path / "c.zarr", note=notes.append)
    assert len(notes) == 1


def test_what_is_at_the_destination_is_respected(tmp_path, table, memory):
    X, y = table
    np.savez(tmp_path / "a.npz", X=X, y=y)
    for destination in (str(tmp_path / "made.zarr"), memory):
        ingest("bundled:iris", destination, chunk_bytes=64)
        with pytest.raises(OutputError, match=r"Zarr group at .*made.zarr already.* --overwrite"):
            ingest(tmp_path / "a.npz", destination)
        assert open_dataset(destination).n_rows == 150
        ingest(tmp_path / "a.npz", destination, overwrite=True)
        np.testing.assert_array_equal(read_back(destination)[0], X)
    with pytest.raises(InputError, match="onto itself"):
        ingest(tmp_path / "made.zarr", tmp_path / "made.zarr", overwrite=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("keep me")
    with pytest.raises(OutputError, match=r"something at .*mine already: choose another destination\.$"):
        ingest("bundled:iris", tmp_path / "mine")
    with pytest.raises(OutputError, match="not a Zarr group, so it is not overwritten"):
        ingest("bundled:iris", tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine" / "letter.txt").read_text() == "keep me"
    assert not list(tmp_path.glob("*.partial")) and not list(tmp_path.glob("*.replaced"))


def test_a_group_is_not_there_before_it_is_complete(tmp_path, memory):
    def look(done, total):
        for destination in (tmp_path / "made.zarr", memory):
            with pytest.raises(InputError, match=r"does not exist|no Zarr group"):
                open_dataset(destination)

    for destination in (tmp_path / "made.zarr", memory):
        fs = fsspec.filesystem("memory")
        if fs.exists("/ingest"):
            fs.rm("/ingest", recursive=True)
        ingest("synthetic:gaussian?n=5000&d=8", destination, chunk_bytes=1000, progress=look)
        if destination != memory:
            open_dataset(destination)
            (tmp_path / "made.zarr").rename(tmp_path / "kept.zarr")
    assert open_dataset(memory).n_rows == 5000
    # What a killed run left in an object store is no group, and may be written over on purpose.
    fs.rm("/ingest/made.zarr/zarr.json")
    with pytest.raises(OutputError):
        ingest("bundled:iris", memory)
    ingest("bundled:iris", memory, overwrite=True)
    assert open_dataset(memory).n_rows == 150


def test_rows_that_do_not_fit_the_disk_are_refused(tmp_path):
    with pytest.raises(PlanError, match=r"GiB and\s+the disk of .* GiB free"):
        ingest("synthetic:gaussian?n=1e12&d=1000", tmp_path / "made.zarr")
    assert not list(tmp_path.iterdir())


MEASURE = """
import sys, tracemalloc
import pyarrow as pa, pyarrow.csv, sklearn.datasets
from mmpca_dist.datasets.ingest import ingest
ingest("bundled:iris", sys.argv[2] + ".warm", chunk_bytes=1 << 16)
tracemalloc.start()
ingest(sys.argv[1], sys.argv[2], chunk_bytes=1 << 16, sparse={"dense": False}.get(sys.argv[3]))
print(tracemalloc.get_traced_memory()[1] >> 20, pa.default_memory_pool().max_memory() >> 20)
"""


@pytest.mark.parametrize("kind", ["csv", "npz", "compressed npz", "sparse libsvm", "dense libsvm", "sparse npz"])
def test_memory_does_not_grow_with_the_source(tmp_path, kind):
    """Rows of 115 MiB pass through shards of half a MiB and blocks of at most 8 MiB, a few of which are held."""
    n, d = (15_000, 2000) if kind.endswith("libsvm") else (150_000, 200)
    source = tmp_path / f"a.{kind.split()[-1]}"
    if kind == "csv":
        line = ",".join(["0.5"] * d)
        source.write_text("".join(f"{line},{i % 2}\n" for i in range(n)))
    elif kind.endswith("libsvm"):
        source.write_text("".join(f"{i % 2} 1:0.5 {d}:0.5\n" for i in range(n)))
    elif kind == "sparse npz":
        parts = {
            "data": np.full(2 * n * 50, 0.5),
            "indices": np.tile([*range(99), 199], n),
            "indptr": 100 * np.arange(n + 1),
        }
        np.savez_compressed(source, **parts, shape=[n, d], y=np.arange(n) % 2)
    else:
        save = np.savez if kind == "npz" else np.savez_compressed
        save(source, X=np.full((n, d), 0.5, np.float32), y=np.arange(n) % 2)
    found = subprocess.run(
        [sys.executable, "-c", MEASURE, str(source), str(tmp_path / "a.zarr"), kind.split()[0]],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    traced, arrow = map(int, found.stdout.split())  # MiB
    assert traced + arrow < 40, (traced, arrow)
    dataset = open_dataset(tmp_path / "a.zarr")
    assert dataset.n_rows == n and dataset.sparse == kind.startswith("sparse")
    assert np.all(dataset.read_rows(n - 10, n)[:, [0, -1]] == 0.5)


def test_messages_are_sentences(tmp_path):
    for name, (file, text, _) in BAD.items():
        (tmp_path / file).write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(InputError) as error:
            ingest(tmp_path / file, tmp_path / "made.zarr")
        message = str(error.value)
        assert re.fullmatch(r"[A-Z/'].*\.", message, re.DOTALL), (name, message)
        assert str(tmp_path) in message, (name, message)
