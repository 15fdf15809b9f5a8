"""The report of a run in a browser: what one chooses, filters, marks, sorts and downloads; names of strangers."""

import base64
import dataclasses

import numpy as np
import pytest
from helpers.devtools import tab_of_chromium
from helpers.evaluations import evaluation
from helpers.operations import wait_for
from helpers.reports import NASTY, check_page, method_result, report_contents

from mmpca_dist.report.evaluation_page import parts, render_evaluation
from mmpca_dist.report.explorer import MAX_KEYS
from mmpca_dist.report.run_page import figures, render

HOSTILE = "$$y$$</script><img src=x onerror=document.title='hit'>"
CLASSES = [NASTY, "$$y$$", "=cmd|' /C calc'!A0"]
FEATURES = [HOSTILE, "@{row}{safe}", "$$x^2$$", "a,b", '"']
ROWS = 90
WIDTH = "document.documentElement.scrollWidth"
HELPERS = """
const doc = name => Bokeh.documents.find(one => one.get_model_by_name(name));
const points = doc('rows').roots()[0], rows = points.document.get_model_by_name('rows');
const column = name => [...(rows.data.get?.(name) ?? rows.data[name])];
const one = selector => document.querySelector(selector), all = selector => [...document.querySelectorAll(selector)];
const choose = (block, label, value) => {
    const select = all(`#${block} ~ .plot label`).find(each => each.textContent.startsWith(label)).querySelector('select');
    select.value = value;
    select.dispatchEvent(new Event('change'));
};
const tips = node => [...node.querySelectorAll('*')].flatMap(each => [
    ...(each.className === 'bk-tooltip-content' ? [each.textContent] : []), ...(each.shadowRoot ? tips(each.shadowRoot) : []),
]);
const save = selector => one(selector).parentElement.nextElementSibling.querySelector('button').click();
"""  # noqa: E501


def hostile():
    """Return contents whose names try to run, with a column beside the features; FISHER has one component."""
    methods = [method_result("pca", title=HOSTILE), method_result("fisher", k=1)]
    contents = report_contents(methods, classes=CLASSES, feature_names=FEATURES, folder=f"/runs/{HOSTILE} '")
    sample = dataclasses.replace(contents.data["projection"], columns={HOSTILE: [f"{HOSTILE}{i}" for i in range(ROWS)]})
    return dataclasses.replace(contents, data={**contents.data, "projection": sample})


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    folder, contents = tmp_path_factory.mktemp("browser"), hostile()
    html = render(contents, figures(contents))
    check_page(html)
    (folder / "index.html").write_text(html)
    with tab_of_chromium(folder) as tab:
        tab.size(1100, 1000)
        tab.open(folder / "index.html")
        tab.run(HELPERS)
        yield tab


