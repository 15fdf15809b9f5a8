"""Ingest: what is read back equals the source, for every format, and a bad source leaves nothing behind."""

import json
import subprocess
import sys
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from helpers import each
from helpers.ingested import FORMATS, NAMES, X, Y, ingest, write_all
from helpers.tables import read_back

from mmpca_dist import open_dataset
from mmpca_dist.errors import InputError, OutputError, PlanError
from mmpca_dist.ingest.csv_syntax import is_header
from mmpca_dist.stores import storage
from mmpca_dist.tables.compose import open_rows


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("chunk_bytes", [160, 1 << 20])
def test_every_format_reads_back_as_its_source(tmp_path, name, chunk_bytes):
    source, options = write_all(tmp_path)[name]
    seen = []
    manifest = ingest(
        source, tmp_path / "made.zarr", chunk_bytes=chunk_bytes, progress=lambda *a: seen.append(a), **options
    )
    rows, labels = read_back(tmp_path / "made.zarr")
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(labels, Y)
    assert rows.dtype == np.float32 and labels.dtype.kind == "i"
    assert json.loads(json.dumps(manifest)) == manifest
    assert (manifest["rows"], manifest["columns"], manifest["classes"]) == (257, 4, 4)
    assert manifest["class_rows"] == {str(c): int(np.sum(c == Y)) for c in np.unique(Y)}
    assert manifest["bytes"] > X.nbytes and seen[-1][0] == seen[-1][1] and seen == sorted(seen)
    named = name in ("csv", "csv.gz", "csv, label first", "tsv", "semicolons", "parquet")
    assert open_dataset(tmp_path / "made.zarr").feature_names == (NAMES if named else None)
    assert not list(tmp_path.glob("made.zarr.*"))


@pytest.mark.parametrize(("name", "drop", "kept"), [
    ("csv", ["red"], [1, 2, 3]),
    ("csv", ["infra red", "1"], [0, 2]),
    ("csv, label first", ["green", "-1"], [0, 2]),
    ("csv.gz", ["blue"], [0, 1, 3]),
    ("csv without names", ["0", "2"], [1, 3]),
    ("parquet", ["infra red", "red"], [1, 2]),
])  # fmt: skip
def test_columns_are_left_out(tmp_path, name, drop, kept):
    source, options = write_all(tmp_path)[name]
    manifest = ingest(source, tmp_path / "made.zarr", drop=drop, **options)
    rows, labels = read_back(tmp_path / "made.zarr")
    np.testing.assert_array_equal(rows, X[:, kept])
    np.testing.assert_array_equal(labels, Y)
    assert manifest["columns"] == len(kept)
    names = None if name == "csv without names" else [NAMES[j] for j in kept]
    assert open_dataset(tmp_path / "made.zarr").feature_names == names


def test_what_is_left_out_of_text_may_be_words_and_is_no_label(tmp_path):
    """The label nobody named is the last column of those that are left; columns of one name go together."""
    (tmp_path / "a.csv").write_text("id,a,kind,id\nu,1,x,7\nv,2,y,8\n")
    manifest = ingest(tmp_path / "a.csv", tmp_path / "made.zarr", drop=["id"])
    assert manifest["labels"] == "column 'kind'" and manifest["class_rows"] == {"x": 1, "y": 1}
    assert open_dataset(tmp_path / "made.zarr").feature_names == ["a"]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.e2e
def test_source_and_destination_may_be_urls(tmp_path, memory, name):
    source, options = write_all(tmp_path)[name]
    fsspec.filesystem("memory").put(str(source), f"/ingest/{source.name}", recursive=source.is_dir())
    if name == "npy":
        fsspec.filesystem("memory").put(str(tmp_path / "labels.npy"), "/ingest/labels.npy")
        options = {"label": "memory://ingest/labels.npy"}
    ingest(f"memory://ingest/{source.name}", memory, chunk_bytes=800, **options)
    rows, labels = read_back(memory)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(labels, Y)


def test_bundled_and_synthetic_sets_keep_what_is_known_of_them(tmp_path):
    ingest("bundled:digits", tmp_path / "digits.zarr")
    digits = open_dataset(tmp_path / "digits.zarr")
    assert digits.facts.image_shape == (8, 8) and len(digits.feature_names) == 64 and digits.dtype == np.float64
    ingest("synthetic:gaussian?n=1000&d=6", tmp_path / "g.zarr", image_shape=(2, 3))
    assert open_dataset(tmp_path / "g.zarr").facts.image_shape == (2, 3)
    assert dict(zarr.open_group(tmp_path / "g.zarr", mode="r").attrs)["complete"] is True
    with pytest.raises(InputError, match=r"image_shape \(2, 2\) does not make 6 columns"):
        ingest("synthetic:gaussian?n=1000&d=6", tmp_path / "h.zarr", image_shape=(2, 2))


