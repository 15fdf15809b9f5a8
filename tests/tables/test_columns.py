"""Columns of Parquet that are no features, and what is said of those that are missing."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.runs import through

from mmpca_dist import load_model, open_dataset, run
from mmpca_dist.errors import InputError

SOUND = {"methods": "pca", "n_components": 2, "output": "out"}


@pytest.fixture
def table(tmp_path):
    """Return the path of a Parquet file with an identifier, a text, 20 features and a label."""
    n = 30
    columns = {"id": np.arange(n) * 1000, "name": [f"row {i}" for i in range(n)]}
    columns |= {f"f{j}": np.random.default_rng(j).standard_normal(n) for j in range(20)}
    pq.write_table(pa.table({**columns, "label": np.arange(n) % 3}), tmp_path / "table.parquet")
    return tmp_path / "table.parquet"


def test_columns_that_are_no_features_are_left_out(table):
    dataset = open_dataset(table, drop=["id", "name"])
    assert dataset.feature_names == [f"f{j}" for j in range(20)]
    expected = np.column_stack([np.random.default_rng(j).standard_normal(30) for j in range(20)])
    np.testing.assert_array_equal(dataset.read_rows(0, 30), expected)
    assert dataset.fingerprint() != open_dataset(table, drop=["name"]).fingerprint()


def test_new_rows_may_have_the_columns_that_were_left_out(table, tmp_path):
    output = str(tmp_path / "out")
    run({**SOUND, "dataset": {"uri": str(table), "drop": ["id", "name"]}, "output": output})
    through(output, table, tmp_path / "new")
    rows = open_dataset(table, drop=["id", "name"]).read_rows(0, 30)
    projected = open_dataset(tmp_path / "new" / "projected" / "pca.zarr").read_rows(0, 30)
    np.testing.assert_allclose(projected, load_model(output, "pca").transform(rows), rtol=1e-5, atol=1e-5)


def test_a_column_that_is_no_number_says_how_to_leave_it_out(table):
    with pytest.raises(InputError, match=r"'name' of .* type string, .*dataset\.drop=\[name\]"):
        open_dataset(table)


@pytest.mark.parametrize(("drop", "expected"), [
    (["nam"], "dataset.drop names 'nam', which is no column of .*Did you mean 'name'"),
    (["NAME"], "dataset.drop names 'NAME', which is no column of .*Did you mean 'name'"),
    (["label"], "'label', which is the label"),
    (["zzzz"], r"Its columns are 'id', 'name', 'f0', .*'f7', \.\.\. \(23 in all\)\.$"),
])  # fmt: skip
def test_columns_to_leave_out_must_be_there(table, drop, expected):
    with pytest.raises(InputError, match=expected):
        open_dataset(table, drop=drop)


def test_only_parquet_has_columns_to_leave_out():
    with pytest.raises(InputError, match=r"dataset\.drop is .*, but bundled:iris is a bundled table"):
        open_dataset("bundled:iris", drop=["id"])


def test_a_list_column_beside_others_may_be_all_that_is_left(tmp_path):
    rows = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(12.0)), 4)
    pq.write_table(pa.table({"id": [1, 2, 3], "X": rows, "label": [0, 1, 0]}), tmp_path / "lists.parquet")
    dataset = open_dataset(tmp_path / "lists.parquet", drop=["id"])
    np.testing.assert_array_equal(dataset.read_rows(0, 3), np.arange(12.0).reshape(3, 4))


def test_a_missing_label_lists_few_columns(tmp_path):
    pq.write_table(pa.table({f"gene_{i}": [1.0, 2.0] for i in range(3000)}), tmp_path / "wide.parquet")
    with pytest.raises(InputError) as caught:
        open_dataset(tmp_path / "wide.parquet")
    assert "(3000 in all)" in str(caught.value)
    assert len(str(caught.value)) < 400
