"""Eigenvalues: how much each component of every method holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.pictures import palette
from mmpca_dist.pictures.chart import Axis, Panel, key, percent
from mmpca_dist.pictures.frame import Figure, ReportSection
from mmpca_dist.results.figures import Figures, note_of_models, note_of_switched_off

DECADES = 2.0
"""A logarithmic axis where positive shares span more than this many decades."""


def _spectrum(methods: Sequence[Figures], _: None, __: Mapping[str, Any]) -> list[Figure]:
    """Return the curves of methods with several components; of one, the table of methods has the share."""
    curves = [m for m in methods if m.size > 1 and np.isfinite(m.shares).any()]
    if not curves:
        return []
    longest = max(m.size for m in curves)
    each, summed = (
        Panel(title, "component", "share of the method's total", 230, 400, Axis(whole=True), Axis(format=percent))
        for title in ("Each component", "The first components together")
    )
    each.y = _vertical_axis(np.concatenate([m.drawn_shares for m in curves]))
    summed.y.low = 0
    summed.y.see([1.0])
    for i, method in enumerate(curves):
        colour, mark = palette.method_look(method.name)
        # Wide lines below narrow ones, so that methods that agree stay visible.
        width = round(1.3 + 2.2 * (len(curves) - 1 - i) / max(len(curves) - 1, 1), 1)
        numbers, dash = np.arange(1, method.size + 1), _dash(method)
        sums = np.cumsum(np.nan_to_num(method.mean_shares))
        for panel, values in ((each, method.drawn_shares), (summed, sums)):
            panel.line(numbers, values, colour, width, dash)
            panel.points(numbers, values, colour, mark, 6.5 if longest <= 20 else 4)
    summed.rule("faint", y=1, dash="dotted")
    keys = [key(m.title, *palette.method_look(m.name), _dash(m)) for m in curves]
    shares = (f"{m.title} {m.drawn_shares[0]:.0%} and {np.nansum(m.mean_shares):.0%}" for m in curves)
    alt = f"Curves of shares. Share of the first component, and of all: {', '.join(shares)}."
    panels, entries = [each.drawn(), summed.drawn()], keys if len(keys) > 1 else []
    return [Figure("spectrum", "How much each component holds", _caption(curves), panels, entries, alt)]


def _dash(method: Figures) -> str:
    return palette.method_dash(method.name) if method.method.ordered else "dotted"


def _caption(curves: Sequence[Figures]) -> str:
    caption = (
        "An eigenvalue is how much of what a method looks for lies along a component; here it is divided "
        "by the sum of all of them. A steep fall means that few components suffice. Each method has its "
        "own total, so the curves compare shapes, not merits."
    )
    values = [(m.title, m.method.values) for m in curves if not m.method.ordered]
    if values:
        dotted = ", ".join(f"{title} ({words})" if words else title for title, words in values)
        caption += f" Dotted: no eigenvalues, but other numbers, of {dotted}."
    return caption + note_of_models(curves, "the curve is their mean") + note_of_switched_off(curves)


def _vertical_axis(shares: NDArray[np.float64]) -> Axis:
    values = shares[np.isfinite(shares) & (shares > 0)]
    if len(values) and np.log10(values.max() / values.min()) > DECADES:
        return Axis(log=True, format=percent)
    return Axis(low=0, format=percent)


SPECTRUM = ReportSection("spectrum", 40, _spectrum)
