"""Opening or reading a bad data set gives one sentence: what was found, where, and what to do."""

from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers import each
from helpers.servers import server
from helpers.tables import labelled, write_parquet, write_zarr
from scipy.sparse import eye_array, save_npz

from mmpca_dist import class_moments, open_dataset
from mmpca_dist.errors import InputError, MmpcaError
from mmpca_dist.passes.census import take_census
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.statistics.from_rows import take_moments
from mmpca_dist.tables.labels import encode, normalize_labels
from mmpca_dist.tables.spans import make_spans

X, Y = labelled(60, 3, 2, seed=1)


def zarr_group(folder, rows=X, labels=Y):
    return write_zarr(folder / "a.zarr", rows, labels, 20)


def parquet(folder, name="a.parquet", **columns):
    columns = columns or {"f0": X[:, 0], "f1": X[:, 1], "label": Y}
    pq.write_table(pa.table(columns), folder / name, row_group_size=20)
    return str(folder / name)


def raw(folder, name, data):
    (folder / name).write_bytes(data)
    return str(folder / name)


def npz(folder, **arrays):
    np.savez(folder / "a.npz", **arrays)
    return str(folder / "a.npz")


def changed(uri, file, change):
    """Change the bytes of a file of a table, or of the table where it is one."""
    path = Path(uri, file)
    path.write_bytes(change(path.read_bytes()))
    return uri


def without(folder, chunk, **options):
    uri = zarr_group(folder, **options)
    (folder / "a.zarr" / chunk).unlink()
    return uri


def lists(values=X):
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel(), from_pandas=True), 3)


def two_files(folder, first, second):
    for name, columns in (("a", first), ("b", second)):
        parquet(folder, f"{name}.parquet", **columns, label=Y)
    return str(folder)


def with_gap(row, column):
    rows = X.copy()
    rows[row, column] = np.nan
    return rows


def empty_folder(folder):
    (folder / "part").mkdir()
    parquet(folder / "part", "a.parquet")
    (folder / "part" / "a.parquet").unlink()
    return str(folder / "part")


