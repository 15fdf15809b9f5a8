"""Errors of an evaluation: against the number of components, of methods that one can hide, and split by split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from mmpca_dist.errors import plural
from mmpca_dist.evaluation.component_rule import lowest
from mmpca_dist.evaluation.results import Evaluation
from mmpca_dist.evaluation.tables import Cell, Key
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.pictures import drawing
from mmpca_dist.pictures.drawing import FAINT, FEW_COLOURS, INK, METHOD_MARKERS, TEN_COLOURS, plain
from mmpca_dist.pictures.frame import Figure, PagePart, Plot
from mmpca_dist.pictures.frame import Key as Entry
from mmpca_dist.report.explorer import MARKERS, bk, blank, tools
from mmpca_dist.results.answer import guess, label, named
from mmpca_dist.results.forms import written

WIDE = 8
"""Numbers of components that span more than this factor have a logarithmic axis."""
MAX_TICKS = 7
LEGEND_LINE, LEGEND_LETTER = 0.6, 0.075
"""Inches that a line in a legend and a letter take."""
LONG_NAME = 40
SPREAD = 0.25
"""Share of the room between two numbers of components over which points are moved apart."""
MAX_DRAWN = 2
"""Numbers of components that pictures of single splits and of margins show; of more, the reference's best one."""
COLOURS = FEW_COLOURS[:MAX_DRAWN]
LINE = 10.0
"""Points between lines of text above a panel of single splits."""
MARKER_SIZE = 7


@dataclass(frozen=True)
class Style:
    """How a method is drawn."""

    colour: str
    marker: str
    dashed: bool


def styles(evaluation: Evaluation) -> dict[str, Style]:
    """Return how every method is drawn: the reference in black, all columns in grey, the others by their place."""
    grey = [method for method in evaluation.methods if method in evaluation.unreduced - {evaluation.reference}]
    found = {evaluation.reference: Style(INK, "o", False), **dict.fromkeys(grey, Style(FAINT, "None", True))}
    others = [method for method in evaluation.methods if method not in found]
    colours = FEW_COLOURS[:-1] if len(others) < len(FEW_COLOURS) else TEN_COLOURS  # the last of the few is black
    for i, method in enumerate(others):
        marker = METHOD_MARKERS[i % len(METHOD_MARKERS)]
        found[method] = Style(colours[i % len(colours)], marker, i >= len(colours))
    return found


def drawn_sizes(evaluation: Evaluation, classifier: str) -> list[int]:
    """Return up to two numbers of components: all, or that with the reference's lowest mean under a classifier."""
    sizes, reference = evaluation.n_components, evaluation.reference
    if len(sizes) <= MAX_DRAWN:
        return sizes
    return [min(sizes, key=lambda size: evaluation.cells[reference, size, classifier].summary.mean)]


def errors_part(evaluation: Evaluation) -> PagePart:
    """Return the part of the page with the curves of all methods, under one classifier at a time."""
    still, drawn = error_curves(evaluation), styles(evaluation)
    sizes = evaluation.n_components
    curves = [[_curve(evaluation, method, name) for method in drawn] for name in evaluation.classifiers]
    positions = axis_positions(sizes).tolist()
    hover = bk.HoverTool(
        tooltips=[
            ("method", "@method"), ("components", "@size"), ("test error", "@mean{0.00}%"),
            ("standard error", "@error{0.00}"),
        ]
    )  # fmt: skip
    plot = blank(400, tools=tools(hover), x_axis_label="components", y_axis_label="test error (%)")
    plot.y_range = bk.DataRange1d(only_visible=True)
    plot.xaxis.ticker = bk.FixedTicker(ticks=positions)
    plot.xaxis.major_label_overrides = dict(zip(positions, map(str, sizes), strict=True))
    hover.renderers, keys = [], []
    for i, (method, style) in enumerate(drawn.items()):
        fixed = {"x": positions, "size": [str(size) for size in sizes], "method": [title_of(method)] * len(sizes)}
        source = bk.ColumnDataSource({**fixed, **curves[0][i]}, name=f"curve-{i}")
        keys.append(Entry(f"method-{i}", title_of(method), style.colour))
        hover.renderers.append(_draw(plot, source, keys[-1].renderers, style))
    start = list(evaluation.classifiers).index(lowest(list(evaluation.cells.values())).classifier)
    explorer = {
        "kind": "curves",
        "classifiers": list(evaluation.classifiers.values()),
        "start": start,
        "curves": curves,
    }
    caption = f"{curves_caption(evaluation)} Untick methods to hide them, or press None and tick those you want."
    live = Plot("errors", still.title, caption, still.alt, plot, keys, "Methods", explorer, still)
    return PagePart(still.name, still.title, plots=[live])


