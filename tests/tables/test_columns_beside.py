"""Columns beside rows of which some are left out: these may lack values, and change nothing of the others."""

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from mmpca_dist import open_dataset
from mmpca_dist.errors import InputError
from mmpca_dist.tables.compose import column_of
from mmpca_dist.tables.roles import COVARIATE, WEIGHT
from mmpca_dist.tables.side_columns import KeptColumns
from mmpca_dist.tables.stored_types import column_values
from mmpca_dist.tables.times import times
from mmpca_dist.tables.values import names

N, ROW = 90, 65
TAKEN = (np.arange(N) % 7 > 0) & ~np.isin(np.arange(N), range(30, 45))
ROWS = np.random.default_rng(0).standard_normal((N, 3)).astype(np.float32)
LABELS = np.asarray(["a", "b", "c"])[np.arange(N) % 3]
COLUMNS = {
    "whole": 2**53 + 1 + 2 * np.arange(N), "flag": np.arange(N) % 2 == 0, "age": np.linspace(20, 60, N),
    "site": np.asarray(["p", "q"])[np.arange(N) // 5 % 2], "when": np.datetime64("2026-01-31") + np.arange(N),
}  # fmt: skip
OF_CELLS = {"whole": "masked", "age": "number", "site": "category"}


def write(folder, kind, gaps=True, lacking="", **changes):
    """Write all rows, with gaps where they are not taken, or those alone; ``lacking`` is a column without ``ROW``."""
    folder.mkdir(exist_ok=True)
    some = np.arange(N) if gaps else np.flatnonzero(TAKEN)
    columns = {"label": LABELS, **COLUMNS, **changes}
    there = {name: TAKEN & ((np.arange(N) != ROW) | (name != lacking)) for name in columns}
    if kind == "h5ad":
        return write_cells(folder, some, columns, there)
    arrays = {f"x{j}": pa.array(column[some]) for j, column in enumerate(ROWS.T)}
    arrays |= {name: pa.array(values[some], mask=~there[name][some]) for name, values in columns.items()}
    if kind == "arrow":
        feather.write_feather(pa.table(arrays), folder / "t.feather", compression="uncompressed", chunksize=10)
        return folder / "t.feather"
    pq.write_table(pa.table(arrays), folder / "t.parquet", row_group_size=10)
    return folder / "t.parquet"


def write_cells(folder, some, columns, there):
    """Write rows as two ``.h5ad`` files."""
    pytest.importorskip("h5py")
    from helpers.h5ad_files import write_h5ad

    for name, at in (("s1", some[some < 50]), ("s2", some[some >= 50])):
        obs = {}
        for column, kind in {"label": "category", **OF_CELLS}.items():
            values, none = (columns[column], np.nan) if kind == "number" else (columns[column].astype(object), None)
            obs[column] = (np.where(there[column], values, none)[at], kind)
        write_h5ad(folder / f"{name}.h5ad", ROWS[at], obs)
    return folder


def opened(uri, unlabelled="skip"):
    return open_dataset(uri, label="label", drop=list(COLUMNS) if uri.suffix else [], unlabelled=unlabelled)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "h5ad"])
def test_values_and_their_types_are_those_of_the_rows_alone(kind, tmp_path):
    rows = opened(write(tmp_path / "gaps", kind))
    alone = opened(write(tmp_path / "alone", kind, gaps=False), "refuse")
    n = int(TAKEN.sum())
    assert rows.n_rows == alone.n_rows == n
    for name in OF_CELLS if kind == "h5ad" else COLUMNS:
        found, column = (column_of(each.stored, name, "a setting") for each in (rows, alone))
        for start, stop in ((0, n), (3, 20), (n - 1, n)):
            (values, whole), of_alone = alone.beside(column, start, stop)
            (read, there), place = rows.beside(found, start, stop)
            assert there.all() and whole.all()
            np.testing.assert_array_equal(read, values, err_msg=name)
            assert read.dtype == values.dtype or name == "site"
            if name in ("site", "flag"):
                np.testing.assert_array_equal(names((read, there), place), names((values, whole), of_alone))


@pytest.mark.parametrize("kind", ["parquet", "arrow", "h5ad"])
@pytest.mark.parametrize("name", OF_CELLS)
def test_a_row_that_is_taken_and_has_no_value_is_named(kind, name, tmp_path):
    rows = opened(write(tmp_path, kind, lacking=name))
    told = rf"Row {ROW} has (no value|no covariate|the covariate nan) in column '{name}' of .*leave the row out"
    with pytest.raises(InputError, match=told):
        COVARIATE.look(rows, column_of(rows.stored, name, "dataset.covariates"), name, None)
    column = KeptColumns.of(rows, [name]).read(rows.batch(0, rows.n_rows, X=False).rows)[name]
    assert column.null_count == 1 and not column[int(TAKEN[:ROW].sum())].is_valid


def test_a_time_that_is_none_is_named_by_the_row_that_was_given(tmp_path):
    rows = opened(write(tmp_path, "parquet", age=np.where(np.arange(N) == ROW, np.inf, COLUMNS["age"])))
    with pytest.raises(InputError, match=f"Row {ROW} has the time inf"):
        times(*rows.beside(column_of(rows.stored, "age", "evaluation.column"), 0, rows.n_rows))


@pytest.mark.parametrize("kind", ["parquet", "arrow", "h5ad"])
def test_weights_of_rows_in_units_that_have_no_label_at_all(kind, limits, tmp_path):
    limits.unit_bytes = 5 * 12
    rows = opened(write(tmp_path, kind))
    rows = rows.with_look(WEIGHT, column_of(rows.stored, "age", "dataset.weight"), None)
    np.testing.assert_array_equal(rows.batch(0, rows.n_rows, X=False).weight, COLUMNS["age"][TAKEN])
    assert rows.n_rows == TAKEN.sum()


def test_a_table_without_rows_has_none_with_a_label(tmp_path):
    table = pa.table({"x": pa.array([], pa.float32()), "label": pa.array([], pa.string())})
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"No row of .* is left: none has a label"):
        open_dataset(tmp_path / "t.parquet", unlabelled="skip")


def test_booleans_of_which_none_is_known_are_booleans():
    assert column_values(pa.array([None, None], pa.bool_())).dtype == bool
