"""Columns that ingest keeps beside the labels: read back as they were, and taken for the parts of an evaluation."""

from __future__ import annotations

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from evaluating import config_of, scored, store
from ingested import NAMES, memory_address, small_table

from mmpca_dist import open_dataset
from mmpca_dist.datasets import writing
from mmpca_dist.datasets.ingest import ingest
from mmpca_dist.errors import InputError

X, Y = small_table()
PATIENTS = np.asarray([f"patient {i % 7}" for i in range(len(Y))])
BATCHES = np.arange(len(Y)) // 60 - 1
KEPT = {"patient": PATIENTS, "batch": BATCHES}


def write_csv(path, columns, names=True):
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
    group = zarr.create_group(folder / "a.zarr")
    group.create_array("X", data=X, chunks=(50, 2))
    group.create_array("y", data=Y)
    group.create_array("batch", data=BATCHES)
    group.create_array("patient", shape=Y.shape, dtype=str)[...] = PATIENTS
    return folder / "a.zarr", {"keep": ["patient", "batch"]}


@pytest.fixture
def memory():
    yield from memory_address()


@pytest.mark.parametrize("chunk_bytes", [160, 1 << 20])
@pytest.mark.parametrize("make", [in_csv, in_csv_without_names, in_parquet, in_zarr])
def test_what_is_kept_reads_back_as_it_was(make, chunk_bytes, tmp_path, monkeypatch):
    monkeypatch.setattr("mmpca_dist.datasets.text.BLOCK_BYTES", 1000)
    monkeypatch.setattr("mmpca_dist.datasets.text.BLOCK_LINES", 5)
    monkeypatch.setattr(writing, "SPOOL_BYTES", 100)
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


def test_object_storage_has_them_too(memory, tmp_path):
    source, options = in_csv(tmp_path)
    ingest(source, memory, **options)
    np.testing.assert_array_equal(open_dataset(memory, label="patient").read_labels(0, len(Y)), PATIENTS)


def test_they_name_the_parts_of_an_evaluation(tmp_path):
    source, options = in_csv(tmp_path)
    ingest(source, tmp_path / "made.zarr", **options)
    np.save(tmp_path / "parts.npy", PATIENTS)
    found = []
    for folder, uri, column in (
        ("zarr", tmp_path / "made.zarr", "patient"),
        ("file", store(tmp_path / "rows.npz", X, Y), tmp_path / "parts.npy"),
    ):
        evaluation = {"splits": "given", "column": str(column), "classifiers": ["fisher"], "margins": False}
        found.append(scored(config_of(tmp_path / folder, uri, evaluation=evaluation))[0])
    assert len(found[0]) == 7
    assert [record["errors"] for record in found[0]] == [record["errors"] for record in found[1]]


def test_what_cannot_be_kept_is_refused(tmp_path):
    table, parquet = in_csv(tmp_path)[0], in_parquet(tmp_path)[0]
    group = in_zarr(tmp_path)[0]
    np.savez(tmp_path / "a.npz", X=X, y=Y)
    both = {"drop": ["patient", "batch"]}
    for source, options, message in (
        (table, {"keep": ["patent"]}, r"no column 'patent' \(--keep\)\. Did you mean 'patient'"),
        (parquet, {"keep": ["patent"]}, r"no column 'patent' \(--keep\)\. Did you mean 'patient'"),
        (group, {"keep": ["patent"]}, r"no array 'patent' \(--keep\); it holds .* Did you mean 'patient'"),
        (table, {"keep": ["patient"], **both}, "--keep and --drop both name 'patient'"),
        (parquet, {"keep": ["patient"], **both}, "--keep and --drop both name 'patient'"),
        (table, {"keep": ["patient", "2", "batch"], "label": "label"}, "--keep names 'label', which is the label of"),
        (table, {"keep": [*NAMES, "patient", "batch"]}, "no columns beside the label and those dropped or kept"),
        (table, {"keep": ["y"]}, "--keep names 'y', which cannot be an array beside X and y: rename it first"),
        (table, {"keep": ["patient", "red"]}, r"^The value of 'red' \(column 0\) in row \d+ \(line \d+\) of .* is .*"),
        (tmp_path / "a.npz", {"keep": ["patient"]}, r"keep=\['patient'\] cannot be honoured"),
    ):
        with pytest.raises(InputError, match=message):
            ingest(source, tmp_path / "made.zarr", **options)
    assert not list(tmp_path.glob("made.zarr*"))


def test_an_empty_cell_of_a_column_that_is_kept(tmp_path):
    names = np.where(np.arange(len(Y)) == 31, "", PATIENTS)
    source = write_csv(tmp_path / "a.csv", {**columns(), "patient": names})
    with pytest.raises(InputError) as caught:
        ingest(source, tmp_path / "made.zarr", keep=["patient"], drop=["batch"], label="label")
    assert str(caught.value) == (
        f"The value of 'patient' (column 1) in row 31 (line 33) of {source} is empty. What is kept are integers or "
        "strings: correct it, or leave out --keep."
    )


def test_too_many_values_are_measurements(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "MAX_CLASSES", 50)
    source = write_csv(tmp_path / "a.csv", {**columns(), "batch": np.arange(len(Y))})
    with pytest.raises(InputError, match=r"257 different values of column 'batch', .*measurements, not classes"):
        ingest(source, tmp_path / "made.zarr", keep=["patient", "batch"])
