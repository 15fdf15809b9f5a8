"""The first components of each method: as images, or as bars of loadings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from mmpca_dist.pictures import drawing
from mmpca_dist.pictures.drawing import FAINT, PAGE_WIDTH, plain
from mmpca_dist.pictures.frame import Figure, Section
from mmpca_dist.pictures.mosaic import coefficient_images
from mmpca_dist.report.method_results import MethodResult, note_of_first

POSITIVE, NEGATIVE = "#B2182B", "#2166AC"
"""The ends of the diverging map RdBu, which images use."""
FEW_FEATURES = 12
"""Up to so many features, all have a bar."""
MOST_BARS, MOST_IMAGES = 3, 8
"""How many components have bars; how many have images."""


def _components(methods: Sequence[MethodResult], _: None, dataset: Mapping[str, Any]) -> list[Figure]:
    """Return a picture of the first components of every method: images, or bars."""
    shape = dataset["image_shape"]
    return [_images(methods, shape) if shape else _bars(methods, dataset["feature_names"])]


def _images(methods: Sequence[MethodResult], shape: tuple[int, int]) -> Figure:
    lines = [(method.label, method.directions(MOST_IMAGES)) for method in methods]
    longest = max(len(images) for _, images in lines)
    sheet = coefficient_images(lines, shape, [str(k + 1) for k in range(longest)])
    caption = (
        "Each component as a picture: pixels in red add to the coordinate, pixels in blue subtract from "
        "it, pale ones do not matter. Each image has its own scale, and the sign of a whole image has no "
        "meaning." + note_of_first(methods)
    )
    return drawing.figure("components", "The first components as images", caption, sheet, palette=False)


def _bars(methods: Sequence[MethodResult], names: list[str] | None) -> Figure:
    columns, n_features = min(MOST_BARS, max(len(m.leading) for m in methods)), methods[0].components.shape[1]
    few = n_features <= FEW_FEATURES
    height = 0.19 * (n_features if few else drawing.LARGEST) + 0.6
    sheet = drawing.sheet(PAGE_WIDTH if columns > 1 else 0.65 * PAGE_WIDTH, len(methods) * height + 0.25)
    panels = sheet.subplots(len(methods), columns, squeeze=False)
    for row, method in zip(panels, methods, strict=True):
        directions = method.directions(columns)
        for k, (panel, direction) in enumerate(zip(row, directions, strict=False)):
            _bars_by_name(panel, direction, names, k == 0)
            drawing.dress(panel, f"{plain(method.label)}: {k + 1}")
        for unused in row[len(directions) :]:
            unused.set_axis_off()
    caption = (
        "Each bar is the weight of one feature in a component"
        if few
        else f"The {drawing.LARGEST} features of {n_features:,} with the largest weights in a component"
    )
    caption += (
        ", components scaled to length one: features with long bars are those that the component looks at; "
        "red adds, blue subtracts, and the sign of a whole component has no meaning." + note_of_first(methods)
    )
    return drawing.figure("loadings", "What the first components look at", caption, sheet)


def _bars_by_name(panel: Axes, direction: NDArray[np.float64], names: list[str] | None, first: bool) -> None:
    """Draw the weights of all features, which panels side by side name once, or the largest of many."""
    has_few = len(direction) <= FEW_FEATURES
    chosen = list(range(len(direction))) if has_few else drawing.largest(direction)
    positions, values = np.arange(len(chosen)), direction[chosen]
    labels = drawing.feature_labels(names, chosen, 28 if has_few else 17)
    is_named = np.full(len(values), first) if has_few else values != 0
    panel.barh(positions, values, height=0.7, color=[POSITIVE if value > 0 else NEGATIVE for value in values])
    drawing.named_lines(panel, [label if shown else "" for label, shown in zip(labels, is_named, strict=True)])
    panel.axvline(0, color=FAINT, linewidth=0.8)
    low, high = (-1.05, 1.05) if has_few else (1.08 * min(values.min(), 0), 1.08 * max(values.max(), 0))
    panel.set_xlim(low, high) if high > low else panel.set_xlim(-1, 1)
    panel.xaxis.set_major_locator(MaxNLocator(nbins=4))


COMPONENTS = Section("components", 60, _components)
