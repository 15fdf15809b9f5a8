"""Eigenvalues: of every method, and how they converged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from mmpca_dist.report import drawing
from mmpca_dist.report.drawing import FAINT, FEW_COLOURS, INK, METHOD_MARKERS, PAGE_WIDTH, Figure, plain
from mmpca_dist.report.method_results import MethodResult, note_of_models, note_of_switched_off

TITLE = "How much each component holds"
DECADES = 2.0
"""A logarithmic axis where positive shares span more than this many decades."""
FLOOR_REACH = 1e3
"""The rounding floor is drawn where it lies within this factor of the smallest share."""
FOLLOWED = 5
"""Components whose residuals have a line of their own: the first, the last, and some between."""
LEAST_RESIDUAL = 1e-16


def spectra(methods: Sequence[MethodResult]) -> list[Figure]:
    """Return the comparison of all spectra and one panel a method, or bars where each has one component."""
    methods = [m for m in methods if np.isfinite(m.shares).any()]
    curves = [m for m in methods if m.size > 1]
    if not curves:
        return [_single_components(methods)] if methods else []
    single = "".join(
        f" {m.title} has one component, which holds {drawing.percent(float(f'{m.mean_shares[0]:.3g}'))}."
        for m in methods
        if m.size == 1
    )
    return [_compared(curves, single), _one_by_one(curves)]


def _single_components(methods: Sequence[MethodResult]) -> Figure:
    sheet = drawing.sheet(0.65 * PAGE_WIDTH, 0.32 * len(methods) + 0.5)
    panel = sheet.subplots()
    positions, shares = np.arange(len(methods)), [float(m.mean_shares[0]) for m in methods]
    panel.barh(positions, shares, height=0.6, color=FEW_COLOURS[0])
    for position, share in zip(positions, shares, strict=True):
        inside = share > 0.85
        panel.annotate(
            drawing.percent(float(f"{share:.3g}")), (share, position), xytext=(-5 if inside else 5, 0),
            textcoords="offset points", va="center", ha="right" if inside else "left",
            fontsize=drawing.TICK_SIZE, color="white" if inside else INK,
        )  # fmt: skip
    drawing.named_lines(panel, [plain(m.title) for m in methods])
    panel.set_xlim(0, 1.01)
    panel.xaxis.set_major_formatter(FuncFormatter(drawing.percent))
    drawing.dress(panel, "", "share of the method's total")
    caption = (
        "An eigenvalue is how much of what a method looks for lies along its component; here it is divided "
        "by the sum of all of them. Each method has its own total." + note_of_models(methods, "the bar is their mean")
    )
    return Figure("spectrum", TITLE, caption, drawing.png(sheet))


def _compared(methods: Sequence[MethodResult], about_single: str) -> Figure:
    sheet = drawing.sheet(PAGE_WIDTH, 3.6)
    each, summed = sheet.subplots(1, 2)
    longest = max(m.size for m in methods)
    for i, method in enumerate(methods):
        numbers = np.arange(1, method.size + 1)
        # Wide lines below narrow ones, so that methods that agree stay visible.
        look = {
            "color": FEW_COLOURS[i % len(FEW_COLOURS)],
            "linewidth": 1.3 + 2.2 * (len(methods) - 1 - i) / max(len(methods) - 1, 1),
            "marker": METHOD_MARKERS[(i + i // len(FEW_COLOURS)) % len(METHOD_MARKERS)],
            "markersize": 4.5 if longest <= 20 else 2.5,
            "linestyle": "-" if method.ordered else ":",
            "label": plain(method.title),
        }
        each.plot(numbers, method.drawn_shares, **look)
        summed.plot(numbers, np.cumsum(np.nan_to_num(method.mean_shares)), **look)
    _vertical_axis(each, [m.drawn_shares for m in methods], [])
    summed.set_ylim(0, 1.04 * max(1.0, *(float(np.nansum(m.mean_shares)) for m in methods)))
    summed.axhline(1, color=FAINT, linewidth=0.8, linestyle=(0, (1, 2)))
    drawing.percent_axis(summed)
    for panel, title in ((each, "Each component"), (summed, "The first components together")):
        drawing.whole_numbers(panel, longest)
        drawing.dress(panel, title, "component", "share of the method's total")
    if len(methods) > 1:
        handles, labels = each.get_legend_handles_labels()
        drawing.legend_below(sheet, handles, labels, drawing.even_columns(len(methods), 7))
    caption = (
        "An eigenvalue is how much of what a method looks for lies along a component; here it is divided "
        "by the sum of all of them. A steep fall means that few components suffice. Each method has its "
        "own total, so the curves compare shapes, not merits." + about_single
    )
    dotted = [f"{m.title} ({m.values})" if m.values else m.title for m in methods if not m.ordered]
    if dotted:
        caption += f" Dotted: no eigenvalues, but other numbers, of {', '.join(dotted)}."
    caption += note_of_models(methods, "the curve is their mean") + note_of_switched_off(methods)
    return Figure("spectrum", TITLE, caption, drawing.png(sheet))


def _one_by_one(methods: Sequence[MethodResult]) -> Figure:
    sheet, panels = drawing.panel_grid(len(methods), 2.3)
    for panel, method in zip(panels, methods, strict=True):
        shares, errors = method.drawn_shares, method.by_model(method.relative_errors).max(axis=0)
        imprecise = method.by_model(method.imprecise).any(axis=0)
        numbers = np.arange(1, len(shares) + 1)
        floor = np.where(np.isfinite(errors) & (errors > 0), errors, np.nan) * shares
        panel.plot(numbers, shares, color=FEW_COLOURS[0], linewidth=1 if method.ordered else 0)
        for chosen, face in ((~imprecise, FEW_COLOURS[0]), (imprecise, "white")):
            panel.plot(
                numbers[chosen], shares[chosen], "o", markersize=4.5 if len(shares) <= 20 else 2.5,
                markerfacecolor=face, markeredgecolor=FEW_COLOURS[0], linewidth=0,
            )  # fmt: skip
        _vertical_axis(panel, [shares], [floor])
        hidden = _mark_floor(panel, numbers, floor)
        drawing.whole_numbers(panel, len(shares))
        drawing.dress(panel, plain(method.title, limit=22), "component" + hidden, "share of total")
    caption = (
        "The same eigenvalues, one method a panel. The rounding floor, in red, is the scale of rounding errors of "
        "the pass over the rows, not a bound: in single precision eigenvalues were seen up to 26 floors off. Where "
        "it lies far below the points, its size is given under the panel."
    )
    if any(m.imprecise.any() for m in methods):
        caption += (
            " Hollow points are components within a hundredfold of it: do not read anything into them, or, if they "
            "were computed in single precision, compute with precision: double."
        )
    caption += note_of_models(methods, "the points are their mean") + note_of_switched_off(methods)
    return Figure("spectrum-by-method", "Each method and its rounding floor", caption, drawing.png(sheet))


def _vertical_axis(panel: Axes, shares: list[NDArray], floors: list[NDArray]) -> None:
    values = np.concatenate([s[np.isfinite(s) & (s > 0)] for s in shares])
    if len(values) and np.log10(values.max() / values.min()) > DECADES:
        low, high = values.min(), values.max()
        near = [float(np.nanmin(f)) for f in floors if np.isfinite(f).any()]
        low = min([low, *(f for f in near if f > low / FLOOR_REACH)])
        panel.set_yscale("log", nonpositive="mask")
        panel.yaxis.set_major_locator(LogLocator(numticks=7))
        panel.yaxis.set_minor_formatter(NullFormatter())
        margin = (high / low) ** 0.06
        panel.set_ylim(low / margin, high * margin)
    elif len(values):
        panel.set_ylim(0, 1.08 * values.max())
    drawing.percent_axis(panel)


def _mark_floor(panel: Axes, numbers: NDArray, floor: NDArray[np.float64]) -> str:
    """Draw the rounding floor where it is in sight; return words about it for below the panel where it is not."""
    if not np.isfinite(floor).any():
        return ""
    red, height = "#B2182B", float(np.nanmedian(floor))
    share = drawing.percent(float(f"{height:.1e}"))
    bottom, top = panel.get_ylim()
    if panel.get_yscale() != "log" or not bottom < height < top:
        return f" (floor {share})"
    panel.plot(numbers, floor, color=red, linewidth=1.1, linestyle="--")
    # At the left, where a falling spectrum leaves room.
    panel.annotate(
        f"rounding floor {share}", (0.03, height), xycoords=("axes fraction", "data"), xytext=(0, 2),
        textcoords="offset points", ha="left", va="bottom", fontsize=drawing.TICK_SIZE - 0.5, color=red,
        family=drawing.FONT,
    )  # fmt: skip
    return ""


def convergence(methods: Sequence[MethodResult], tolerance: float) -> list[Figure]:
    """Return one picture, a panel for every method whose passes were followed; none where there is no such method."""
    followed = [method for method in methods if method.history]
    if not followed:
        return []
    sheet, panels = drawing.panel_grid(len(followed), 2.9)
    for panel, method in zip(panels, followed, strict=True):
        _residuals(panel, method, tolerance)
    caption = (
        "The residual |S v - l v| of a component, over its eigenvalue l, after every pass over the rows (for M-PCA2, "
        "over the pairs of rows): an eigenvalue of S is no farther than that from the one found. The passes end when "
        "all components are below the dashed line, the tolerance, or when there were as many as allowed "
        "(solver.passes). Methods that differ by what lies between class means share the passes and the basis."
    )
    return [Figure("convergence", "How exact the components are after every pass", caption, drawing.png(sheet))]


def _residuals(panel: Axes, method: MethodResult, tolerance: float) -> None:
    count = min(len(state["values"]) for state in method.history)
    numbers = np.unique(np.linspace(0, count - 1, min(FOLLOWED, count)).astype(int))
    # The first pass takes the class means and cannot tell residuals; the picture begins with the second.
    passes = np.arange(len(method.history)) + method.first_pass
    for i, number in enumerate(numbers):
        errors = [max(state["residuals"][number] / state["values"][number], LEAST_RESIDUAL) for state in method.history]
        panel.semilogy(
            passes, errors, marker="o", markersize=4, linewidth=1.4, color=FEW_COLOURS[i % len(FEW_COLOURS)],
            label=f"component {number + 1}",
        )  # fmt: skip
    if tolerance > 0:
        panel.axhline(tolerance, color=FAINT, linewidth=0.9, linestyle="--")
    panel.set_xticks(passes)
    panel.legend(frameon=False, fontsize=drawing.TICK_SIZE, labelcolor=INK)
    drawing.dress(panel, plain(method.title), "passes", "residual over eigenvalue")
