"""The report of a run in a browser: what one chooses, filters, marks, sorts and downloads; names of strangers."""

import csv
import dataclasses
import json
import re

import numpy as np
import pytest
from helpers.devtools import tab_of_chromium
from helpers.evaluations import evaluation
from helpers.operations import wait_for
from helpers.reports import NASTY, check_page, half_step, method_result, report_contents, unpacked

from mmpca_dist.pictures.palette import DARK, LIGHT, SHADES, place_look
from mmpca_dist.report.evaluation_page import parts, render_evaluation
from mmpca_dist.report.explorer import MAX_KEYS
from mmpca_dist.report.run_page import figures, render
from mmpca_dist.results.answer import recommended

HOSTILE = "$$y$$</script><img src=x onerror=document.title='hit'>"
CLASSES = [NASTY, "$$y$$", "=cmd|' /C calc'!A0"]
FEATURES = [HOSTILE, "@{row}{safe}", "$$x^2$$", "a,b", '"']
ROWS = 90
SITES = ["Ulm", NASTY, "=1+1"]
WIDTH = "document.documentElement.scrollWidth"
COLOURS = json.dumps({value: name for name, value in LIGHT.items() if name != "ring"})
HELPERS = """
const COLOURS = PALETTE;
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
const legend = () => [...one('#projection ~ .plot .legend').querySelectorAll('label')];
const looks = () => points.renderers.filter(each => each.view.filter.indices).flatMap(each => [...each.view.filter.indices].map(row => [row, `${each.name} ${COLOURS[column('colour')[row]] ?? 'shaded'}`]));
const drawn = () => looks().reduce((counts, [, look]) => ({ ...counts, [look]: (counts[look] ?? 0) + 1 }), {});
const members = look => looks().filter(([, own]) => own === look).map(([row]) => row);
const source = (name, of = points.document) => { const data = of.get_model_by_name(name).data; return data.get ? Object.fromEntries(data) : data; };
const press = words => all('#projection ~ .plot button').find(each => each.textContent === words).click();
const save = selector => one(selector).parentElement.nextElementSibling.querySelector('button').click();
""".replace("PALETTE", COLOURS)  # noqa: E501