@pytest.mark.parametrize("chunk_bytes", [64, 1 << 20])
def test_rows_keep_their_type(tmp_path, chunk_bytes):
    y = np.arange(90) % 3 == 0
    for dtype, folder in each(["uint8", "int16", "int64", "bool", "float64", ">f4"], tmp_path):
        X = np.random.default_rng(0).integers(0, 200, (90, 5)).astype(dtype)
        X[:30] = 0  # chunks that are all fill value are stored too
        np.savez(folder / "a.npz", X=np.asfortranarray(X) if dtype == "float64" else X, y=y)
        ingest(folder / "a.npz", folder / "a.zarr", chunk_bytes=chunk_bytes)
        rows, labels = read_back(folder / "a.zarr")
        np.testing.assert_array_equal(rows, X)
        np.testing.assert_array_equal(labels, y)
        assert rows.dtype == np.dtype(dtype).newbyteorder("=") and labels.dtype == bool
        array = zarr.open_group(folder / "a.zarr", mode="r")["X"]
        assert array.fill_value == 0 or np.isnan(array.fill_value)
    ingest(folder / "a.npz", folder / "b.zarr", chunk_bytes=chunk_bytes, dtype="float32")
    assert read_back(folder / "b.zarr")[0].dtype == np.float32


LABELS = [
    (["1", "2", "1"], [1, 2, 1]),
    (["+1", "-1", "-1"], [1, -1, -1]),
    (["1.0", "2.0", "1"], [1, 2, 1]),
    (["9007199254740993", "1", "1"], [9007199254740993, 1, 1]),
    (["1", "two", "1"], ["1", "two", "1"]),
    ([" a", '"b, c"', "a "], ["a", "b, c", "a"]),
    (["y", "n", "y"], ["y", "n", "y"]),
    (["01", "1", "1"], ["01", "1", "1"]),  # numbers that are written otherwise are other labels
    (["1_0", "10", "10"], ["1_0", "10", "10"]),
    (["\u0661", "1", "1"], ["\u0661", "1", "1"]),
    (["9007199254740993", "9007199254740992.0", "1"], [9007199254740993, 9007199254740992, 1]),
    (["01", "02", "01"], [1, 2, 1]),
    (["1", "1.0", "+1", "2"], [1, 1, 1, 2]),  # but for a sign and a point
]