def _curve(evaluation: Evaluation, method: str, classifier: str) -> dict[str, list[Any]]:
    """Return what is drawn of a method under a classifier, for each number of components."""
    cells = [evaluation.cells[method, size, classifier] for size in evaluation.n_components]
    colour = styles(evaluation)[method].colour
    means = np.array([cell.summary.mean for cell in cells])
    errors = np.nan_to_num([cell.summary.corrected_standard_error for cell in cells])
    return {
        "mean": means.tolist(), "error": errors.tolist(), "low": (means - errors).tolist(),
        "high": (means + errors).tolist(),
        "fill": [colour if cell.used == cell.n_components else "#ffffff" for cell in cells],
    }  # fmt: skip


def _draw(plot: Any, source: Any, name: str, style: Style) -> Any:
    """Draw the curve of a method, with bars of one standard error, and return its points."""
    look = {"source": source, "name": name, "line_color": style.colour}
    plot.line("x", "mean", line_width=1.5, line_dash="dashed" if style.dashed else "solid", **look)
    plot.segment("x", "low", "x", "high", **look)
    return plot.scatter("x", "mean", size=MARKER_SIZE, marker=MARKERS[style.marker], fill_color="fill", **look)


def error_curves(evaluation: Evaluation) -> Figure:
    """Return one picture, a panel for each classifier."""
    classifiers = evaluation.classifiers
    legend = 0.12 * len(evaluation.methods) if len(classifiers) == 1 else 0.0  # of a narrow sheet
    sheet, panels = drawing.panel_grid(len(classifiers), 3.3 + legend)
    for panel, classifier in zip(panels, classifiers, strict=True):
        _curves(panel, evaluation, classifier)
        drawing.dress(panel, plain(label(evaluation, classifier), limit=LONG_NAME), "components", "test error (%)")
    names = [plain(title_of(method)) for method in styles(evaluation)]
    handles = [
        Line2D(
            [], [], color=s.colour, marker=s.marker, markersize=5, linewidth=1.4, linestyle="--" if s.dashed else "-"
        )
        for s in styles(evaluation).values()
    ]
    room = int(sheet.get_figwidth() / (LEGEND_LINE + LEGEND_LETTER * max(map(len, names))))
    drawing.legend_below(sheet, handles, names, max(1, room), labelcolor=INK)
    many = len(evaluation.n_components) > 1
    title = "Error against the number of components" if many else "Error of every method"
    caption = (
        f"{curves_caption(evaluation)} Points are moved apart sideways where they would cover each other. Dotted, if "
        f"in range: the baseline ({guess(evaluation)}), {evaluation.baseline:.1f}%. Vertical scales differ from panel "
        "to panel."
    )
    return drawing.figure("errors-by-components", title, caption, sheet, _curves_in_words(evaluation))


def _curves_in_words(evaluation: Evaluation) -> str:
    cells = evaluation.cells.values()
    best = [lowest([cell for cell in cells if cell.method == method]) for method in evaluation.methods]
    best.sort(key=lambda cell: cell.summary.mean)
    means = "; ".join(f"{named(evaluation, cell)} {cell.summary.mean:.1f}%" for cell in best)
    return f"The lowest mean error of every method: {means}."


