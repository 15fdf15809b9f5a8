"""The interactive pictures of a run: its rows along any two components, with a biplot, and the loadings of any one."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from bokeh import models
from bokeh.plotting import figure
from numpy.typing import NDArray

from mmpca_dist.pictures.chart import key
from mmpca_dist.pictures.frame import Field, Figure, Heading, PagePart, Plot, PrintedTable
from mmpca_dist.pictures.palette import SHADES, place_look, ramp
from mmpca_dist.report.sections.projections import (
    MAX_KEYS,
    MAX_LETTERS,
    ProjectedSample,
    class_keys,
    reach,
    separation,
    separation_words,
    strips,
)  # fmt: skip
from mmpca_dist.results.figures import Figures, note_of_first, note_of_models

bk: Any = models
"""Its annotations tell what models hold, not what they take."""
MAX_NUMBERS = 160_000
"""Coordinates in a page, of all methods and components together: half a megabyte."""
MAX_COMPONENTS, BARS = 16, 15
"""Components whose loadings a page holds, and loadings that have a bar."""
LISTED, LISTED_FEATURES = 2, 6
"""Components of each method whose largest loadings the table lists, and how many these are."""
NO_ROWS = (
    "There is no picture of the rows along the components, as no projected rows are stored: a refresh projects none, "
    "and a run projects for the methods that project.methods names (by default all)."
)
ABOUT_LOADINGS = (
    "The weights of the features in a component, the largest first, components scaled to length one. Red adds to the "
    "coordinate, blue subtracts, and the sign of a whole component has no meaning."
)


RANGES, STEPS = 5, (1 << 16) - 2
"""Ranges of a column of numbers, each with a colour; steps between the ends of packed numbers."""


def packed(values: NDArray[np.float64]) -> dict[str, Any]:
    """Return numbers as the script of the page reads them: base64 of 16 bits each, between the least and the largest.

    The step after the last is NaN.
    """
    finite = np.isfinite(values)
    low, high = (float(values[finite].min()), float(values[finite].max())) if finite.any() else (0.0, 0.0)
    steps = np.full(len(values), STEPS + 1, "<u2")
    steps[finite] = np.round((values[finite] - low) / ((high - low) or 1.0) * STEPS)
    return {"low": low, "high": high, "steps": base64.b64encode(steps.tobytes()).decode("ascii")}


def tools(hover: Any, *selecting: Any) -> list[Any]:
    """Return the tools of a plot; the wheel zooms only once its button is pressed, so that pages scroll over plots."""
    return [bk.PanTool(), bk.BoxZoomTool(), bk.WheelZoomTool(), *selecting, bk.ResetTool(), bk.SaveTool(), hover]


def blank(height: int, **options: Any) -> Any:
    """Return a Bokeh figure as wide as the page, without background: the page has one."""
    options = {"toolbar_location": "above", "active_scroll": None, **options}
    plot = figure(sizing_mode="stretch_width", height=height, min_width=260, **options)
    plot.toolbar.logo = None
    for axis in plot.axis:
        axis.axis_label_text_font_style = "normal"
    plot.background_fill_color = plot.border_fill_color = plot.outline_line_color = None
    return plot


def points_part(
    methods: Sequence[Figures], sample: ProjectedSample | None, dataset: Mapping[str, Any], still: Figure | None
) -> PagePart:
    """Return the rows along any two components of any method, or the reason why there is no such picture."""
    shown = [m for m in methods if sample is not None and m.name in sample.rows and sample.rows[m.name].shape[1]]
    if sample is None or not shown or not len(sample.codes):
        return PagePart("projection", "The rows along the components", [NO_ROWS] if methods else [])
    keys, ranks = class_keys(sample, dataset)
    seen, best = separation_words(sample, shown), next(iter(separation(sample, shown)))
    count = max(2, MAX_NUMBERS // (len(sample.codes) * len(shown)))
    outcome = "class" if keys else dataset["targets"][0]
    groups = [{"name": outcome, "labels": [one.label for one in keys], "ranks": ranks.tolist() if keys else []}]
    groups += [_groups_of(name, values) for name, values in sample.columns.items()]
    places = min(max([1, *(len(group["labels"]) for group in groups)]), MAX_KEYS)
    explorer = {
        "kind": "points",
        "methods": [_explored(method, sample.rows[method.name], count, dataset) for method in shown],
        "start": [method.name for method in shown].index(best),
        "strips": packed(strips(ranks, len(keys))) if keys else None,
        "groups": groups,
        "columns": list(sample.columns),
        "images": sample.images,
        "searches": len(dataset["classes"]) > MAX_KEYS and bool(keys),
        "arrows": dataset["image_shape"] is None,
        "colours": {f"group-{i}": place_look(i)[0] for i in range(places)} | {"others": "faint", "arrow": "faint"},
    }
    targets = dataset.get("targets")
    colour = f"from blue where {targets[0]} is low to orange" if targets else "coloured by its class"
    caption = (
        f"Each point is a row ({sample.note}), {colour}. Point at a row to see which it is; draw a box or a lasso to "
        "mark rows, which stay marked under other methods. Arrows (biplot) show the features with the largest loadings."
    )
    caption += f" {seen}" + note_of_models(shown, "these are coordinates of the first class's model")
    beside = f", and its values of {', '.join(sample.columns)}" if sample.columns else ""
    beside += ", and its image" if sample.images else ""
    caption += f" The page holds of each of these rows its number, its outcome and its coordinates{beside}."
    if sample.left_out:
        caption += f" It does not hold {', '.join(sample.left_out)}; report.columns says which columns it does."
    entries = [
        key(one.label, one.colour, one.mark, renderers=f"group-{i}" if i < MAX_KEYS else "others")
        for i, one in enumerate(keys)
    ]
    plot = Plot(
        "points", "The rows along two components", caption, f"A scatter plot of {sample.note}. {seen}",
        _points(sample, dataset, bool(keys), places), entries, explorer=explorer, still=still,
    )  # fmt: skip
    return PagePart("projection", "The rows along the components", plots=[plot])


def _groups_of(name: str, values: Sequence[str]) -> dict[str, Any]:
    """Return the values of a column that colours can tell apart: the most frequent, or ranges of many numbers."""
    try:
        numbers = np.array([float(value) for value in values])
    except ValueError:
        numbers = np.array([np.nan])
    if len(set(values)) > MAX_KEYS and np.isfinite(numbers).all():
        edges = np.unique(np.quantile(numbers, np.arange(1, RANGES) / RANGES))
        between = [f"{low:.4g} to {high:.4g}" for low, high in pairwise(edges)]
        labels = [f"below {edges[0]:.4g}", *between, f"{edges[-1]:.4g} or more"]
        return {"name": name, "labels": labels, "ranks": np.searchsorted(edges, numbers, "right").tolist()}
    counts = Counter(values)
    labels = [value for value, _ in counts.most_common(MAX_KEYS)]
    places = {value: i for i, value in enumerate(labels)}
    if more := len(counts) - len(labels):
        labels.append(f"{more:,} others")
    return {"name": name, "labels": labels, "ranks": [places.get(value, MAX_KEYS) for value in values]}


def _points(sample: ProjectedSample, dataset: Mapping[str, Any], has_classes: bool, places: int) -> Any:
    m, names = len(sample.codes), dataset["classes"]
    data: dict[str, Any] = {"x": np.zeros(m, "<f4"), "y": np.zeros(m, "<f4"), "row": list(sample.numbers or range(m))}
    if has_classes:
        data["outcome"] = [str(names[code])[:MAX_LETTERS] for code in sample.codes]
    else:
        data["outcome"] = [f"{value:.6g}" for value in sample.values] or [str(code) for code in sample.codes]
        data["colour"] = [ramp(code / (SHADES - 1)) for code in sample.codes]
    tips = [("row", "@row"), (dataset["targets"][0] if "targets" in dataset else "class", "@outcome")]
    for i, (name, values) in enumerate(sample.columns.items()):
        data[f"beside{i}"] = list(values)
        tips.append((name, f"@beside{i}"))
    tips += [("x", "@x{0.000}"), ("y", "@y{0.000}")]
    source = bk.ColumnDataSource(data, name="rows")
    hover, box = bk.HoverTool(tooltips=tips, point_policy="snap_to_data", attachment="horizontal"), bk.BoxSelectTool()
    plot = blank(430, tools=tools(hover, box, bk.LassoSelectTool()), x_range=bk.Range1d(), y_range=bk.Range1d(),
                 x_axis_label="component 1", y_axis_label="component 2")  # fmt: skip
    plot.yaxis.name = "numbers"
    plot.add_layout(bk.LinearAxis(name="strips", ticker=bk.FixedTicker(ticks=[]), visible=False), "left")
    look = {"source": source, "size": 6 if m > 500 else 8, "fill_alpha": 0.75, "line_color": None,
            "nonselection_fill_alpha": 0.08}  # fmt: skip
    # The script of the page gives each group its rows.
    looks = [("others", "circle"), *((f"group-{i}", place_look(i)[1]) for i in range(places))]
    drawn = [
        plot.scatter("x", "y", name=name, marker=mark, view=bk.CDSView(filter=bk.IndexFilter([])), **look)
        for name, mark in looks
    ]
    if not has_classes:
        drawn.append(plot.scatter("x", "y", name="shaded", color="colour", **look))
    hover.renderers = drawn
    for name in ("arrows", "means"):
        marks = bk.ColumnDataSource({"x": [], "y": [], "x0": [], "y0": [], "name": []}, name=name)
        weight = "normal" if name == "arrows" else "bold"
        if name == "arrows":
            plot.segment("x0", "y0", "x", "y", source=marks, line_width=1.5, name="arrow")
            plot.scatter("x", "y", source=marks, size=5, name="arrow")
        weight = "normal" if name == "arrows" else "bold"
        plot.text("x", "y", "name", source=marks, text_font_size="12px", x_offset=4, y_offset=-3, name="words",
                  padding=2, background_fill_alpha=0.75, text_font_style=weight)  # fmt: skip
    return plot


def _explored(method: Figures, rows: NDArray, most: int, dataset: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page's script needs of a method: coordinates, the ranges to show, and loadings."""
    count = min(rows.shape[1], method.size, most)
    columns = np.asarray(rows[:, :count], dtype=np.float64).T
    ranges = [reach(column[np.isfinite(column)]) for column in columns]
    return {**_loadings(method, dataset), "coordinates": [packed(column) for column in columns], "ranges": ranges}


