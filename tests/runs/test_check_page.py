"""``mmpca check --open``: the page shows the numbers of ``--json``, runs no text of data, and names nobody."""

import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner
from helpers.reports import check_page as well_formed
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_wine

from mmpca_dist.errors import OutputError
from mmpca_dist.ingest.column_profiles import BARS, ColumnProfile
from mmpca_dist.results.forms import written
from mmpca_dist.runs import check_page as pages
from mmpca_dist.runs.check import check
from mmpca_pipelines.cli import cli

NASTY = "<img src=x onerror=alert(1)>"
N = 400


def mixed():
    """Return a table in which each kind of alert occurs; the last column is the label."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, N)
    return pd.DataFrame({
        "guest": [f"Ada Smith {i}" for i in rng.permutation(N)],
        NASTY: rng.normal(size=N).round(3),
        "heavy": (1e6 * rng.normal(size=N)).round(),
        "leak": y + rng.normal(size=N) / 50,
        "town": pd.Series(rng.choice(["north", "south", "hill"], N)).mask(rng.random(N) < 0.2),
        "unit": "mm",
        "seen": pd.date_range("2031-01-01", periods=N),
        "result": np.array(["good", "bad"])[y],
    })  # fmt: skip


def tables_of(html):
    """Return the texts of tables, row by row and field by field, without their headings."""
    fields = re.compile(r"<t[dh][ >].*?</t[dh]>", re.S)
    bodies = (re.findall("<tr>(.*?)</tr>", body, re.S) for body in re.findall("<tbody>(.*?)</tbody>", html, re.S))
    text = lambda field: " ".join(unescape(re.sub("<[^>]*>", " ", field)).split())  # noqa: E731
    return [[[*map(text, fields.findall(row))] for row in rows] for rows in bodies]


def opened(monkeypatch, *arguments):
    """Return the JSON and the page of a command."""
    pages = []
    monkeypatch.setattr("webbrowser.open", lambda url: pages.append(url) or True)
    result = CliRunner().invoke(cli, ["check", *map(str, arguments), "--open", "--json"], catch_exceptions=False)
    (url,) = pages
    return json.loads(result.stdout), Path(url.removeprefix("file://")).read_text("utf-8")


def test_the_page_has_the_numbers_of_the_json(tmp_path, monkeypatch):
    table, config = mixed(), tmp_path / "my.yaml"
    table.to_csv(tmp_path / "mixed.csv", index=False)
    told, html = opened(monkeypatch, tmp_path / "mixed.csv", "--label", "result", "-o", config)
    alerts, columns, classes, _ = tables_of(html)
    assert [(row[0], *row[2:]) for row in alerts] == [tuple(alert.values()) for alert in told["alerts"]]
    kinds = {"seen": "refused", "leak": "tells the classes", "heavy": "holds the scatter", "guest": "left out"}
    assert kinds.items() <= {alert["column"]: alert["alert"] for alert in told["alerts"]}.items()
    assert [alert["alert"] for alert in told["alerts"] if alert["column"] == "town"] == ["gaps"]
    assert [row[0] for row in columns] == list(table)
    for row, each in zip(columns, told["columns"], strict=True):
        assert (row[1], row[3], row[4].split()[0]) == (each["type"], str(each["different"]), str(each["missing"]))
        assert row[2] in ("not shown", each["values"])
        assert row[5:7] == [written("share", each["scatter"]), written("share", each["tells"])]
        assert all(words in row[7] for words in each["use"].split(": ", 1))
        assert sum(each["bars"]) in (0, N - each["missing"])
    numbers = [table[name] for name in (NASTY, "heavy", "leak")]
    levels = pd.get_dummies(table["town"]).astype(float)[table["town"].notna()]
    squares = [*(column.var(ddof=0) * N for column in numbers), (levels.var(ddof=0) * len(levels)).sum()]
    shares = [each["scatter"] for each in told["columns"] if each["scatter"] is not None]
    np.testing.assert_allclose(shares, np.array(squares) / sum(squares), rtol=1e-9)
    assert {row[1]: int(row[2]) for row in classes} == told["classes"]
    assert NASTY in well_formed(html).text
    assert "Ada Smith" not in html and "2031-" not in html
    with pytest.raises(OutputError, match=r"my\.yaml\.html is there already"):
        config.unlink()
        opened(monkeypatch, tmp_path / "mixed.csv", "-o", config)


def test_a_table_that_is_refused_and_an_array_have_pages(tmp_path, monkeypatch):
    mixed().drop(columns=["result", "unit", "town"]).to_parquet(tmp_path / "bare.parquet")
    checked = check(str(tmp_path / "bare.parquet"))
    assert checked.refused[0] in pages.check_page(checked)
    monkeypatch.setattr(pages, "MAX_ROWS", 2)
    html = pages.check_page(checked)
    assert "first 2 of 5;" in html and len(tables_of(html)[1]) == 2
    X, y = load_wine(return_X_y=True)
    np.savez(tmp_path / "wine.npz", X=X, y=y)
    alerts, columns, *_ = tables_of(pages.check_page(check(str(tmp_path / "wine.npz"), "y")))
    assert alerts[0][:3:2] == ["column 12", "holds the scatter"] and (columns[0][0], len(columns)) == ("12", 13)


@given(
    st.lists(st.sampled_from([0.0, 1.0, 2.5, np.nan, -np.inf, 1e308, -1e308, 5e-324]), max_size=60), st.integers(1, 9)
)
@settings(max_examples=25, deadline=None)
def test_bars_count_the_rows_that_are_kept_whatever_the_pieces(values, size):
    once, often = ColumnProfile("x"), ColumnProfile("x")
    once.add(pa.array(values, pa.float64()))
    for start in range(0, len(values), size):
        often.add(pa.array(values[start : start + size], pa.float64()))
    assert once.bars == often.bars and len(once.bars) <= BARS
    assert sum(once.bars) in (0, np.isfinite(values).sum())
