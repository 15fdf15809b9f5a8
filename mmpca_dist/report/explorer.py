"""The interactive pictures of a run: its rows along any two components, with a biplot, and the loadings of any one."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from bokeh import models
from bokeh.plotting import figure
from matplotlib.colors import to_hex
from numpy.typing import NDArray

from mmpca_dist.pictures import drawing
from mmpca_dist.pictures.frame import Field, Figure, Heading, Key, PagePart, Plot, PrintedTable
from mmpca_dist.report.sections.projections import (
    MAX_LETTERS,
    SHADES,
    ProjectedSample,
    reach,
    separation,
    separation_words,
)  # fmt: skip
from mmpca_dist.results.figures import Figures, note_of_first, note_of_models

bk: Any = models
"""Its annotations tell what models hold, not what they take."""
MARKERS = {"o": "circle", "s": "square", "D": "diamond", "^": "triangle", "v": "inverted_triangle", "P": "plus",
           "X": "x", "None": "dash"}  # fmt: skip
MAX_KEYS = 20
"""Classes with a colour and an entry in the legend; the others share one."""
OTHERS, POSITIVE, NEGATIVE = "#8a8a8a", "#b2182b", "#2166ac"
MAX_NUMBERS = 250_000
"""Coordinates in a page, of all methods and components together: 1.3 MB."""
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


def packed(values: Any) -> str:
    """Return numbers as the script of the page reads them: base64 of little-endian float32."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode("ascii")


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
    keys, ranks = _keys(sample, dataset)
    seen, best = separation_words(sample, shown), next(iter(separation(sample, shown)))
    count = max(2, MAX_NUMBERS // (len(sample.codes) * len(shown)))
    explorer = {
        "kind": "points",
        "methods": [_explored(method, sample.rows[method.name], count, dataset) for method in shown],
        "start": [method.name for method in shown].index(best),
        "strips": packed(_strips(ranks, len(keys) or 1)),
        "classes": [key.label for key in keys],
        "ranks": ranks.tolist() if keys else [],
        "arrows": dataset["image_shape"] is None,
    }
    targets = dataset.get("targets")
    colour = f"from dark where {targets[0]} is low to light" if targets else "coloured by its class"
    caption = (
        f"Each point is a row ({sample.note}), {colour}. Choose a method and two components. Point at a row to see "
        "which it is; draw a box or a lasso to mark rows, which stay marked under other methods. Arrows (biplot) show "
        "the features with the largest loadings."
    )
    caption += note_of_models(shown, "these are coordinates of the first class's model")
    beside = f", and its values of {', '.join(sample.columns)}" if sample.columns else ""
    caption += f" The page holds of each of these rows its number, its outcome and its coordinates{beside}."
    if sample.left_out:
        caption += f" It does not hold {', '.join(sample.left_out)}; report.columns says which columns it does."
    plot = Plot(
        "points", "The rows along two components", caption, f"A scatter plot of {sample.note}. {seen}",
        _points(sample, dataset, keys, ranks), keys, explorer=explorer, still=still,
    )  # fmt: skip
    return PagePart("projection", "The rows along the components", lead=[seen], plots=[plot])


def _keys(sample: ProjectedSample, dataset: Mapping[str, Any]) -> tuple[list[Key], NDArray[np.intp]]:
    """Return the entries of the legend, and the entry of each row; none for numbers to predict."""
    if dataset.get("targets"):
        return [], np.zeros(len(sample.codes), np.intp)
    names, counts = dataset["classes"], np.asarray(dataset["counts"])
    largest = np.sort(np.argsort(-counts, kind="stable")[:MAX_KEYS])
    colours = [to_hex(colour) for colour in drawing.class_colours(len(largest))]
    keys = [
        Key(f"class-{i}", str(names[code])[:MAX_LETTERS], colours[i], drawing.class_marker(i, len(largest)))
        for i, code in enumerate(largest)
    ]
    if more := len(names) - len(largest):
        keys.append(Key("others", f"{more:,} others", OTHERS))
    ranks = np.full(len(names), len(largest))
    ranks[largest] = np.arange(len(largest))
    return keys, ranks[np.asarray(sample.codes)]


def _strips(ranks: NDArray[np.intp], n_keys: int) -> NDArray[np.float64]:
    """Return a line for each entry of the legend, the first on top, within which rows are moved apart."""
    spread = np.random.default_rng(0).uniform(-0.35, 0.35, len(ranks))
    return np.asarray(n_keys - 1 - ranks + spread, dtype=np.float64)


def _points(sample: ProjectedSample, dataset: Mapping[str, Any], keys: Sequence[Key], ranks: NDArray[np.intp]) -> Any:
    m, names = len(sample.codes), dataset["classes"]
    data: dict[str, Any] = {"x": np.zeros(m, "<f4"), "y": np.zeros(m, "<f4"), "row": list(sample.numbers or range(m))}
    if keys:
        data["outcome"] = [str(names[code])[:MAX_LETTERS] for code in sample.codes]
    else:
        data["outcome"] = [f"{value:.6g}" for value in sample.values] or [str(code) for code in sample.codes]
        shades = drawing.colormaps["viridis"](np.linspace(0, 1, SHADES))
        data["colour"] = [to_hex(shades[code]) for code in sample.codes]
    tips = [("row", "@row"), (dataset["targets"][0] if "targets" in dataset else "class", "@outcome")]
    for i, (name, values) in enumerate(sample.columns.items()):
        data[f"beside{i}"] = list(values)
        tips.append((name, f"@beside{i}"))
    tips += [("x", "@x{0.000}"), ("y", "@y{0.000}")]
    source = bk.ColumnDataSource(data, name="rows")
    hover, box = bk.HoverTool(tooltips=tips, point_policy="snap_to_data", attachment="horizontal"), bk.BoxSelectTool()
    plot = blank(470, tools=tools(hover, box, bk.LassoSelectTool()), x_range=bk.Range1d(), y_range=bk.Range1d(),
                 x_axis_label="component 1", y_axis_label="component 2")  # fmt: skip
    plot.yaxis.name = "numbers"
    labels = {len(keys) - 1 - i: key.label[:14] for i, key in enumerate(keys)}
    ticker = bk.FixedTicker(ticks=sorted(labels))
    plot.add_layout(bk.LinearAxis(name="strips", ticker=ticker, major_label_overrides=labels, visible=False), "left")
    look = {"source": source, "size": 6 if m > 500 else 8, "fill_alpha": 0.75, "line_color": None,
            "nonselection_fill_alpha": 0.08}  # fmt: skip
    drawn = [
        plot.scatter("x", "y", name=key.renderers, color=key.colour, marker=MARKERS[key.marker],
                     view=bk.CDSView(filter=bk.IndexFilter(np.flatnonzero(ranks == i).tolist())), **look)
        for i, key in sorted(enumerate(keys), key=lambda pair: pair[1].renderers != "others")
    ] or [plot.scatter("x", "y", color="colour", **look)]  # fmt: skip
    hover.renderers = drawn
    arrows = bk.ColumnDataSource({"x": [], "y": [], "x0": [], "y0": [], "name": []}, name="arrows")
    plot.segment("x0", "y0", "x", "y", source=arrows, line_width=1.5, line_color=drawing.FAINT, name="arrow")
    plot.scatter("x", "y", source=arrows, size=5, color=drawing.FAINT, name="arrow")
    plot.text("x", "y", "name", source=arrows, text_font_size="12px", x_offset=4, y_offset=-3, name="arrow",
              background_fill_color="#ffffff", background_fill_alpha=0.8)  # fmt: skip
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
        "loadings": [packed(direction[features]) for direction in directions],
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
    source = bk.ColumnDataSource({"name": names, "value": [1.0] * bars, "colour": [POSITIVE] * bars}, name="bars")
    hover = bk.HoverTool(tooltips=[("feature", "@name"), ("weight", "@value{0.0000}")])
    plot = blank(90 + 22 * bars, tools=tools(hover), y_range=bk.FactorRange(factors=names), x_axis_label="weight")
    plot.hbar(y="name", left=0, right="value", height=0.7, source=source, fill_color="colour", line_color=None)
    explorer = {
        "kind": "loadings",
        "start": next((i for i, method in enumerate(shown) if method.label == first), 0),
        "methods": [_loadings(method, dataset) for method in shown],
        "colours": [POSITIVE, NEGATIVE],
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
