"""Pictures of eigenvalues, and of angles between methods."""

from __future__ import annotations

import itertools

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from mmpca_dist.blas import products
from mmpca_dist.report import drawing
from mmpca_dist.report.contents import MethodResult
from mmpca_dist.report.drawing import FAINT, FEW_COLOURS, INK, METHOD_MARKERS, PAGE_WIDTH, Figure, plain

MOST_LETTERS = 34
"""Names below a heat map are turned where side by side they would need more letters."""
TITLE = "How much each component holds"
DECADES = 2.0
"""A logarithmic axis where positive shares span more than this many decades."""
ROUNDING = 1e-12
"""Squared lengths, of those of the longest direction, that products of components cannot tell."""
FLOOR_REACH = 1e3
"""The rounding floor is drawn where it lies within this factor of the smallest share."""


def spectra(methods: list[MethodResult]) -> list[Figure]:
    """Return the comparison of all spectra and one panel a method, or bars where each has one component."""
    methods = [m for m in methods if np.isfinite(m.shares).any()]
    if not methods:
        return []
    if max(len(m.eigenvalues) for m in methods) == 1:
        return [_single_components(methods)]
    several = [m for m in methods if len(m.eigenvalues) > 1]
    return [_compared(several, _single_words(methods)), _one_by_one(several)]


def _single_words(methods: list[MethodResult]) -> str:
    """Return a sentence about each method with one component, which makes no curve."""
    return "".join(
        f" {m.title} has one component, which holds {drawing.percent(float(f'{m.shares[0]:.3g}'))}."
        for m in methods
        if len(m.eigenvalues) == 1
    )


def _single_components(methods: list[MethodResult]) -> Figure:
    made = drawing.sheet(0.65 * PAGE_WIDTH, 0.32 * len(methods) + 0.5)
    panel = made.subplots()
    places, shares = np.arange(len(methods)), [float(m.shares[0]) for m in methods]
    panel.barh(places, shares, height=0.6, color=FEW_COLOURS[0])
    for position, share in zip(places, shares, strict=True):
        inside = share > 0.85
        panel.annotate(
            drawing.percent(float(f"{share:.3g}")), (share, position), xytext=(-5 if inside else 5, 0),
            textcoords="offset points", va="center", ha="right" if inside else "left",
            fontsize=drawing.TICK_SIZE, color="white" if inside else INK,
        )  # fmt: skip
    panel.set_yticks(places, [plain(m.title) for m in methods])
    panel.set_ylim(len(methods) - 0.4, -0.6)
    panel.set_xlim(0, 1.01)
    panel.xaxis.set_major_formatter(FuncFormatter(drawing.percent))
    drawing.dress(panel, "", "share of the method's total")
    caption = (
        "An eigenvalue is how much of what a method looks for lies along its component; here it is divided "
        "by the sum of all of them. Each method has its own total."
    )
    return Figure("spectrum", TITLE, caption, drawing.png(made))


