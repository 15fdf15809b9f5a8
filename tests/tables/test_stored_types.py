"""Types of stored columns: decimals, views, times, UUIDs, and columns whose type is not the same in all files."""

import datetime
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.tables import labelled

from mmpca_dist import MarginPCA, load_model, open_dataset, run, transform
from mmpca_dist.errors import InputError
from mmpca_dist.runs.check import check
from mmpca_dist.tables.stored_types import plain, unified

N = 60
X, y = labelled(N, 2, 2, seed=0)
TABLE = pa.table({"a": X[:, 0], "b": X[:, 1], "label": y})


def write(path, *tables):
    """Write tables as a file each, Parquet or Arrow."""
    path.mkdir()
    for i, table in enumerate(tables):
        pq.write_table(table, path / f"{i}.parquet")
    return path


def write_both(path, table):
    pq.write_table(table, f"{path}.parquet")
    with pa.ipc.new_file(f"{path}.arrow", table.schema) as writer:
        writer.write_table(table)
    return [f"{path}.parquet", f"{path}.arrow"]


def rows_of(path, **options):
    dataset = open_dataset(path, **options)
    return dataset.read_rows(0, dataset.n_rows)


def use_of(path, name):
    return next(use for use in check(str(path)).uses if use.column.name == name)


QUARTERS = [Decimal(i) / 4 for i in range(N)]
NUMBERS = {
    "decimal128": pa.array(QUARTERS, pa.decimal128(12, 2)),
    "decimal256": pa.array(QUARTERS, pa.decimal256(50, 4)),
    "decimal64": pa.array(QUARTERS, pa.decimal64(10, 2)),
    "with gaps": pa.array([None, *QUARTERS[1:]], pa.decimal128(12, 2)),
    "beyond 64 bits": pa.array([Decimal(10) ** 30 + i for i in range(N)], pa.decimal128(38, 0)),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([20, N], pa.int32()), pa.array([1.5, 2.5])),
    "categories of numbers": pa.array(np.arange(N) % 3).dictionary_encode(),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_what_is_a_number_is_one_for_check_and_for_readers(name, tmp_path):
    column = NUMBERS[name]
    table = TABLE.append_column("c", column)
    if name == "runs":
        with pa.ipc.new_file(f"{tmp_path}/t.arrow", table.schema) as writer:
            writer.write_table(table)
    for path in [f"{tmp_path}/t.arrow"] if name == "runs" else write_both(tmp_path / "t", table):
        found = rows_of(path, missing="mean")[:, 2]
        expected = [np.nan if value is None else float(value) for value in column.to_pylist()]
        np.testing.assert_array_equal(found, expected)
        assert use_of(path, "c").column.is_number


def test_labels_that_are_decimals(tmp_path):
    for first in (0, 2**60):  # as doubles, two of these would be one
        labels = pa.array([Decimal(first + int(label)) for label in y], pa.decimal128(20, 0))
        for path in write_both(tmp_path / "t", TABLE.drop_columns("label").append_column("label", labels)):
            np.testing.assert_array_equal(open_dataset(path).read_labels(0, N), first + y)
    labels = pa.array([Decimal(2**70 + int(label)) for label in y], pa.decimal128(38, 0))
    for path in write_both(tmp_path / "t", TABLE.drop_columns("label").append_column("label", labels)):
        with pytest.raises(InputError, match="decimals that are no numbers of 64 bits: write it as text"):
            open_dataset(path).read_labels(0, N)


def test_decimals_of_frames():
    polars = pytest.importorskip("polars", reason="is the frame")
    frames = {
        "objects": pd.DataFrame({"a": X[:, 0], "c": QUARTERS}),
        "Arrow": pd.DataFrame({"a": X[:, 0], "c": pd.array(QUARTERS, pd.ArrowDtype(pa.decimal128(9, 2)))}),
        "polars": polars.DataFrame({"a": X[:, 0], "c": polars.Series(QUARTERS, dtype=polars.Decimal(9, 2))}),
    }
    expected = MarginPCA(1).fit(np.column_stack([X[:, 0], np.arange(N) / 4]), y).components_
    for name, frame in frames.items():
        np.testing.assert_allclose(MarginPCA(1).fit(frame, y).components_, expected, rtol=1e-12, err_msg=name)


