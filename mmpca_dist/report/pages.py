"""HTML pages: one template that escapes text from data, the tables that all pages have, and their files."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from mmpca_dist.jobs.directory import versions
from mmpca_dist.jobs.records import ReportRecord
from mmpca_dist.pictures.chart import STYLE, svg_file
from mmpca_dist.pictures.frame import Figure, Heading, PagePart, Plot, PrintedTable
from mmpca_dist.pictures.palette import style
from mmpca_dist.results.dataset_tables import stages_part, table_parts
from mmpca_dist.results.forms import written
from mmpca_dist.results.result import CONFIG
from mmpca_dist.stores import storage

# Not allowed in HTML, even escaped; lone surrogates cannot be encoded at all.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def page(
    about: str, dataset: Mapping[str, Any], parts: Sequence[PagePart], facts: Mapping[str, int], *,
    notes: Sequence[str] = (), stages: Mapping[str, float] | None = None, config: str = "",
    libraries: Mapping[str, str] | None = None, answer: PagePart | None = None,
    dask_page: bool = False, about_config: str = "as resolved; with it and the same data the run can be repeated",
) -> str:  # fmt: skip
    """Return a page as one HTML document.

    Its title is what the page is ``about``, a run or an evaluation, and that of the ``dataset``. ``facts`` are numbers
    in addition to those of the data set, with their units, and the ``answer`` sentences and commands below the title.
    ``stages`` have their seconds, ``libraries`` their versions, by default those of this process. ``dask_page`` says
    whether Dask's own report lies beside it. What there is none of is left out: classes, stages, a configuration, of
    which ``about_config`` tells.
    """
    times = written("time", sum(stages.values())) if stages else "", "in all stages"
    tables = table_parts(dataset) if "targets" in dataset or dataset["classes"] else []
    plots = [plot for part in parts for plot in part.plots]
    environment = jinja2.Environment(
        autoescape=True,
        loader=jinja2.FunctionLoader(lambda name: files(__package__).joinpath(name).read_text("utf-8")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    return environment.get_template("page.html").render(
        title=str(dataset["uri"]).rstrip("/").rsplit("/", 1)[-1] or str(dataset["uri"]),
        about=about,
        dataset=dataset,
        facts=[*(_facts(dataset, facts) if dataset["n_rows"] else []), *([times] if stages else [])],
        colours=Markup(style() + STYLE),  # noqa: S704 - no text of data
        notes=notes,
        answer=answer or PagePart("", ""),
        parts=[*parts, *tables, *([stages_part(stages)] if stages else [])],
        payloads={plot.name: _payload(plot) for plot in plots},
        scripts=[*([_script("bokeh")] if plots else []), _script("page")],
        config=config,
        about_config=about_config,
        dask_page=dask_page,
        versions=PrintedTable(
            [Heading("library"), Heading("version")], list((libraries or versions()).items()), "Versions", opens=False
        ),
    )


def _facts(dataset: Mapping[str, Any], others: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return the numbers of a data set and others, with what they count."""
    stored, dtype = dataset.get("stored"), dataset.get("dtype")
    made = f" that row maps make of {stored['n_features']:,} columns" if stored else ""
    outcome = ("to predict", len(dataset["targets"])) if "targets" in dataset else ("classes", len(dataset["classes"]))
    counts = {
        "rows": dataset["n_rows"],
        f"features{made}{f' ({dtype})' if dtype else ''}": dataset["n_features"],
        **({outcome[0]: outcome[1]} if outcome[1] else {}),
        **{words if number == 1 else f"{words}s": number for words, number in others.items()},
    }
    return [(f"{number:,}", words) for words, number in counts.items()]


@cache
def _script(name: str) -> dict[str, str]:
    """Return the script of pages, or BokehJS without its widgets, and the digest by which their policy admits it."""
    own = [files(__package__) / f"{part}.js" for part in ("plots", "page")]
    paths = [files("bokeh") / "server/static/js/bokeh.min.js"] if name == "bokeh" else own
    text = "".join(path.read_text("utf-8") for path in paths)
    return {"text": text, "digest": base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}


def _payload(plot: Plot) -> str:
    """Return what a plot is made of as JSON within a script element, which no text in it can end."""
    text = json.dumps(plot.explorer, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def write_page(folder: str, html: str, figures: Sequence[Figure], config: str) -> ReportRecord:
    """Write ``report/index.html``, the pictures and the configuration below a folder, and return where they are."""
    outputs = ["report/index.html", *(f"report/{figure.name}.svg" for figure in figures)]
    urls = [storage.join(folder, path) for path in outputs]
    for url, content in zip(urls, [html.encode(), *map(svg_file, figures)], strict=True):
        storage.write_bytes(url, content)
    storage.write_bytes(storage.join(folder, CONFIG), config.encode())
    return {
        "html": urls[0],
        "figures": [
            {"name": figure.name, "title": figure.title, "caption": figure.caption, "svg": url}
            for figure, url in zip(figures, urls[1:], strict=True)
        ],
        "outputs": [*outputs, CONFIG],
    }


def figures_of(parts: Sequence[PagePart]) -> list[Figure]:
    """Return the pictures of a page, those that stand in for interactive ones included."""
    stills = [plot.still for part in parts for plot in part.plots if plot.still is not None]
    return [*stills, *(figure for part in parts for figure in part.figures)]


def _printable(value: Any) -> Any:
    # The type is kept: markup that is already safe stays so.
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value) if type(value) is str else value
