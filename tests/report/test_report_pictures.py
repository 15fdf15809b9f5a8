"""What the pictures of a report show, how its numbers are told apart, and the report of a whole run."""

import base64
import json
import re
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.reports import check_page, method_result, report_contents, with_margins

from mmpca_dist import load_model, run
from mmpca_dist.pictures.drawing import distinct, plain
from mmpca_dist.report.run_page import figures, render
from mmpca_dist.report.sections.projections import reach


def test_methods_with_one_component_have_no_curve():
    single = method_result("fisher", k=1, total=1.25)
    assert "spectrum" in {figure.name for figure in figures(report_contents([method_result(), single]))}
    assert "spectrum" not in {figure.name for figure in figures(report_contents([single]))}


@pytest.mark.e2e
def test_margins_say_what_they_are_of():
    fisher = method_result("fisher", orthonormal=False)
    contents = with_margins([method_result("pca"), fisher], before=np.r_[0, np.full(399, 2.0)], standardized=True)
    drawn = {figure.name: figure for figure in figures(contents)}
    caption = drawn["margins"].caption
    assert "(1,200 pairs)" in caption and "(400 of the 1,200 pairs, evenly spaced)" in caption
    assert "divided by their standard deviations" in caption
    assert "The components of FISHER have units of their own" in caption
    assert "1 of the 400 pairs coincide" in caption
    page = check_page(render(contents, list(drawn.values())))
    assert "98.7% (98.1% to 99.2%)" in page.text and "search" in page.ids
    plain_run = report_contents()
    assert not any("margin" in figure.name for figure in figures(plain_run))
    assert "search" not in check_page(render(plain_run, figures(plain_run))).ids


@pytest.mark.e2e
def test_same_pictures_from_several_threads():
    contents = report_contents()
    alone = figures(contents)
    with ThreadPoolExecutor(4) as pool:
        for together in pool.map(lambda _: figures(contents), range(4)):
            assert together == alone


def test_leaves_pyplot_alone():
    """pyplot keeps figures in a global list and may open a display."""
    code = "import sys, mmpca_dist.report; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_outliers_are_cut_only_where_they_squeeze_the_rest():
    values = np.linspace(0, 1, 1001)
    assert reach(values) == (0, 1)
    low, high = reach(np.append(values, 1e6))
    assert low == 0
    assert 1 < high < 2
    assert reach(np.zeros(7)) == (0, 0)


def test_names_are_fit_for_drawing():
    assert plain("a$b$") == r"a\$b\$"
    assert plain("x" * 10 + "end", limit=7) == "xxx\N{HORIZONTAL ELLIPSIS}end"
    assert plain("\u732b", "no. 2") == "no. 2"
    assert plain("tab\tand\nline") == "tab and line"
    assert plain("") == "?"
    long = [f"a very long name, number {i}, of the same kind" for i in range(3)]
    assert len(set(distinct(long, 16))) == 3
    assert distinct(["a", "b"]) == ["a", "b"]


@pytest.mark.e2e
def test_rows_of_parquet_are_drawn_and_a_page_in_a_store_is_opened(mmpca, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((70, 4)).astype(np.float32), np.arange(70) % 3
    table = {**{f"c{i}": X[:, i] for i in range(4)}, "label": [f"kind {i}" for i in y], "patient": np.arange(70) // 2}
    pq.write_table(pa.table(table), tmp_path / "in.parquet", row_group_size=32)
    output = f"memory://{uuid.uuid4().hex}/out"
    dataset = {"uri": str(tmp_path / "in.parquet"), "drop": ["patient"]}
    settings = {"methods": ["pca", "m-pca0"], "n_components": 2, "project": {"format": ["parquet"]}}
    settings["report"] = {"columns": "all"}
    run({"dataset": dataset, "output": output, **settings})
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    copy = Path(re.search("Downloaded to (.*)", mmpca("show", output, "--open")[1])[1])
    assert opened == [copy.as_uri()]
    page = check_page(copy.read_text())
    explorer = page.data["points"]["explorer"]
    packed = np.frombuffer(base64.b64decode(explorer["methods"][1]["coordinates"][0]), "<f4")
    np.testing.assert_allclose(packed, load_model(output, "m-pca0").transform(X)[:, 0], rtol=1e-4, atol=1e-5)
    drawn = json.dumps(page.data["points"]["item"])
    patients = [str(row // 2) for row in range(70)]
    for column in (["beside0", patients], ["row", list(range(70))], ["outcome", table["label"]]):
        assert json.dumps(column) in drawn
    pictured = ["pca", "m-pca0"][explorer["start"]]
    for command in (f"mmpca transform {output} new_rows.parquet", f"load_model({output!r}, {pictured!r})"):
        assert command in page.text