def curves_caption(evaluation: Evaluation) -> str:
    """Return how to read curves of errors."""
    cells = evaluation.cells.values()
    caption = "Mean test error over the splits, in percent; lower is better. "
    if any(cell.summary.count > 1 for cell in cells):
        caption += "Bars are one standard error of the mean to either side, corrected for splits that share rows. "
    all_grey = ", and all columns are grey" if evaluation.all_columns not in {None, evaluation.reference} else ""
    caption += f"The reference, {title_of(evaluation.reference)}, is black{all_grey}."
    if any(cell.used < cell.n_components for cell in cells):
        caption += " Hollow: the method gave fewer components than asked for."
    return caption


def _curves(panel: Axes, evaluation: Evaluation, classifier: str) -> None:
    sizes, drawn = evaluation.n_components, styles(evaluation)
    positions = axis_positions(sizes)
    step = SPREAD * float(np.diff(positions).min() if len(sizes) > 1 else 1) / len(drawn)
    for i, (method, style) in enumerate(drawn.items()):
        shift = step * (i - (len(drawn) - 1) / 2)
        draw_line(panel, positions + shift, [evaluation.cells[method, size, classifier] for size in sizes], style)
    size_axis(panel, sizes, positions)
    low, high = panel.get_ylim()
    if low < evaluation.baseline < high:
        panel.axhline(evaluation.baseline, color=INK, linewidth=0.9, linestyle=":", zorder=0)


def axis_positions(sizes: Sequence[int]) -> NDArray[np.float64]:
    """Return the positions of numbers of components, ascending, on an axis: their logarithms if they span much."""
    logarithmic = sizes[0] > 0 and sizes[-1] > WIDE * sizes[0]
    return np.log2(sizes) if logarithmic else np.asarray(sizes, float)


def size_axis(panel: Axes, sizes: Sequence[int], positions: NDArray[np.float64]) -> None:
    """Label the horizontal axis with some of the numbers of components at these positions."""
    room = (positions[-1] - positions[0]) / (MAX_TICKS + 1)
    shown = [0]
    for i in range(1, len(sizes)):
        if positions[i] - positions[shown[-1]] >= room:
            shown.append(i)
    panel.xaxis.set_major_locator(FixedLocator([float(positions[i]) for i in shown]))
    panel.xaxis.set_major_formatter(FixedFormatter([str(sizes[i]) for i in shown]))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_locator(MaxNLocator(nbins=6))
    panel.grid(axis="y", color=FAINT, alpha=0.25, linewidth=0.6)


def draw_line(panel: Axes, at: NDArray[np.float64], cells: Sequence[Cell], style: Style) -> None:
    """Draw the means of cells with bars of one standard error, hollow where components are fewer than asked for."""
    means = np.array([cell.summary.mean for cell in cells])
    panel.plot(at, means, color=style.colour, linewidth=1.3, linestyle="--" if style.dashed else "-", alpha=0.85)
    errors = np.nan_to_num([cell.summary.corrected_standard_error for cell in cells])
    panel.errorbar(at, means, yerr=errors, fmt="none", ecolor=style.colour, elinewidth=1, alpha=0.7)
    full = np.array([cell.used == cell.n_components for cell in cells], bool)
    for chosen, face in ((full, style.colour), (~full, "white")):
        panel.plot(
            at[chosen], means[chosen], color=style.colour, marker=style.marker, markersize=4.5, markeredgewidth=1,
            markerfacecolor=face, linestyle="none",
        )  # fmt: skip


def split_errors(evaluation: Evaluation) -> list[Figure]:
    """Return a picture for each classifier, a panel for each method next to the reference; none without any.

    As in Figure 4 of Luo & Durrant 2017: split by split against the reference.
    """
    others = [method for method in evaluation.methods if method != evaluation.reference]
    drawn = enumerate(evaluation.classifiers if others else [], 1)
    return [_splits_of_classifier(evaluation, classifier, number, others) for number, classifier in drawn]


