"""Components: bars of loadings, or images, and the angles between those of different methods."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from mmpca_dist.blas import products
from mmpca_dist.report import drawing
from mmpca_dist.report.drawing import FAINT, INK, NAMES_WIDTH, PAGE_WIDTH, Figure, Tile, mosaic, plain
from mmpca_dist.report.method_results import MethodResult, note_of_first

POSITIVE, NEGATIVE = "#B2182B", "#2166AC"
"""The ends of the diverging map RdBu, which the images use."""
FEW_FEATURES, MANY_FEATURES = 12, 200
"""Up to so many features, all have a bar: with its name, or by position if they have no names."""
LARGEST = 8
"""Bars for so many loadings where there are more features than that."""
COMPONENTS, IMAGES = 3, 8
"""How many components have bars; how many have images."""
TALLEST = 2.2
"""Inches of an image at most."""
MOST_LETTERS = 34
"""Names below a heat map are turned where side by side they would need more letters."""
ROUNDING = 1e-12
"""Squared lengths, of those of the longest direction, that products of components cannot tell."""


def components(
    methods: Sequence[MethodResult], image_shape: tuple[int, int] | None, feature_names: list[str] | None
) -> list[Figure]:
    """Return a picture of the first components of every method: images, or bars; none without methods."""
    if not methods:
        return []
    return [_images(methods, image_shape) if image_shape else _bars(methods, feature_names)]


def _images(methods: Sequence[MethodResult], shape: tuple[int, int]) -> Figure:
    columns = min(IMAGES, max(len(m.leading) for m in methods))
    lines: list[tuple[str, list[Tile]]] = []
    for method in methods:
        images = [direction.reshape(shape) for direction in method.directions(columns)]
        reaches = [float(np.abs(image).max()) or 1.0 for image in images]
        tiles = [
            Tile(image, k, (-reach, reach), "" if lines else str(k + 1))
            for k, (image, reach) in enumerate(zip(images, reaches, strict=True))
        ]
        lines.append((method.label, tiles))
    sheet = mosaic(lines, (PAGE_WIDTH - NAMES_WIDTH) / max(columns, 4), TALLEST, "RdBu_r")
    caption = (
        "Each component as a picture: pixels in red add to the coordinate, pixels in blue subtract from "
        "it, pale ones do not matter. Each image has its own scale, and the sign of a whole image has no "
        "meaning." + note_of_first(methods)
    )
    return Figure("components", "The first components as images", caption, drawing.png(sheet, palette=False))


def _bars(methods: Sequence[MethodResult], names: list[str] | None) -> Figure:
    columns, n_features = min(COMPONENTS, max(len(m.leading) for m in methods)), methods[0].components.shape[1]
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
    sheet = drawing.sheet(PAGE_WIDTH if columns > 1 else 0.65 * PAGE_WIDTH, len(rows) * height + 0.25)
    panels = sheet.subplots(len(rows), columns, squeeze=False)
    for row, cells in zip(panels, rows, strict=True):
        for column, panel in enumerate(row):
            if column >= len(cells):
                panel.set_axis_off()
                continue
            method, k = cells[column]
            draw(panel, method.directions(columns)[k], names, column == 0)
            below = draw is _bars_by_position and cells is rows[-1]
            drawing.dress(panel, f"{plain(method.label)}: {k + 1}", "column" if below else "")
    caption += (
        ", components scaled to length one: features with long bars are those that the component looks at; "
        "red adds, blue subtracts, and the sign of a whole component has no meaning." + note_of_first(methods)
    )
    return Figure("loadings", "What the first components look at", caption, drawing.png(sheet))


def _rows_of_panels(methods: Sequence[MethodResult], columns: int) -> list[list[tuple[MethodResult, int]]]:
    """Return a row of (method, component) a method; methods with one component stand side by side."""
    rows: list[list[tuple[MethodResult, int]]] = []
    for method in methods:
        cells = [(method, k) for k in range(min(columns, len(method.leading)))]
        singles = rows and all(len(other.leading) == 1 for other, _ in rows[-1])
        if len(cells) == 1 and singles and len(rows[-1]) < columns:
            rows[-1] += cells
        else:
            rows.append(cells)
    return rows


def _colours(values: NDArray[np.float64]) -> list[str]:
    return [POSITIVE if value > 0 else NEGATIVE for value in values]


def _labels(names: list[str] | None, columns: Sequence[int], limit: int) -> list[str]:
    if names is None:
        return [f"column {i}" for i in columns]
    return drawing.distinct([names[i] for i in columns], limit, "column {}", columns)


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
    positions = np.arange(len(values))
    panel.barh(positions, values, height=0.7, color=_colours(values))
    drawing.named_lines(panel, labels)
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


def agreement(methods: Sequence[MethodResult]) -> list[Figure]:
    """Return heat maps of cosines between first components and of overlaps between subspaces."""
    if len(methods) < 2 or methods[0].components.shape[1] < 2:
        return []
    d = methods[0].components.shape[1]
    first = np.stack([m.directions(1)[0] for m in methods])
    maps = [("First components: |cosine|", np.abs(first @ first.T))]
    size = _compared_size(methods, d)
    if size > 1:
        maps.append((f"Up to {size} components: overlap", overlaps([m.leading[:size] for m in methods])))
    side = 0.62 * len(methods) + 0.4
    wide = len(methods) > (3 if len(maps) > 1 else 6)
    sheet = drawing.sheet(PAGE_WIDTH if wide else 0.65 * PAGE_WIDTH, min(max(side, 1.9), 4.6) + 0.5)
    panels = sheet.subplots(1, len(maps), squeeze=False)[0]
    names = [plain(m.title) for m in methods]
    for panel, (title, values) in zip(panels, maps, strict=True):
        _heat_map(panel, title, values, names, panel is panels[0])
    caption = (
        "How different the methods are: 1 where two of them found the same direction, 0 where their "
        "directions are perpendicular."
    )
    if size > 1:
        caption += (
            " The overlap of two subspaces is the mean squared cosine of their principal angles, 1 where "
            f"one contains the other; two random ones would overlap by {size / d:.2g}."
        )
    caption += note_of_first(methods)
    return [Figure("agreement", "How far the methods agree", caption, drawing.png(sheet))]


def _compared_size(methods: Sequence[MethodResult], d: int) -> int:
    """Return the largest requested size at which subspaces can differ: at d components all agree."""
    largest = max((size for m in methods for size in m.requested if size < d), default=d - 1)
    return min(largest, max(len(m.leading) for m in methods))


def overlaps(bases: list[NDArray]) -> NDArray[np.float64]:
    """Return mean squared cosines of the principal angles between spans of rows, pair by pair.

    Of two spans of different dimension it is 1 where the larger contains the smaller.
    """
    whitenings = [_whitening(products(rows.T, rows.T, np.float64)) for rows in bases]
    cosines_squared = np.eye(len(bases))
    for (a, left), (b, right) in itertools.combinations(enumerate(bases), 2):
        # Products of rows, for orthonormal bases of many columns would be copies of all components.
        cosines = whitenings[a].T @ products(left.T, right.T, np.float64) @ whitenings[b]
        cosines_squared[a, b] = cosines_squared[b, a] = np.sum(cosines**2) / max(min(cosines.shape), 1)
    return cosines_squared


def _whitening(gram: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return W with W^T gram W = I, without directions that are rounding."""
    lengths = np.sqrt(np.diagonal(gram))
    lengths = np.where(lengths > 0, lengths, 1)
    values, vectors = np.linalg.eigh(gram / np.outer(lengths, lengths))
    kept = values > ROUNDING * values[-1]
    return vectors[:, kept] / np.sqrt(values[kept]) / lengths[:, None]


def _heat_map(panel: Axes, title: str, values: NDArray[np.float64], names: list[str], first: bool) -> None:
    panel.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    size = drawing.LABEL_SIZE if len(names) <= 8 else 6.5
    digits = 3 if ((values >= 0.995) & (values < 0.9995)).any() else 2  # 1.00 means the same
    for (i, j), value in np.ndenumerate(values):
        text, colour = f"{min(value, 1):.{digits}f}", "white" if value > 0.6 else INK
        panel.text(j, i, text, ha="center", va="center", fontsize=size, color=colour)
    turned = len(names) * max(map(len, names)) > MOST_LETTERS
    panel.set_xticks(range(len(names)), names, rotation=35 if turned else 0, ha="right" if turned else "center")
    panel.set_yticks(range(len(names)), names if first else [""] * len(names))
    drawing.dress(panel, title)
    panel.tick_params(length=0)
    for side in ("left", "bottom"):
        panel.spines[side].set_visible(False)
