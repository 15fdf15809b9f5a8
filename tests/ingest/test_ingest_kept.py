"""Columns that ingest keeps beside the labels: read back as they were, and taken for the parts of an evaluation."""

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from helpers.evaluating import scored
from helpers.ingested import NAMES, X, Y, ingest
from helpers.tables import config_of, write_npz, write_zarr

from mmpca_dist import open_dataset
from mmpca_dist.errors import InputError

PATIENTS = np.asarray([f"patient {i % 7}" for i in range(len(Y))])
BATCHES = np.arange(len(Y)) // 60 - 1
KEPT = {"patient": PATIENTS, "batch": BATCHES}


def write_csv(path, columns, names=True):
    """Write columns of any kinds, as the module ``csv`` does."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        if names:
            writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def columns():
    """Return the table with words and whole numbers between its features."""
    features = dict(zip(NAMES, X.T, strict=True))
    return {"red": features.pop("red"), "patient": PATIENTS, "label": Y, **features, "batch": BATCHES}


def in_csv(folder):
    return write_csv(folder / "a.csv", columns()), {"keep": ["patient", "batch"]}


def in_csv_without_names(folder):
    return write_csv(folder / "a.csv", columns(), names=False), {"keep": ["1", "-1"], "label": 2}


def in_parquet(folder):
    pq.write_table(pa.table(columns()), folder / "a.parquet", row_group_size=100)
    return folder / "a.parquet", {"keep": ["patient", "batch"]}


def in_zarr(folder):
    uri = write_zarr(folder / "a.zarr", X, Y, 50, columns=2, beside={"batch": BATCHES})
    zarr.open_group(uri).create_array("patient", shape=Y.shape, dtype=str)[...] = PATIENTS
    return folder / "a.zarr", {"keep": ["patient", "batch"]}


@pytest.mark.parametrize("chunk_bytes", [160, 1 << 20])
@pytest.mark.parametrize("make", [in_csv, in_csv_without_names, in_parquet, in_zarr])
def test_what_is_kept_reads_back_as_it_was(make, chunk_bytes, tmp_path, limits):
    limits.text_block_bytes, limits.text_block_lines, limits.spool_bytes = 1000, 5, 100
    source, options = make(tmp_path)
    manifest = ingest(source, tmp_path / "made.zarr", chunk_bytes=chunk_bytes, **options)
    assert manifest["kept"] == options["keep"]
    assert manifest["class_rows"] == {str(label): int(np.sum(label == Y)) for label in np.unique(Y)}
    made = open_dataset(tmp_path / "made.zarr")
    np.testing.assert_array_equal(made.read_rows(0, len(Y)), X)
    np.testing.assert_array_equal(made.read_labels(0, len(Y)), Y)
    for name, values in zip(options["keep"], KEPT.values(), strict=True):
        kept = open_dataset(tmp_path / "made.zarr", label=name).read_labels(0, len(Y))
        assert kept.dtype.kind == values.dtype.kind
        np.testing.assert_array_equal(kept, values)


def test_they_name_the_parts_of_an_evaluation(tmp_path):
    source, options = in_csv(tmp_path)
    ingest(source, tmp_path / "made.zarr", **options)
    np.save(tmp_path / "parts.npy", PATIENTS)
    found = []
    for folder, uri, column in (
        ("zarr", tmp_path / "made.zarr", "patient"),
        ("file", write_npz(tmp_path / "rows.npz", X, Y), tmp_path / "parts.npy"),
    ):
        evaluation = {"splits": "given", "column": str(column), "classifiers": ["fisher"], "margins": False}
        found.append(scored(config_of(tmp_path / folder, uri, evaluation=evaluation))[0])
    assert len(found[0]) == 7
    assert [record["errors"] for record in found[0]] == [record["errors"] for record in found[1]]


def test_what_cannot_be_kept_is_refused(tmp_path):
    table, parquet = in_csv(tmp_path)[0], in_parquet(tmp_path)[0]
    group = in_zarr(tmp_path)[0]
    write_npz(tmp_path / "a.npz", X, Y)
    both = {"drop": ["patient", "batch"]}
    for source, options, message in (
        (table, {"keep": ["patent"]}, r"no column 'patent' \(--keep\)\. Did you mean 'patient'"),
        (parquet, {"keep": ["patent"]}, r"no column 'patent' \(--keep\)\. Did you mean 'patient'"),
        (group, {"keep": ["patent"]}, r"no array 'patent' \(--keep\); it holds .* Did you mean 'patient'"),
        (table, {"keep": ["patient"], **both}, "--keep and --drop both name 'patient'"),
        (parquet, {"keep": ["patient"], **both}, "--keep and --drop both name 'patient'"),
        (table, {"keep": ["patient", "2", "batch"], "label": "label"}, "--keep and --label both name column 2 of "),
        (table, {"keep": [*NAMES, "patient", "batch"]}, "no features left"),
        *(
            (
                table,
                {"keep": [name]},
                f"--keep names '{name}', which cannot be an array next to X and y: rename it first",
            )
            for name in ("y", "X", "", "a/b", ".zattrs", "zarr.json", "__index_level_0__")
        ),
        (parquet, {"keep": ["label", "patient"]}, "--keep names 'label', which is the label of"),
        (table, {"keep": ["patient"], "drop": ["1"]}, "--drop and --keep both name column 1 of .*, 'patient'"),
        (table, {"keep": ["patient", "1"]}, "--keep and --keep both name column 1 of .*, '1'"),
        (
            "bundled:iris",
            {"keep": ["patient"]},
            "--keep is 'patient', and bundled:iris has no columns but its features",
        ),
        (table, {"keep": ["patient", "red"]}, r"^Column 'red' of .*: -?\d\.\d+ in row \d+ is not a whole number\."),
        (tmp_path / "a.npz", {"keep": ["patient"]}, r"has no array 'patient'; it holds X, y"),
    ):
        with pytest.raises(InputError, match=message):
            ingest(source, tmp_path / "made.zarr", **options)
    assert not list(tmp_path.glob("made.zarr*"))


def test_a_name_that_two_columns_have(tmp_path):
    """One of them would be kept, and the other a feature."""
    (tmp_path / "a.csv").write_text("a,patient,b,patient,label\n1,7,2,8,x\n3,7,4,8,y\n")
    with pytest.raises(InputError, match=r"has 2 columns 'patient' \(--keep\): rename all but one\."):
        ingest(tmp_path / "a.csv", tmp_path / "made.zarr", keep=["patient"])


def test_names_above_columns_that_are_kept_make_a_header(tmp_path):
    """Numbers name columns as pandas does; one that is kept is no number."""
    (tmp_path / "a.csv").write_text("0,part,2\n1.5,a,3\n2.5,b,4\n")
    assert ingest(tmp_path / "a.csv", tmp_path / "made.zarr", keep=["part"])["rows"] == 2


def test_large_numbers_that_name_things(tmp_path):
    starts = (2**53 + 1, 0), (2**63 + 1, 0), (2**64 + 1, 0), (-(2**63), 1), (2**63 + 1, -1), (2**64 + 1, 7)
    for first, other in starts:
        numbers = [first, first + 1, first, other]
        table = {"a": [1.0, 2.0, 3.0, 4.0], "id": numbers, "label": ["x", "y", "x", "y"]}
        sources = [write_csv(tmp_path / "a.csv", table)]
        if first < 2**64 and other >= 0:
            kind = pa.uint64() if first > 0 else pa.int64()
            pq.write_table(pa.table({**table, "id": pa.array(numbers, kind)}), tmp_path / "a.parquet")
            sources.append(tmp_path / "a.parquet")
        for source in sources:
            ingest(source, tmp_path / "made.zarr", keep=["id"], overwrite=True)
            kept = open_dataset(tmp_path / "made.zarr", label="id").read_labels(0, 4)
            assert [int(one) for one in kept] == numbers


def test_names_of_digits_stay_as_they_are_written(tmp_path):
    """Where one of them is no number of 64 bits."""
    names = ["00099999999999999999999", "99999999999999999999", "7", "1.5e3"]
    write_csv(tmp_path / "a.csv", {"a": [1.0, 2.0, 3.0, 4.0], "label": names})
    ingest(tmp_path / "a.csv", tmp_path / "made.zarr")
    assert open_dataset(tmp_path / "made.zarr").read_labels(0, 4).tolist() == names


@pytest.mark.parametrize(
    ("make", "where"),
    [(in_csv, "label"), (in_parquet, "label"), *((m, "patient") for m in (in_csv, in_parquet, in_zarr))],
)
def test_texts_are_no_names(make, where, tmp_path, monkeypatch):
    """They would make all names of the column as long in memory."""
    texts = np.where(np.arange(len(Y)) == 31, "x" * 1001, PATIENTS)
    monkeypatch.setitem(globals(), "PATIENTS" if where == "patient" else "Y", texts)
    source, options = make(tmp_path)
    with pytest.raises(InputError, match=r"hold one of 1001 characters, 'x{40}'\.\.\.: names of classes have 1000"):
        ingest(source, tmp_path / "made.zarr", **options)


def test_long_names_are_written_in_short_chunks(tmp_path, limits):
    limits.chunk_bytes = 4000
    names = [f"{'n' * 96}{i % 9:04}" for i in range(len(Y))]  # 400 bytes each in an array of a fixed width
    ingest(write_csv(tmp_path / "a.csv", {**columns(), "patient": names}), tmp_path / "made.zarr",
           keep=["patient", "batch"])  # fmt: skip
    assert zarr.open_array(tmp_path / "made.zarr" / "patient").chunks == (10,)
    np.testing.assert_array_equal(open_dataset(tmp_path / "made.zarr", label="patient").read_labels(0, len(Y)), names)


def test_rows_in_a_list_column(tmp_path):
    rows = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    pq.write_table(pa.table({"vec": rows, "patient": PATIENTS, "label": Y}), tmp_path / "a.parquet")
    ingest(tmp_path / "a.parquet", tmp_path / "made.zarr", keep=["patient"])
    np.testing.assert_array_equal(
        open_dataset(tmp_path / "made.zarr", label="patient").read_labels(0, len(Y)), PATIENTS
    )


def test_too_many_values_are_measurements(tmp_path, limits):
    limits.max_classes = 50
    source = write_csv(tmp_path / "a.csv", {**columns(), "batch": np.arange(len(Y))})
    with pytest.raises(InputError, match=r"257 different values of column 'batch', .*measurements, not classes"):
        ingest(source, tmp_path / "made.zarr", keep=["patient", "batch"])
