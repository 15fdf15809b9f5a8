"""The report of a run: it renders whatever a run can produce, safely, inside one file."""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mmpca_dist.runs.report import Figure, Margins, MethodResult, Reconstructions, ReportContents, figures, render

VOID = {"meta", "img", "br"}
NASTY = "<script>alert('x')</script>"


def method_result(name: str = "pca", d: int = 5, k: int = 3, **changes: Any) -> MethodResult:
    rng = np.random.default_rng(sum(name.encode()))
    components = np.linalg.qr(rng.standard_normal((d, min(k, d))))[0].T
    eigenvalues = np.geomspace(1, 0.1, len(components))
    result = MethodResult(
        name=name,
        title=name.upper(),
        components=components,
        eigenvalues=eigenvalues,
        residuals=np.full(len(components), 1e-12),
        relative_errors=1e-7 * 2 * eigenvalues.sum() / eigenvalues,
        total=float(2 * eigenvalues.sum()),
        limit="the number of features",
        sizes=[len(components)],
        requested=[k],
        orthonormal=True,
        ordered=True,
    )
    return dataclasses.replace(result, **changes)


def report_contents(
    methods: list[MethodResult] | None = None,
    classes: list[str] | None = None,
    feature_names: list[str] | None = None,
    image_shape: list[int] | None = None,
    rows: int = 90,
    **changes: Any,
) -> ReportContents:
    methods = [method_result("pca"), method_result("m-pca0")] if methods is None else methods
    classes = ["ant", "bee", "cat"] if classes is None else classes
    codes = np.arange(rows) % len(classes)
    rng = np.random.default_rng(1)
    d = methods[0].components.shape[1]
    X = rng.standard_normal((rows, d)) + codes[:, None]
    contents = ReportContents(
        dataset={
            "uri": "s3://bucket/table.zarr",
            "n_rows": rows,
            "n_features": d,
            "dtype": "float32",
            "classes": classes,
            "counts": np.bincount(codes, minlength=len(classes)).tolist(),
            "feature_names": feature_names,
            "image_shape": image_shape,
        },
        methods=methods,
        projected={m.name: X @ m.components.T for m in methods},
        codes=codes,
        sample_note=f"all {rows} rows",
        plan=[("passes over the rows", "2", "2"), ("peak memory", "40 MiB", "38 MiB")],
        stages=[("moments", 1.25, ""), ("solve", 75.0, "reused")],
        config_yaml="methods: [pca]\nn_components: [3]\n",
        versions={"numpy": "2.1"},
        notes=["Column 3 is constant."],
    )
    return dataclasses.replace(contents, **changes)


def margins_of(methods: list[MethodResult], pairs: int = 400, **changes: Any) -> Margins:
    rng = np.random.default_rng(2)
    before = rng.uniform(1, 3, pairs)
    counts, edges = np.histogram(np.repeat(before, 3), np.linspace(0, 3, 121))
    after = {m.name: before * rng.uniform(0.3, 1, pairs) for m in methods}
    return dataclasses.replace(Margins(edges, counts, before, after), **changes)


def with_margins(methods: list[MethodResult] | None = None, **changes: Any) -> ReportContents:
    contents = report_contents(methods)
    return dataclasses.replace(
        contents,
        margins=margins_of(contents.methods, **changes),
        search=[("rows searched for", "1,200", "rows"), ("recall", "98.7% (98.1% to 99.2%)", NASTY)],
    )


def with_rebuilt(
    used: dict[str, list[int]], sizes: list[int], labels: list[str], shape: list[int], noise: bool = False
) -> ReportContents:
    """Return contents whose methods have rebuilt random rows from so many components."""
    d, rng = int(np.prod(shape)), np.random.default_rng(3)
    rows = rng.uniform(0, 16, (len(labels), d))
    rebuilt = {name: {size: rows + rng.standard_normal(rows.shape) for size in found} for name, found in used.items()}
    made = Reconstructions(rows, rows / 2 if noise else None, labels, sizes, rebuilt)
    return report_contents([method_result(name, d=d) for name in used], image_shape=shape, reconstructions=made)


