"""The first components of each method as images, where rows are images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mmpca_dist.pictures import drawing
from mmpca_dist.pictures.frame import Figure, ReportSection
from mmpca_dist.pictures.mosaic import coefficient_images
from mmpca_dist.results.figures import Figures, note_of_first

MAX_IMAGES = 8
"""How many components have images."""


def _components(methods: Sequence[Figures], _: None, dataset: Mapping[str, Any]) -> list[Figure]:
    """Return a picture of the first components of every method; none of rows that are no images."""
    if not dataset["image_shape"]:
        return []
    lines = [(method.label, method.directions(MAX_IMAGES)) for method in methods]
    longest = max(len(images) for _, images in lines)
    sheet = coefficient_images(lines, dataset["image_shape"], [str(k + 1) for k in range(longest)])
    caption = (
        "Each component as a picture: pixels in red add to the coordinate, pixels in blue subtract from "
        "it, pale ones do not matter. Each image has its own scale, and the sign of a whole image has no "
        "meaning." + note_of_first(methods)
    )
    alt = f"The first {longest} components of {', '.join(method.label for method in methods)}, each as an image."
    return [drawing.figure("components", "The first components as images", caption, sheet, alt, palette=False)]


COMPONENTS = ReportSection("components", 60, _components)
