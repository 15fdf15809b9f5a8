"""The page: one HTML file with everything inside, no scripts and no requests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import jinja2
import numpy as np

from mmpca_dist.runs.report.contents import MethodResult, ReportContents
from mmpca_dist.runs.report.drawing import Figure

TABLE_ROWS = 10
"""Components listed for each method."""
OPEN_CLASSES, MOST_CLASSES = 12, 200
"""Up to so many classes are listed openly; at most so many are listed at all."""

# Not allowed in HTML, even escaped; lone surrogates cannot be encoded at all.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def render(contents: ReportContents, figures: Sequence[Figure]) -> str:
    """Return the report as one HTML document.

    Parameters
    ----------
    contents : ReportContents
    figures : sequence of Figure
        As ``figures(contents)`` returns them, in the order in which they are to appear.
    """
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    template = environment.from_string(files(__package__).joinpath("page.html").read_text("utf-8"))
    return template.render(
        title=_short_name(contents.dataset["uri"]),
        dataset=contents.dataset,
        classes=_class_rows(contents.dataset),
        hidden_classes=max(0, len(contents.dataset["classes"]) - MOST_CLASSES),
        open_classes=len(contents.dataset["classes"]) <= OPEN_CLASSES,
        methods=[_method_rows(method) for method in contents.methods],
        figures=figures,
        search=contents.search,
        solving=contents.solving,
        plan=contents.plan,
        stages=_stage_rows(contents.stages),
        seconds=_seconds(sum(seconds for _, seconds, _ in contents.stages)),
        config=contents.config_yaml,
        versions=contents.versions,
        notes=contents.notes,
        any_imprecise=any(method.imprecise.any() for method in contents.methods),
    )


def _printable(value: Any) -> Any:
    # The type is kept: markup that is already safe stays so.
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value) if type(value) is str else value


def _short_name(uri: object) -> str:
    return str(uri).rstrip("/").rsplit("/", 1)[-1] or str(uri)


def _class_rows(dataset: dict[str, Any]) -> list[dict[str, Any]]:
    names, counts = dataset["classes"], dataset["counts"]
    total, most = max(sum(counts), 1), max([*counts, 1])
    return [
        {
            "number": i,
            "name": name,
            "count": f"{count:,}",
            "share": f"{100 * count / total:.1f}%",
            "width": f"{100 * count / most:.1f}",
        }
        for i, (name, count) in enumerate(zip(names, counts, strict=True))
    ][:MOST_CLASSES]


def _method_rows(method: MethodResult) -> dict[str, Any]:
    found, shares = len(method.eigenvalues), method.shares
    cut = [wanted for wanted in method.requested if wanted > found]
    held = [f"{_share(float(np.sum(shares[:size])))} in {size}" for size in dict.fromkeys(method.sizes) if size]
    rows = [
        {
            "number": k + 1,
            "eigenvalue": _number(method.eigenvalues[k]),
            "share": _share(float(shares[k])),
            "together": _share(float(np.sum(shares[: k + 1]))),
            "residual": _number(method.residuals[k], 2),
            "error": _number(method.relative_errors[k], 2),
            "imprecise": bool(method.imprecise[k]),
        }
        for k in range(min(found, TABLE_ROWS))
    ]
    return {
        "name": method.name,
        "title": method.title,
        "found": found,
        "cut": cut,
        "limit": method.limit.replace(" - ", "\N{NO-BREAK SPACE}\N{MINUS SIGN}\N{NO-BREAK SPACE}"),
        "held": held,
        "orthonormal": method.orthonormal,
        "ordered": method.ordered,
        "measure": method.values,
        "rows": rows,
        "more": found - len(rows),
        "imprecise": int(method.imprecise.sum()),
        "more_imprecise": int(method.imprecise[len(rows) :].sum()),
        "total": _number(method.total) if np.isfinite(method.total) else "",
    }


def _stage_rows(stages: list[tuple[str, float, str]]) -> list[dict[str, str]]:
    longest = max([seconds for _, seconds, _ in stages] + [1e-9])
    return [
        {
            "stage": stage,
            "seconds": _seconds(seconds),
            "note": note,
            "width": f"{100 * seconds / longest:.1f}",
        }
        for stage, seconds, note in stages
    ]


def _share(share: float) -> str:
    if not np.isfinite(share):
        return "\N{EN DASH}"
    value = 100 * share
    return f"{value:.1f}%" if value >= 0.1 or value <= 0 else f"{value:.1g}%"


def _number(value: float, digits: int = 4) -> str:
    return f"{float(value):.{digits}g}" if np.isfinite(value) else "\N{EN DASH}"


def _seconds(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
