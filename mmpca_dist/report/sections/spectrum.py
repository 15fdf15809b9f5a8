"""Eigenvalues: how much each component of every method holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter
from numpy.typing import NDArray

from mmpca_dist.pictures import drawing
from mmpca_dist.pictures.drawing import FAINT, FEW_COLOURS, METHOD_MARKERS, PAGE_WIDTH, plain
from mmpca_dist.pictures.frame import Figure, ReportSection
from mmpca_dist.results.figures import Figures, note_of_models, note_of_switched_off

DECADES = 2.0
"""A logarithmic axis where positive shares span more than this many decades."""


def _spectrum(methods: Sequence[Figures], _: None, __: Mapping[str, Any]) -> list[Figure]:
    """Return the curves of methods with several components; of one, the table of methods has the share."""
    curves = [m for m in methods if m.size > 1 and np.isfinite(m.shares).any()]
    if not curves:
        return []
    sheet = drawing.sheet(PAGE_WIDTH, 3.6)
    each, summed = sheet.subplots(1, 2)
    longest = max(m.size for m in curves)
    for i, method in enumerate(curves):
        numbers = np.arange(1, method.size + 1)
        colour = FEW_COLOURS[i % len(FEW_COLOURS)]
        # Wide lines below narrow ones, so that methods that agree stay visible.
        look: dict[str, Any] = {
            "color": colour,
            "linewidth": 1.3 + 2.2 * (len(curves) - 1 - i) / max(len(curves) - 1, 1),
            "marker": METHOD_MARKERS[(i + i // len(FEW_COLOURS)) % len(METHOD_MARKERS)],
            "markersize": 4.5 if longest <= 20 else 2.5,
            "linestyle": "-" if method.method.ordered else ":",
        }
        each.plot(numbers, method.drawn_shares, label=plain(method.title), **look)
        summed.plot(numbers, np.cumsum(np.nan_to_num(method.mean_shares)), **look)
    _vertical_axis(each, np.concatenate([m.drawn_shares for m in curves]))
    summed.set_ylim(0, 1.04 * max(1.0, *(float(np.nansum(m.mean_shares)) for m in curves)))
    summed.axhline(1, color=FAINT, linewidth=0.8, linestyle=(0, (1, 2)))
    drawing.percent_axis(summed)
    for panel, title in ((each, "Each component"), (summed, "The first components together")):
        drawing.whole_numbers(panel, longest)
        drawing.dress(panel, title, "component", "share of the method's total")
    if len(curves) > 1:
        drawing.legend_below(sheet, *each.get_legend_handles_labels())
    shares = (f"{m.title} {m.drawn_shares[0]:.0%} and {np.nansum(m.mean_shares):.0%}" for m in curves)
    alt = f"Curves of shares. Share of the first component, and of all: {', '.join(shares)}."
    return [drawing.figure("spectrum", "How much each component holds", _caption(curves), sheet, alt)]


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


def _vertical_axis(panel: Axes, shares: NDArray[np.float64]) -> None:
    values = shares[np.isfinite(shares) & (shares > 0)]
    if len(values) and np.log10(values.max() / values.min()) > DECADES:
        panel.set_yscale("log", nonpositive="mask")
        panel.yaxis.set_major_locator(LogLocator(numticks=7))
        panel.yaxis.set_minor_formatter(NullFormatter())
        margin = (values.max() / values.min()) ** 0.06
        panel.set_ylim(values.min() / margin, values.max() * margin)
    elif len(values):
        panel.set_ylim(0, 1.08 * values.max())
    drawing.percent_axis(panel)


SPECTRUM = ReportSection("spectrum", 40, _spectrum)
