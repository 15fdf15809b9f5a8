"""The interactive picture of an evaluation: errors against the number of components, of methods that one can hide."""

from __future__ import annotations

from typing import Any

import numpy as np
from bokeh import models

from mmpca_dist.evaluation.component_rule import lowest
from mmpca_dist.evaluation.results import Evaluation
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.pictures.frame import Key, Part, Plot
from mmpca_dist.report.error_curves import axis_positions, curves_caption, error_curves
from mmpca_dist.report.evaluation_words import Style, styles
from mmpca_dist.report.explorer import blank, tools

bk: Any = models
"""Its annotations tell what models hold, not what they take."""
MARKERS = {"o": "circle", "s": "square", "D": "diamond", "^": "triangle", "v": "inverted_triangle", "P": "plus",
           "X": "x", "None": "dash"}  # fmt: skip
MARKER_SIZE = 7


def errors_part(evaluation: Evaluation) -> Part:
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
        keys.append(Key(f"method-{i}", title_of(method), style.colour))
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
    return Part(still.name, still.title, plots=[live])


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