class Page(HTMLParser):
    """Parses strictly: every element closed in order, and what it refers to on record."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            {"id": self.ids, "href": self.links, "src": self.sources}.get(name, []).append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data


def check_page(html: str) -> Page:
    page = Page(html)
    assert len(set(page.ids)) == len(page.ids)
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert page.sources
    assert all(source.startswith("data:image/png;base64,") for source in page.sources)
    assert page.tags.isdisjoint({"script", "link", "iframe", "object"})
    style = re.search("<style>(.*)</style>", html, re.S)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]
    return page


def check_picture(figure: Figure) -> None:
    with Image.open(io.BytesIO(figure.png)) as image:
        assert image.format == "PNG"
        assert (image.width // 2, image.height // 2) == figure.size
        pixels = np.asarray(image.convert("RGB"))
        colours = image.convert("RGB").getcolors(2**24)
    assert (pixels[0, 0] == 255).all()
    # Something in more than one colour was drawn, and it does not run into the edges.
    assert colours is not None
    assert len(colours) > 8
    assert (pixels[:, :2] == 255).all()
    assert (pixels[-2:] == 255).all()
    assert figure.title
    assert figure.caption.endswith(".")


FLAT: dict[str, Any] = {"eigenvalues": np.ones(3), "relative_errors": np.full(3, 1e-7), "total": 3.0}
NONE: dict[str, Any] = {
    "components": np.empty((0, 5)),
    **{name: np.empty(0) for name in ("eigenvalues", "residuals", "relative_errors")},
    "total": 0.0,
    "sizes": [0],
}

TRICKY: dict[str, Callable[[], ReportContents]] = {
    "nothing special": report_contents,
    "one component": lambda: report_contents([method_result(k=1), method_result("hsic", k=1)]),
    "one component beside several": lambda: report_contents([method_result(k=1), method_result("lol", k=4)]),
    "one feature": lambda: report_contents([method_result(d=1, k=1), method_result("lol", d=1, k=1)]),
    "thirty classes": lambda: report_contents(classes=[f"c{i:02d}" for i in range(30)]),
    "thirty classes, one component": lambda: report_contents(
        [method_result(k=1)], classes=[f"c{i:02d}" for i in range(30)]
    ),
    "fourteen long names": lambda: report_contents(
        classes=[f"Class {i} with a long, long, long name" for i in range(14)]
    ),
    "names as code": lambda: report_contents(classes=[NASTY, "$x^2", "a & b"], feature_names=[NASTY] * 5),
    "no feature names, many features": lambda: report_contents([method_result(d=300)]),
    "feature names, many features": lambda: report_contents(
        [method_result(d=300)], feature_names=[f"gene_{i}" for i in range(300)]
    ),
    "no feature names, some features": lambda: report_contents([method_result(d=40)]),
    "equal eigenvalues": lambda: report_contents([method_result(**FLAT)]),
    "not orthonormal": lambda: report_contents(
        [method_result("fisher", components=np.eye(5)[:3] * [[1e-9], [1], [1e6]] + 1e-10, orthonormal=False)]
    ),
    "unsorted, with a zero": lambda: report_contents(
        [
            method_result(
                "lol",
                eigenvalues=np.array([0.0, 1, 0.2]),
                relative_errors=np.array([np.inf, 0, 1e-3]),
                ordered=False,
            )
        ]
    ),
    "many decades": lambda: report_contents(
        [method_result(d=12, k=12, eigenvalues=np.geomspace(1, 1e-9, 12), total=1.2)]
    ),
    "a method without components": lambda: report_contents([method_result(), method_result("hsic", **NONE)]),
    "a method that was not projected": lambda: report_contents(projected={}),
    "a class without rows": lambda: report_contents(codes=np.zeros(90, dtype=int)),
    "far outlier": lambda: report_contents(
        [method_result()], projected={"pca": np.vstack([np.eye(3)[np.arange(89) % 3], [[1e6, 1, 1]]])}
    ),
    "constant projection": lambda: report_contents([method_result()], projected={"pca": np.ones((90, 3))}),
    "images": lambda: report_contents([method_result(d=64, k=10)], image_shape=[8, 8]),
    "wide images, few": lambda: report_contents([method_result(d=64, k=2)], image_shape=[2, 32]),
    "shape that does not fit": lambda: report_contents([method_result(d=64)], image_shape=[8, 9]),
    "rebuilt images": lambda: with_rebuilt({"pca": [2, 8, 20], "hsic": [2]}, [2, 8, 20], ["0", "1", "2"], [8, 8], True),
    "rebuilt images, wide": lambda: with_rebuilt({"pca": [1]}, [1], ["a", NASTY, "$x^2", "a long name"], [2, 32]),
    "rebuilt images, tall": lambda: with_rebuilt({f"m{i}": [1, 3] for i in range(9)}, [1, 4], ["a"], [30, 3]),
    "rebuilt by no method": lambda: with_rebuilt({"pca": []}, [1], ["a", "b"], [4, 4]),
    "margins": with_margins,
    "margins of one method": lambda: with_margins([method_result()]),
    "margins of nine methods": lambda: with_margins([method_result(f"m{i}") for i in range(9)]),
    "margins of one pair": lambda: with_margins(pairs=1),
    "margins that are all closed": lambda: with_margins(after={"pca": np.zeros(400), "m-pca0": np.zeros(400)}),
    "pairs that all coincide": lambda: with_margins(before=np.zeros(400)),
    "nothing but methods": lambda: report_contents(
        plan=[], stages=[], notes=[], versions={}, config_yaml="", projected={}
    ),
}


@pytest.mark.parametrize("make", TRICKY.values(), ids=TRICKY.keys())
def test_renders_whatever_a_run_produces(make: Callable[[], ReportContents]) -> None:
    contents = make()
    drawn = figures(contents)
    assert len({figure.name for figure in drawn}) == len(drawn) >= 1
    for figure in drawn:
        check_picture(figure)
    page = check_page(render(contents, drawn))
    assert len(page.sources) == len(drawn)
    for method in contents.methods:
        assert method.title in page.text


def test_text_from_data_is_escaped_everywhere() -> None:
    contents = report_contents(
        [method_result(title=NASTY, limit=NASTY)],
        classes=[NASTY, "b"],
        plan=[(NASTY, NASTY, NASTY)],
        stages=[(NASTY, 1.0, NASTY)],
        config_yaml=NASTY,
        versions={NASTY: NASTY},
        notes=[NASTY],
    )
    contents.dataset.update(uri="file:///x/<b>'\"y", dtype=NASTY)
    drawn = [Figure("a", NASTY, NASTY, figures(report_contents())[0].png)]
    html = render(contents, drawn)
    assert "<script" not in html
    assert "<b>'" not in html
    assert check_page(html).text.count(NASTY) >= 13


def test_characters_that_html_cannot_hold_are_replaced() -> None:
    contents = report_contents(classes=["nul\0", "half \ud800 pair", "line\nbreak"], notes=["\x1b[31mred"])
    html = render(contents, figures(contents))
    html.encode("utf-8")
    check_page(html)
    assert not set(html) & {"\0", "\x1b"}
    assert "nul\N{REPLACEMENT CHARACTER}" in html


def test_only_components_near_rounding_are_marked() -> None:
    marked = method_result(relative_errors=np.array([1e-6, 1e-3, 0.5]))
    html = render(report_contents([marked]), [])
    assert html.count('<span class="mark">close to rounding</span>') == 1
    assert "1 close to rounding" in html
    html = render(report_contents([method_result()]), [])
    assert "close to rounding" not in html


def test_a_method_that_found_less_than_asked_says_why() -> None:
    short = method_result(k=2, requested=[2, 8], sizes=[2], limit="the number of classes less one, 2")
    text = Page(render(report_contents([short]), [])).text
    assert "asked for 8" in text
    assert "the number of classes less one, 2" in text