SITES = ["north", "south"] * (N // 2)
VIEWS = {
    "plain": pa.array(SITES, pa.string_view()),
    "categories": pa.DictionaryArray.from_arrays(
        pa.array([0, 1] * (N // 2), pa.int8()), pa.array(["north", "south"], pa.string_view())
    ),
    "with gaps": pa.array([None, *SITES[1:]], pa.string_view()),
}


@pytest.mark.parametrize("name", VIEWS)
def test_text_in_views_is_text(name, tmp_path):
    """polars writes Arrow so; a kernel that pyarrow lacks was taken for damage."""
    table = TABLE.append_column("site", VIEWS[name])
    with pa.ipc.new_file(str(tmp_path / "t.arrow"), table.schema) as writer:
        writer.write_table(table)
    expected = [np.nan if site is None else float(site == "south") for site in VIEWS[name].to_pylist()]
    found = rows_of(tmp_path / "t.arrow", encode=True, missing="mean")
    np.testing.assert_array_equal(found[:, 2], expected)
    assert use_of(tmp_path / "t.arrow", "site").what == "indicators"
    if name != "with gaps":
        labels = open_dataset(tmp_path / "t.arrow", label="site", drop=["label"]).read_labels(0, N)
        assert labels.tolist() == SITES


OTHERS = {
    "uuid": pa.array([uuid.UUID(int=i).bytes for i in range(N)], pa.binary(16)).cast(pa.uuid()),
    "fixed": pa.array([b"%03d" % (i % 9) for i in range(N)], pa.binary(3)),
    "large": pa.array([b"%03d" % (i % 9) for i in range(N)], pa.large_binary()),
    "views": pa.array([b"%03d" % (i % 9) for i in range(N)], pa.binary_view()),
    "time32": pa.array([datetime.time(1, i) for i in range(N)], pa.time32("s")),
    "time64": pa.array(range(N), pa.time64("ns")),
    "duration": pa.array(range(N), pa.duration("ms")),
    "zone": pa.array(range(N), pa.timestamp("us", "UTC")),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_check_leaves_out_is_what_a_run_refuses(name, tmp_path):
    for path in write_both(tmp_path / "t", TABLE.append_column("c", OTHERS[name])):
        use = use_of(path, "c")
        assert use.what == "left out" and use.refused and not use.column.is_number
        with pytest.raises(InputError, match=r"Column 'c' .* where numbers belong"):
            open_dataset(path)
        np.testing.assert_array_equal(rows_of(path, drop=["c"]), X)


def test_times_of_day_go_with_projected_rows(tmp_path):
    """Projecting rows ended after all work was done."""
    table = TABLE
    for name, column in OTHERS.items():
        table = table.append_column(name, column)
    formats = ["parquet", "csv", "zarr", "arrow"]
    for path in write_both(tmp_path / "t", table):
        output = f"{path}-run"
        settings = {"dataset": {"uri": path, "drop": list(OTHERS)}, "methods": ["pca"], "n_components": 1}
        run({**settings, "project": {"methods": ["pca"], "format": formats}, "output": output})
        kept = pq.read_table(f"{output}/projected/pca.parquet").combine_chunks()
        for name in ("time32", "time64", "zone"):
            assert kept[name].cast(OTHERS[name].type).combine_chunks().equals(OTHERS[name])
        for format in formats:
            transform(output, path, f"{output}-new.{format}")
        model = load_model(output, "pca")
        np.testing.assert_allclose(kept["pca_0"].to_numpy(), model.transform(X)[:, 0], rtol=1e-6, atol=1e-6)


HALVES = pa.array(np.arange(N) / 2)
WHOLE = pa.array(range(N))
SAME = {
    "whole and double": (WHOLE, HALVES),
    "float and double": (HALVES.cast(pa.float32()), HALVES),
    "half and float": (HALVES.cast(pa.float16()), HALVES.cast(pa.float32())),
    "int8 and uint8": (WHOLE.cast(pa.int8()), WHOLE.cast(pa.uint8())),
    "whole and float": (WHOLE, HALVES.cast(pa.float32())),
    "decimal and double": (HALVES.cast(pa.decimal128(20, 2)), HALVES),
    "whole and decimal": (WHOLE, HALVES.cast(pa.decimal128(20, 2))),
    "nothing and double": (pa.nulls(N), HALVES),
    "three types": (WHOLE.cast(pa.int16()), pa.nulls(N), HALVES),
}


@pytest.mark.parametrize("name", SAME)
def test_numbers_of_other_types_in_some_files_are_one_column(name, tmp_path):
    columns = SAME[name]
    folder = write(tmp_path / "t", *(TABLE.append_column("c", column) for column in columns))
    expected = pd.concat([pd.Series(column.to_pylist(), dtype=object) for column in columns]).map(
        lambda value: np.nan if value is None else float(value)
    )
    np.testing.assert_array_equal(rows_of(folder, missing="mean")[:, 2], expected)
    assert check(str(folder)).n_rows == N * len(columns)


TEXTS = pa.array(SITES)
KINDS = {
    "categories": (TEXTS, TEXTS.dictionary_encode()),
    "large": (TEXTS.cast(pa.large_string()), TEXTS),
    "views": (TEXTS, TEXTS.cast(pa.string_view())),
    "categories of two types": (
        TEXTS.dictionary_encode(), TEXTS.dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
    ),
    "nothing": (pa.nulls(N, pa.string()), TEXTS.dictionary_encode()),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_text_of_other_types_in_some_files_is_one_column(name, tmp_path):
    first, second = KINDS[name]
    folder = write(tmp_path / "t", TABLE.append_column("s", first), TABLE.append_column("s", second))
    values = first.to_pylist() + second.to_pylist()
    expected = [np.nan if value is None else float(value == "south") for value in values]
    np.testing.assert_array_equal(rows_of(folder, encode=True, missing="mean")[:, 2], expected)


def test_columns_that_are_dropped_may_differ(tmp_path):
    times = [pa.array(range(N), pa.timestamp(unit, zone)) for unit, zone in (("ms", None), ("us", None), ("s", "UTC"))]
    others = [pa.array(range(N), pa.date32()), TEXTS, WHOLE, pa.array([[1]] * N), pa.array([{"x": 1}] * N)]
    folder = write(tmp_path / "t", *(TABLE.append_column("c", column) for column in [*times, *others]), TABLE)
    np.testing.assert_array_equal(rows_of(folder, drop=["c"]), np.tile(X, (9, 1)))
    settings = {"methods": ["pca"], "n_components": 1, "project": {"methods": ["pca"], "format": "csv"}}
    run({**settings, "dataset": {"uri": str(folder), "drop": ["c"]}, "output": str(tmp_path / "run")})


def test_all_differences_are_listed_at_once(tmp_path):
    other = pa.table({"a": pa.array(X[:, 0]).cast(pa.string()), "b": X[:, 1] > 0, "label": y, "c": HALVES})
    folder = write(tmp_path / "t", TABLE, other)
    with pytest.raises(InputError, match=r"'a' is string in .*1\.parquet and double in .*0\.parquet; 'b' is bool"):
        open_dataset(folder)
    with pytest.raises(InputError, match=r"Column 'c' of .*0\.parquet lacks it"):
        open_dataset(folder, drop=["a", "b"])
    big = write(tmp_path / "big", *(TABLE.append_column("c", c) for c in (pa.array([2**53 + 1] * N), HALVES)))
    with pytest.raises(InputError, match=r"Column 'c' of row group 0 .* cannot hold all of its values"):
        rows_of(big)


def test_a_column_that_some_files_lack_has_gaps_there(tmp_path):
    folder = write(tmp_path / "t", TABLE, TABLE.append_column("c", HALVES))
    rows = rows_of(folder, missing="mean")
    np.testing.assert_array_equal(rows[:, 2], np.concatenate([np.full(N, np.nan), HALVES.to_numpy()]))
    np.testing.assert_array_equal(rows_of(folder, drop=["c"]), np.tile(X, (2, 1)))


def test_plain_types():
    assert plain(pa.dictionary(pa.int8(), pa.int64())) == pa.int64()
    assert plain(pa.dictionary(pa.int8(), pa.string_view())) == pa.dictionary(pa.int8(), pa.large_string())
    assert unified(pa.date32(), pa.timestamp("ms")) == pa.timestamp("ms")
    assert unified(pa.string(), pa.int64()) is None and unified(pa.binary(), pa.string()) is None
