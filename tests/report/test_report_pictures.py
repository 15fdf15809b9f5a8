"""What the pictures of a report show, how its numbers are told apart, and the report of a whole run."""

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
from helpers.pictures import Read
from helpers.reports import (
    check_page,
    half_step,
    method_result,
    report_contents,
    unpacked,
    with_margins,
)

from mmpca_dist import load_model, run
from mmpca_dist.pictures.chart import distinct, words
from mmpca_dist.pictures.palette import method_look
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


def test_reports_need_no_matplotlib():
    code = "import sys, mmpca_dist.report.run_page as page; len(page.SECTIONS); sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_outliers_are_cut_only_where_they_squeeze_the_rest():
    values = np.linspace(0, 1, 1001)
    assert reach(values) == (0, 1)
    low, high = reach(np.append(values, 1e6))
    assert low == 0
    assert 1 < high < 2
    assert reach(np.zeros(7)) == (0, 0)


def test_outliers_outside_of_a_panel_are_counted():
    rows = np.vstack([np.random.default_rng(0).uniform(0, 1, (88, 3)), [[1e6, 0.5, 0], [0.5, -1e6, 0]]])
    contents = report_contents([method_result()], projected={"pca": rows})
    (figure,) = [figure for figure in figures(contents) if figure.name == "projection"]
    panel = Read(figure.panels[0])
    assert "component 1 (2 rows outside)" in panel.texts
    drawn = np.sort(np.concatenate([panel.points(f"c{i}") for i in range(3)]), axis=0)
    np.testing.assert_allclose(drawn, np.sort(rows[:88, :2], axis=0), atol=0.003)  # a tenth of a pixel


def test_classes_have_their_colours_and_marks_and_methods_the_same_everywhere():
    contents = report_contents(classes=[f"c{i}" for i in range(9)], rows=900)
    drawn = {figure.name: Read(figure.panels[0]) for figure in figures(contents)}
    shown, rows = drawn["projection"], contents.data["projection"].rows["pca"]
    for colour, classes in (("c0", (0, 7)), ("c1", (1, 8)), ("c2", (2,))):
        assert len(shown.points(colour)) == 100 * len(classes), "colours come again with another mark"
        outlines = {"h0" in path.get("d") for path in shown.paths(colour)}
        assert outlines == ({True, False} if len(classes) > 1 else {True})
    np.testing.assert_allclose(shown.points("c2").mean(axis=0), rows[2::9, :2].mean(axis=0), atol=0.01)
    shares = contents.methods[1].shares
    for name, look in (("pca", "ink"), ("m-pca0", "c0")):
        assert method_look(name)[0] == look
        np.testing.assert_allclose(drawn["spectrum"].points(look)[:, 1], shares, atol=0.01)


def test_names_are_fit_for_drawing():
    assert words("a$b$ \u732b") == "a$b$ \u732b"
    assert words("x" * 10 + "end", limit=7) == "xxx\N{HORIZONTAL ELLIPSIS}end"
    assert words("\x00\ud800\uffff", fallback="no. 2") == "no. 2"
    assert words("tab\tand\nline") == "tab and line"
    assert words("") == "?"
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
    explorer = page.data["points"]
    coordinates = load_model(output, "m-pca0").transform(X)[:, 0]
    packed = unpacked(explorer["methods"][1]["coordinates"][0])
    np.testing.assert_allclose(packed, coordinates, rtol=0, atol=half_step(coordinates) + 1e-5)
    patients = [str(row // 2) for row in range(70)]
    assert explorer["rows"] == {"row": list(range(70)), "outcome": table["label"], "beside0": patients}
    pictured = ["pca", "m-pca0"][explorer["start"]]
    for command in (f"mmpca transform {output} new_rows.parquet", f"load_model({output!r}, {pictured!r})"):
        assert command in page.text