OPENING = {
    # name: (makes the address, arguments, what the message must say)
    "nothing there": (lambda f: str(f / "no.zarr"), {}, ["no.zarr", "no Zarr group|does not exist"]),
    "no Parquet there": (lambda f: str(f / "no.parquet"), {}, ["no.parquet", "does not exist"]),
    "no npz there": (lambda f: str(f / "no.npz"), {}, ["no.npz", "does not exist"]),
    "no npy there": (lambda f: str(f / "no.npy"), {"label": "y.npy"}, ["no.npy", "does not exist"]),
    "not a group": (empty_folder, {}, ["part", "no Zarr group"]),
    "unknown protocol": (lambda f: "s33://bucket/a.zarr", {}, ["unknown protocol 's33'", "Did you mean 's3'"]),
    "text": (lambda f: "a.csv", {}, ["a.csv is text", "mmpca ingest a.csv"]),
    "labels of npy": (lambda f: "a.npy", {}, ["rows only", "dataset.label"]),
    "missing_chunks": (lambda f: "a.zarr", {"missing_chunks": "skip"}, ["'skip'", "'refuse' or 'fill'"]),
    "no array": (zarr_group, {"features": "XX"}, [
        "no array 'XX' .dataset.features.", "holds X, y", "Did you mean 'X'"]),
    "no labels": (lambda f: zarr_group(f, labels=None), {}, ["no array 'y' .dataset.label.", "holds X"]),
    "flat rows": (lambda f: zarr_group(f, X[:, 0]), {}, [r"shape \(60,\)", r"must have shape \(n, d\)"]),
    "square labels": (lambda f: zarr_group(f, labels=X), {}, [r"'y' of .* shape \(60, 3\)", r"must have shape \(n,\)"]),
    "label counts": (lambda f: zarr_group(f, labels=Y[:59]), {}, ["60 rows and 59 labels", "one label a row"]),
    "complex rows": (lambda f: zarr_group(f, X + 1j), {}, ["complex128", "must be numbers"]),
    "missing chunk of rows": (lambda f: without(f, "X/c/1/0"), {}, [
        "lacks 1 of the chunks of 'X'", r"\(1, 0\): rows 20 to 39", "missing_chunks: fill"]),
    "Parquet without label": (lambda f: parquet(f, f0=X[:, 0], lable=Y), {}, [
        "no column 'label' or 'y' .dataset.label.", "Did you mean 'lable'"]),
    "Parquet without features": (lambda f: parquet(f, label=Y), {}, ["no columns other than the label"]),
    "empty lists": (lambda f: parquet(f, rows=pa.array([[]] * 60, pa.list_(pa.float64(), 0)), label=Y), {}, [
        "lists in column 'rows'", "have no values"]),
    "unknown feature column": (parquet, {"features": "f00"}, ["no feature column 'f00'", "Did you mean"]),
    "text column": (lambda f: parquet(f, f0=X[:, 0], city=["x"] * 60, label=Y), {}, [
        "Column 'city'", "string", "Leave out"]),
    "list column and others": (lambda f: parquet(f, rows=lists(), extra=X[:, 0], label=Y), {}, [
        "list column 'rows' and others", "dataset.features"]),
    "columns that differ": (lambda f: two_files(f, {"f0": Y, "f1": X[:, 1]}, {"f0": Y}), {}, [
        "Column 'f1' of .*b.parquet lacks it", "dataset.drop=.f1"]),
    "Parquet cut short": (lambda f: changed(parquet(f), "", lambda b: b[:-50]), {}, [
        "a.parquet is not a readable", "cut short", "again"]),
    "not Parquet": (lambda f: raw(f, "a.parquet", b"hello"), {}, ["a.parquet is not a readable Parquet"]),
    "npz without X": (lambda f: npz(f, x=X, y=Y), {}, ["no array 'X'", "holds x, y"]),
    "npz of text": (lambda f: npz(f, X=X.astype(str), y=Y), {}, ["type <U", "must be numbers"]),
    "npy that is none": (lambda f: raw(f, "a.npy", b"hello"), {"label": "y.npy"}, ["a.npy is not a readable .npy"]),
    "unknown bundle": (lambda f: "bundled:digit", {}, ["no bundled data set 'digit'", "Did you mean 'digits'"]),
    "class of a bundle": (lambda f: "bundled:digits?classes=0,11", {}, ["names '11'", "digits are '0', '1',"]),
    "misspelt class": (lambda f: "bundled:iris?classes=setoza", {}, ["names 'setoza'", "Did you mean 'setosa'"]),
    "classes of none": (lambda f: "bundled:iris?classes=,", {}, ["names no class"]),
    "option of a bundle": (lambda f: "bundled:iris?class=setosa", {}, ["option 'class'", "Did you mean 'classes'"]),
    "negative noise": (lambda f: "bundled:iris?noise=-1", {}, ["noise=-1.0", "must be finite and not negative"]),
    "noise that is none": (lambda f: "bundled:iris?noise=nan", {}, ["noise=nan", "must be finite"]),
    "seed of noise": (lambda f: "bundled:iris?noise=1&seed=-1", {}, ["seed=-1", "must not be negative"]),
    "unknown synthetic kind": (lambda f: "synthetic:gauss", {}, ["Unknown synthetic data set 'gauss'"]),
    "unknown option": (lambda f: "synthetic:gaussian?m=5", {}, ["Unknown option 'm'"]),
    "option of the wrong type": (lambda f: "synthetic:gaussian?n=many", {}, ["n=many", "must be a whole number"]),
    "no rows": (lambda f: "synthetic:gaussian?n=1", {}, ["at least n=2"]),
    "axis": (lambda f: "synthetic:gaussian?d=3&axis=3", {}, ["columns 0 to 2"]),
    "imbalance": (lambda f: "synthetic:gaussian?imbalance=1", {}, ["between 0 and 1"]),
    "integer rows": (lambda f: "synthetic:gaussian?dtype=int32", {}, ["float32 or float64"]),
    "assign": (lambda f: "synthetic:clusters?assign=row", {}, ["'cluster' or 'random'"]),
    "fewer clusters than classes": (lambda f: "synthetic:clusters?k=2&classes=3", {}, ["fewer clusters"]),
}  # fmt: skip


def npy(folder, labels, rows=X):
    np.save(folder / "X.npy", rows)
    np.save(folder / "y.npy", labels)
    return str(folder / "X.npy")


NPY = {
    # labels, what the message must say
    "one label for all": (np.asarray(3), [r"y.npy have shape \(\)", r"shape \(n,\)"]),
    "several labels a row": (np.zeros((60, 2)), [r"y.npy have shape \(60, 2\)"]),
    "fewer labels": (Y[:59], ["60 rows and 59 labels"]),
    "pickled labels": (np.asarray(["a", None] * 30, object), ["y.npy holds pickled Python objects", "never loaded"]),
}


def test_labels_in_npy_files(tmp_path):
    for labels, patterns in NPY.values():
        uri = npy(tmp_path, labels)
        with pytest.raises(InputError) as caught:
            open_dataset(uri, label=str(tmp_path / "y.npy"))
        for pattern in patterns:
            assert caught.match(pattern)


