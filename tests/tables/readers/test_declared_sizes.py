"""What a file declares is compared with what it holds, and what tables hold is what was written."""

import io
import json
import subprocess
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from helpers import each
from helpers.ingested import ingest

from mmpca_dist import open_dataset
from mmpca_dist.errors import InputError, MmpcaError
from mmpca_dist.tables.readers.parquet import ParquetRows
from mmpca_dist.tables.source import readable

N = 1000
TABLES = {
    "columns": {"a": np.arange(N) * 1.0, "b": np.arange(N) * 2.0, "label": np.arange(N) % 2},
    "lists": {"e": pa.array([[float(i), 1.0] for i in range(N)], pa.list_(pa.float64())), "label": np.arange(N) % 2},
    "fixed lists": {"e": pa.array([[float(i), 1.0] for i in range(N)], pa.list_(pa.float64(), 2)), "label": N * [1]},
    "text": {"a": np.arange(N) * 1.0, "label": ["x", "y"] * (N // 2)},
    "gaps first": {"a": [None, *range(1, N)], "b": np.ones(N), "label": np.arange(N) % 2},
}


def thrift(number):
    """Return a whole number as a footer has it."""
    number, data = 2 * number, b""
    while number > 127:
        number, data = number >> 7, data + bytes([number & 127 | 128])
    return data + bytes([number])


def content(path):
    dataset = open_dataset(path, missing="mean")
    with readable(str(path)):
        rows, labels = dataset.read_rows(0, dataset.n_rows), dataset.read_labels(0, dataset.n_rows)
    return dataset.n_rows, np.nansum(rows), labels.tolist()


@pytest.mark.parametrize("sizes", [[N], [600, 400]], ids=["one group", "two groups"])
@pytest.mark.parametrize("name", TABLES)
def test_a_count_of_rows_that_is_wrong(name, sizes, tmp_path):
    """Some rows were memory that nobody had written, or rows were lost, without a word."""
    table = pa.table(TABLES[name])
    with pq.ParquetWriter(tmp_path / "whole.parquet", table.schema) as writer:
        for start, size in zip([0, *sizes], sizes, strict=False):
            writer.write_table(table.slice(start, size))
    data, refused = (tmp_path / "whole.parquet").read_bytes(), 0
    expected = content(tmp_path / "whole.parquet")
    begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for count in {N, *sizes}:
        places = [i for i in range(begin, len(data) - 8) if data[i : i + 2] == thrift(count)]
        for place in places:
            for other in (count + 4, count - 8, count ^ 1):
                changed = data[:place] + thrift(other) + data[place + 2 :]
                (tmp_path / "changed.parquet").write_bytes(changed)
                try:
                    assert content(tmp_path / "changed.parquet") == expected
                except MmpcaError:
                    refused += 1
    assert refused >= 6


FLIPS = """
import pathlib, sys
from mmpca_dist import open_dataset
from mmpca_dist.errors import MmpcaError
from mmpca_dist.tables.readers.named_columns import refuse_gaps
from mmpca_dist.tables.source import readable
path = pathlib.Path(sys.argv[1])
data = path.read_bytes()
begin, refused = len(data) - 8 - int.from_bytes(data[-8:-4], "little"), 0
for bit in range(8 * begin + int(sys.argv[2]), 8 * (len(data) - 8), 3):
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    path.write_bytes(changed)
    try:
        dataset = open_dataset(path)
        refuse_gaps(dataset.stored)
        with readable("rows"):
            assert dataset.read_rows(0, dataset.n_rows).sum() == 2450 and dataset.read_labels(0, 50).sum() == 25
    except MmpcaError:
        refused += 1
print(refused)
"""


@pytest.mark.parametrize("offset", range(3))
def test_a_flipped_bit_of_a_footer_ends_no_process(offset, tmp_path):
    """pyarrow ends the process where it shows a column whose type or levels are not those of the schema."""
    pq.write_table(pa.table({"a": np.arange(50.0), "b": np.arange(50.0), "label": np.arange(50) % 2}), tmp_path / "t")
    done = subprocess.run(
        [sys.executable, "-c", FLIPS, str(tmp_path / "t"), str(offset)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert int(done.stdout) > 50


def test_rows_that_a_reader_does_not_give_are_missed(tmp_path, monkeypatch):
    """What was read is counted where blocks are filled, whatever the format."""
    pq.write_table(pa.table(TABLES["columns"]), tmp_path / "t.parquet", row_group_size=250)
    dataset, parts = open_dataset(tmp_path / "t.parquet"), ParquetRows._parts
    for lost in (0, 1, 3):
        monkeypatch.setattr(
            ParquetRows, "_parts",
            lambda *a, lost=lost: (part for i, part in enumerate(parts(*a)) if i != lost),
        )  # fmt: skip
        for read in (dataset.read_rows, dataset.read_labels):
            with pytest.raises(MmpcaError, match=r"are not there\. What the file declares"):
                read(0, N)


X = np.arange(80, dtype=np.float32).reshape(40, 2).repeat(3, axis=1)
Y = np.arange(40) % 2


def ingested(folder, sparse):
    np.savez(folder / "a.npz", X=X, y=Y)
    ingest(folder / "a.npz", folder / "a.zarr", sparse=sparse, chunk_bytes=200)
    return folder / "a.zarr"


def test_a_shape_or_a_type_that_is_another(tmp_path):
    """One bit makes 2 or 4 columns of 6, or 7 of sparse rows."""
    for (sparse, changes), folder in each(
        ((False, {"shape": [40, 4]}), (True, {"shape": [40, 7]}), (False, {"data_type": "int32", "fill_value": 0})),
        tmp_path,
    ):
        place = ingested(folder, sparse)
        metadata = place / "X/zarr.json"
        found = json.loads(metadata.read_text())
        (found["attributes"] if sparse else found).update(changes)
        metadata.write_text(json.dumps(found))
        with pytest.raises(InputError, match=r"was written with \[40, 6, 'float32'\]"):
            open_dataset(place)


def test_rows_that_were_added_since(tmp_path):
    place = ingested(tmp_path, sparse=False)
    group = zarr.open_group(str(place))
    for name, values in (("X", X), ("y", Y)):
        group[name].append(values)
    np.testing.assert_array_equal(open_dataset(place).read_rows(0, 80), np.concatenate([X, X]))


@pytest.mark.parametrize("version", [2, 3])
def test_copies_of_metadata_that_are_out_of_date(version, tmp_path):
    """Zarr would read the values of the new array by the shape and type of the old one."""
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=version)
    group.create_array("X", data=X)
    group.create_array("y", data=Y)
    zarr.consolidate_metadata(str(tmp_path / "a.zarr"))
    group = zarr.open_group(str(tmp_path / "a.zarr"), use_consolidated=False)
    del group["X"]
    group.create_array("X", data=X.astype(np.int32))
    np.testing.assert_array_equal(open_dataset(tmp_path / "a.zarr").read_rows(0, 40), X.astype(np.int32))


def archive(path, members):
    with zipfile.ZipFile(path, "w") as file:
        for name, values in members:
            data = io.BytesIO()
            np.save(data, values)
            file.writestr(name, data.getvalue())


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("names", [("X.npy", "X.npy"), ("X", "X.npy"), ("X.npy", "X")])
def test_two_arrays_of_one_name(names, tmp_path):
    """NumPy takes one of them, and whoever looks into the archive another."""
    archive(tmp_path / "a.npz", [(names[0], X), (names[1], 2 * X), ("y.npy", Y)])
    for read in (open_dataset, lambda path: ingest(path, tmp_path / "a.zarr")):
        with pytest.raises(InputError, match="holds 2 arrays called 'X'"):
            read(tmp_path / "a.npz")


def test_a_member_that_is_no_array_by_its_name(tmp_path):
    archive(tmp_path / "a.npz", [("X", X), ("y.npy", Y)])
    with pytest.raises(InputError, match=r"not a readable \.npz file: .*X\.npy"):
        open_dataset(tmp_path / "a.npz")
