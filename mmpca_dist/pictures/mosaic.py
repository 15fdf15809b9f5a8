"""Mosaics: lines of images of one shape, each with a name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Sheet
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from mmpca_dist.pictures import drawing
from mmpca_dist.pictures.drawing import FAINT, FONT, INK, LABEL_SIZE, PAGE_WIDTH, plain

NAMES_WIDTH = 1.2
"""Inches for the names on the left, with the margins."""
LINE_HEIGHT, LINE_GAP = 0.19, 0.09
"""Inches for a line of titles, and between two lines of images."""
SHARE, NARROWEST = 0.94, 0.6
"""Share of a column that an image takes; least inches of a column where there is room, for its title."""
TALLEST, FEWEST = 2.2, 4
"""Inches of an image of coefficients at most; fewer columns of them are as wide as so many."""


@dataclass(frozen=True)
class Tile:
    """An image, its column, the values at the ends of the colours, and a title."""

    image: NDArray
    column: float
    ends: tuple[float, float]
    title: str = ""


def coefficient_images(
    lines: Sequence[tuple[str, NDArray[np.float64]]],
    shape: tuple[int, int],
    titles: Sequence[str],
    *,
    one_scale: bool = False,
) -> Sheet:
    """Return a sheet with a line of images for each named array of coefficients, of shape (images, pixels).

    Red is positive and blue negative. Each image has a scale of its own, or each column has one.
    """
    reaches = [np.abs(rows).max(axis=1) for _, rows in lines]
    if one_scale:
        reaches = [np.max(reaches, axis=0)] * len(lines)
    tiles: list[tuple[str, list[Tile]]] = []
    for (name, rows), own in zip(lines, reaches, strict=True):
        ends = [(-reach, reach) if reach else (-1.0, 1.0) for reach in own.tolist()]
        above = [""] * len(rows) if tiles else titles
        images = [Tile(row.reshape(shape), k, ends[k], above[k]) for k, row in enumerate(rows)]
        tiles.append((name, images))
    columns = max(FEWEST, *(len(rows) for _, rows in lines))
    return mosaic(tiles, (PAGE_WIDTH - NAMES_WIDTH) / columns, TALLEST, "RdBu_r")


def widths(shape: tuple[int, int], room: float, tallest: float) -> tuple[float, float]:
    """Return the width of an image and of its column, for at most ``room`` and ``tallest``; all in inches."""
    image = min(room, tallest * shape[1] / shape[0])
    return SHARE * image, min(room, max(image, NARROWEST))


def mosaic(lines: Sequence[tuple[str, list[Tile]]], room: float, tallest: float, colours: str) -> Sheet:
    """Return a sheet with a line of images, all of one shape, next to each name.

    A column is at most ``room`` inches across, an image at most ``tallest`` inches down. ``colours`` names a colour map
    of matplotlib.
    """
    shape = lines[0][1][0].image.shape
    width, column_width = widths(shape, room, tallest)
    tall = width * shape[0] / shape[1]
    tops, bottom = [], 0.0
    for _, tiles in lines:
        tops.append(bottom + (LINE_HEIGHT if any(tile.title for tile in tiles) else 0) + LINE_GAP)
        bottom = tops[-1] + tall
    across = max(tile.column for _, tiles in lines for tile in tiles) * column_width + width
    drawn = drawing.sheet(NAMES_WIDTH + across, bottom + 0.15)
    panel = drawn.subplots()
    for (_, tiles), top in zip(lines, tops, strict=True):
        for tile in tiles:
            left = tile.column * column_width
            _draw_tile(panel, tile, (left, left + width, top + tall, top), colours)
    panel.set(xlim=(-0.01, across + 0.01), ylim=(bottom + 0.01, 0), frame_on=False, xticks=[])
    panel.set_aspect("equal", anchor="NW")  # elsewhere, constrained layout would leave too little room for the names
    panel.set_yticks([top + tall / 2 for top in tops], [plain(n, limit=22).replace(" ", "\n", 1) for n, _ in lines])
    panel.tick_params(length=0, labelsize=LABEL_SIZE, labelcolor=INK)
    for label in panel.get_yticklabels():
        label.set(family=FONT, fontweight="bold")
    return drawn


def _draw_tile(panel: Axes, tile: Tile, edges: tuple[float, float, float, float], colours: str) -> None:
    (left, right, bottom, top), (low, high) = edges, tile.ends
    panel.imshow(tile.image, cmap=colours, vmin=low, vmax=high, interpolation="nearest", extent=edges)
    panel.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, edgecolor=FAINT, linewidth=0.5))
    if tile.title:
        position = ((left + right) / 2, top - 0.04)
        panel.text(*position, tile.title, ha="center", va="bottom", fontsize=LABEL_SIZE, family=FONT, color=INK)
