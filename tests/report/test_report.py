"""The report of a run: it renders whatever a run can produce, safely, inside one file."""

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.pictures import check_picture
from helpers.reports import (
    NASTY,
    Page,
    beyond,
    check_page,
    method_result,
    report_contents,
    with_margins,
    with_rebuilt,
)

from mmpca_dist.methods.base.registry import METHODS
from mmpca_dist.pictures.frame import Figure, ReportSection
from mmpca_dist.report import run_page
from mmpca_dist.report.run_page import SECTIONS, figures, render
from mmpca_dist.results.run_result import RunResult

FLAT: dict[str, Any] = {"eigenvalues": np.ones(3), "relative_errors": np.full(3, 1e-7), "total": 3.0}

TRICKY: dict[str, Callable[[], RunResult]] = {
    "nothing special": report_contents,
    "one component": lambda: report_contents([method_result(k=1), method_result("hsic", k=1)]),
    "one feature": lambda: report_contents([method_result(d=1, k=1), method_result("lol", d=1, k=1)]),
    "thirty classes": lambda: report_contents(classes=[f"c{i:02d}" for i in range(30)]),
    "fourteen long names": lambda: report_contents(
        classes=[f"Class {i} with a long, long, long name" for i in range(14)]
    ),
    "names as code": lambda: report_contents(classes=[NASTY, "$x^2", "a & b"], feature_names=[NASTY] * 5),
    "no feature names, many features": lambda: report_contents([method_result(d=300)]),
    "feature names, many features": lambda: report_contents(
        [method_result(d=300)], feature_names=[f"gene_{i}" for i in range(300)]
    ),
    "equal eigenvalues": lambda: report_contents([method_result(**FLAT)]),
    "not orthonormal": lambda: report_contents(
        [method_result("fisher", components=np.eye(5)[:3] * [[1e-9], [1], [1e6]] + 1e-10, orthonormal=False)]
    ),
    "unsorted, with a zero": lambda: report_contents(
        [
            method_result(
                "lol", eigenvalues=np.array([0.0, 1, 0.2]), relative_errors=np.array([np.inf, 0, 1e-3]), ordered=False
            )
        ]
    ),
    "many decades": lambda: report_contents(
        [method_result(d=12, k=12, eigenvalues=np.geomspace(1, 1e-9, 12), total=1.2)]
    ),
    "a method that was not projected": lambda: report_contents(projected={}),
    "a class without rows": lambda: report_contents(sample_codes=np.zeros(90, dtype=int)),
    "far outlier": lambda: report_contents(
        [method_result()], projected={"pca": np.vstack([np.eye(3)[np.arange(89) % 3], [[1e6, 1, 1]]])}
    ),
    "constant projection": lambda: report_contents([method_result()], projected={"pca": np.ones((90, 3))}),
    "images": lambda: report_contents([method_result(d=64, k=10)], image_shape=[8, 8]),
    "wide images, few": lambda: report_contents([method_result(d=64, k=2)], image_shape=[2, 32]),
    "rebuilt images": lambda: with_rebuilt({"pca": [2, 8, 20], "hsic": [2]}, [2, 8, 20], ["0", "1", "2"], [8, 8], True),
    "rebuilt images, wide": lambda: with_rebuilt({"pca": [1]}, [1], ["a", NASTY, "$x^2", "a long name"], [2, 32]),
    "rebuilt images, tall": lambda: with_rebuilt({f"m{i}": [1, 3] for i in range(9)}, [1, 4], ["a"], [30, 3]),
    "margins": with_margins,
    "margins of nine methods": lambda: with_margins([method_result(f"m{i}") for i in range(9)]),
    "margins of one pair": lambda: with_margins(pairs=1),
    "margins that are all closed": lambda: with_margins(after={"pca": np.zeros(400), "m-pca0": np.zeros(400)}),
    "pairs that all coincide": lambda: with_margins(before=np.zeros(400)),
    "nothing but methods": lambda: report_contents(
        certificates={}, notes=[], versions={}, config_yaml="", projected={}
    ),
}


EVERYDAY = ("many decades", "a class without rows", "margins")


