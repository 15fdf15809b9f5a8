"""How far the methods agree: angles between their components."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from mmpca_dist.blas import products
from mmpca_dist.pictures import drawing
from mmpca_dist.pictures.drawing import INK, PAGE_WIDTH, plain
from mmpca_dist.pictures.frame import Figure, Section
from mmpca_dist.report.method_results import MethodResult, note_of_first

MOST_LETTERS = 34
"""Names below a heat map are turned where side by side they would need more letters."""
ROUNDING = 1e-12
"""Squared lengths, of those of the longest direction, that products of components cannot tell."""


def _agreement(methods: Sequence[MethodResult], _: None, __: Mapping[str, Any]) -> list[Figure]:
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
    return [drawing.figure("agreement", "How far the methods agree", caption + note_of_first(methods), sheet)]


def _compared_size(methods: Sequence[MethodResult], d: int) -> int:
    """Return the largest requested size at which subspaces can differ: at d components all agree."""
    largest = max((size for m in methods for size in m.requested if size < d), default=d - 1)
    return min(largest, max(len(m.leading) for m in methods))


def overlaps(bases: list[NDArray]) -> NDArray[np.float64]:
    """Return mean squared cosines of the principal angles between spans of rows, pair by pair.

    For two spans of different dimension it is 1 where the larger contains the smaller.
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
    for (i, j), value in np.ndenumerate(values):
        text, colour = f"{min(value, 1):.2f}", "white" if value > 0.6 else INK
        panel.text(j, i, text, ha="center", va="center", fontsize=size, color=colour)
    turned = len(names) * max(map(len, names)) > MOST_LETTERS
    panel.set_xticks(range(len(names)), names, rotation=35 if turned else 0, ha="right" if turned else "center")
    panel.set_yticks(range(len(names)), names if first else [""] * len(names))
    drawing.dress(panel, title)
    panel.tick_params(length=0)
    for side in ("left", "bottom"):
        panel.spines[side].set_visible(False)


AGREEMENT = Section("agreement", 90, _agreement)
