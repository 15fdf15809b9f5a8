"""The page of a run: one HTML file without scripts and requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mmpca_dist.report.contents import MethodResult, ReportContents
from mmpca_dist.report.drawing import Figure
from mmpca_dist.report.templates import fill

TABLE_ROWS = 10
"""Components listed for each method."""


def render(contents: ReportContents, figures: Sequence[Figure]) -> str:
    """Return the report as one HTML document.

    Parameters
    ----------
    contents : ReportContents
    figures : sequence of Figure
        As ``figures(contents)`` returns them, in the order in which they are to appear.
    """
    return fill(
        "page.html",
        contents.dataset,
        contents.stages,
        choices=contents.choices,
        folds=contents.folds,
        judge=contents.judge,
        rule=contents.rule,
        methods=[_method_rows(method) for method in contents.methods],
        figures=figures,
        search=contents.search,
        solving=contents.solving,
        plan=contents.plan,
        config=contents.config_yaml,
        versions=contents.versions,
        notes=contents.notes,
        any_imprecise=any(method.imprecise.any() for method in contents.methods),
    )


def _method_rows(method: MethodResult) -> dict[str, Any]:
    n_components, shares = len(method.eigenvalues), method.shares
    cut = [size for size in method.requested if size > n_components]
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
        for k in range(min(n_components, TABLE_ROWS))
    ]
    return {
        "name": method.name,
        "title": method.title,
        "found": n_components,
        "cut": cut,
        "limit": method.limit.replace(" - ", "\N{NO-BREAK SPACE}\N{MINUS SIGN}\N{NO-BREAK SPACE}"),
        "held": held,
        "orthonormal": method.orthonormal,
        "ordered": method.ordered,
        "measure": method.values,
        "rows": rows,
        "more": n_components - len(rows),
        "imprecise": int(method.imprecise.sum()),
        "more_imprecise": int(method.imprecise[len(rows) :].sum()),
        "total": _number(method.total) if np.isfinite(method.total) else "",
    }


def _share(share: float) -> str:
    if not np.isfinite(share):
        return "\N{EN DASH}"
    value = 100 * share
    return f"{value:.1f}%" if value >= 0.1 or value <= 0 else f"{value:.1g}%"


def _number(value: float, digits: int = 4) -> str:
    return f"{float(value):.{digits}g}" if np.isfinite(value) else "\N{EN DASH}"