def hostile():
    """Return contents whose names try to run, with a column beside the features; FISHER has one component."""
    methods = [method_result("pca", title=HOSTILE), method_result("fisher", k=1)]
    contents = report_contents(methods, classes=CLASSES, feature_names=FEATURES, folder=f"/runs/{HOSTILE} '")
    columns = {HOSTILE: [f"{HOSTILE}{i}" for i in range(ROWS)], "site": [SITES[i // 30] for i in range(ROWS)]}
    columns["dose"] = [str(i / 2) for i in range(ROWS)]
    sample = dataclasses.replace(contents.data["projection"], columns=columns)
    return dataclasses.replace(contents, data={**contents.data, "projection": sample})


def look(place):
    """Return the mark and the colour of a class, or another group, at a place."""
    return " ".join(reversed(place_look(place)))


def short(name):
    """Return a name as plots write it."""
    return f"{name[:8]}\N{HORIZONTAL ELLIPSIS}{name[-7:]}" if len(name) > 16 else name


def equal(shown, values):
    """Check numbers that were packed."""
    np.testing.assert_allclose(shown, values, rtol=0, atol=half_step(values))


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
        equal(tab.run("column('x')"), rows["pca"][:, x])
        equal(tab.run("column('y')"), rows["pca"][:, y])
    tab.run("choose('projection', 'Method', 1)")  # of one component: a line for each class, the first on top
    equal(tab.run("column('x')"), rows["fisher"][:, 0])
    assert [round(y) for y in tab.run("column('y')")] == [2, 1, 0] * (ROWS // 3)
    tab.run("choose('projection', 'Method', 0)")
    equal(tab.run("column('y')"), rows["pca"][:, 0])


@pytest.mark.e2e
def test_the_legend_filters_and_marked_rows_stay_marked(tab):
    tab.run("one('#projection ~ .plot [data-renderers=group-1]').click()")
    assert tab.run("drawn()") == {look(0): 30, look(2): 30}
    tab.run("press('None')")
    assert tab.run("drawn()") == {} and tab.run("source('means').name") == []
    tab.run("press('All')")
    assert tab.run("drawn()") == {look(i): 30 for i in range(3)}
    mark_all(tab)
    told = tab.run("one('#projection ~ .plot .status').textContent")
    assert told == f"90 rows marked: {', '.join(f'{name} 30' for name in CLASSES)}."
    tab.run("choose('projection', 'Method', 1)")
    assert tab.run("rows.selected.indices.length") == ROWS


def mark_all(tab):
    """Draw a box around all rows."""
    tab.run("points.toolbar.tools.find(each => each.type === 'BoxSelectTool').active = true")
    tab.run("one('#plot-points').scrollIntoView()")
    box = tab.run("one('#plot-points').getBoundingClientRect().toJSON()")
    inner = (box["left"] + 80, box["top"] + 50), (box["right"] - 12, box["bottom"] - 60)
    tab.drag(inner[0], (box["left"] + 300, box["top"] + 200), inner[1])


@pytest.mark.e2e
def test_rows_are_coloured_by_a_column_and_labelled_at_the_means(tab):
    reset(tab)
    projected, codes = hostile().data["projection"].rows["pca"], np.arange(ROWS) % 3
    for column, labels, groups in (
        ("0", CLASSES, codes),
        ("2", SITES, np.arange(ROWS) // 30),
        ("3", ["below 8.9", "8.9 to 17.8", "17.8 to 26.7", "26.7 to 35.6", "35.6 or more"], np.arange(ROWS) // 18),
    ):
        tab.run(f"choose('projection', 'Colour', {column})")
        assert tab.run("legend().map(each => each.textContent)") == labels
        assert tab.run("drawn()") == {look(i): ROWS // len(labels) for i in range(len(labels))}
        for i in range(len(labels)):
            assert tab.run(f"members('{look(i)}')") == np.flatnonzero(groups == i).tolist()
        means, named = tab.run("source('means')"), 0
        for i, label in enumerate(labels):
            for place, name in enumerate(means["name"]):
                if name == short(label):
                    at, named = [means["at_x"][place], means["at_y"][place]], named + 1
                    middle = projected[groups == i, :2].mean(axis=0)
                    assert at[0] == pytest.approx(middle[0], abs=1e-3)
                    moved = abs(at[1] - middle[1]) / np.ptp(projected[:, 1])  # where it would cover another label
                    assert moved < 1e-3 or 0.05 < moved < 0.2
        assert named == len(means["name"]) >= 1
    assert tab.run("one('#projection ~ .plot .legend legend').textContent") == "dose"
    tab.run("choose('projection', 'Up', 'class')")  # lines are of classes, whatever the colours
    strips = tab.run(
        "(labels => [...labels.values()])(points.document.get_model_by_name('strips').major_label_overrides)"
    )
    assert strips == [*map(short, CLASSES)]
    tab.run("choose('projection', 'Colour', 0)")
    assert tab.complaints == []


@pytest.mark.e2e
def test_buttons_zoom(tab):
    reset(tab)
    width, whole = "points.x_range.end - points.x_range.start", None
    for title, factor in (("Zoom in", 0.7), ("Zoom out", 1)):
        whole = whole or tab.run(width)
        tab.run(f"one('#projection ~ .plot [title=\"{title}\"]').click()")
        assert tab.run(width) == pytest.approx(factor * whole)


@pytest.mark.e2e
def test_marked_rows_are_downloaded_with_their_columns(tab):
    reset(tab)
    hidden = "all('#projection ~ .plot button').find(each => each.textContent === 'Download marked rows').hidden"
    assert tab.run(hidden)
    tab.run("URL.createObjectURL = blob => { window.saved = blob.text(); return '#' }")
    tab.run("rows.selected.indices = [4, 31]")
    tab.run("press('Download marked rows')")
    first, *lines = csv.reader(tab.run("window.saved").lstrip("\ufeff").splitlines())
    assert first == ["row", "outcome", HOSTILE, "site", "dose", f"{HOSTILE}: component 1", "component 2"]
    projected = hostile().data["projection"].rows["pca"]
    for row, line in zip((4, 31), lines, strict=True):
        assert line[:5] == [str(row), CLASSES[row % 3], f"{HOSTILE}{row}", SITES[row // 30], str(row / 2)]
        np.testing.assert_allclose(np.array(line[5:], float), projected[row, :2], atol=1e-3)
    tab.run("choose('projection', 'Up', 'class')")  # where rows are spread at random
    tab.run("press('Download marked rows')")
    assert tab.run("window.saved").splitlines()[0].endswith("component 1") and not tab.run(hidden)
    reset(tab)
    assert tab.run(hidden) and tab.complaints == []


def reset(tab):
    """Choose what pages begin with."""
    for label, value in (("Method", 0), ("Across", 0), ("Up", 1), ("Colour", 0)):
        tab.run(f"choose('projection', '{label}', {value})")
    tab.run("press('Reset')")


@pytest.mark.e2e
def test_plots_and_pictures_turn_dark_with_the_page(tab):
    reset(tab)
    look = """({
        group: column('colour')[1],
        axis: points.below[0].major_label_text_color.value ?? points.below[0].major_label_text_color,
        words: points.renderers.find(each => each.name === 'words').glyph.text_color.value,
        bars: [...new Set(source('bars', doc('bars')).colour)].sort(),
        legend: getComputedStyle(legend()[1].querySelector('path')).color,
        picture: getComputedStyle(one('.still .panels .c2')).color,
        paper: getComputedStyle(document.body).backgroundColor,
    })"""
    for scheme, colours in (("dark", DARK), ("light", LIGHT)):
        tab.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        wait_for(lambda c=colours: tab.run(look)["group"] == c["c1"], 20, lambda: f"{tab.run(look)}")
        seen = tab.run(look)
        assert (seen["axis"], seen["words"]) == (colours["ink"], colours["ink"])
        assert seen["bars"] == sorted([colours["negative"], colours["positive"]])
        for part, name in (("legend", "c1"), ("picture", "c2"), ("paper", "paper")):
            assert [int(share) for share in re.findall(r"\d+", seen[part])] == [*bytes.fromhex(colours[name][1:])], part


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
    tab.run("save('#classes ~ div table')")
    assert "'=cmd|" in tab.run("window.saved"), "a spreadsheet would run it"


@pytest.mark.e2e
def test_fits_a_phone_and_paper(tab):
    tab.size(400, 900)
    for scheme in ("light", "dark"):
        tab.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        wait_for(lambda: tab.run(WIDTH) <= 400, 20, lambda: f"{tab.run(WIDTH)} wide")  # plots are drawn anew
    extra = "all('#methods ~ div .extra').filter(each => each.offsetParent).length"
    assert tab.run(extra) == 0, "columns beyond those that fit"
    tab.run("one('#methods ~ div .more').click()")
    assert tab.run(extra) > 0
    tab.run("one('#methods ~ div .more').click()")
    tab.ask("Emulation.setEmulatedMedia", media="print")
    assert tab.run(extra) > 0, "paper has all"
    assert tab.run("[...document.querySelectorAll('.plot, .tools button, nav')].every(each => !each.offsetParent)")
    assert tab.run("one('.still').offsetParent !== null")
    tops = "all('.still .panels > svg').map(each => each.getBoundingClientRect().top)"
    assert len(tab.run(tops)) == 2 and len({*tab.run(tops)}) == 1, "side by side"
    assert tab.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    tab.ask("Emulation.setEmulatedMedia", media="")
    assert tab.run("one('.still').offsetParent === null && one('#plot-points').offsetParent !== null")
    tab.size(1100, 1000)


@pytest.mark.e2e
def test_curves_are_those_of_the_chosen_classifier_and_can_be_isolated(tab, tmp_path):
    known = evaluation(sizes=(1, 2, 4, 5, 6, 7))
    (tmp_path / "index.html").write_text(render_evaluation(known, parts(known)))
    tab.size(1100, 1000)
    tab.ask("Emulation.setEmulatedMedia", media="screen")
    tab.open(tmp_path / "index.html")
    tab.run(HELPERS.split("const points")[0] + "const curves = doc('curve-0').roots()[0];")
    tab.run("const means = data => data.get?.('mean') ?? data.mean;")
    tab.run(HELPERS[HELPERS.index("const one") :])
    for i, classifier in enumerate(known.classifiers):
        tab.run(f"choose('errors-by-components', 'Classifier', {i})")
        for j, method in enumerate(known.config.labels):
            means = [known.cells[method, size, classifier].summary.mean for size in known.config.sizes]
            drawn = tab.run(f"means(doc('curve-{j}').get_model_by_name('curve-{j}').data)")
            np.testing.assert_allclose(drawn, means)
        ring, use = tab.run("source('ring', doc('ring'))"), recommended(known)
        assert ring["y"] == [use.summary.mean] * (use.classifier == classifier), "around what the answer names"
    stretched = tab.run("all('.panels > svg').map(each => each.clientWidth / each.viewBox.baseVal.width)")
    assert max(stretched) <= 1.61, "letters of lone panels are no headings"
    tab.run("all('.legend input:not([data-renderers=method-1])').forEach(box => box.click())")
    shown = tab.run("curves.renderers.filter(each => each.visible).map(each => each.name)")
    assert shown == ["method-1"] * 3
    tab.size(400, 900)
    tab.run("all('details').forEach(one => one.open = true)")
    wider = "all('.wide').filter(one => one.scrollWidth > one.clientWidth + 1).length"
    assert tab.run(wider) == 0, "phones show tables whole"
    assert tab.complaints == []


def show(tab, folder, contents):
    """Open the page of a run."""
    (folder / "index.html").write_text(render(contents, figures(contents)))
    tab.size(1100, 1000)
    tab.open(folder / "index.html")
    tab.run(HELPERS)


@pytest.mark.e2e
def test_a_class_is_shown_alone_among_many(tab, tmp_path):
    contents = report_contents(classes=[f"c{i}" for i in range(30)], rows=600)
    rows = contents.data["projection"].rows["pca"]
    show(tab, tmp_path, contents)
    tab.run("choose('projection', 'Method', 0)")
    assert tab.run("drawn()") == {"others faint": 200} | {look(i): 20 for i in range(20)}
    assert tab.run("source('means').name.length") < 20, "only where they cover few rows"
    for i in range(20):
        tab.run(f"legend()[{i}].onpointerenter()")
        assert f"c{i}" in tab.run("source('means').name")
    tab.run("legend()[0].onpointerleave()")
    search = (
        "(words => { const box = one('input[type=search]'); box.value = words; box.dispatchEvent(new Event('input')) })"
    )
    assert tab.run("document.getElementById(one('input[type=search]').getAttribute('list')).options.length") == 30
    tab.run(f"{search}('c2')")
    assert tab.run("drawn()") == {"others faint": 580, look(0): 20}
    tab.run(f"{search}('c27')")  # which has no colour otherwise
    assert tab.run("drawn()") == {"others faint": 580, look(0): 20}
    assert tab.run(f"members('{look(0)}')") == list(range(27, 600, 30))
    assert tab.run("legend().map(each => each.textContent)") == ["c27", "others"]
    assert tab.run("source('means').name") == ["c27"]
    np.testing.assert_allclose(tab.run("source('means').x"), [rows[27::30, 0].mean()], atol=1e-3)
    tab.run("legend()[1].querySelector('input').click()")
    assert tab.run("drawn()") == {look(0): 20}, "the others are hidden"
    tab.run("rows.selected.indices = [27, 57, 1]")
    assert tab.run("one('#projection ~ .plot .status').textContent") == "3 rows marked: c27 2, others 1."
    tab.run(f"{search}('')")
    assert tab.run("drawn()") == {"others faint": 200} | {look(i): 20 for i in range(20)}
    tab.run("one('nav a[href=\"#classes\"]').click()")
    assert tab.run("document.querySelector(':target').tagName") == "H2"
    assert tab.complaints == []


@pytest.mark.e2e
def test_rows_with_a_number_to_predict_are_shaded_or_coloured_by_a_column(tab, tmp_path):
    contents = report_contents([method_result()])
    sample, shares = contents.data["projection"], np.arange(90) % SHADES
    sample = dataclasses.replace(sample, codes=shares, values=(shares / 2).tolist(), columns={"class": ["a", "b"] * 45})
    contents = dataclasses.replace(contents, data={**contents.data, "projection": sample})
    contents.dataset.update(targets=["gain"], classes=["gain"], counts=[90])
    show(tab, tmp_path, contents)
    assert tab.run("drawn()") == {"circle shaded": 90}
    assert tab.run("legend().length") == 0 and tab.run("all('#projection ~ .plot .legend')[0].hidden")
    equal(tab.run("column('y')"), sample.rows["pca"][:, 1])
    tab.run("choose('projection', 'Colour', 1)")
    assert tab.run("drawn()") == {look(0): 45, look(1): 45}
    assert tab.run("one('#projection ~ .plot .legend legend').textContent") == "class"
    tab.run("choose('projection', 'Colour', 0)")
    assert tab.run("drawn()") == {"circle shaded": 90} and tab.complaints == []


def test_pages_of_many_rows_and_classes_are_bounded():
    methods = [method_result(f"method-{i}", d=200, k=50) for i in range(9)]
    codes = np.r_[np.arange(1990), np.full(10, 19_999)]
    contents = report_contents(methods, classes=[f"c{i}" for i in range(20_000)], rows=2000, sample_codes=codes)
    contents.dataset["counts"] = [*range(19_999), 1_000_000]
    html = render(contents, [])
    assert len(html) < 4_000_000
    explorer = check_page(html).data["points"]
    (group,) = explorer["groups"]
    assert len(group["labels"]) == MAX_KEYS + 1 and group["labels"][-2:] == ["c19999", "19,980 others"]
    assert group["ranks"] == [*[MAX_KEYS] * 1990, *[MAX_KEYS - 1] * 10]
    rows = contents.data["projection"].rows["method-3"][:, 0]
    equal(unpacked(explorer["methods"][3]["coordinates"][0]), rows)
