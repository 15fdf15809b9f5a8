"""The report of a run in a browser: what one chooses, filters, marks, sorts and downloads; names of strangers."""

from __future__ import annotations

import base64
import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from helpers.devtools import Tab, tab_of_chromium
from helpers.operations import wait_for
from helpers.reports import NASTY, check_page, method_result, report_contents

from mmpca_dist.report.explorer import MOST_KEYS
from mmpca_dist.report.run_page import ReportContents, figures, render

HOSTILE = "</script><img src=x onerror=document.title='hit'>"
CLASSES = [NASTY, HOSTILE, "=cmd|' /C calc'!A0"]
FEATURES = [HOSTILE, "@{row}{safe}", "$x^2$", "a,b", '"']
ROWS = 90
PLOT = "Bokeh.documents.find(one => one.get_model_by_name('rows'))"


def hostile() -> ReportContents:
    """Return contents whose names try to run, with a column beside the features; FISHER has one component."""
    methods = [method_result("pca", title=HOSTILE), method_result("fisher", k=1)]
    contents = report_contents(methods, classes=CLASSES, feature_names=FEATURES, output=f"/runs/{HOSTILE} '")
    sample = dataclasses.replace(contents.data["projection"], columns={HOSTILE: [f"{HOSTILE}{i}" for i in range(ROWS)]})
    return dataclasses.replace(contents, data={**contents.data, "projection": sample})


def column(tab: Tab, name: str) -> list[float]:
    return tab.run(
        f"(() => {{ const d = {PLOT}.get_model_by_name('rows').data; return [...(d.get?.('{name}') ?? d.{name})] }})()"
    )


def choose(tab: Tab, label: str, value: object, block: str = "#projection ~ .plot") -> None:
    """Choose in a select as a user does."""
    tab.run(
        f"""(() => {{
            const labels = [...document.querySelector({json.dumps(block)}).querySelectorAll('.controls label')];
            const select = labels.find(one => one.textContent.startsWith('{label}')).querySelector('select');
            select.value = '{value}';
            select.dispatchEvent(new Event('change'));
        }})()"""
    )


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    contents = hostile()
    html = render(contents, figures(contents))
    check_page(html)
    (folder / "index.html").write_text(html)
    with tab_of_chromium(folder) as tab:
        tab.size(1100, 1000)
        tab.open(folder / "index.html")
        yield tab


