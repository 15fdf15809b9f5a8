"""Contents of reports, and checks of pages and pictures."""

import base64
import dataclasses
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from mmpca_dist.methods.base.registry import METHODS, Method
from mmpca_dist.models.bayesian_margin.pictures import Evidence
from mmpca_dist.report.sections.pair_margins import PairMargins
from mmpca_dist.report.sections.projections import ProjectedSample
from mmpca_dist.report.sections.reconstructions import Reconstructions
from mmpca_dist.results.figures import Figures, methods_table
from mmpca_dist.results.run_result import RunResult, certificate_table

VOID = {"meta", "img", "br", "input", "wbr"}

NASTY = "<script>alert('x')</script>"


OF_METHOD = {field.name for field in dataclasses.fields(Method)} - {"name", "title", "limit", "residuals"}


def method_result(name="pca", d=5, k=3, **changes):
    """Return a made-up result; changes are of it, or of its method, which is PCA otherwise."""
    rng = np.random.default_rng(sum(name.encode()))
    components = np.linalg.qr(rng.standard_normal((d, min(k, d))))[0].T
    eigenvalues = np.geomspace(1, 0.1, len(components))
    result = Figures(
        name=name,
        title=name.upper(),
        method=dataclasses.replace(METHODS["pca"], **{key: changes.pop(key) for key in OF_METHOD & changes.keys()}),
        components=components,
        eigenvalues=eigenvalues,
        residuals=np.full(len(components), 1e-12),
        relative_errors=1e-7 * 2 * eigenvalues.sum() / eigenvalues,
        active=np.ones(len(changes.get("eigenvalues", eigenvalues)), bool),
        total=float(2 * eigenvalues.sum()),
        limit="the number of features",
        requested=[k],
        n_components=len(components),
    )
    return dataclasses.replace(result, **changes)


def by_class(classes, d=6, k=4, off=1):
    """Return a method with a model of k components for each class, the last of which are switched off."""
    rng, m = np.random.default_rng(5), len(classes)
    values = np.tile(np.geomspace(1, 0.1, k), (m, 1)) * np.linspace(1, 0.5, m)[:, None]
    switched_off = np.zeros((m, k), bool)
    switched_off[:, k - off :] = True
    values[switched_off] = 1e-12
    directions = rng.standard_normal((m, k, d))
    directions *= np.sqrt(values / np.sum(directions**2, axis=2))[:, :, None]
    return method_result(
        "bm2pca", d=d, components=directions.reshape(m * k, d), eigenvalues=values.ravel(), total=3.0,
        residuals=np.full(m * k, np.nan), relative_errors=np.zeros(m * k), requested=[k], n_components=k,
        orthonormal=False, ordered=False, values="squared lengths of the loadings", shares="variance",
        models=classes, active=~switched_off.ravel(),
    )  # fmt: skip


def evidence_of(title, classes, k=4, sweeps=20, off=1):
    """Return a fit of as many models as classes, of one without, the last components of which are switched off."""
    m = max(len(classes), 1)
    squares = np.tile(np.geomspace(10, 1, k), (m, 1)) * np.linspace(1, 0.5, m)[:, None]
    switched_off = np.zeros((m, k), bool)
    switched_off[:, k - off :] = True
    squares[switched_off] = 1e-12
    bounds = -50 - 30 / np.arange(1, sweeps + 1)[:, None] ** 2 * np.linspace(1, 2, m)
    return Evidence(title, classes, bounds, squares, np.linspace(0.5, 0.4, m), switched_off)


def report_contents(
    methods=None,
    classes=None,
    feature_names=None,
    image_shape=None,
    rows=90,
    projected=None,
    sample_codes=None,
    data=None,
    certificates=None,
    **changes,
):
    """Return made-up contents; ``data`` is of sections beside that of projected rows, ``certificates`` rows by name."""
    certificates = {"plan": [("peak memory", "40 MiB", "38 MiB")]} if certificates is None else certificates
    methods = [method_result("pca"), method_result("m-pca0")] if methods is None else methods
    classes = ["ant", "bee", "cat"] if classes is None else classes
    codes = np.arange(rows) % len(classes)
    rng = np.random.default_rng(1)
    d = methods[0].components.shape[1]
    X = rng.standard_normal((rows, d)) + codes[:, None]
    contents = RunResult(
        table=methods_table(methods),
        certificates=[certificate_table(name, lines) for name, lines in certificates.items()],
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
        data={
            "convergence": 1e-3,
            "projection": ProjectedSample(
                {m.name: X @ m.components.T for m in methods} if projected is None else projected,
                codes if sample_codes is None else sample_codes,
                f"all {rows} rows",
            ),
            **(data or {}),
        },
        stages={"moments": 1.25, "solve": 75.0},
        config_yaml="methods: [pca]\nn_components: [3]\n",
        versions={"numpy": "2.1"},
        notes=["Column 3 is constant."],
    )
    return dataclasses.replace(contents, **changes)


