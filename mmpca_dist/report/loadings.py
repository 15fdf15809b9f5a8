"""Pictures of components: bars of loadings, or images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from mmpca_dist.report import drawing
from mmpca_dist.report.contents import MethodResult, ReportContents
from mmpca_dist.report.drawing import FAINT, PAGE_WIDTH, Figure, plain
from mmpca_dist.report.mosaics import NAMES_WIDTH, Tile, mosaic

POSITIVE, NEGATIVE = "#B2182B", "#2166AC"
"""The ends of the diverging map RdBu, which the images use."""
FEW_FEATURES = 12
"""Up to so many features, all have a bar with a name."""
MANY_FEATURES = 200
"""Up to so many features without names, all have a bar by position."""
LARGEST = 8
"""Bars for so many loadings where there are more features than that."""
COMPONENTS, IMAGES = 3, 8
"""How many components have bars; how many have images."""
TALLEST = 2.2
"""Inches of an image at most."""


def loadings(contents: ReportContents) -> list[Figure]:
    """Return a picture of the first components of every method."""
    if not contents.solved:
        return []
    if contents.image_shape is not None:
        return [_images(contents.solved, contents.image_shape)]
    n_features = contents.solved[0].components.shape[1]
    return [_bars(contents.solved, contents.dataset.get("feature_names"), n_features)]


def _images(methods: list[MethodResult], shape: tuple[int, int]) -> Figure:
    columns = min(IMAGES, max(len(m.components) for m in methods))
    lines: list[tuple[str, list[Tile]]] = []
    for method in methods:
        images = [direction.reshape(shape) for direction in method.directions(columns)]
        reaches = [float(np.abs(image).max()) or 1.0 for image in images]
        tiles = [
            Tile(image, k, (-reach, reach), "" if lines else str(k + 1))
            for k, (image, reach) in enumerate(zip(images, reaches, strict=True))
        ]
        lines.append((method.title, tiles))
    made = mosaic(lines, (PAGE_WIDTH - NAMES_WIDTH) / max(columns, 4), TALLEST, "RdBu_r")
    caption = (
        "Each component as a picture: pixels in red add to the coordinate, pixels in blue subtract from "
        "it, pale ones do not matter. Each image has its own scale, and the sign of a whole image has no "
        "meaning."
    )
    return Figure("components", "The first components as images", caption, drawing.png(made, palette=False))


def _bars(methods: list[MethodResult], names: list[str] | None, n_features: int) -> Figure:
    columns = min(COMPONENTS, max(len(m.components) for m in methods))
    if n_features <= FEW_FEATURES:
        draw, height = _named_bars, 0.19 * n_features + 0.55
        caption = "Each bar is the weight of one feature in a component"
    elif n_features <= MANY_FEATURES and names is None:
        draw, height = _bars_by_position, 1.7
        caption = "Each bar is the weight of one feature, in the order of the columns, in a component"
    else:
        draw, height = _largest_bars, 0.19 * LARGEST + 0.6
        caption = f"The {LARGEST} features of {n_features:,} with the largest weights in a component"
    rows = _rows_of_panels(methods, columns)
    made = drawing.sheet(PAGE_WIDTH if columns > 1 else 0.65 * PAGE_WIDTH, len(rows) * height + 0.25)
    panels = made.subplots(len(rows), columns, squeeze=False)
    for row, cells in zip(panels, rows, strict=True):
        for column, panel in enumerate(row):
            if column >= len(cells):
                panel.set_axis_off()
                continue
            method, k = cells[column]
            draw(panel, method.directions(columns)[k], names, column == 0)
            below = draw is _bars_by_position and cells is rows[-1]
            drawing.dress(panel, f"{plain(method.title)}: {k + 1}", "column" if below else "")
    caption += (
        ", components scaled to length one: features with long bars are those that the component looks at; "
        "red adds, blue subtracts, and the sign of a whole component has no meaning."
    )
    return Figure("loadings", "What the first components look at", caption, drawing.png(made))


def _rows_of_panels(methods: list[MethodResult], columns: int) -> list[list[tuple[MethodResult, int]]]:
    """Return a row of (method, component) a method; methods with one component stand side by side."""
    rows: list[list[tuple[MethodResult, int]]] = []
    for method in methods:
        cells = [(method, k) for k in range(min(columns, len(method.components)))]
        singles = rows and all(len(other.components) == 1 for other, _ in rows[-1])
        if len(cells) == 1 and singles and len(rows[-1]) < columns:
            rows[-1] += cells
        else:
            rows.append(cells)
    return rows


def _colours(values: NDArray[np.float64]) -> list[str]:
    return [POSITIVE if value > 0 else NEGATIVE for value in values]


def _labels(names: list[str] | None, columns: Sequence[int], most: int) -> list[str]:
    if names is None:
        return [f"column {i}" for i in columns]
    return drawing.distinct([names[i] for i in columns], most, "column {}", columns)


def _named_bars(panel: Axes, direction: NDArray[np.float64], names: list[str] | None, first: bool) -> None:
    labels = _labels(names, range(len(direction)), 28)
    _horizontal(panel, direction, labels if first else [""] * len(direction))
    panel.set_xlim(-1.05, 1.05)
    panel.set_xticks([-1, -0.5, 0, 0.5, 1])


def _largest_bars(panel: Axes, direction: NDArray[np.float64], names: list[str] | None, first: bool) -> None:
    largest = np.argsort(-np.abs(direction), kind="stable")[:LARGEST].tolist()
    values = direction[largest]
    labels = [label if value else "" for label, value in zip(_labels(names, largest, 17), values, strict=True)]
    _horizontal(panel, values, labels)
    low, high = 1.08 * min(values.min(), 0), 1.08 * max(values.max(), 0)
    panel.set_xlim(low, high) if high > low else panel.set_xlim(-1, 1)
    panel.xaxis.set_major_locator(MaxNLocator(nbins=4))


def _horizontal(panel: Axes, values: NDArray[np.float64], labels: list[str]) -> None:
    places = np.arange(len(values))
    panel.barh(places, values, height=0.7, color=_colours(values))
    panel.set_yticks(places, labels)
    panel.set_ylim(len(values) - 0.4, -0.6)
    panel.axvline(0, color=FAINT, linewidth=0.8)
    panel.xaxis.set_major_locator(MaxNLocator(nbins=4, symmetric=True))


def _bars_by_position(panel: Axes, direction: NDArray[np.float64], names: list[str] | None, first: bool) -> None:
    panel.bar(np.arange(len(direction)), direction, width=0.8, color=_colours(direction))
    panel.axhline(0, color=FAINT, linewidth=0.8)
    reach = 1.1 * (float(np.abs(direction).max()) or 1.0)
    panel.set_ylim(-reach, reach)
    panel.set_xlim(-1, len(direction))
    panel.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    panel.yaxis.set_major_locator(MaxNLocator(nbins=4, symmetric=True))
