"""Delta Lake tables into Parquet: rows that a deletion vector removes are not among them."""

import json
import struct

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from helpers.ingested import ingest
from helpers.watching import without_library

from mmpca_dist import open_dataset
from mmpca_dist.errors import InputError, OutputError
from mmpca_dist.limits import LIMITS

deltalake = pytest.importorskip("deltalake")

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
FRAME = pd.DataFrame({"a": np.arange(40.0), "b": np.arange(40) ** 2, "label": list("xy") * 20, "site": [1, 2] * 20})


def base85(data):
    """Return Z85, four bytes in five digits, as logs of Delta Lake have it."""
    words = [int.from_bytes(data[i : i + 4], "big") for i in range(0, len(data), 4)]
    return "".join(DIGITS[word // 85**power % 85] for word in words for power in (4, 3, 2, 1, 0))


def remove_by_vector(folder, removed):
    """Mark rows of the only file of a table as removed, as Spark does: by a bitmap in the log."""
    log = folder / "_delta_log"
    (added,) = [json.loads(line)["add"] for line in (log / f"{0:020}.json").read_text().splitlines() if '"add"' in line]
    bitmap = struct.pack("<IIHHI", 12346, 1, 0, len(removed) - 1, 16) + struct.pack(f"<{len(removed)}H", *removed)
    data = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    padded = data + bytes(-len(data) % 4)
    vector = {"storageType": "i", "pathOrInlineDv": base85(padded), "sizeInBytes": len(data)}
    vector["cardinality"] = len(removed)
    gone = {"path": added["path"], "deletionTimestamp": 1, "dataChange": True, "partitionValues": {}}
    actions = [{"remove": gone}, {"add": {**added, "deletionVector": vector}}]
    (log / f"{1:020}.json").write_text("".join(f"{json.dumps(action)}\n" for action in actions))


@pytest.fixture
def table(tmp_path):
    settings = {"delta.enableDeletionVectors": "true"}
    deltalake.write_deltalake(str(tmp_path / "d"), FRAME, configuration=settings)
    remove_by_vector(tmp_path / "d", [3, 7, 21])
    return tmp_path / "d"


def test_the_rows_that_are_left_become_parquet(table, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"(?i:deletion ?vectors).* with mmpca ingest TABLE DEST.parquet"):
        open_dataset(table)
    monkeypatch.setattr(LIMITS, "unit_bytes", 1)
    manifest = ingest(table, tmp_path / "t.parquet")
    left = FRAME.drop(index=[3, 7, 21]).reset_index(drop=True)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "t.parquet"), left, check_dtype=False)
    assert (manifest["rows"], manifest["columns"]) == (37, 4)
    assert open_dataset(tmp_path / "t.parquet", drop=["site"]).n_rows == 37
    with pytest.raises(OutputError, match="is there already"):
        ingest(table, tmp_path / "t.parquet")
    with pytest.raises(InputError, match="'label' cannot be chosen here"):
        ingest(table, tmp_path / "b.parquet", label="label")


def test_many_files_come_in_the_same_order_each_time(tmp_path):
    for part in range(9):
        deltalake.write_deltalake(str(tmp_path / "d"), FRAME.assign(a=FRAME["a"] + 100 * part), mode="append")
    for name in "ab":
        ingest(tmp_path / "d", tmp_path / f"{name}.parquet")
    first, second = (pd.read_parquet(tmp_path / f"{name}.parquet") for name in "ab")
    assert len(first) == 360
    pd.testing.assert_frame_equal(first, second)


def test_the_command_and_a_library_that_is_missing(table, tmp_path, monkeypatch):
    from mmpca_pipelines.cli import cli

    done = CliRunner().invoke(cli, ["ingest", str(table), str(tmp_path / "t.parquet"), "--no-prefect"])
    assert done.exit_code == 0 and "37 rows of 4 columns" in done.output, done.output

    without_library(monkeypatch, "deltalake")
    with pytest.raises(InputError, match=r"Install 'mmpca-dist\[delta\]'"):
        ingest(table, tmp_path / "u.parquet")
