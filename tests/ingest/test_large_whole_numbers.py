"""Whole numbers beyond 2**53: ``mmpca check`` and runs take them, and ids one apart stay two."""

import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.runs import Recorder
from helpers.tables import config_of

from mmpca_dist import run
from mmpca_dist.ingest.column_profiles import ColumnProfile
from mmpca_dist.runs.check import check

N = 240
RNG = np.random.default_rng(0)
Y = RNG.integers(0, 2, N)
LARGE = {
    "19 digits": 10**18 + RNG.permutation(N),
    "nanoseconds": 1_700_000_000_000_000_000 + RNG.integers(0, 10**15, N),
    "below 0": -(2**60) - RNG.integers(0, 10**6, N),
    "unsigned": RNG.integers(2**63, 2**64 - 1, N, dtype=np.uint64),
    "2**53 and one more": 2**53 + np.arange(N) % 2,
    "few among small ones": np.where(np.arange(N) % 9, np.arange(N), 2**60 + np.arange(N)),
    "the least": np.where(np.arange(N) % 9, np.arange(N), -(2**63)),
}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("name", LARGE)
def test_check_looks_at_them(tmp_path, name, kind):
    table, uri = pd.DataFrame({"a": RNG.normal(size=N), "x": LARGE[name], "label": Y}), tmp_path / f"t.{kind}"
    table.to_csv(uri, index=False) if kind == "csv" else table.to_parquet(uri)
    checked = check(str(uri))
    (use,) = (use for use in checked.uses if use.column.name == "x")
    assert use.column.n_distinct == table["x"].nunique()
    assert use.column.smallest == pytest.approx(float(table["x"].min())) and use.column.n_missing == 0
    assert checked.refused == []


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_labels_one_apart_are_two_classes(tmp_path, no_report, kind):
    table, uri = pd.DataFrame({"a": RNG.normal(size=N), "b": Y + 0.1, "label": 9 * 10**18 + Y}), tmp_path / f"t.{kind}"
    table.to_csv(uri, index=False) if kind == "csv" else table.to_parquet(uri)
    assert check(str(uri)).classes == {str(label): n for label, n in table["label"].value_counts().items()}
    count = run(config_of(tmp_path / "out", uri, methods=["pca"], n_components=1), [Recorder()])["count"]
    assert count["classes"] == sorted(table["label"].unique().tolist())


def test_a_number_is_the_same_as_a_double_and_as_a_whole_number():
    look = ColumnProfile("x")
    for values in ([1, 2, 2**53 - 1], [1.0, 2.0], [2**53 + 1, 2**53 + 2]):
        look.add(pa.array(values))
    assert (look.n_distinct, look.n_known) == (5, 7)
    assert {"1", "2", str(2**53 + 1), str(2**53 + 2)} <= look.levels.keys()


@pytest.mark.parametrize("digits", [20, 25])
def test_labels_and_groups_of_more_digits_are_told_apart(tmp_path, no_report, digits):
    """In CSV, of which pyarrow makes doubles; numbers with a fraction among them stay doubles."""
    first, uri = 10**digits if digits > 20 else 2**64 - 9, tmp_path / "t.csv"
    table = pd.DataFrame({"a": RNG.normal(size=N), "label": [str(first + int(y)) for y in Y]})
    table["patient"] = [str(first + i % 8) for i in range(N)]
    table["size"] = [f"{first}.5" if i % 2 else str(first + i) for i in range(N)]
    table.to_csv(uri, index=False)
    checked = check(str(uri))
    assert checked.classes == table["label"].value_counts().to_dict()
    assert {use.column.name: (use.what, use.column.n_distinct) for use in checked.uses}["patient"] == ("groups", 8)
    sections = {"dataset": {"drop": ["patient", "size"]}, "methods": ["pca"], "n_components": 1}
    count = run(config_of(tmp_path / "out", uri, **sections), [Recorder()])["count"]
    assert list(map(str, count["classes"])) == sorted(table["label"].unique())
    kinds = pq.read_schema(next((tmp_path / "converted").glob("*/table.parquet")))
    assert (kinds.field("label").type, kinds.field("size").type) == (pa.string(), pa.float64())


def test_decimals_of_more_digits_are_told_apart(tmp_path):
    values = pa.array([decimal.Decimal(10**24 + int(y)) for y in Y], pa.decimal128(25, 0))
    pq.write_table(pa.table({"a": RNG.normal(size=N), "label": values}), tmp_path / "t.parquet")
    assert check(str(tmp_path / "t.parquet")).classes == {str(10**24 + y): int((y == Y).sum()) for y in (0, 1)}
