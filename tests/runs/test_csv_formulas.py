"""Text in CSV that a spreadsheet would compute is quoted on demand, and stays as it is otherwise."""

import numpy as np
import pandas as pd
import pytest
from helpers.tables import config_of

from mmpca_dist import run
from mmpca_dist.runs.transform import TransformConfig, transform

FORMULAS = [
    '=HYPERLINK("http://x.example","open")',
    "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "  =1", "\uff1d1", "\r\n=1",
]  # fmt: skip
PLAIN = ["a=b", "3-4", "mail@x.example", "", "'quoted", "é", "1"]
N = 2 * len(FORMULAS + PLAIN)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.standard_normal((N, 3)), columns=list("abc"))
    frame["=note"], frame["amount"] = (FORMULAS + PLAIN) * 2, -np.arange(N) - 0.5
    frame["label"] = np.where(np.arange(N) % 2, "-x", "y")
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