def _splits_of_classifier(evaluation: Evaluation, classifier: str, number: int, methods: list[str]) -> Figure:
    sizes, reference = drawn_sizes(evaluation, classifier), evaluation.reference
    points = {method: {size: _points(evaluation, (method, size, classifier)) for size in sizes} for method in methods}
    all_points = np.concatenate([xy for by_size in points.values() for xy in by_size.values()])
    low, high = float(all_points.min()), float(all_points.max())
    room = 0.06 * (high - low) or 1.0
    ends = [low - room, high + room]
    sheet, panels = drawing.panel_grid(len(points), 3.3 if len(points) <= 6 else 2.7)
    for panel, (method, by_size) in zip(panels, points.items(), strict=True):
        panel.plot(ends, ends, color=FAINT, linewidth=0.9)
        for index, (size, xy) in enumerate(by_size.items()):
            spots, counts = np.unique(xy, axis=0, return_counts=True)
            panel.scatter(
                spots[:, 0], spots[:, 1], s=14 * counts, color=COLOURS[index], alpha=0.6, linewidths=0.5,
                edgecolors="white", zorder=2,
            )  # fmt: skip
            colour = COLOURS[index] if len(sizes) > 1 else INK
            panel.annotate(
                _test_words(evaluation, (method, size, classifier), len(sizes) > 1), (0, 1),
                xytext=(0, 4 + LINE * (len(by_size) - 1 - index)), xycoords="axes fraction",
                textcoords="offset points", fontsize=drawing.TICK_SIZE - 0.5, color=colour,
            )  # fmt: skip
        panel.set_xlim(*ends)
        panel.set_ylim(*ends)
        panel.set_box_aspect(1)
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_locator(MaxNLocator(nbins=4))
        below = f"{plain(title_of(reference))}: error (%)"
        title, pad = plain(title_of(method)), 6 + LINE * len(by_size)
        drawing.dress(panel, title, below, "the method: error (%)", pad=pad, outer=True)
    title = f"Split by split: {label(evaluation, classifier)}"
    keys = [(method, size, classifier) for method in methods for size in sizes]
    seen = "; ".join(f"{title_of(key[0])}, {_test_words(evaluation, key, True)}" for key in keys)
    alt = f"Splits that the method wins and loses against {title_of(reference)}. {seen}."
    return drawing.figure(f"splits-{number}", title, _splits_caption(evaluation, sizes), sheet, alt)


def _splits_caption(evaluation: Evaluation, sizes: list[int]) -> str:
    reference = title_of(evaluation.reference)
    listed = " and ".join(str(size) for size in sizes)
    chosen = "" if len(sizes) == len(evaluation.n_components) else f", the number at which {reference} errs least"
    colours = " (blue and orange)" if len(sizes) > 1 else ""
    return (
        f"Every point is a split: to the right the error of {reference}, upwards that of the method, both with "
        f"{listed} components{colours}{chosen}. Below the diagonal the method errs less. Larger points are several "
        "splits that coincide. The numbers are splits that the method wins and loses, ties, and the p-value of the "
        "sign test for its erring less, which is of these splits only: they share rows."
    )


def _points(evaluation: Evaluation, key: Key) -> NDArray[np.float64]:
    """Return the reference's and the method's error in percent for each split, shape (S, 2)."""
    counts = evaluation.table.counts
    return np.stack([counts[(evaluation.reference, *key[1:])].percent, counts[key].percent], axis=1)


def _test_words(evaluation: Evaluation, key: Key, has_sizes: bool) -> str:
    test = evaluation.table.sign_test(key, (evaluation.reference, *key[1:]))
    ties = evaluation.cells[key].summary.count - test.untied
    words = f"{test.wins} : {test.untied - test.wins}, {plural(ties, 'tie')}, {written('p', test.p_value)}"
    return f"K = {key[1]}: {words}" if has_sizes else words
