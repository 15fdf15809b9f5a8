"""Names of stored columns: those of an index, and several of one name, numbered as pandas numbers them."""

import dask.dataframe as dd
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
from mmpca_dist.tables.column_names import numbered

N = 60
X, y = labelled(N, 2, 2, seed=0)
FRAME = pd.DataFrame(X, columns=["a", "b"]).assign(label=y)
ORDER = np.random.default_rng(0).permutation(N)


def by_dask(path):
    dd.from_pandas(FRAME, npartitions=2).to_parquet(path)


def with_index(**levels):
    index = pd.MultiIndex.from_arrays(list(levels.values()), names=list(levels))
    return FRAME.set_index(index if len(levels) > 1 else index.get_level_values(0))


STORED = {
    "nameless": (lambda path: FRAME.set_index(pd.Index(ORDER)).to_parquet(path), ["__index_level_0__"]),
    "Dask": (by_dask, ["__null_dask_index__"]),
    "named": (lambda path: with_index(patient=ORDER).to_parquet(path), ["patient"]),
    "times": (lambda path: with_index(at=pd.to_datetime(ORDER, unit="D")).to_parquet(path), ["at"]),
    "two levels": (lambda path: with_index(site=ORDER % 5, at=ORDER).to_parquet(path), ["site", "at"]),
    "called y": (lambda path: with_index(y=ORDER % 3).to_parquet(path), ["y"]),
    "saved twice": (lambda path: FRAME.assign(**{"Unnamed: 0": ORDER}).to_parquet(path, index=False), ["Unnamed: 0"]),
}


@pytest.mark.parametrize("name", STORED)
def test_an_index_is_no_feature(name, tmp_path):
    make, index = STORED[name]
    make(tmp_path / "t.parquet")
    dataset = open_dataset(tmp_path / "t.parquet")
    assert dataset.feature_names == ["a", "b"]
    np.testing.assert_array_equal(dataset.read_rows(0, N), X)
    np.testing.assert_array_equal(dataset.read_labels(0, N), y)
    assert list(dataset.stored.beside_names) == index, "they go with projected rows"
    checked = check(str(tmp_path / "t.parquet"))
    assert checked.label == "label" and [use.column.name for use in checked.uses] == ["a", "b", "label"]


def test_an_index_that_is_named_is_a_feature_or_the_label(tmp_path):
    with_index(patient=ORDER).to_parquet(tmp_path / "t.parquet")
    rows = open_dataset(tmp_path / "t.parquet", columns=["a", "patient"]).read_rows(0, N)
    np.testing.assert_array_equal(rows, np.column_stack([X[:, 0], ORDER]))
    FRAME.set_index("label").to_parquet(tmp_path / "u.parquet")
    with pytest.raises(InputError, match="'label' as an index of pandas: name it"):
        open_dataset(tmp_path / "u.parquet")
    np.testing.assert_array_equal(open_dataset(tmp_path / "u.parquet", label="label").read_labels(0, N), y)


def test_row_numbers_of_csv_that_was_saved_twice(tmp_path):
    FRAME.to_csv(tmp_path / "once.csv")
    pd.read_csv(tmp_path / "once.csv").to_csv(tmp_path / "twice.csv", index=False)
    for name in ("once.csv", "twice.csv"):
        ingest(tmp_path / name, tmp_path / "t.zarr", overwrite=True, dtype="float64")
        np.testing.assert_array_equal(open_dataset(tmp_path / "t.zarr").read_rows(0, N), X)


@pytest.mark.parametrize(
    "metadata", [b"{", b"[]", b'{"index_columns": 5}', b'{"index_columns": [{"a": 1}, 3]}', b"\xff"]
)
def test_metadata_that_are_none(metadata, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pandas(FRAME, preserve_index=False).replace_schema_metadata({b"pandas": metadata})
    pq.write_table(table, tmp_path / "t.parquet")
    assert open_dataset(tmp_path / "t.parquet").feature_names == ["a", "b"]


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
