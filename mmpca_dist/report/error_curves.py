"""Pictures of test errors against the number of components, and beside published ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from mmpca_dist.evaluation.published import WITHIN, sources_of
from mmpca_dist.evaluation.results import Evaluation
from mmpca_dist.evaluation.tables import Cell
from mmpca_dist.report import drawing
from mmpca_dist.report.drawing import FAINT, FEW_COLOURS, INK, PAGE_WIDTH, Figure, plain
from mmpca_dist.report.evaluation_words import Style, label, styles, title_of

WIDE = 8
"""Numbers of components that span more than this factor stand on a logarithmic axis."""
MOST_TICKS = 7
LEGEND_LINE, LEGEND_LETTER = 0.6, 0.075
"""Inches that a line in a legend and a letter take."""
FARTHEST = 8.0
"""Combined standard errors at which points of the comparison with published figures are held."""
LONG_NAME = 40
SPREAD = 0.25
"""Share of the room between two numbers of components over which points are moved apart."""


def error_curves(evaluation: Evaluation) -> list[Figure]:
    """Return one picture, a panel for each classifier; none of an empty table."""
    classifiers = [name for name in evaluation.classifiers if any(key[2] == name for key in evaluation.cells)]
    if not classifiers:
        return []
    several = len(evaluation.table.sizes) > 1
    rows = len(evaluation.methods)
    legend = 0.12 * rows if len(classifiers) == 1 else 0.0  # of a narrow sheet
    made, panels = drawing.panel_grid(len(classifiers), 3.3 + legend if several else 0.9 + 0.22 * rows)
    for panel, classifier in zip(panels, classifiers, strict=True):
        (_curves if several else _dots)(panel, evaluation, classifier)
        if several:
            _draw_guessing(panel, evaluation)
        if several:
            drawing.dress(panel, plain(label(evaluation, classifier), most=LONG_NAME), "components", "test error (%)")
        else:
            drawing.dress(panel, plain(label(evaluation, classifier), most=LONG_NAME), "test error (%)")
    if several:
        handles = [_handle(method, style) for method, style in styles(evaluation).items() if _has(evaluation, method)]
        made.legend(
            handles=handles, loc="outside lower center", ncols=_columns(handles, made.get_figwidth()), frameon=False,
            fontsize=drawing.LABEL_SIZE, labelcolor=INK,
        )  # fmt: skip
    return [Figure("errors-by-components", _title(several), _caption(evaluation, several), drawing.png(made))]


def _draw_guessing(panel: Axes, evaluation: Evaluation) -> None:
    """Draw the errors of naming the largest class, where they are among those shown."""
    low, high = panel.get_ylim()
    if low < evaluation.guessing < high:
        panel.axhline(evaluation.guessing, color=INK, linewidth=0.9, linestyle=":", zorder=0)


def _title(several: bool) -> str:
    return "Error against the number of components" if several else "Error of every method"


def _caption(evaluation: Evaluation, several: bool) -> str:
    caption = "Mean test error over the splits, in percent; lower is better. "
    if any(cell.summary.count > 1 for cell in evaluation.cells.values()):
        caption += "Bars are one standard error of the mean to either side, corrected for splits that share rows. "
    if several:
        caption += f"The reference, {title_of(evaluation.reference)}, is black. "
        caption += "Points are moved apart sideways where they would cover each other. "
        caption += f"Dotted, where in sight: naming the largest class for every row, {evaluation.guessing:.1f}%. "
    if any(cell.used < cell.n_components for cell in evaluation.cells.values()):
        caption += "Hollow: the method gave fewer components than asked for. "
    return caption + "Vertical scales differ from panel to panel." if several else caption.rstrip()


def _has(evaluation: Evaluation, method: str) -> bool:
    return any(key[0] == method for key in evaluation.cells)


def _columns(handles: list[Line2D], width: float) -> int:
    """Return how many columns of a legend fit a width in inches, in rows that are filled evenly."""
    longest = max(len(str(handle.get_label())) for handle in handles)
    fit = max(1, int(width / (LEGEND_LINE + LEGEND_LETTER * longest)))
    rows = -(-len(handles) // fit)
    return -(-len(handles) // rows)


def _handle(method: str, style: Style) -> Line2D:
    return Line2D(
        [], [], color=style.colour, marker=style.marker, markersize=5, linewidth=1.4,
        linestyle="--" if style.dashed else "-", label=plain(title_of(method)),
    )  # fmt: skip


def _curves(panel: Axes, evaluation: Evaluation, classifier: str) -> None:
    sizes = evaluation.table.sizes
    places = places_of(sizes)
    step = SPREAD * float(np.diff(places).min()) / len(styles(evaluation))
    drawn = styles(evaluation)
    for i, (method, style) in enumerate(drawn.items()):
        cells = {
            cell.n_components: cell
            for cell in evaluation.cells.values()
            if (cell.method, cell.classifier) == (method, classifier)
        }
        at = np.array([position for position, size in zip(places, sizes, strict=True) if size in cells])
        shift = step * (i - (len(drawn) - 1) / 2)
        draw_line(panel, at + shift, [cells[size] for size in sizes if size in cells], style)
    size_axis(panel, sizes, places)


def places_of(sizes: Sequence[int]) -> NDArray[np.float64]:
    """Return where numbers of components, ascending, stand on an axis: by their logarithms where they span much."""
    logarithmic = sizes[0] > 0 and sizes[-1] > WIDE * sizes[0]
    return np.log2(sizes) if logarithmic else np.asarray(sizes, float)


def size_axis(panel: Axes, sizes: Sequence[int], places: NDArray[np.float64]) -> None:
    """Label the horizontal axis with some of the numbers of components at these places."""
    room = (places[-1] - places[0]) / (MOST_TICKS + 1)
    shown = [0]
    for i in range(1, len(sizes)):
        if places[i] - places[shown[-1]] >= room:
            shown.append(i)
    panel.xaxis.set_major_locator(FixedLocator([float(places[i]) for i in shown]))
    panel.xaxis.set_major_formatter(FixedFormatter([str(sizes[i]) for i in shown]))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_locator(MaxNLocator(nbins=6))
    panel.grid(axis="y", color=FAINT, alpha=0.25, linewidth=0.6)


def draw_line(panel: Axes, at: NDArray[np.float64], cells: Sequence[Cell], style: Style) -> None:
    """Draw the means of cells with bars of one standard error, hollow where components are fewer than asked for."""
    means = np.array([cell.summary.mean for cell in cells])
    panel.plot(at, means, color=style.colour, linewidth=1.3, linestyle="--" if style.dashed else "-", alpha=0.85)
    panel.errorbar(at, means, yerr=_errors(cells), fmt="none", ecolor=style.colour, elinewidth=1, alpha=0.7)
    full = np.array([cell.used == cell.n_components for cell in cells], bool)
    for chosen, face in ((full, style.colour), (~full, "white")):
        panel.plot(
            at[chosen], means[chosen], color=style.colour, marker=style.marker, markersize=4.5, markeredgewidth=1,
            markerfacecolor=face, linestyle="none",
        )  # fmt: skip


def _dots(panel: Axes, evaluation: Evaluation, classifier: str) -> None:
    columns = [(method, evaluation.column(evaluation.table.sizes[0], classifier)) for method in evaluation.methods]
    for position, (method, column) in enumerate(columns):
        style = styles(evaluation)[method]
        cells = [cell for cell in column if cell.method == method]
        means = [cell.summary.mean for cell in cells]
        panel.errorbar(
            means, [position] * len(cells), xerr=_errors(cells), fmt=style.marker, color=style.colour, markersize=5,
            elinewidth=1.3,
            markerfacecolor="white" if any(cell.used < cell.n_components for cell in cells) else style.colour,
        )  # fmt: skip
    panel.set_yticks(range(len(columns)), [plain(title_of(method)) for method, _ in columns])
    panel.set_ylim(len(columns) - 0.4, -0.6)
    panel.xaxis.set_major_locator(MaxNLocator(nbins=5))
    panel.grid(axis="x", color=FAINT, alpha=0.25, linewidth=0.6)


def _errors(cells: Sequence[Cell]) -> np.ndarray:
    return np.nan_to_num([cell.summary.corrected_standard_error for cell in cells])


def published_differences(evaluation: Evaluation) -> list[Figure]:
    """Return one picture of own less published means in combined standard errors; none where nothing is published."""
    rows = [row for row in evaluation.compared if row.within is not None]
    if not rows:
        return []
    lines = list(dict.fromkeys((row.published.n_components, row.published.method) for row in rows))
    lines.sort(key=lambda line: line[0])
    classifiers = [name for name in evaluation.classifiers if any(row.own.classifier == name for row in rows)]
    made = drawing.sheet(PAGE_WIDTH, 0.19 * len(lines) + 1.1)
    panels = made.subplots(1, len(classifiers), sharey=True, squeeze=False)[0]
    for panel, classifier in zip(panels, classifiers, strict=True):
        panel.axvspan(-WITHIN, WITHIN, color=FAINT, alpha=0.16, linewidth=0)
        panel.axvline(0, color=FAINT, linewidth=0.8)
        for row in rows:
            if row.own.classifier == classifier:
                position = lines.index((row.published.n_components, row.published.method))
                colour = FEW_COLOURS[0] if row.within else FEW_COLOURS[1]
                beyond = abs(row.apart) > FARTHEST
                panel.plot(
                    [float(np.clip(row.apart, -FARTHEST, FARTHEST))], [position], color=colour, markersize=5.5,
                    marker=("<" if row.apart < 0 else ">") if beyond else "o",
                    markerfacecolor=colour if row.published.certain else "white",
                )  # fmt: skip
        panel.set_xlim(-FARTHEST - 0.8, FARTHEST + 0.8)
        panel.xaxis.set_major_locator(FixedLocator([-8, -4, -2, 0, 2, 4, 8]))
        panel.set_yticks(range(len(lines)), [f"{plain(title_of(method))}, K = {size}" for size, method in lines])
        panel.set_ylim(len(lines) - 0.4, -0.6)
        panel.grid(axis="y", color=FAINT, alpha=0.2, linewidth=0.6)
        drawing.dress(panel, plain(classifier), "standard errors apart")
    source = sources_of(evaluation.published)
    caption = (
        f"Own mean less the mean published by {source}, in combined standard errors of both: right of zero, own errors "
        "are more. The band is two standard errors wide to either side; points outside it are orange. Hollow: which "
        f"column the published figure stands in is not certain. Arrows: beyond {FARTHEST:.0f}."
    )
    return [Figure("published-differences", "Own less published errors", caption, drawing.png(made))]
