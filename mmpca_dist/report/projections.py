"""Pictures of projected rows."""

from __future__ import annotations

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Sheet
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from mmpca_dist.report import drawing
from mmpca_dist.report.contents import ReportContents
from mmpca_dist.report.drawing import FAINT, INK, MOST_COLOURS, Figure, plain

TAIL = 0.5
"""Percent of the rows on either side that do not decide whether a panel is cut."""
STRETCH = 4.0
"""A panel is cut where rows in the tails stretch it by more than this."""
BINS = 40
NAME_WIDTH, NAME_HEIGHT = 0.06, 0.08
"""Room for a letter of a class's name, and for a line, as shares of a panel."""


def projections(contents: ReportContents) -> list[Figure]:
    """Return one picture of the sample of rows along the first components, a panel for each method."""
    codes = np.asarray(contents.codes)
    shown = [
        (method, np.asarray(contents.projected[method.name], dtype=np.float64))
        for method in contents.solved
        if method.name in contents.projected and contents.projected[method.name].shape[1]
    ]
    if not shown or not len(codes):
        return []
    names = drawing.distinct(contents.dataset["classes"], 22)
    strips = [rows.shape[1] == 1 for _, rows in shown]
    made, panels = drawing.panel_grid(len(shown), 4.2 if len(shown) == 1 else 3.1 if len(shown) <= 6 else 2.6)
    narrow = drawing.distinct(contents.dataset["classes"], 22 if len(shown) == 1 else 12)
    strip_label = "" if len(names) <= MOST_COLOURS else "classes, in sorted order"
    for panel, (method, rows) in zip(panels, shown, strict=True):
        finite = np.isfinite(rows).all(axis=1)
        if rows.shape[1] == 1:
            outside, vertical = _strips(panel, rows[finite, 0], codes[finite], narrow), strip_label
        else:
            outside, vertical = _scatter(panel, rows[finite, :2], codes[finite], names), "component 2"
        hidden = f" ({outside} {'row' if outside == 1 else 'rows'} outside)" if outside else ""
        drawing.dress(panel, plain(method.title), "component 1" + hidden, vertical)
        for axis in (panel.xaxis, panel.yaxis):
            axis.get_offset_text().set_fontsize(drawing.TICK_SIZE)
    if not all(strips) and len(names) <= MOST_COLOURS:  # strips have their names beside them
        _legend(made, names)
    caption = _caption(contents.sample_note, len(names), strips)
    if not all(strips) and _named(names):
        caption += " Names stand at the medians of their classes, where there is room."
    which = "component" if all(strips) else "two components"
    return [Figure("projection", f"The rows along the first {which}", caption, drawing.png(made))]


def _caption(sample_note: str, n_classes: int, strips: list[bool]) -> str:
    if all(strips):
        caption = (
            f"How the only coordinate of the rows ({sample_note}) is spread in each class, with a line at "
            "the median: where the heaps do not overlap, one number tells the classes apart."
        )
    else:
        caption = (
            f"Each point is a row ({sample_note}), coloured by its class: where colours separate, two "
            "numbers already tell the classes apart; where they mix, more components may still do so."
        )
        if any(strips):
            caption += " A method with one component shows how its only coordinate is spread in each class instead."
    if n_classes > MOST_COLOURS:
        caption += f" There are {n_classes} classes: colours run from dark to light in their sorted order."
    return caption


def _scatter(panel: Axes, rows: NDArray[np.float64], codes: NDArray, names: list[str]) -> int:
    """Draw rows along two components and return how many lie outside the picture."""
    colours = np.asarray(drawing.class_colours(len(names)), dtype=object if len(names) <= MOST_COLOURS else None)
    markers = np.array([drawing.class_marker(i, len(names)) for i in range(len(names))])
    # In a shuffled order, or the last class would hide the others.
    order = np.random.default_rng(0).permutation(len(rows))
    rows, codes = rows[order], codes[order]
    size = 16 if len(rows) <= 500 else 8 if len(rows) <= 2500 else 4
    for marker in np.unique(markers):
        chosen = markers[codes] == marker
        panel.scatter(
            rows[chosen, 0], rows[chosen, 1], s=size, c=list(colours[codes[chosen]]), marker=marker,
            alpha=0.75, linewidths=0,
        )  # fmt: skip
    left_out = np.zeros(len(rows), dtype=bool)
    for values, set_limits in ((rows[:, 0], panel.set_xlim), (rows[:, 1], panel.set_ylim)):
        low, high = _reach(values)
        if (values < low).any() or (values > high).any():
            margin = 0.03 * (high - low)  # or the outermost points would be cut in half
            low, high = low - margin, high + margin
            set_limits(low, high)
            left_out |= (values < low) | (values > high)
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=5))
    panel.ticklabel_format(scilimits=(-3, 4))
    if _named(names):
        _name_centres(panel, rows, codes, names)
    return int(left_out.sum())


