"""The first components of each method as images, where rows are images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mmpca_dist.pictures.chart import words
from mmpca_dist.pictures.frame import Figure, ReportSection
from mmpca_dist.pictures.mosaic import coefficients, mosaic
from mmpca_dist.results.figures import Figures, note_of_first

MAX_IMAGES, LINE = 8, 4
"""How many components have images, and how many stand in a line."""


def _components(methods: Sequence[Figures], _: None, dataset: Mapping[str, Any]) -> list[Figure]:
    """Return a picture of the first components of every method; none of rows that are no images."""
    if not dataset["image_shape"]:
        return []
    shape, panels, longest = dataset["image_shape"], [], 0
    for method in methods:
        images = [row.reshape(shape) for row in method.directions(MAX_IMAGES)]
        drawn = [coefficients(image, float(np.abs(image).max())) for image in images]
        longest = max(longest, len(images))
        numbers = [str(k + 1) for k in range(len(drawn))]
        starts = range(0, len(drawn), LINE)
        lines = [("", drawn[i : i + LINE], numbers[i : i + LINE]) for i in starts]
        panels.append(mosaic(words(method.label), lines))
    caption = (
        "Each component as a picture: pixels in red add to the coordinate, pixels in blue subtract from "
        "it, faint ones do not matter. Each image has its own scale, and the sign of a whole image has no "
        "meaning." + note_of_first(methods)
    )
    alt = f"The first {longest} components of {', '.join(method.label for method in methods)}, each as an image."
    return [Figure("components", "The first components as images", caption, panels, alt=alt)]


COMPONENTS = ReportSection("components", 60, _components)