def with_margins(methods=None, pairs=400, **changes):
    methods = [method_result("pca"), method_result("m-pca0")] if methods is None else methods
    rng = np.random.default_rng(2)
    before = rng.uniform(1, 3, pairs)
    counts, edges = np.histogram(np.repeat(before, 3), np.linspace(0, 3, 121))
    after = {m.name: before * rng.uniform(0.3, 1, pairs) for m in methods}
    margins = dataclasses.replace(PairMargins(edges, counts, before, after), **changes)
    search = [("rows searched for", "1,200", "rows"), ("recall", "98.7% (98.1% to 99.2%)", NASTY)]
    return report_contents(methods, data={"margins": margins}, certificates={"search": search})


def with_rebuilt(used, sizes, labels, shape, noise=False):
    """Return contents whose methods have rebuilt random rows from so many components."""
    d, rng = int(np.prod(shape)), np.random.default_rng(3)
    rows = rng.uniform(0, 16, (len(labels), d))
    rebuilt = {name: {size: rows + rng.standard_normal(rows.shape) for size in found} for name, found in used.items()}
    made = Reconstructions(rows, rows / 2 if noise else None, labels, sizes, rebuilt)
    return report_contents(
        [method_result(name, d=d) for name in used], image_shape=shape, data={"reconstructions": made}
    )


class Page(HTMLParser):
    """Parses strictly: every element closed in order, and what it refers to on record."""

    def __init__(self, html):
        super().__init__()
        self.open = []
        self.ids = []
        self.links = []
        self.images = []
        """Addresses of pictures made of pixels."""
        self.pictures = 0
        self.scripts = []
        """What scripts say that run; none of them has a source."""
        self.data = {}
        """What plots are made of, by name."""
        self.policy = ""
        self.tags = set()
        self.text = ""
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        found = dict(attrs)
        self.pictures += tag == "figure"
        assert not any(name.startswith("on") for name in found)
        if tag == "script":
            assert found.keys() <= {"type", "data-plot"}
            self.scripts.append("")
            self._plot = found.get("data-plot")
        if tag == "meta" and found.get("http-equiv"):
            self.policy = found["content"] or ""
        if tag not in VOID:
            self.open.append(tag)
        assert "src" not in found
        if "id" in found:
            self.ids.append(found["id"])
        if "href" in found:
            (self.images if tag == "image" else self.links).append(found["href"])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag == "script" and self._plot:
            self.data[self._plot] = json.loads(self.scripts.pop())

    def handle_data(self, data):
        if self.open[-1:] == ["script"]:
            self.scripts[-1] += data  # which may come in pieces
        elif "style" not in self.open:
            self.text += data


def check_page(html):
    page = Page(html)
    assert len(set(page.ids)) == len(page.ids)
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert all(image.startswith("data:image/png;base64,") for image in page.images)
    assert page.tags.isdisjoint({"link", "iframe", "object", "base", "img"})
    # Only the page's own scripts run: the policy knows them by their hashes, and admits nothing else.
    assert 1 <= len(page.scripts) <= 2
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in page.scripts]
    admitted = " ".join(f"'sha256-{digest}'" for digest in digests)
    rules = [" ".join(rule.split()) for rule in page.policy.split(";")]
    assert f"script-src {admitted}" in rules and "default-src 'none'" in rules
    assert html.count("</script") == len(page.scripts) + len(page.data)
    style = re.search("<style>(.*)</style>", html, re.S)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]
    return page


def unpacked(numbers):
    """Return packed numbers as the script of the page reads them."""
    steps = np.frombuffer(base64.b64decode(numbers["steps"]), "<u2")
    values = numbers["low"] + (numbers["high"] - numbers["low"]) * (steps / 65534)
    return np.where(steps == 65535, np.nan, values)


def half_step(values):
    """Return how far packed numbers may be from these."""
    return 0.5001 * np.ptp(values) / 65534


def beyond(everyday, cases):
    """Return cases as parameters of a test; those that are not of every day are marked ``e2e``."""
    return [
        pytest.param(case, id=name, marks=[] if name in everyday else pytest.mark.e2e) for name, case in cases.items()
    ]
