"""Projected tables keep columns, labels and row numbers, in every format, and other programs read them."""

import datetime
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from helpers.runs import Recorder, through
from helpers.tables import config_of, content_of, write_zarr

from mmpca_dist import load_model, run
from mmpca_dist.errors import InputError, OutputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.runs.transform import TransformConfig, transform
from mmpca_dist.stores import storage

N = 400
FEATURES = ["a", "b"]
DAY = datetime.date(2026, 3, 1)


def write_rows(path, row_group_size=60, **more):
    """Write features, columns beside them of many types, some with gaps, and a label that some rows lack."""
    rng = np.random.default_rng(1)
    numbers = np.arange(N)
    table = pa.table(
        {
            **{name: rng.normal(size=N) for name in FEATURES},
            "id": [f'r{i}, "{i % 7}"\n' for i in numbers],
            "row": numbers[::-1].copy(),  # the name of a column of our own
            "../up": pa.array([None if i % 5 == 0 else int(i) for i in numbers]),
            "day": [None if i % 11 == 0 else DAY + datetime.timedelta(days=int(i)) for i in numbers],
            "site": pa.array([["n", "s", None][i % 3] for i in numbers]).dictionary_encode(),
            "flag": numbers % 2 == 0,
            "n": numbers % 4,
            **more,
            "kind": pa.array([None if i % 9 == 0 else ["x", "y"][i % 2] for i in numbers]),
        }
    )
    pq.write_table(table, path, row_group_size=row_group_size)
    return table