def _named(names: list[str]) -> bool:
    """Tell whether the names of classes stand in the picture: where colours alone are many, and names short."""
    return 7 < len(names) <= MOST_COLOURS and max(map(len, names)) <= 4


def _name_centres(panel: Axes, rows: NDArray[np.float64], codes: NDArray, names: list[str]) -> None:
    """Write the names at the medians of their classes, unless they would run into one another."""
    halo = [patheffects.withStroke(linewidth=2.5, foreground="white")]
    scale = np.ptp([panel.get_xlim(), panel.get_ylim()], axis=1)
    centres: list[NDArray[np.float64]] = []
    for position in np.unique(codes):
        x, y = np.median(rows[codes == position], axis=0)
        centre = np.array([x, y]) / scale
        if any((np.abs(centre - other) < (NAME_WIDTH * len(names[position]), NAME_HEIGHT)).all() for other in centres):
            continue
        centres.append(centre)
        panel.text(
            x, y, names[position], fontsize=10, fontweight="bold", color=INK, ha="center", va="center",
            path_effects=halo, clip_on=True,
        )  # fmt: skip


def _reach(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the range to show: all values, unless far outliers would squeeze the others together."""
    if not len(values):
        return 0.0, 1.0
    # Rounded inwards: among few values, too, the outermost does not count.
    low = float(np.percentile(values, TAIL, method="higher"))
    high = float(np.percentile(values, 100 - TAIL, method="lower"))
    least, most = float(values.min()), float(values.max())
    if most - least <= STRETCH * (high - low) or high <= low:
        return least, most
    margin = 0.25 * (high - low)
    return max(least, low - margin), min(most, high + margin)


def _strips(panel: Axes, values: NDArray[np.float64], codes: NDArray, names: list[str]) -> int:
    """Draw a histogram of the values of each class, one above the other; points where classes are many.

    Returns how many values lie outside the picture.
    """
    colours = drawing.class_colours(len(names))
    low, high = _reach(values)
    outside = (values < low) | (values > high)
    edges = np.linspace(low, high, BINS + 1) if high > low else np.linspace(low - 0.5, low + 0.5, BINS + 1)
    jitter = np.random.default_rng(0).uniform(-0.4, 0.4, len(values))
    for position in range(len(names)):
        own, base = values[codes == position], -float(position)
        if len(names) > MOST_COLOURS:
            panel.scatter(own, base + jitter[codes == position], s=4, color=colours[position], linewidths=0)
            continue
        panel.axhline(base - 0.45, color=FAINT, linewidth=0.5)
        if len(own):
            heights = np.histogram(own, edges)[0]
            top = 0.88 * heights / max(heights.max(), 1)
            panel.stairs(base - 0.45 + top, edges, baseline=base - 0.45, fill=True, color=colours[position], alpha=0.85)
            middle = np.clip(np.median(own), edges[0], edges[-1])
            panel.plot([middle, middle], [base - 0.45, base + 0.43], color=INK, linewidth=1.2)
    panel.set_ylim(-len(names) + 0.45, 0.55)
    if len(names) <= MOST_COLOURS:
        panel.set_yticks(-np.arange(len(names)), names)
    else:
        panel.set_yticks([])
    if outside.any():
        panel.set_xlim(edges[0], edges[-1])
    panel.xaxis.set_major_locator(MaxNLocator(nbins=5))
    panel.ticklabel_format(axis="x", scilimits=(-3, 4))
    return int(outside.sum())


def _legend(made: Sheet, names: list[str]) -> None:
    colours = drawing.class_colours(len(names))
    handles = [
        Line2D([], [], linestyle="", marker=drawing.class_marker(i, len(names)), color=colours[i], markersize=6)
        for i in range(len(names))
    ]
    columns = max(1, min(len(names), int(110 / (max(map(len, names)) + 6))))
    rows = -(-len(names) // columns)
    columns = -(-len(names) // rows)
    # Legends are filled column by column, and read row by row.
    order = [i for first in range(columns) for i in range(first, len(names), columns)]
    made.legend(
        [handles[i] for i in order], [names[i] for i in order], loc="outside lower center", ncols=columns,
        frameon=False, fontsize=drawing.LABEL_SIZE,
        handletextpad=0.1, columnspacing=1.2,
    )  # fmt: skip
