"""A column that nearly tells the classes apart: through the levels of a text, or a threshold; in runs and in check."""
# ruff: noqa: E501

import numpy as np
import pandas as pd
import pytest
from helpers.runs import Recorder
from helpers.tables import config_of

from mmpca_dist import run
from mmpca_dist.runs.check import check

N = 300
RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, N)
OTHERS = pd.DataFrame({"a": RNG.normal(size=N) + Y, "b": RNG.normal(size=N), "city": RNG.choice(["u", "v", "w"], N)})
AGE = RNG.integers(18, 95, N)
TELLING = {
    "levels that lie in one class each": (Y, [f"area {3 * part + y}" for y, part in zip(Y, RNG.integers(0, 5, N), strict=True)]),
    "two levels for each of two classes": (Y % 2, np.array(list("pqrs"))[2 * (Y % 2) + RNG.integers(0, 2, N)]),
    "a number and its groups": (np.digitize(AGE, [65, 80]), AGE),
    "a threshold": ((AGE > 50).astype(int), AGE),
    "a threshold with a few errors": ((AGE > 50) ^ (np.arange(N) % 150 == 7), AGE),
    "groups in falling order": (2 - np.digitize(AGE, [40, 60]), AGE),
    "a heavy tail": ((np.exp(AGE / 4) > np.e**12).astype(int), np.exp(AGE / 4)),
    "groups with gaps in the number": ((AGE > 50).astype(int), np.where(np.arange(N) % 9 == 0, np.nan, AGE)),
}  # fmt: skip
SILENT = {
    "a number that depends on the class": (Y, 2 * Y + RNG.normal(size=N)),
    "many levels at random": (Y, [f"area {i}" for i in RNG.integers(0, 40, N)]),
    "levels of four rows each": (Y, [f"area {i // 4}" for i in range(N)]),
    "a number apart from a class of three": (Y, np.where(Y == 0, 9, 1) + RNG.normal(size=N)),
    "petals": (Y, Y + 0.25 * RNG.normal(size=N)),
}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("name", [*TELLING, *SILENT])
def test_check_notes_what_tells_the_classes_apart(tmp_path, name, kind):
    y, values = {**TELLING, **SILENT}[name]
    table, uri = (
        OTHERS.assign(suspect=values, outcome=np.array(["x", "y", "z"])[np.asarray(y, int)]),
        tmp_path / f"t.{kind}",
    )
    table.to_csv(uri, index=False) if kind == "csv" else table.to_parquet(uri)
    notes = [note for note in check(str(uri)).notes if "nearly tells" in note]
    assert len(notes) == (name in TELLING), notes
    assert all(note.startswith("'suspect' ") and "dataset.drop" in note for note in notes)


@pytest.mark.parametrize("name", [*list(TELLING)[:5], *list(SILENT)[:2]])
def test_runs_note_it_once(tmp_path, no_report, name):
    y, values = {**TELLING, **SILENT}[name]
    OTHERS.assign(suspect=values, label=np.asarray(y, int)).to_parquet(tmp_path / "t.parquet")
    dataset = {"missing": "mean"}
    run(
        config_of(tmp_path / "out", tmp_path / "t.parquet", dataset=dataset, methods=["pca"], n_components=1),
        [told := Recorder()],
    )
    notes = [note for note in told.notes if "nearly tells" in note]
    assert len(notes) == (name in TELLING), notes
    assert all(note.startswith("'suspect' ") for note in notes)