def _loadings(method: Figures, dataset: Mapping[str, Any]) -> dict[str, Any]:
    directions = method.directions(MAX_COMPONENTS)
    largest = np.argsort(-np.abs(directions), axis=1, kind="stable")[:, :BARS]
    features = np.unique(largest)
    return {
        "label": method.label,
        "features": _names(dataset, features),
        "loadings": [packed(np.asarray(direction[features], np.float64)) for direction in directions],
    }


def _names(dataset: Mapping[str, Any], features: Sequence[int] | NDArray) -> list[str]:
    """Return names of features as pages show them: whole where they are short, and told apart by their numbers."""
    names = dataset["feature_names"]
    texts = ["" if names is None else " ".join(str(names[i]).split())[:MAX_LETTERS] for i in features]
    shown = [text or f"column {i}" for text, i in zip(texts, features, strict=True)]
    return [f"{name} ({i})" if shown.count(name) > 1 else name for name, i in zip(shown, features, strict=True)]


def loadings_part(methods: Sequence[Figures], dataset: Mapping[str, Any], first: str) -> list[PagePart]:
    """Return what components are made of: bars of any component, and a table of the first of each method.

    The bars begin with the method ``first``.
    """
    shown = [method for method in methods if "components" in method.method.sections]
    if not shown:
        return []
    bars = min(BARS, methods[0].components.shape[1])
    names = [str(i) for i in range(bars)]  # until the script of the page has names: ranges must not be empty
    source = bk.ColumnDataSource({"name": names, "value": [1.0] * bars, "colour": ["#888888"] * bars}, name="bars")
    hover = bk.HoverTool(tooltips=[("feature", "@name"), ("weight", "@value{0.0000}")])
    plot = blank(90 + 22 * bars, tools=tools(hover), y_range=bk.FactorRange(factors=names), x_axis_label="weight")
    plot.hbar(y="name", left=0, right="value", height=0.7, source=source, fill_color="colour", line_color=None)
    explorer = {
        "kind": "loadings",
        "start": next((i for i, method in enumerate(shown) if method.label == first), 0),
        "methods": [_loadings(method, dataset) for method in shown],
        "bars": bars,
    }
    columns = [Heading("method", "head"), Heading("component", "number"), Heading("largest weights")]
    rows = [row for method in shown for row in _listed(method, dataset)]
    table = PrintedTable(columns, rows, "The largest weights", f"of the first {LISTED} components", opens=False)
    alt = "Bars of the largest weights of a component. The table below lists those of the first components."
    one = Plot(
        "weights", "The weights of a component", ABOUT_LOADINGS + note_of_first(shown), alt, plot, explorer=explorer
    )
    return [PagePart("loadings", "What the components are made of", plots=[one], tables=[table])]


def _listed(method: Figures, dataset: Mapping[str, Any]) -> list[list[Field | str]]:
    rows: list[list[Field | str]] = []
    for k, direction in enumerate(method.directions(LISTED)):
        largest = [i for i in np.argsort(-np.abs(direction), kind="stable")[:LISTED_FEATURES] if direction[i]]
        names = _names(dataset, largest)
        weights = (f"{name} {direction[i]:+.2f}" for name, i in zip(names, largest, strict=True))
        rows.append([Field(method.label), str(k + 1), ", ".join(weights)])
    return rows
