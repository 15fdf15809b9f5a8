"""HTML pages: one template that escapes text from data, the tables that all pages have, and their files."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from bokeh.core.types import ID
from bokeh.embed import json_item

from mmpca_dist.errors import plural
from mmpca_dist.jobs.records import ReportRecord
from mmpca_dist.pictures.frame import Figure, Heading, PagePart, Plot, PrintedTable
from mmpca_dist.results.forms import written
from mmpca_dist.results.result import CONFIG
from mmpca_dist.stores import storage
from mmpca_dist.tables.column_faults import gaps_by_column

ABOUT_TIMES = (
    "What each stage took, {} together. Not counted are the start of the command and of servers, the conversion of "
    "text, this report, and what was done of a stage before it was broken off."
)
OPEN_CLASSES, MAX_CLASSES = 12, 20
"""Up to so many classes are listed openly; of more than the latter only the largest are listed."""

# Not allowed in HTML, even escaped; lone surrogates cannot be encoded at all.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def page(
    about: str, results: Any, parts: Sequence[PagePart], facts: Mapping[str, int], *,
    opens_classes: bool = True, intro: Sequence[str] = (), dask_page: bool = False,
) -> str:  # fmt: skip
    """Return a page as one HTML document.

    Its title is what the page is ``about``, a run or an evaluation, and that of the data set. ``results`` have what all
    pages show: ``dataset``, ``notes``, ``stages`` (their seconds), ``config_yaml`` and ``versions``. ``facts`` are
    numbers in addition to those of the data set, with their units, and ``intro`` sentences below the title. Where it
    ``opens_classes``, few of them are listed openly. ``dask_page`` says whether Dask's own report lies beside it.
    """
    dataset, stages = results.dataset, results.stages
    plots = [plot for part in parts for plot in part.plots]
    environment = jinja2.Environment(
        autoescape=True,
        loader=jinja2.FunctionLoader(lambda name: files(__package__).joinpath(name).read_text("utf-8")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    seconds = written("time", sum(stages.values()))
    timed = [Heading("stage"), Heading("time", "number"), Heading("", "bar")]
    rows = zip(stages, (written("time", seconds) for seconds in stages.values()), bars(stages.values()), strict=True)
    classes = _classes(dataset, opens_classes)
    run = PagePart("run", "The run", [ABOUT_TIMES.format(seconds)], tables=[PrintedTable(timed, list(rows))])
    return environment.get_template("page.html").render(
        title=str(dataset["uri"]).rstrip("/").rsplit("/", 1)[-1] or str(dataset["uri"]),
        about=about,
        dataset=dataset,
        facts=facts,
        notes=results.notes,
        intro=intro,
        parts=[*parts, PagePart("classes", classes.title, tables=[classes]), *_gaps(dataset), run],
        payloads={plot.name: _payload(plot) for plot in plots},
        scripts=[*([_script("bokeh")] if plots else []), _script("page")],
        seconds=seconds,
        config=results.config_yaml,
        dask_page=dask_page,
        versions=PrintedTable(
            [Heading("library"), Heading("version")], list(results.versions.items()), "Versions", opens=False
        ),
    )


@cache
def _script(name: str) -> dict[str, str]:
    """Return the script of pages, or BokehJS without its widgets, and the digest by which their policy admits it."""
    path = files("bokeh") / "server/static/js/bokeh.min.js" if name == "bokeh" else files(__package__) / f"{name}.js"
    text = path.read_text("utf-8")
    return {"text": text, "digest": base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}


def _payload(plot: Plot) -> str:
    """Return a plot as JSON within a script element, which no text in it can end."""
    item = _renumbered(json_item(plot.model, ID(f"plot-{plot.name}")), plot.name, {})
    content = {"item": item, "explorer": plot.explorer}
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _renumbered(value: Any, name: str, known: dict[str, str]) -> Any:
    """Return what Bokeh embeds with identifiers that depend on this plot alone, and not on plots made before it."""
    if isinstance(value, list):
        return [_renumbered(each, name, known) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: known.setdefault(each, f"{name}-{len(known)}")
        if key in ("id", "root_id")
        else _renumbered(each, name, known)
        for key, each in value.items()
    }


def write_page(folder: str, html: str, figures: Sequence[Figure], config: str) -> ReportRecord:
    """Write ``report/index.html``, the pictures and the configuration below a folder, and return where they are."""
    outputs = ["report/index.html", *(f"report/{figure.name}.png" for figure in figures)]
    urls = [storage.join(folder, path) for path in outputs]
    for url, content in zip(urls, [html.encode(), *(figure.png for figure in figures)], strict=True):
        storage.write_bytes(url, content)
    storage.write_bytes(storage.join(folder, CONFIG), config.encode())
    return {
        "html": urls[0],
        "figures": [
            {"name": figure.name, "title": figure.title, "caption": figure.caption, "png": url}
            for figure, url in zip(figures, urls[1:], strict=True)
        ],
        "outputs": [*outputs, CONFIG],
    }


def figures_of(parts: Sequence[PagePart]) -> list[Figure]:
    """Return the pictures of a page, those that stand in for interactive ones included."""
    stills = [plot.still for part in parts for plot in part.plots if plot.still is not None]
    return [*stills, *(figure for part in parts for figure in part.figures)]


def bars(values: Iterable[float]) -> list[str]:
    """Return numbers as percentages of the largest, for columns of bars."""
    numbers = list(values)
    longest = max(numbers, default=0) or 1e-9
    return [f"{100 * number / longest:.1f}" for number in numbers]


def _printable(value: Any) -> Any:
    # The type is kept: markup that is already safe stays so.
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value) if type(value) is str else value


def _gaps(dataset: Mapping[str, Any]) -> list[PagePart]:
    """Return how much is missing of the columns that lack most, where any do."""
    worst = gaps_by_column(dataset.get("missing") or [], dataset.get("feature_names"))
    if not worst:
        return []
    shown = worst[:MAX_CLASSES]
    rows = [
        (name, f"{count:,}", written("share", count / dataset["n_rows"]), length)
        for (name, count), length in zip(shown, bars(count for _, count in shown), strict=True)
    ]
    about = (
        f"{plural(len(worst), 'column')} with missing values, for which the mean of the others stands: it shrinks the "
        f"variance of a column by the share that is missing.{' The worst are:' if len(worst) > len(shown) else ''}"
    )
    columns = [Heading("column"), Heading("missing", "number"), Heading("share", "number"), Heading("", "bar")]
    return [PagePart("gaps", "Missing values", [about], tables=[PrintedTable(columns, rows)])]


def _classes(dataset: Mapping[str, Any], opens: bool) -> PrintedTable:
    counts, weights = dataset["counts"], dataset.get("weights")
    names = [", ".join(dataset["targets"])] if "targets" in dataset else dataset["classes"]
    amounts = weights or counts
    total, lengths, below = sum(amounts) or 1, bars(amounts), ""
    listed: Sequence[int] = range(len(counts))
    if hidden := max(0, len(counts) - MAX_CLASSES):
        listed = sorted(listed, key=lambda i: -amounts[i])[:MAX_CLASSES]
        below = f"These are the largest classes; there {'is' if hidden == 1 else 'are'} {hidden:,} more."
    numbers = ["rows", *(["weight"] if weights else []), "share"]
    title, outcome = ("Numbers to predict", "target") if "targets" in dataset else ("Classes", "class")
    columns = [Heading("no.", "number"), Heading(outcome), *(Heading(name, "number") for name in numbers)]
    rows = [
        (str(i), names[i], f"{counts[i]:,}", *([f"{weights[i]:,.6g}"] if weights else []),
         written("share", amounts[i] / total), lengths[i])
        for i in listed
    ]  # fmt: skip
    return PrintedTable(
        [*columns, Heading("", "bar")], rows, title, "and how many rows each has", below=below,
        opens=opens and len(names) <= OPEN_CLASSES,
    )  # fmt: skip
