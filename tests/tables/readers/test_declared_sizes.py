"""What a file declares is compared with what it holds: rows that were not read never count."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mmpca_dist import open_dataset
from mmpca_dist.errors import MmpcaError
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
