"""All columns that cannot be used are named at once, with what to type, before any server starts."""

import gzip
import shlex
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from helpers.ingested import check_ingest, ingest
from helpers.tables import config_of, write_config

from mmpca_dist import open_dataset
from mmpca_dist.configuration.schema import load_config
from mmpca_dist.errors import ColumnError, InputError
from mmpca_dist.runs.fit import preview
from mmpca_dist.tables.readers.parquet import ParquetRows
from mmpca_pipelines.__main__ import main

N = 400
KINDS = ["csv", "csv.gz", "parquet"]


def columns(n=N):
    """Columns by name: which are sound, text, gaps, an infinity, a decimal comma, a kept column and a label."""
    rng = np.random.default_rng(0)
    found = {
        "my id": [f"P{i}" for i in range(n)],
        "sound": rng.standard_normal(n).tolist(),
        "age": rng.standard_normal(n).tolist(),
        "city": ["Rome", "Oslo"] * (n // 2),
        "weight": rng.standard_normal(n).tolist(),
        "price": ["1,5"] * n,
        "ward": ["a", "b", "c", "d"] * (n // 4),
        "whole": list(range(5, n + 5)),
        "kind": ["x", "y"] * (n // 2),
    }
    found["age"][7] = None
    for i in range(300, 320):
        found["weight"][i] = None
    return found


BAD = {"my id", "age", "city", "weight", "price"}


def write(folder, kind, table):
    path = folder / f"table.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table(table), path, row_group_size=64)
        return path
    lines = [",".join(table)]
    rows = zip(*table.values(), strict=True)
    lines += [",".join("" if v is None else f'"{v}"' if "," in str(v) else str(v) for v in row) for row in rows]
    data = "\n".join(lines).encode() + b"\n"
    if kind == "csv.gz":
        data = gzip.compress(data)
    path.write_bytes(data)
    return path


@pytest.fixture
def blocks(limits):
    """Text comes in many blocks."""
    limits.text_block_bytes, limits.text_block_lines = 512, 1


def faults_of(path, folder, **options):
    with pytest.raises(ColumnError) as caught:
        ingest(path, folder / "out.zarr", **{"label": "kind", **options})
    assert not (folder / "out.zarr").exists()
    return {fault.facts["name"]: fault for fault in caught.value.faults}, str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_all_columns_are_named(kind, tmp_path, blocks):
    path = write(tmp_path, kind, columns())
    faults, message = faults_of(path, tmp_path, keep=["ward"])
    assert set(faults) == BAD
    assert {name for name, fault in faults.items() if fault.kind == "gap"} == {"age", "weight"}
    assert all(f"\n  {name} " in message for name in BAD)
    options = "".join(f" --drop {shlex.quote(name)}" for name in faults)
    assert message.startswith(f"5 columns of {path} cannot be used as they are:\n")
    assert f"no features:{options}\n" in message  # one line to copy
    assert "--keep 'my id'" in message and "--keep age" not in message
    if kind != "parquet":
        assert "text: 'P0' in row 0 (line 2)" in faults["my id"].text
        assert "decimals need a point" in faults["price"].text
        assert faults["age"].text.startswith("1 value missing") and "row 7 (line 9)" in faults["age"].text
        assert faults["weight"].text.startswith("20 values") and "row 300 (line 302)" in faults["weight"].text
    words = shlex.split(message.split("no features:")[1].split("\n")[0])
    ingest(path, tmp_path / "out.zarr", label="kind", keep=["ward"], drop=words[1::2])
    assert open_dataset(tmp_path / "out.zarr").feature_names == ["sound", "whole"]


@pytest.mark.parametrize("kind", KINDS)
def test_labels_and_kept_columns_with_gaps_are_among_them(kind, tmp_path, blocks):
    table = columns()
    for name, row in (("kind", 100), ("ward", 200)):
        table[name] = [None if i == row else value for i, value in enumerate(table[name])]
    faults, message = faults_of(write(tmp_path, kind, table), tmp_path, keep=["ward"])
    assert set(faults) == BAD | ({"kind"} if kind == "parquet" else {"kind", "ward"})
    assert {faults[name].kind for name in set(faults) - BAD} == {"names"}
    assert "--drop kind" not in message and "--drop ward" not in message
    assert "Correct labels and columns to keep" in message


@pytest.mark.parametrize("values", [["NaN"], ["inf"], ["1e39"]])
def test_numbers_that_are_none(values, tmp_path):
    table = {"a": [1.0, 2, 3, 4], "b": [1.0, float(values[0]), 3, 4], "c": [float(values[0])] * 4, "kind": [0, 1, 0, 1]}
    (tmp_path / "a.csv").write_text(
        "a,b,c,kind\n" + "".join(f"{i},{values[0]},{values[0]},{i % 2}\n" for i in range(4))
    )
    assert set(faults_of(tmp_path / "a.csv", tmp_path)[0]) == {"b", "c"}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"Feature [12] .* of .* has .* in row 0\. Features must be finite"):
        ingest(tmp_path / "a.parquet", tmp_path / "out.zarr", label="kind", dtype="float32")


def test_text_that_comes_late_and_in_quoted_lines(tmp_path, blocks):
    rows = [f'{i}.5,"first\nsecond {i}",{i % 2}' for i in range(300)]
    rows[250] = rows[250].replace("250.5", "oops")
    (tmp_path / "a.csv").write_text("a,note,kind\n\n" + "\n".join(rows) + "\n")
    faults, _ = faults_of(tmp_path / "a.csv", tmp_path, drop=["note"])
    assert faults["a"].text == "text: 'oops' in row 250 (line 503)"


def test_lines_that_are_wrong_are_refused_as_before(tmp_path):
    (tmp_path / "a.csv").write_text("id,a,kind\np,1,x\nq,2\n")
    with pytest.raises(InputError, match=r"Row 1 \(line 3\) of .* has 2 cells where 3 belong"):
        ingest(tmp_path / "a.csv", tmp_path / "out.zarr")


def test_sound_tables_pass_and_columns_that_count_are_noted(tmp_path, blocks):
    table = {name: values for name, values in columns().items() if name not in BAD | {"ward"}}
    notes = []
    check_ingest(write(tmp_path, "csv", table), tmp_path / "out.zarr", label="kind", note=notes.append)
    assert notes == ["Column 'whole' only counts the rows: leave it out with --drop, unless it is a measurement."]


@pytest.mark.parametrize(("name", "message"), [
    ("city", "text: 'Rome' in row 0 (line 2). Leave out columns that are no features: --drop city; or keep"),
    ("age", "1 value missing, infinite or too large, the first in row 7 (line 9). Leave out columns that are no"),
    ("my id", "--drop 'my id'; or keep columns of names with the rows: --keep 'my id'; or write Parquet"),
])  # fmt: skip
def test_a_single_column_takes_a_sentence(name, message, tmp_path):
    table = {one: values for one, values in columns().items() if one in ("sound", "kind", name)}
    faults, text = faults_of(write(tmp_path, "csv", table), tmp_path)
    assert set(faults) == {name} and message in text and "\n" not in text
    assert text.startswith(f"Column {name!r} of ") and text.endswith(".")


def test_thousands_of_columns_of_text(tmp_path):
    names = [f"t{i}" for i in range(3000)]
    lines = [",".join([*names, "a", "kind"]), *[",".join(["w"] * 3000 + ["1.5", str(i % 2)]) for i in range(20)]]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    faults, message = faults_of(tmp_path / "a.csv", tmp_path)
    assert set(faults) == set(names)
    assert len(message.splitlines()) < 40 and "... and 2980 more" in message


def test_integers_with_statistics_are_not_read(tmp_path, monkeypatch):
    pq.write_table(pa.table({"a": [1, None, 3], "b": [1, 2, 3], "kind": [0, 1, 0]}), tmp_path / "a.parquet")
    monkeypatch.setattr(ParquetRows, "read", lambda *_: pytest.fail("rows are read"))
    assert set(faults_of(tmp_path / "a.parquet", tmp_path)[0]) == {"a"}


def test_the_plan_finds_gaps_in_metadata(tmp_path, monkeypatch):
    """All at once, and a setting to paste that keeps what was left out before; text becomes indicators."""
    path = write(tmp_path, "parquet", columns())
    monkeypatch.setattr(ParquetRows, "read", lambda *_: pytest.fail("rows are read"))
    file = write_config(tmp_path / "my.yaml", tmp_path / "out", path, dataset={"label": "kind", "drop": ["ward"]})
    with pytest.raises(ColumnError) as caught:
        preview(load_config(file))
    message = str(caught.value)
    assert {fault.facts["name"] for fault in caught.value.faults} == {"age", "weight", "price"}
    assert "20 missing values (null)" in message and "--keep" not in message
    words = shlex.split(message.split("no features: ")[1].split("\n")[0])
    assert words[0] == "--set"
    key, _, value = words[1].partition("=")
    assert set(yaml.safe_load(value)) == {"age", "weight", "ward", "price"}
    monkeypatch.undo()
    preview(load_config(file, {key: yaml.safe_load(value)}))


def test_statistics_of_very_many_columns_are_not_all_looked_up(tmp_path, limits):
    path = write(tmp_path, "parquet", {name: columns()[name] for name in ("sound", "age", "kind")})
    limits.parquet_statistics = 5
    assert [fault.facts["name"] for fault in open_dataset(path, label="kind").stored.gaps()] == ["age"]
    limits.parquet_statistics = 0
    write(tmp_path, "parquet", {"sound": [0.0] * 70, "age": [0.0] * 69 + [None], "kind": [0, 1] * 35})
    assert not open_dataset(path, label="kind").stored.gaps()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_command_refuses_before_a_server_starts(kind, no_server, tmp_path, monkeypatch, capsys):
    path = write(tmp_path, kind, columns())
    monkeypatch.setattr(sys, "argv", ["mmpca", "ingest", str(path), str(tmp_path / "out.zarr"), "--label", "kind"])
    with pytest.raises(SystemExit) as end:
        main()
    printed = capsys.readouterr()
    assert end.value.code == 2
    assert all(f"--drop {shlex.quote(name)}" in printed.err for name in BAD | {"ward"}), printed.err
    assert not (tmp_path / "out.zarr").exists()


def test_a_heavy_column_is_known_to_the_plan_from_ingest_on(tmp_path):
    rng = np.random.default_rng(1)
    lines = [f"{1000 * a},{b},{c},{i % 2}" for i, (a, b, c) in enumerate(rng.standard_normal((200, 3)))]
    (tmp_path / "a.csv").write_text("elevation,b,c,kind\n" + "\n".join(lines) + "\n")
    notes = []
    ingest(tmp_path / "a.csv", tmp_path / "a.zarr", label="kind", note=notes.append)
    note = "'elevation' holds over 99% of the scatter of the 3 columns, so that components mostly follow it. Set"
    assert [one for one in notes if one.startswith(note)]
    uri = str(tmp_path / "a.zarr")
    assert dict(preview(config_of(tmp_path / "out", uri)).rows())["note"].startswith(note)
    assert "note" not in dict(preview(config_of(tmp_path / "out", uri, standardize=True)).rows())
    assert "note" not in dict(preview(config_of(tmp_path / "out", "bundled:iris")).rows())


@pytest.mark.parametrize("sparse", [False, True])
def test_the_spread_of_columns_is_that_of_all_rows(sparse, limits):
    from scipy.sparse import csr_array

    from mmpca_dist.tables import column_scatter

    limits.spread_bytes = 8 * 5 * 3
    X = 1e4 + np.random.default_rng(2).standard_normal((50, 5)) * np.arange(1, 6)
    found = column_scatter.ColumnSpread(5)
    for start, stop in ((0, 1), (1, 20), (20, 50)):
        found.add(csr_array(X[start:stop]) if sparse else X[start:stop])
    np.testing.assert_allclose(found.squares, X.var(axis=0) * 50, rtol=1e-9)


def test_rows_to_project_are_noted_no_heavy_column(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n" + "".join(f"{1000 * (i % 7)},{i % 3}\n" for i in range(50)))
    notes = []
    ingest(tmp_path / "a.csv", tmp_path / "a.zarr", unlabelled=True, note=notes.append)
    assert not any("scatter" in note for note in notes)