@pytest.mark.parametrize("make", beyond(EVERYDAY, TRICKY))
def test_renders_whatever_a_run_produces(make):
    contents = make()
    drawn = figures(contents)
    assert len({figure.name for figure in drawn}) == len(drawn) >= 1
    for figure in drawn:
        check_picture(figure)
    page = check_page(render(contents, drawn))
    assert page.pictures == len(drawn)
    for method in contents.methods:
        assert method.title in page.text


@pytest.mark.parametrize("dask_page", [False, True])
def test_a_page_says_what_it_is_of_and_links_dasks_own(dask_page):
    text = render(contents := report_contents(dask_page=dask_page), figures(contents))
    assert "<title>Run of table.zarr</title>" in text and "<h1>Run of table.zarr</h1>" in text
    assert ('href="dask-performance.html"' in text) == dask_page


def test_every_section_of_a_method_is_there_and_has_a_place_of_its_own():
    named = {name for method in METHODS.values() for name in method.sections}
    assert named == set(SECTIONS)
    positions = [section.position for section in SECTIONS.values()]
    assert positions == sorted(set(positions))


def test_a_new_picture_is_a_section_that_methods_name(monkeypatch):
    shown = []

    def draw(methods, data, dataset):
        shown.append(([method.name for method in methods], data, dataset["classes"]))
        return [Figure("new", "New", "A new picture.", picture().panels)]

    methods = [method_result("pca", sections=("spectrum",)), method_result("new", sections=("new",))]
    alone = [figure.name for figure in figures(report_contents(methods))]
    monkeypatch.setattr(run_page, "SECTIONS", {**SECTIONS, "new": ReportSection("new", 100, draw, lambda *_: None)})
    assert [figure.name for figure in figures(report_contents(methods))] == alone, "it has no data to show"
    contents = report_contents(methods, data={"new": 5})
    assert [figure.name for figure in figures(contents)] == [*alone, "new"]
    assert shown == [(["new"], 5, ["ant", "bee", "cat"])]


@functools.cache
def picture():
    """Return a picture that takes little time."""
    return figures(report_contents([method_result(sections=("spectrum",))]))[0]


def test_text_from_data_is_escaped_everywhere():
    contents = report_contents(
        [method_result(title=NASTY, limit=NASTY)],
        classes=[NASTY, "b"],
        certificates={"plan": [(NASTY, NASTY, NASTY)]},
        stages={NASTY: 1.0},
        config_yaml=NASTY,
        versions={NASTY: NASTY},
        notes=[NASTY],
    )
    contents.dataset.update(uri="file:///x/<b>'\"y", dtype=NASTY)
    drawn = [Figure("a", NASTY, NASTY, picture().panels)]
    html = render(contents, drawn)
    assert NASTY not in html
    assert "<b>'" not in html
    assert check_page(html).text.count(NASTY) >= 13


def test_of_many_classes_the_largest_are_listed():
    """Class 29 has most rows, class 10 is the last of the twenty, and the first ten are left out."""
    contents = report_contents(classes=[f"class-{i}!" for i in range(30)])
    contents.dataset["counts"] = list(range(100, 130))
    html = render(contents, [picture()])
    names = re.findall(r"<bdi>class-(\d+)!</bdi>", html.split('id="classes"')[1])
    assert names == [str(i) for i in range(29, 9, -1)]
    assert "The largest classes <span>of 30</span>" in html


def test_characters_that_html_cannot_hold_are_replaced():
    contents = report_contents(classes=["nul\0", "half \ud800 pair", "line\nbreak"], notes=["\x1b[31mred"])
    html = render(contents, [picture()])
    html.encode("utf-8")
    check_page(html)
    assert not set(html) & {"\0", "\x1b"}
    assert "nul\N{REPLACEMENT CHARACTER}" in html


def test_only_components_near_rounding_are_marked():
    marked = method_result(relative_errors=np.array([1e-6, 1e-3, 0.5]))
    html = render(report_contents([marked]), [])
    assert html.count('<span class="mark">close to rounding</span>') == 1
    assert "1 close to rounding" in html
    html = render(report_contents([method_result()]), [])
    assert "close to rounding" not in html


def test_a_method_that_found_less_than_asked_says_why():
    short = method_result(k=2, requested=[2, 8], limit="the number of classes less one, 2")
    text = Page(render(report_contents([short]), [])).text
    assert "asked for 8" in text
    assert "the number of classes less one, 2" in text