def test_npy_that_cannot_be_read_by_ranges(tmp_path):
    """Stored column by column, cut short, or behind a server that sends the whole file every time."""
    npy(tmp_path, Y, np.asfortranarray(X))
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path), "/tests-ranges", recursive=True)
    label = "memory://tests-ranges/y.npy"
    with pytest.raises(InputError, match=r"column by column.*Copy it to a local disk"):
        open_dataset("memory://tests-ranges/X.npy", label=label)
    np.testing.assert_array_equal(
        open_dataset(tmp_path / "X.npy", label=str(tmp_path / "y.npy")).read_rows(3, 9), X[3:9]
    )
    whole = Path(npy(tmp_path, Y)).read_bytes()
    memory.pipe_file("/tests-ranges/X.npy", whole)
    opened = open_dataset("memory://tests-ranges/X.npy", label=label)
    memory.pipe_file("/tests-ranges/X.npy", whole[:-8])
    with pytest.raises(InputError, match=r"X.npy gave 472 bytes where rows 40 to 59 have 480.* cut short"):
        opened.read_rows(40, 60)
    with pytest.raises(InputError, match=r"X.npy declares the shape \(60, 3\), which takes 1568 bytes, and has 1560"):
        open_dataset("memory://tests-ranges/X.npy", label=label)
    with pytest.raises(InputError, match="read by ranges"):
        open_dataset(f"http://127.0.0.1:{server(200, whole)}/X.npy", label=label).read_rows(40, 60)


def test_what_a_server_refuses(monkeypatch):
    """File systems say of it that it does not exist."""
    monkeypatch.setenv("MMPCA_STORAGE_PATIENCE", "0.1")
    for name in ("a.zarr", "a.parquet", "a.npz", "a.npy", "a"):
        for port, words in ((server(403), "permission denied"), (9, "cannot be reached")):
            with pytest.raises(InputError, match=f"127.0.0.1:{port}/{name}: .*{words}"):
                open_dataset(f"http://127.0.0.1:{port}/{name}", label="y.npy" if name == "a.npy" else None)


DEEPER = {
    # what is found at once or as rows are read
    "names that are no text": lambda f: changed(
        parquet(f, aaaa=X[:, 0], label=Y), "", lambda b: b.replace(b"aaaa", b"\xff\xfe\xff\xff")
    ),
    "npz cut short": lambda f: changed(npz(f, X=X, y=Y), "", lambda b: b[:300]),
    "corrupt metadata": lambda f: changed(zarr_group(f), "zarr.json", lambda _: b'{"zarr_format": 3, "node_ty'),
    "infinitely many rows": lambda f: "synthetic:gaussian?n=inf",
    "half a row": lambda f: "synthetic:gaussian?n=2.5",
    "unknown dtype": lambda f: "synthetic:gaussian?dtype=foo",
    "negative seed": lambda f: "synthetic:gaussian?seed=-1",
    "negative variance": lambda f: "synthetic:gaussian?variance=-1",
    "no columns": lambda f: zarr_group(f, X[:, :0]),
    "types that differ": lambda f: two_files(f, {"f0": Y.astype(str)}, {"f0": X[:, 0]}),
}


def read_all(address, **arguments):
    """Open a data set and take its moments."""
    dataset = open_dataset(address, **arguments)
    spans = make_spans(dataset)
    census = take_census(dataset, spans, Tasks(scheduler=Threads(1)))
    return take_moments(Rows(dataset=dataset, census=census, spans=spans, scheduler=Threads(1)), precision="double")[0]


def test_opening_says_what_is_wrong(tmp_path):
    """Before any row is read; an error of the library that is also a ValueError."""
    for (make, arguments, patterns), folder in each(OPENING.values(), tmp_path):
        address = make(folder)
        with pytest.raises(InputError) as caught:
            open_dataset(address, **arguments)
        assert isinstance(caught.value, MmpcaError) and isinstance(caught.value, ValueError)
        assert "\n" not in str(caught.value)
        for pattern in patterns:
            assert caught.match(pattern)


