"""HTML pages: templates that escape text from data, tables that pages share, and their files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import jinja2

from mmpca_dist.jobs.records import ReportRecord
from mmpca_dist.report.drawing import Figure
from mmpca_dist.stores import storage

DASH = "\N{EN DASH}"
OPEN_CLASSES, MOST_CLASSES = 12, 20
"""Up to so many classes are listed openly; of more than the latter only the largest are listed."""

# Not allowed in HTML, even escaped; lone surrogates cannot be encoded at all.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def fill(template: str, dataset: dict[str, Any], stages: dict[str, float], **values: Any) -> str:
    """Return a page: a template of this folder, with what ``base.html`` needs beside the values given.

    ``dataset`` has ``uri``, ``n_rows``, ``n_features``, ``classes`` and ``counts``; ``stages`` are the
    seconds of each stage. The values are ``methods``, ``notes``, ``config``, ``versions``, and what the template itself
    shows; ``open_classes`` overrides whether the classes are listed openly, which otherwise depends on their number.
    """
    environment = jinja2.Environment(
        autoescape=True,
        loader=jinja2.FunctionLoader(lambda name: files(__package__).joinpath(name).read_text("utf-8")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    return environment.get_template(template).render(
        title=_short_name(dataset["uri"]),
        dataset=dataset,
        classes=_class_rows(dataset),
        hidden_classes=max(0, len(dataset["classes"]) - MOST_CLASSES),
        stages=_stage_rows(stages),
        seconds=seconds_in_words(sum(stages.values())),
        **{"open_classes": len(dataset["classes"]) <= OPEN_CLASSES, **values},
    )


def write_page(folder: str, html: str, figures: Sequence[Figure]) -> ReportRecord:
    """Write ``report/index.html`` and the pictures below a folder, local or a URL, and return where they are."""
    outputs = ["report/index.html", *(f"report/{figure.name}.png" for figure in figures)]
    urls = [storage.join(folder, path) for path in outputs]
    for url, content in zip(urls, [html.encode(), *(figure.png for figure in figures)], strict=True):
        storage.write_bytes(url, content)
    return {
        "html": urls[0],
        "figures": [
            {"name": figure.name, "title": figure.title, "caption": figure.caption, "png": url}
            for figure, url in zip(figures, urls[1:], strict=True)
        ],
        "outputs": outputs,
    }


def _printable(value: Any) -> Any:
    # The type is kept: markup that is already safe stays so.
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value) if type(value) is str else value


def _short_name(uri: object) -> str:
    return str(uri).rstrip("/").rsplit("/", 1)[-1] or str(uri)


def _class_rows(dataset: dict[str, Any]) -> list[dict[str, Any]]:
    names, counts = dataset["classes"], dataset["counts"]
    total, largest = max(sum(counts), 1), max([*counts, 1])
    listed: Sequence[int] = range(len(counts))
    if len(counts) > MOST_CLASSES:
        listed = sorted(listed, key=lambda i: -counts[i])[:MOST_CLASSES]
    return [
        {
            "number": i,
            "name": names[i],
            "count": f"{counts[i]:,}",
            "share": f"{100 * counts[i] / total:.1f}%",
            "width": f"{100 * counts[i] / largest:.1f}",
        }
        for i in listed
    ]


def _stage_rows(stages: dict[str, float]) -> list[dict[str, str]]:
    longest = max(stages.values()) or 1e-9
    return [
        {"stage": stage, "seconds": seconds_in_words(seconds), "width": f"{100 * seconds / longest:.1f}"}
        for stage, seconds in stages.items()
    ]


def seconds_in_words(seconds: float) -> str:
    """Return a time as a reader wants it: ``1.25 s``, ``3 min 07 s``."""
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
