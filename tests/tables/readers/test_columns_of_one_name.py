"""Several columns of one name: numbered as pandas numbers them, in CSV, Parquet and Arrow."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mmpca_dist.ingest.job import ingest
from mmpca_dist.runs.check import check
from mmpca_dist.tables.column_names import numbered
from mmpca_dist.tables.compose import open_dataset

NAMES = [
    ["a", "a", "b", "a", "y"], ["a", "b", "b", "y", "c"], ["a", "a.1", "a", "y", "c"], ["a", "a", "a.1", "a", "y"],
    ["x y", "x y", "y", "x y", "z"], ["a.1", "a", "a", "a.1", "y"],
]  # fmt: skip


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow"])
def test_columns_are_numbered_and_each_has_its_values(names, kind, tmp_path):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(60, 5))
    y = names.index("y")
    values[:, y] = np.arange(60) % 3
    pd.DataFrame(values).to_csv(tmp_path / "t.csv", index=False, header=names)
    expected = pd.read_csv(tmp_path / "t.csv")
    table = pa.table([pa.array(column) for column in values.T], names=names)
    if kind == "parquet":
        pq.write_table(table, tmp_path / "t.parquet", row_group_size=25)
    elif kind == "arrow":
        with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as file:
            file.write_table(table, max_chunksize=25)
    checked = check(str(tmp_path / f"t.{kind}"))
    assert (checked.n_features, checked.refused) == (4, []) and "numbered" in checked.notes[0]
    path = tmp_path / f"t.{kind}"
    if kind == "csv":
        ingest(path, path := tmp_path / "made.parquet")
    rows = open_dataset(path)
    assert rows.feature_names == [name for name in numbered(names) if name != "y"]
    assert sorted(numbered(names)) == sorted(expected.columns)
    np.testing.assert_array_equal(rows.read_rows(0, 60), np.delete(values, y, axis=1))
    some = open_dataset(path, columns=rows.feature_names[::-1][:2])
    np.testing.assert_array_equal(some.read_rows(10, 40), np.delete(values, y, axis=1)[10:40, [3, 2]])


def test_columns_of_one_name_in_several_files(tmp_path):
    values = np.random.default_rng(0).normal(size=(40, 3))
    y = pa.array(np.arange(20) % 2)
    first = pa.table([*map(pa.array, values[:20].T), y], names=["a", "a", "b", "y"])
    second = pa.table([pa.array(values[20:, 2]), *map(pa.array, values[20:, :2].T), y], names=["b", "a", "a", "y"])
    for number, table in enumerate((first, second)):
        pq.write_table(table, tmp_path / f"part-{number}.parquet")
    rows = open_dataset(tmp_path)
    assert rows.feature_names == ["a", "a.1", "b"]
    np.testing.assert_array_equal(rows.read_rows(0, 40), values)