def test_labels_of_csv_are_integers_where_all_of_them_are(tmp_path):
    for labels, expected in LABELS:
        lines = [f"{i + 2.5},{i * 3 - 7},{label}" for i, label in enumerate(labels)]
        (tmp_path / "a.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        ingest(tmp_path / "a.csv", tmp_path / "a.zarr", overwrite=True)
        assert read_back(tmp_path / "a.zarr")[1].tolist() == expected


@pytest.mark.parametrize(("text", "names", "first_row"), [
    ("a,b,label\n1,2,x\n", ["a", "b"], [1, 2]),
    ("\ufeffa,b,c\n1,2,x\n", ["a", "b"], [1, 2]),
    ("0,1,label\n5,6,x\n", ["0", "1"], [5, 6]),  # what pandas writes for an array
    (",a,b,y\n0,5,6,x\n1,7,8,z\n", ["a", "b"], [5, 6]),  # and for its index: row numbers, no feature
    ("\n\na,b,label\r\n\r\n1,2,x\r\n", ["a", "b"], [1, 2]),
    ("1.5,2,x\n3,4,z\n", None, [1.5, 2]),
    ("a, b,label\n1, 2,x", ["a", "b"], [1, 2]),
    ('"a, cm";"b, cm";label\n5;6;x\n', ["a, cm", "b, cm"], [5, 6]),
    ("a;1,b;2;3,label\n5,6,x\n", ["a;1", "b;2;3"], [5, 6]),
    ("400,410.5,label\n5,6,x\n", ["400", "410.5"], [5, 6]),
    ("id,2019,kind\n5,6,x\n", ["id", "2019"], [5, 6]),
    ("2019,2020,2021,2022,kind\n5,6,4,9,x\n", ["2019", "2020", "2021", "2022"], [5, 6, 4, 9]),
    ("9,8,7,5,4,3,2,1,kind\n5,6,4,9,1,1,1,1,x\n", list("98754321"), [5, 6, 4, 9, 1, 1, 1, 1]),  # wave numbers
    ("2019,2020,2021,kind\n5,6,4,x\n", None, [2019, 2020, 2021]),
    ("1,2,3,4,x\n5,6,7,8,z\n", None, [1, 2, 3, 4]),  # every line is in sequence
    ("9,8,7,5,4,3,1,1,x\n5,6,4,9,1,1,1,1,z\n", None, [9, 8, 7, 5, 4, 3, 1, 1]),
    ("label,a,b\nx,1,2\n", ["a", "b"], [1, 2]),
])  # fmt: skip
@pytest.mark.e2e
def test_header_of_csv_is_recognised(tmp_path, text, names, first_row):
    (tmp_path / "a.csv").write_text(text, newline="")
    ingest(tmp_path / "a.csv", tmp_path / "a.zarr")
    assert open_dataset(tmp_path / "a.zarr").feature_names == names
    np.testing.assert_array_equal(read_back(tmp_path / "a.zarr")[0][0], first_row)


def test_names_above_numbers_are_words_that_do_not_stand_for_gaps():
    assert is_header(["2019", "price", "kind"], [["3.5", "4.5", "x"]], [])[0]
    for first in (["2.5", "NA", "kind"], ["2.5", "?", "kind"], ["2.5", "", "kind"], ["2.5", "1", "kind"]):
        assert not is_header(first, [["3.5", "4.5", "x"]], [])[0]
    assert is_header(["2.5", "1", "kind"], [["3.5", "4.5", "x"]], ["kind"])[0]
    for count, names in (8, True), (7, False):
        assert is_header([str(400 + 2 * i) for i in range(count)], [["0.5"] * count], [])[0] == names


@pytest.mark.parametrize(("text", "options", "told"), [
    ("a,b,kind\n1,2,0\n3,4,1\n", {}, "column 'kind', the last one"),
    ("a,label,b\n1,0,2\n3,1,4\n", {}, "column 'label'"),
    ("1,2,0\n3,4,1\n", {}, "column 2, the last one"),
    ("a,b,kind\n1,2,0\n3,4,1\n", {"label": "b"}, None),
])  # fmt: skip
def test_a_label_column_that_was_guessed_is_told(text, options, told, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    notes = []
    manifest = ingest(tmp_path / "a.csv", tmp_path / "a.zarr", note=notes.append, **options)
    if told is None:
        assert notes == [] and manifest["labels"] == "column 'b'" and not manifest["labels_guessed"]
    else:
        place = f"{told}{',' * (',' in told)} of {tmp_path}/a.csv"
        assert notes[-1] == f"Labels are taken from {place}, since none was named. Name another with --label."
        line = f"The first line of {tmp_path}/a.csv is read as a row. If it holds names, begin them with letters"
        unnamed = [f"{line} (x400 for 400)."]
        assert notes[:-1] == (unnamed if text[0].isdigit() else [])
        assert manifest["labels"] == told and manifest["labels_guessed"]


def test_a_label_column_of_parquet_that_was_guessed_is_told(tmp_path):
    pq.write_table(pa.table({"a": X[:, 0], "y": Y}), tmp_path / "a.parquet")
    notes = []
    for number, (source, label) in enumerate((("a.parquet", None), ("a.parquet", "y"), ("bundled:iris", None))):
        source = source if ":" in source else tmp_path / source
        ingest(source, tmp_path / f"{number}.zarr", note=notes.append, label=label)
    assert len(notes) == 1 and "column 'y'" in notes[0]


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
    with pytest.raises(OutputError, match=r"no ingest has completed.* --overwrite-any"):
        ingest("bundled:iris", memory, overwrite=True)
    ingest("bundled:iris", memory, overwrite="any")
    assert open_dataset(memory).n_rows == 150


def test_rows_that_do_not_fit_the_disk_are_refused(tmp_path):
    with pytest.raises(PlanError, match=r"GiB and\s+the disk of .* GiB free"):
        ingest("synthetic:gaussian?n=1e11&d=1000", tmp_path / "made.zarr")
    assert not list(tmp_path.iterdir())


MEASURE = """
import sys, tracemalloc
import pyarrow as pa, pyarrow.csv, sklearn.datasets
from helpers.ingested import ingest
ingest("bundled:iris", sys.argv[2] + ".warm", chunk_bytes=1 << 16)
tracemalloc.start()
ingest(sys.argv[1], sys.argv[2], chunk_bytes=1 << 16, sparse={"dense": False}.get(sys.argv[3]))
print(tracemalloc.get_traced_memory()[1] >> 20, pa.default_memory_pool().max_memory() >> 20)
"""


@pytest.mark.parametrize(
    "kind", ["csv", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("sparse libsvm", "dense libsvm"))]
)
@pytest.mark.e2e
def test_memory_does_not_grow_with_the_source(tmp_path, kind):
    """Rows of 115 MiB pass through shards of half a MiB and blocks of at most 8 MiB, a few of which are held."""
    n, d = (15_000, 2000) if kind.endswith("libsvm") else (150_000, 200)
    source = tmp_path / f"a.{kind.split()[-1]}"
    if kind == "csv":
        line = ",".join(["0.5"] * d)
        source.write_text("".join(f"{line},{i % 2}\n" for i in range(n)))
    else:
        source.write_text("".join(f"{i % 2} 1:0.5 {d}:0.5\n" for i in range(n)))
    found = subprocess.run(
        [sys.executable, "-c", MEASURE, str(source), str(tmp_path / "a.zarr"), kind.split()[0]],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1],
    )  # fmt: skip
    traced, arrow = map(int, found.stdout.split())  # MiB
    assert traced + arrow < 40, (traced, arrow)
    dataset = open_dataset(tmp_path / "a.zarr")
    assert dataset.n_rows == n and dataset.sparse == kind.startswith("sparse")
    assert np.all(dataset.read_rows(n - 10, n)[:, [0, -1]] == 0.5)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("options", [{}, {"keep": ["infra red"]}, {"drop": ["0"]}])