@pytest.mark.e2e
def test_rows_are_those_of_the_chosen_method_and_components(tab: Tab) -> None:
    rows = hostile().data["projection"].rows
    for method, x, y in ((0, 0, 1), (0, 2, 0)):
        choose(tab, "Method", method)
        choose(tab, "Across", x)
        choose(tab, "Up", y)
        np.testing.assert_allclose(column(tab, "x"), rows["pca"][:, x], rtol=1e-6)
        np.testing.assert_allclose(column(tab, "y"), rows["pca"][:, y], rtol=1e-6)
    choose(tab, "Method", 1)  # of one component: a line of points for each class, the first on top
    np.testing.assert_allclose(column(tab, "x"), rows["fisher"][:, 0], rtol=1e-6)
    assert [round(y) for y in column(tab, "y")] == [2, 1, 0] * (ROWS // 3)


@pytest.mark.e2e
def test_the_legend_filters_and_marked_rows_stay_marked(tab: Tab) -> None:
    choose(tab, "Method", 0)
    shown = f"{PLOT}.roots()[0].renderers.filter(one => one.visible && /class/.test(one.name)).map(one => one.name)"
    tab.run("document.querySelector('[data-renderers=class-1]').click()")
    assert tab.run(shown) == ["class-0", "class-2"]
    tab.run("[...document.querySelectorAll('.legend button')].find(one => one.textContent === 'All').click()")
    assert tab.run(shown) == ["class-0", "class-1", "class-2"]
    tab.run(f"{PLOT}.roots()[0].toolbar.tools.find(one => one.type === 'BoxSelectTool').active = true")
    tab.run("document.querySelector('#plot-points').scrollIntoView()")
    left, top, width, height = tab.run(
        "(({left, top, width, height}) => [left, top, width, height])"
        "(document.querySelector('#plot-points').getBoundingClientRect())"
    )
    tab.press((left + 80, top + 50), (left + width - 12, top + height - 60))
    status = "document.querySelector('#projection ~ .plot .status').textContent"
    assert tab.run(status) == f"90 rows marked: {', '.join(f'{name} 30' for name in CLASSES)}."
    choose(tab, "Method", 1)
    assert len(tab.run(f"{PLOT}.get_model_by_name('rows').selected.indices")) == ROWS
    choose(tab, "Method", 0)
    assert tab.run("document.title") == "table.zarr: components"


@pytest.mark.e2e
def test_names_of_strangers_are_shown_and_do_nothing(tab: Tab) -> None:
    """Every row is pointed at in turn until a tooltip shows: text of the data must be text in it."""
    choose(tab, "Method", 0)
    at = tab.run(
        f"""(() => {{
            const plot = {PLOT}.roots()[0], view = Bokeh.index.roots.find(one => one.model === plot);
            const data = {PLOT}.get_model_by_name('rows').data, first = name => (data.get?.(name) ?? data[name])[0];
            const canvas = view.canvas_view.el.getBoundingClientRect();
            const {{x_scale, y_scale}} = view.frame;
            return [canvas.left + x_scale.compute(first('x')), canvas.top + y_scale.compute(first('y'))];
        }})()"""
    )
    tab.press((at[0] - 1, at[1]))
    tab.press(at)
    tips = """(() => {
        const within = node => [...node.querySelectorAll('*')].flatMap(
            one => [...(one.className === 'bk-tooltip-content' ? [one.textContent] : []),
                    ...(one.shadowRoot ? within(one.shadowRoot) : [])]);
        return within(document).join('|');
    })()"""
    wait_for(lambda: f"{HOSTILE}: {HOSTILE}0" in tab.run(tips), 20, lambda: f"no tooltip: {tab.run(tips)}")
    assert f"class: {NASTY}" in tab.run(tips)
    choose(tab, "Component", 1, "#loadings ~ .plot")
    bars = "Bokeh.documents.find(one => one.get_model_by_name('bars')).roots()[0].y_range.factors"
    assert sorted(tab.run(bars)) == sorted(FEATURES)
    assert tab.run("document.title") == "table.zarr: components"
    assert tab.run("document.querySelectorAll('img[src=x]').length") == 0
    assert tab.complaints == []


@pytest.mark.e2e
def test_tables_are_sorted_and_downloaded(tab: Tab) -> None:
    tab.run(
        """URL.createObjectURL = blob => { window.saved = blob.text(); return 'about:blank#blocked' };
        HTMLAnchorElement.prototype.click = () => {};"""
    )
    table = "document.querySelector('#run ~ div table')"
    first = f"[...{table}.tBodies[0].rows].map(row => row.cells[0].textContent.trim())"
    assert tab.run(first) == ["moments", "solve"]
    for order in (["moments", "solve"], ["solve", "moments"]):
        tab.run(f"{table}.querySelectorAll('thead button')[1].click()")
        assert tab.run(first) == order, "by time: 1.25 s, 75 s"
    saved = "window.saved"
    tab.run(f"{table}.parentElement.nextElementSibling.querySelector('button').click()")
    assert tab.run(saved).split("\r\n")[0].lstrip("\ufeff") == "stage,time"
    save = ".parentElement.nextElementSibling.querySelector('button').click()"
    tab.run(f"document.querySelector('#classes ~ details table'){save}")
    assert "\"'=cmd" not in tab.run(saved) and "'=cmd|" in tab.run(saved), "a spreadsheet would run it"


@pytest.mark.e2e
def test_fits_a_phone_and_paper(tab: Tab, tmp_path: Path) -> None:
    for scheme in ("light", "dark"):
        tab.media(prefers_color_scheme=scheme)
        tab.size(400, 900)
        assert tab.run("document.documentElement.scrollWidth") == 400
    colours = "getComputedStyle(document.querySelector('.canvas')).filter"
    assert "invert" in tab.run(colours)
    tab.ask("Emulation.setEmulatedMedia", media="print")
    hidden = "[...document.querySelectorAll('.plot, .tools button, nav')].every(one => one.offsetParent === null)"
    assert tab.run(hidden) and tab.run("document.querySelector('.still').offsetParent !== null")
    tab.ask("Emulation.setEmulatedMedia", media="")


def test_pages_of_many_rows_and_classes_are_bounded() -> None:
    methods = [method_result(f"method-{i}", d=200, k=50) for i in range(9)]
    classes = [f"class {i}" for i in range(20_000)]
    codes = np.r_[np.arange(1990) % 20_000, np.full(10, 19_999)]
    contents = report_contents(methods, classes=classes, rows=2000, sample_codes=codes)
    contents.dataset["counts"] = [*np.arange(19_999).tolist(), 1_000_000]
    html = render(contents, [])
    assert len(html) < 4_000_000
    page = check_page(html.replace("<main>", '<main><img src="data:image/png;base64,">'))
    keys = page.data["points"]["explorer"]["classes"]
    assert len(keys) == MOST_KEYS + 1 and keys[-2:] == ["class 19999", "19,980 others"]
    ranks = np.array(page.data["points"]["explorer"]["ranks"])
    assert (ranks[-10:] == MOST_KEYS - 1).all() and (ranks[:1990] == MOST_KEYS).all()
    coordinates = page.data["points"]["explorer"]["methods"][3]["coordinates"]
    first = np.frombuffer(base64.b64decode(coordinates[0]), "<f4")
    np.testing.assert_allclose(first, contents.data["projection"].rows["method-3"][:, 0], rtol=1e-6)