BESIDE = ["id", "row", "../up", "day", "site", "flag", "n"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that leaves out rows without a label or of weight zero, with tables in all formats."""
    folder = tmp_path_factory.mktemp("run")
    table = write_rows(folder / "rows.parquet", list=[[1.0, 2.0]] * N)
    before, LIMITS.unit_bytes = LIMITS.unit_bytes, 50_000
    run(
        {
            "dataset": {
                "uri": str(folder / "rows.parquet"), "label": "kind", "unlabelled": "skip", "weight": "n",
                "drop": [name for name in [*BESIDE, "list"] if name != "n"],
            },
            "methods": ["pca", "fisher"], "n_components": 1, "precision": "double",
            "project": {"format": ["zarr", "parquet", "csv", "arrow"]}, "output": str(folder / "out"),
        }
    )  # fmt: skip
    LIMITS.unit_bytes = before
    return folder / "out", table


def expected_of(table, output, methods, rows):
    """Return what a table must hold, from pandas and the models."""
    frame = table.to_pandas()
    frame["site"] = frame["site"].astype(object)
    kept = frame.loc[rows, BESIDE].rename(columns={"row": "row_"})
    kept.insert(0, "row", rows)
    kept["label"] = frame.loc[rows, "kind"]
    for method in methods:
        Z = load_model(str(output), method).transform(frame.loc[rows, FEATURES])
        for j, column in enumerate(Z.T):
            kept[f"{method}_{j}"] = column
    return kept.reset_index(drop=True)


def same(found, expected, text_only=False):
    """Compare a data frame with what is expected; ``text_only`` where dates and booleans are read as others are."""
    assert list(found.columns) == list(expected.columns)
    for name in expected:
        one, other = found[name].to_numpy(object), expected[name].to_numpy(object)
        gaps = pd.isna(other)
        np.testing.assert_array_equal(pd.isna(one), gaps, err_msg=name)
        if name.startswith(("pca", "fisher")):
            # Sums of two products in another order: a few units in the last place.
            np.testing.assert_allclose(one.astype(float), other.astype(float), rtol=1e-13, atol=1e-15)
        elif name == "day":
            assert [str(value)[:10] for value in one[~gaps]] == [str(value) for value in other[~gaps]]
        else:
            np.testing.assert_array_equal(one[~gaps], other[~gaps], err_msg=name)


def kept_rows(table):
    frame = table.to_pandas()
    return np.flatnonzero(frame["kind"].notna() & (frame["n"] > 0))


READERS = {
    "parquet": [
        pd.read_parquet,
        lambda folder: pl.read_parquet(f"{folder}/*.parquet").to_pandas(),
        lambda folder: duckdb.sql(f"FROM '{folder}/*.parquet'").df(),
    ],
    "csv": [
        lambda folder: pd.concat(map(pd.read_csv, sorted(Path(folder).iterdir())), ignore_index=True),
        lambda folder: pl.read_csv(f"{folder}/*.csv").to_pandas(),
        lambda folder: duckdb.sql(f"FROM read_csv('{folder}/*.csv')").df(),
    ],
    "arrow": [
        lambda folder: pd.concat(map(pd.read_feather, sorted(Path(folder).iterdir())), ignore_index=True),
        lambda folder: pl.read_ipc(f"{folder}/*.arrow").to_pandas(),
        lambda folder: pa.dataset.dataset(folder, format="ipc").to_table().to_pandas(),
    ],
}  # fmt: skip


@pytest.mark.parametrize("form", READERS)
def test_other_programs_read_the_tables_of_a_run(form, finished):
    output, table = finished
    folder = f"{output}/projected/pca.{form}"
    assert len(storage.names_in(folder)) > 2  # several parts
    expected = expected_of(table, output, ["pca"], kept_rows(table))
    for read in READERS[form]:
        same(read(folder), expected)


def test_zarr_has_the_columns_as_arrays(finished):
    output, table = finished
    group = zarr.open_group(f"{output}/projected/pca.zarr", mode="r")
    expected = expected_of(table, output, ["pca"], kept_rows(table))
    arrays = {name: array[:] for name, array in group.arrays()}
    assert set(arrays) == {"X", "y", "row", "row_", "id", "_up", "day", "site", "flag", "n"}
    for name, column in {"row": "row", "row_": "row_", "id": "id", "flag": "flag", "n": "n", "y": "label"}.items():
        np.testing.assert_array_equal(arrays[name], expected[column].to_numpy())
    np.testing.assert_array_equal(arrays["_up"], expected["../up"].to_numpy(float))  # gaps are NaN
    for name in ("day", "site"):
        assert arrays[name].tolist() == ["" if pd.isna(value) else str(value) for value in expected[name]]


@pytest.mark.parametrize("form", ["csv", *(pytest.param(form, marks=pytest.mark.e2e) for form in ("parquet", "arrow"))])
def test_a_destination_with_a_suffix_is_one_file_with_all_methods(form, finished, tmp_path, monkeypatch):
    """From several parts, and never over another file."""
    output, table = finished
    write_rows(tmp_path / "new.parquet")
    monkeypatch.setattr(LIMITS, "unit_bytes", 50_000)
    config = TransformConfig(output=str(output), dataset=str(tmp_path / "new.parquet"),
                             destination=str(tmp_path / f"out.{form}"))  # fmt: skip
    manifest = transform(config)
    assert manifest["outputs"] == [config.destination] and manifest["rows"] == N
    read = {"parquet": [pd.read_parquet, pl.read_parquet], "csv": [pd.read_csv, pl.read_csv],
            "arrow": [pd.read_feather, pl.read_ipc]}  # fmt: skip
    expected = expected_of(table, output, ["pca", "fisher"], np.arange(N)).rename(columns={"label": "kind"})
    for one in read[form]:
        frame = one(config.destination)
        same(frame.to_pandas() if isinstance(frame, pl.DataFrame) else frame, expected)
    same(duckdb.sql(f"FROM '{config.destination}'").df() if form != "arrow" else expected, expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.parquet", f"out.{form}"]
    with pytest.raises(OutputError, match="is there already: name another destination"):
        transform(config)


KILL = """
import os, signal, sys
from mmpca_dist.limits import LIMITS
from mmpca_dist.runs import transform as transforming
from mmpca_dist.stores import storage

LIMITS.unit_bytes, when = 50_000, sys.argv[4]
def write_bytes(uri, data, write=storage.write_bytes):
    if when == "pass" and uri.endswith("part-000002.arrow"):
        os.kill(os.getpid(), signal.SIGKILL)
    write(uri, data)
def read_bytes(uri, read=storage.read_bytes):
    if when == "join" and uri.endswith("part-000002.arrow"):
        os.kill(os.getpid(), signal.SIGKILL)
    return read(uri)
storage.write_bytes, storage.read_bytes = write_bytes, read_bytes
options = dict(zip(("output", "dataset", "destination"), sys.argv[1:4]))
transforming.transform(transforming.TransformConfig(**options))
"""


@pytest.mark.e2e
@pytest.mark.parametrize("when", ["pass", "join"])
def test_a_killed_transform_goes_on_to_the_same_file(when, finished, tmp_path, monkeypatch):
    output, _ = finished
    write_rows(tmp_path / "new.parquet")
    files = [str(tmp_path / name) for name in ("killed.csv", "whole.csv")]
    options = str(output), str(tmp_path / "new.parquet")
    done = subprocess.run([sys.executable, "-c", KILL, *options, files[0], when], timeout=120, check=False)
    assert done.returncode == -9 and not storage.exists(files[0]) and storage.exists(f"{files[0]}.unfinished")
    monkeypatch.setattr(LIMITS, "unit_bytes", 50_000)
    for file in files:
        through(options[0], options[1], file)
    assert Path(files[0]).read_bytes() == Path(files[1]).read_bytes()
    assert not list(tmp_path.glob("*.unfinished"))


@pytest.mark.e2e
def test_the_same_bytes_from_workers_and_threads(finished, tmp_path):
    output, _ = finished
    config = yaml_of(output)
    for name, compute in {"one": {"workers": 1}, "local": {"cluster": "local", "workers": 2}}.items():
        run(config | {"compute": compute, "output": str(tmp_path / name)})
    for first in sorted((tmp_path / "one" / "projected").rglob("*")):
        second = tmp_path / "local" / first.relative_to(tmp_path / "one")
        assert first.is_dir() or first.read_bytes() == second.read_bytes(), first


def yaml_of(output):
    return storage.read_json(f"{output}/run.json")["config"]


@pytest.mark.e2e
def test_named_columns_alone_are_kept_and_others_refused(finished, tmp_path):
    output, _ = finished
    config = yaml_of(output) | {"methods": ["pca"]}
    project = {"format": ["parquet"], "keep": ["id"]}
    run(config | {"project": project, "output": str(tmp_path / "id")})
    found = pq.read_table(tmp_path / "id" / "projected" / "pca.parquet")
    assert found.column_names == ["row", "id", "label", "pca_0"]
    for keep, message in {
        "idd": "no column 'idd' .project.keep.*Did you mean 'id'",
        "list": "values are of type",
    }.items():
        with pytest.raises(InputError, match=message):
            run(config | {"project": project | {"keep": [keep]}, "output": str(tmp_path / keep)})


def test_columns_that_an_ingest_kept_go_on(tmp_path):
    """Arrays next to X and y, and through a transform into the same format."""
    X, patient = np.random.default_rng(0).normal(size=(60, 3)), np.asarray([f"p{i % 7}" for i in range(60)])
    beside = {"patient": patient, "age": np.arange(60)}
    uri = write_zarr(tmp_path / "a.zarr", X, np.arange(60) % 2, 60, beside=beside)
    run(content_of(tmp_path / "run", uri, n_components=1))
    through(tmp_path / "run", tmp_path / "a.zarr", tmp_path / "b.zarr")
    for address in ("run/projected/pca.zarr", "b.zarr"):
        found = {name: array[:] for name, array in zarr.open_group(str(tmp_path / address), mode="r").arrays()}
        assert found["patient"].tolist() == patient.tolist()
        np.testing.assert_array_equal(found["age"], np.arange(60))
        np.testing.assert_array_equal(found["row"], np.arange(60))
    assert all(b > a for a, b in pairwise(found["row"]))


@pytest.mark.parametrize(("n_beside", "keep", "kept"), [(50, "all", 50), (51, "all", 0), (51, ["x60"], 1)])
def test_columns_that_are_not_chosen_go_on_only_if_few_or_named(n_beside, keep, kept, tmp_path):
    names = [f"x{i}" for i in range(99 - n_beside, 101)]
    rows = np.random.default_rng(2).standard_normal((30, len(names)))
    frame = pd.DataFrame(rows, columns=names).assign(label=np.arange(30) % 2)
    frame.to_parquet(tmp_path / "t.parquet")
    told_of, config = Recorder(), {"methods": ["pca"], "n_components": 1, "output": str(tmp_path / "out")}
    dataset, project = {"uri": str(tmp_path / "t.parquet"), "columns": names[:2]}, {"format": ["parquet"], "keep": keep}
    run({"dataset": dataset, "project": project, **config}, [told_of])
    assert len(pq.read_schema(tmp_path / "out/projected/pca.parquet/part-000000.parquet").names) == 3 + kept
    told = f"{n_beside} columns are neither features nor labels. Projected rows do not keep so many"
    assert any(told in note for note in told_of.notes) == (kept == 0)


FORMULAS = [
    '=HYPERLINK("http://x.example","open")',
    "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "  =1", "\uff1d1", "\r\n=1",
]  # fmt: skip
PLAIN = ["a=b", "3-4", "mail@x.example", "", "'quoted", "é", "1"]
LENGTH = 2 * len(FORMULAS + PLAIN)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.standard_normal((LENGTH, 3)), columns=list("abc"))
    frame["=note"], frame["amount"] = (FORMULAS + PLAIN) * 2, -np.arange(LENGTH) - 0.5
    frame["label"] = np.where(np.arange(LENGTH) % 2, "-x", "y")
    path = tmp_path_factory.mktemp("table") / "table.parquet"
    frame.to_parquet(path)
    return path, frame


def settings(table, output, **project):
    keep = {"format": ["csv", "zarr"], **project}
    return config_of(
        output, str(table[0]), methods=["pca"], n_components=[2], project=keep,
        dataset={"uri": str(table[0]), "drop": ["=note", "amount"]},
    )  # fmt: skip


def quoted(text):
    return f"'{text}" if text in (*FORMULAS, "-x", "=note") else text


def read(path):
    parts = sorted(path.glob("*.csv")) if path.is_dir() else [path]
    return pd.concat([pd.read_csv(part, keep_default_na=False, lineterminator="\n") for part in parts])


@pytest.mark.parametrize("quotes", [False, True])
def test_tables_of_a_run(quotes, table, tmp_path, no_report):
    run(settings(table, tmp_path / "out", **({"quote_formulas": True} if quotes else {})))
    found, frame = read(tmp_path / "out" / "projected" / "pca.csv"), table[1]
    change = quoted if quotes else lambda text: text
    assert found[change("=note")].tolist() == [change(text) for text in frame["=note"]]
    assert found["label"].tolist() == [change(text) for text in frame["label"]]
    np.testing.assert_array_equal(found["amount"], frame["amount"])
    assert found["pca_0"].dtype == np.float64 or found["pca_0"].dtype == np.float32


@pytest.mark.parametrize("destination", ["new.csv", "new"])
def test_one_file_or_a_folder_of_a_transform(destination, table, tmp_path, no_report):
    run(settings(table, tmp_path / "out"))
    request = {"output": str(tmp_path / "out"), "dataset": str(table[0]), "destination": str(tmp_path / destination)}
    transform(TransformConfig(**request, quote_formulas=True))
    found = read(tmp_path / destination / "projected" / "pca.csv" if destination == "new" else tmp_path / destination)
    assert found["'=note"].tolist() == [quoted(text) for text in table[1]["=note"]]
    np.testing.assert_array_equal(found["amount"], table[1]["amount"])


def test_the_command_has_the_option(table, tmp_path, mmpca, no_report):
    run(settings(table, tmp_path / "out"))
    code, _, errors = mmpca(
        "transform", tmp_path / "out", table[0], tmp_path / "new.csv", "--quote-formulas", "--no-prefect"
    )
    assert code == 0, errors
    assert read(tmp_path / "new.csv")["label"].isin(["'-x", "y"]).all()