def test_csv_without_labels(named, options, tmp_path):
    """All columns are features, be the last one of whole numbers: the rows are to be projected."""
    cells = np.round(X * 4) / 4
    cells[:, 3] = np.arange(len(X)) % 5
    if not named and "keep" in options:
        options = {"keep": ["3"]}
    lines = [",".join(f"{cell:g}" for cell in row) for row in cells]
    (tmp_path / "a.csv").write_text("\n".join([",".join(NAMES)] * named + lines) + "\n")
    manifest = ingest(tmp_path / "a.csv", tmp_path / "a.zarr", unlabelled=True, **options)
    assert manifest["classes"] == 0 and manifest["class_rows"] == {} and manifest["labels"] is None
    made = open_rows(tmp_path / "a.zarr")
    assert made.label is None and made.n_rows == len(X)
    features = [j for j in range(4) if not (j == 3 and "keep" in options) and not (j == 0 and "drop" in options)]
    np.testing.assert_array_equal(made.read(0, len(X)), cells[:, features])
    assert made.feature_names == ([NAMES[j] for j in features] if named else None)


def test_what_needs_no_ingest_without_labels_is_refused(tmp_path):
    files = write_all(tmp_path)
    for name, options, message in (
        ("parquet", {}, "--unlabelled is for CSV, which .*a.parquet is not: .* are projected as they are"),
        ("libsvm", {}, "--unlabelled is for CSV"),
        ("csv", {"label": "label"}, "--label names 'label', and --unlabelled says that there are no labels"),
    ):
        with pytest.raises(InputError, match=message):
            ingest(files[name][0], tmp_path / "made.zarr", unlabelled=True, **options)
    with pytest.raises(InputError, match=r"mmpca ingest .*a\.csv DEST\.zarr \(with --unlabelled, if it is CSV without"):
        open_rows(files["csv"][0])
    assert not list(tmp_path.glob("made.zarr*"))


def test_typed_parquet_has_names_without_spaces_around_and_each_once(folder):
    storage.write_bytes(f"{folder}/t.csv", b"a,y\n1, u\n2,u\n3,v \n")
    ingest(f"{folder}/t.csv", f"{folder}/new/t.parquet")
    assert open_dataset(f"{folder}/new/t.parquet").read_labels(0, 3).tolist() == ["u", "u", "v"]
    storage.write_bytes(f"{folder}/twice.csv", b"a,a,y\n1,2,u\n2,3,v\n")
    ingest(f"{folder}/twice.csv", f"{folder}/new/twice.parquet")
    assert open_dataset(f"{folder}/new/twice.parquet").feature_names == ["a", "a.1"]