def _compared(methods: list[MethodResult], about_others: str) -> Figure:
    made = drawing.sheet(PAGE_WIDTH, 3.6)
    each, summed = made.subplots(1, 2)
    most = max(len(m.eigenvalues) for m in methods)
    for i, method in enumerate(methods):
        numbers = np.arange(1, len(method.eigenvalues) + 1)
        # Wide lines below narrow ones, so that methods that agree stay visible.
        look = {
            "color": FEW_COLOURS[i % len(FEW_COLOURS)],
            "linewidth": 1.3 + 2.2 * (len(methods) - 1 - i) / max(len(methods) - 1, 1),
            "marker": METHOD_MARKERS[(i + i // len(FEW_COLOURS)) % len(METHOD_MARKERS)],
            "markersize": 4.5 if most <= 20 else 2.5,
            "linestyle": "-" if method.ordered else ":",
            "label": plain(method.title),
        }
        each.plot(numbers, method.shares, **look)
        summed.plot(numbers, np.cumsum(np.nan_to_num(method.shares)), **look)
    _vertical_axis(each, [m.shares for m in methods], [])
    summed.set_ylim(0, 1.04 * max(1.0, *(float(np.nansum(m.shares)) for m in methods)))
    summed.axhline(1, color=FAINT, linewidth=0.8, linestyle=(0, (1, 2)))
    drawing.percent_axis(summed)
    for panel, title in ((each, "Each component"), (summed, "The first components together")):
        drawing.whole_numbers(panel, most)
        drawing.dress(panel, title, "component", "share of the method's total")
    if len(methods) > 1:
        made.legend(
            *each.get_legend_handles_labels(),
            loc="outside lower center", ncols=-(-len(methods) // -(-len(methods) // 7)), frameon=False,
            fontsize=drawing.LABEL_SIZE,
        )  # fmt: skip
    caption = (
        "An eigenvalue is how much of what a method looks for lies along a component; here it is divided "
        "by the sum of all of them. A steep fall means that few components suffice. Each method has its "
        "own total, so the curves compare shapes, not merits." + about_others
    )
    dotted = [f"{m.title} ({m.values})" if m.values else m.title for m in methods if not m.ordered]
    if dotted:
        caption += f" Dotted: no eigenvalues, but other numbers, of {', '.join(dotted)}."
    return Figure("spectrum", TITLE, caption, drawing.png(made))


def _one_by_one(methods: list[MethodResult]) -> Figure:
    made, panels = drawing.panel_grid(len(methods), 2.3)
    for panel, method in zip(panels, methods, strict=True):
        shares, errors = method.shares, np.asarray(method.relative_errors, dtype=np.float64)
        numbers = np.arange(1, len(shares) + 1)
        small = 4.5 if len(shares) <= 20 else 2.5
        floor = np.where(np.isfinite(errors) & (errors > 0), errors, np.nan) * shares
        panel.plot(numbers, shares, color=FEW_COLOURS[0], linewidth=1 if method.ordered else 0)
        for chosen, face in ((~method.imprecise, FEW_COLOURS[0]), (method.imprecise, "white")):
            panel.plot(
                numbers[chosen], shares[chosen],
                "o", markersize=small, markerfacecolor=face, markeredgecolor=FEW_COLOURS[0], linewidth=0,
            )  # fmt: skip
        _vertical_axis(panel, [shares], [floor])
        hidden = _mark_floor(panel, numbers, floor)
        drawing.whole_numbers(panel, len(shares))
        drawing.dress(panel, plain(method.title, most=22), "component" + hidden, "share of total")
    caption = (
        "The same eigenvalues, one method a panel. The rounding floor, in red, is the scale of rounding errors of "
        "the pass over the rows, not a bound: in single precision eigenvalues were seen up to 26 floors off. Where "
        "it lies far below the points, its size stands under the panel."
    )
    if any(m.imprecise.any() for m in methods):
        caption += (
            " Hollow points are components within a hundredfold of it: do not read anything into them, or, if they "
            "were computed in single precision, compute with precision: double."
        )
    return Figure("spectrum-by-method", "Each method and its rounding floor", caption, drawing.png(made))


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
        f"rounding floor {share}",
        (0.03, height), xycoords=("axes fraction", "data"), xytext=(0, 2), textcoords="offset points",
        ha="left", va="bottom", fontsize=drawing.TICK_SIZE - 0.5, color=red, family=drawing.FONT,
    )  # fmt: skip
    return ""


def agreement(methods: list[MethodResult]) -> list[Figure]:
    """Return heat maps of cosines between first components and of overlaps between subspaces."""
    if len(methods) < 2 or methods[0].components.shape[1] < 2:
        return []
    d = methods[0].components.shape[1]
    first = np.stack([m.directions(1)[0] for m in methods])
    maps = [("First components: |cosine|", np.abs(first @ first.T))]
    size = _compared_size(methods, d)
    if size > 1:
        maps.append((f"Up to {size} components: overlap", overlaps([m.components[:size] for m in methods])))
    side = 0.62 * len(methods) + 0.4
    wide = len(methods) > (3 if len(maps) > 1 else 6)
    made = drawing.sheet(PAGE_WIDTH if wide else 0.65 * PAGE_WIDTH, min(max(side, 1.9), 4.6) + 0.5)
    panels = made.subplots(1, len(maps), squeeze=False)[0]
    names = [plain(m.title) for m in methods]
    for panel, (title, values) in zip(panels, maps, strict=True):
        _heat_map(panel, title, values, names, panel is panels[0])
    caption = (
        "How different the methods are: 1 where two of them found the same direction, 0 where their "
        "directions are perpendicular."
    )
    if size > 1:
        caption += (
            " The overlap of two subspaces is the mean squared cosine of their principal angles, 1 where "
            f"one contains the other; two random ones would overlap by {size / d:.2g}."
        )
    return [Figure("agreement", "How far the methods agree", caption, drawing.png(made))]


def _compared_size(methods: list[MethodResult], d: int) -> int:
    """Return the largest requested size at which subspaces can differ: at d components all agree."""
    sizes = sorted({size for m in methods for size in m.requested})
    proper = [size for size in sizes if size < d]
    size = proper[-1] if proper else d - 1
    return min(size, max(len(m.eigenvalues) for m in methods))


def overlaps(spanning: list[NDArray]) -> NDArray[np.float64]:
    """Return mean squared cosines of the principal angles between spans of rows, pair by pair.

    Of two spans of different dimension it is 1 where the larger contains the smaller.
    """
    turns = [_whitening(products(rows.T, rows.T, np.float64)) for rows in spanning]
    cosines_squared = np.eye(len(spanning))
    for (a, left), (b, right) in itertools.combinations(enumerate(spanning), 2):
        # Products of rows, for orthonormal bases of many columns would be copies of all components.
        cosines = turns[a].T @ products(left.T, right.T, np.float64) @ turns[b]
        cosines_squared[a, b] = cosines_squared[b, a] = np.sum(cosines**2) / max(min(cosines.shape), 1)
    return cosines_squared


def _whitening(gram: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return W with W^T gram W = I, without directions that are rounding."""
    lengths = np.sqrt(np.diagonal(gram))
    lengths = np.where(lengths > 0, lengths, 1)
    values, vectors = np.linalg.eigh(gram / np.outer(lengths, lengths))
    kept = values > ROUNDING * values[-1]
    return vectors[:, kept] / np.sqrt(values[kept]) / lengths[:, None]


def _heat_map(panel: Axes, title: str, values: NDArray[np.float64], names: list[str], first: bool) -> None:
    panel.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    size = drawing.LABEL_SIZE if len(names) <= 8 else 6.5
    digits = 3 if ((values >= 0.995) & (values < 0.9995)).any() else 2  # 1.00 means the same
    for (i, j), value in np.ndenumerate(values):
        panel.text(
            j,
            i,
            f"{min(value, 1):.{digits}f}",
            ha="center",
            va="center",
            fontsize=size,
            color="white" if value > 0.6 else INK,
        )
    turned = len(names) * max(map(len, names)) > MOST_LETTERS
    panel.set_xticks(range(len(names)), names, rotation=35 if turned else 0, ha="right" if turned else "center")
    panel.set_yticks(range(len(names)), names if first else [""] * len(names))
    drawing.dress(panel, title)
    panel.tick_params(length=0)
    for side in ("left", "bottom"):
        panel.spines[side].set_visible(False)