READING = {
    "damaged chunk": (lambda f: changed(zarr_group(f), "X/c/1/0", lambda b: b[:-20]), [
        r"Cannot read chunk 1 \(rows 20 to 39\) of .*a.zarr/X", "restore it"]),
    "not finite": (lambda f: zarr_group(f, with_gap(47, 2)), [
        "Found nan in row 47, column 2", r"chunk 2 \(rows 40 to 59\)", "fill or drop"]),
    "null in a column": (lambda f: write_parquet(f / "a.parquet", with_gap(47, 1), Y, size=20), [
        "Column 'f1'", "missing values", "row 47", "Fill or drop"]),
    "null in a list": (lambda f: parquet(f, rows=lists(with_gap(47, 1)), label=Y), [
        "missing value", "row 47", "Fill or drop"]),
    "null label": (lambda f: parquet(f, f0=X[:, 0], label=[None if i == 33 else int(v) for i, v in enumerate(Y)]), [
        "Row 33 has no label in column 'label' of ", "dataset.unlabelled: skip leaves out"]),
    "damaged Parquet": (lambda f: changed(parquet(f), "", lambda b: b[:20] + bytes(200) + b[220:]), [
        "Cannot read row group 0 .*a.parquet", "restore it"]),
    "one class": (lambda f: zarr_group(f, labels=0 * Y + 7), ["only 1 class", "label 7", "at least two"]),
    "measurements as labels": (lambda f: zarr_group(f, labels=X[:, 0]), ["not a whole number", "must be classes"]),
    "missing label chunk of no other class": (
        lambda f: without(f, "y/c/0", labels=Y + 4), ["lacks label chunks of 20 rows", "fill value 0", "Restore"]),
}  # fmt: skip


def test_reading_says_what_is_wrong(tmp_path):
    for (make, patterns), folder in each([*READING.values(), *((make, []) for make in DEEPER.values())], tmp_path):
        with pytest.raises(InputError) as caught:
            read_all(make(folder))
        for pattern in patterns:
            assert caught.match(pattern)


def test_missing_chunks_are_fill_values_where_that_is_accepted(tmp_path):
    found = read_all(without(tmp_path, "X/c/1/0"), missing_chunks="fill")
    expected = X.copy()
    expected[20:40] = 0
    np.testing.assert_allclose(found.mean, expected.mean(axis=0), rtol=1e-13)


def test_a_missing_label_chunk_of_a_known_class_is_accepted_with_a_warning(tmp_path, caplog):
    """Zarr leaves out chunks that hold the fill value only."""
    labels = np.repeat([0, 0, 1], 20)
    labels[:5] = 1
    found = read_all(zarr_group(tmp_path, labels=labels))
    assert not (tmp_path / "a.zarr" / "y" / "c" / "1").exists()
    assert found.counts.tolist() == [35, 25]
    assert "lacks label chunks of 20 rows" in caplog.text


LABELS = [
    ([1.0, 2.5], "Label 2.5 at position 1 of y is not a whole number"),
    ([1.0, np.nan], "Label nan at position 1"),
    (np.asarray(["a", None], object), "Label None at position 1"),
    (np.asarray(["a", 1], object), "mix int and str"),
    (np.asarray([[1, 2], [3, 4]]), r"shape \(2, 2\)"),
    (np.asarray(["2020-01-01"], "M8[D]"), "must be integers or strings"),
    ([1j, 2j], "must be integers or strings"),
    ([1.0, np.inf], "Label inf"),
]


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_labels_that_are_not_classes():
    for labels, message in LABELS:
        with pytest.raises(InputError, match=message):
            normalize_labels(np.asarray(labels), "y")


def test_labels_of_every_origin():
    for labels, expected in (
        ([2.0, 1.0], [2, 1]),
        ([[2], [1]], [2, 1]),
        (np.asarray([b"x", b"y"]), ["x", "y"]),
        (np.asarray(["x", "yy"], object), ["x", "yy"]),
        (np.asarray([True, False]), [True, False]),
        (np.asarray(["x", "yy"], np.dtypes.StringDType()), ["x", "yy"]),
        (np.asarray([np.int64(2), np.int64(1)], object), [2, 1]),
    ):
        assert normalize_labels(np.asarray(labels), "y").tolist() == expected


def test_more_classes_than_there_can_be(limits):
    limits.max_classes = 50
    with pytest.raises(InputError, match="more than 50 values: they look like measurements"):
        class_moments(np.zeros((60, 2)), np.arange(60))


def test_a_label_that_is_none_of_the_classes():
    classes = np.asarray(["a", "c"])
    assert encode(np.asarray(["c", "a", "c"]), classes, "y").tolist() == [1, 0, 1]
    for stranger in ("b", "d", ""):
        with pytest.raises(InputError, match=f"{stranger!r}.* in y is none of the known classes"):
            encode(np.asarray(["a", stranger]), classes, "y")


def test_images_and_matrices_without_labels_are_refused_with_what_to_type(tmp_path):
    images, counts = str(tmp_path / "images.npz"), str(tmp_path / "counts.npz")
    np.savez(images, X=np.zeros((9, 4, 4)), y=np.arange(9) % 2)
    save_npz(counts, eye_array(9, format="csr"))
    with pytest.raises(InputError, match=r"such as X\.reshape\(9, -1\)"):
        open_dataset(images)
    with pytest.raises(InputError, match=r"no array 'y'; .*np\.savez\(NEW, \*\*np\.load\(.*, y=labels\)"):
        open_dataset(counts)