@pytest.mark.e2e
def test_rows_are_those_of_the_chosen_method_and_components(tab):
    rows = hostile().data["projection"].rows
    for x, y in ((0, 1), (2, 0)):
        chosen = f"[['Method', 0], ['Across', {x}], ['Up', {y}]]"
        tab.run(f"for (const [label, value] of {chosen}) choose('projection', label, value)")
        np.testing.assert_allclose(tab.run("column('x')"), rows["pca"][:, x], rtol=1e-6)
        np.testing.assert_allclose(tab.run("column('y')"), rows["pca"][:, y], rtol=1e-6)
    tab.run("choose('projection', 'Method', 1)")  # of one component: a line for each class, the first on top
    np.testing.assert_allclose(tab.run("column('x')"), rows["fisher"][:, 0], rtol=1e-6)
    assert [round(y) for y in tab.run("column('y')")] == [2, 1, 0] * (ROWS // 3)
    tab.run("choose('projection', 'Method', 0)")
    np.testing.assert_allclose(tab.run("column('y')"), rows["pca"][:, 0], rtol=1e-6)


@pytest.mark.e2e
def test_the_legend_filters_and_marked_rows_stay_marked(tab):
    shown = "points.renderers.filter(each => each.visible && /class/.test(each.name)).map(each => each.name)"
    tab.run("one('[data-renderers=class-1]').click()")
    assert tab.run(shown) == ["class-0", "class-2"]
    tab.run("[...document.querySelectorAll('.legend button')].find(each => each.textContent === 'All').click()")
    assert tab.run(shown) == ["class-0", "class-1", "class-2"]
    tab.run("points.toolbar.tools.find(each => each.type === 'BoxSelectTool').active = true")
    tab.run("one('#plot-points').scrollIntoView()")
    box = tab.run("one('#plot-points').getBoundingClientRect().toJSON()")
    inner = (box["left"] + 80, box["top"] + 50), (box["right"] - 12, box["bottom"] - 60)
    tab.drag(inner[0], (box["left"] + 300, box["top"] + 200), inner[1])
    told = tab.run("one('#projection ~ .plot .status').textContent")
    assert told == f"90 rows marked: {', '.join(f'{name} 30' for name in CLASSES)}."
    tab.run("choose('projection', 'Method', 1)")
    assert tab.run("rows.selected.indices.length") == ROWS


@pytest.mark.e2e
def test_names_of_strangers_are_shown_and_do_nothing(tab):
    tab.run("choose('projection', 'Method', 0)")
    place = """(() => {
        const view = Bokeh.index.roots.find(each => each.model === points);
        const {left, top} = view.canvas_view.el.getBoundingClientRect(), {x_scale, y_scale} = view.frame;
        return [left + x_scale.compute(column('x')[0]), top + y_scale.compute(column('y')[0])];
    })()"""

    def tooltip():
        x, y = tab.run(place)  # where it is now: plots are laid out anew after a choice
        tab.drag((x - 1, y))
        tab.drag((x, y))
        return tab.run("tips(document).join()")

    shown = wait_for(tooltip, 20, lambda: "no tooltip")
    assert f"{HOSTILE}: {HOSTILE}0" in shown and f"class: {NASTY}" in shown
    tab.run("choose('loadings', 'Method', 0)")
    tab.run("choose('loadings', 'Component', 1)")
    assert sorted(tab.run("doc('bars').roots()[0].y_range.factors")) == sorted(FEATURES)
    assert tab.run("document.title") == "Run of table.zarr"
    assert tab.run("document.querySelectorAll('img[src=x]').length") == 0
    assert tab.complaints == []


@pytest.mark.e2e
def test_tables_are_sorted_and_downloaded(tab):
    tab.run("URL.createObjectURL = blob => { window.saved = blob.text(); return '#' }")
    names = "[...one('#run ~ div table').tBodies[0].rows].map(row => row.cells[0].textContent.trim())"
    for order in (["moments", "solve"], ["solve", "moments"]):
        tab.run("one('#run ~ div thead th:nth-child(2) button').click()")
        assert tab.run(names) == order, "by time: 1.25 s, 75 s"
    tab.run("save('#run ~ div table')")
    assert tab.run("window.saved").lstrip("\ufeff").split("\r\n") == [
        "stage,time",
        "solve,75.00 s",
        "moments,1.25 s",
        "",
    ]
    tab.run("save('#classes ~ details table')")
    assert "'=cmd|" in tab.run("window.saved"), "a spreadsheet would run it"


@pytest.mark.e2e
def test_fits_a_phone_and_paper(tab):
    tab.size(400, 900)
    for scheme in ("light", "dark"):
        tab.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        wait_for(lambda: tab.run(WIDTH) <= 400, 20, lambda: f"{tab.run(WIDTH)} wide")  # plots are drawn anew
        assert ("invert" in tab.run("getComputedStyle(one('.canvas')).filter")) == (scheme == "dark")
    tab.ask("Emulation.setEmulatedMedia", media="print")
    assert tab.run("[...document.querySelectorAll('.plot, .tools button, nav')].every(each => !each.offsetParent)")
    assert tab.run("one('.still').offsetParent !== null")


@pytest.mark.e2e
def test_curves_are_those_of_the_chosen_classifier_and_can_be_isolated(tab, tmp_path):
    known = evaluation()
    (tmp_path / "index.html").write_text(render_evaluation(known, parts(known)))
    tab.size(1100, 1000)
    tab.ask("Emulation.setEmulatedMedia", media="screen")
    tab.open(tmp_path / "index.html")
    tab.run(HELPERS.split("const points")[0] + "const curves = doc('curve-0').roots()[0];")
    tab.run("const means = data => data.get?.('mean') ?? data.mean;")
    tab.run(HELPERS[HELPERS.index("const one") :])
    for i, classifier in enumerate(known.classifiers):
        tab.run(f"choose('errors-by-components', 'Classifier', {i})")
        for j, method in enumerate(known.methods):
            means = [known.cells[method, size, classifier].summary.mean for size in known.n_components]
            drawn = tab.run(f"means(doc('curve-{j}').get_model_by_name('curve-{j}').data)")
            np.testing.assert_allclose(drawn, means)
    tab.run("all('.legend input:not([data-renderers=method-1])').forEach(box => box.click())")
    shown = tab.run("curves.renderers.filter(each => each.visible).map(each => each.name)")
    assert shown == ["method-1"] * 3
    assert tab.complaints == []


def test_pages_of_many_rows_and_classes_are_bounded():
    methods = [method_result(f"method-{i}", d=200, k=50) for i in range(9)]
    codes = np.r_[np.arange(1990), np.full(10, 19_999)]
    contents = report_contents(methods, classes=[f"c{i}" for i in range(20_000)], rows=2000, sample_codes=codes)
    contents.dataset["counts"] = [*range(19_999), 1_000_000]
    html = render(contents, [])
    assert len(html) < 4_000_000
    explorer = check_page(html.replace("<main>", '<main><img src="data:image/png;base64,">')).data["points"]["explorer"]
    assert len(explorer["classes"]) == MAX_KEYS + 1 and explorer["classes"][-2:] == ["c19999", "19,980 others"]
    assert explorer["ranks"] == [*[MAX_KEYS] * 1990, *[MAX_KEYS - 1] * 10]
    first = np.frombuffer(base64.b64decode(explorer["methods"][3]["coordinates"][0]), "<f4")
    np.testing.assert_allclose(first, contents.data["projection"].rows["method-3"][:, 0], rtol=1e-6)
