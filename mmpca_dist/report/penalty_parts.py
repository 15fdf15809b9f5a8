"""Linear models with a projection penalty: what they use inside of the subspace of the reduction, and what outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from mmpca_dist.report import drawing
from mmpca_dist.report.components import LARGEST, TALLEST
from mmpca_dist.report.drawing import NAMES_WIDTH, PAGE_WIDTH, Figure, Tile, mosaic, plain

MOST_MODELS = 10
"""Models that are shown, the first ones."""
INSIDE, OUTSIDE = "#7FA8CB", "#C9562E"
"""Of the parts."""


@dataclass(frozen=True)
class PenaltyParts:
    """The coefficients of m models in (standardised) columns.

    Attributes
    ----------
    title : str
    classes : list of str
        That of each model.
    inside, outside : arrays of shape (m, d)
    alpha : str
        That in use, and how it was chosen.
    """

    title: str
    classes: list[str]
    inside: NDArray[np.float64]
    outside: NDArray[np.float64]
    alpha: str = ""

    @classmethod
    def of(cls, title: str, model: Any) -> PenaltyParts:
        """Return the parts of a fitted ``ProjectionPenaltyClassifier``."""
        inside, outside = np.split(model.components_, 2)
        labels = [str(label) for label in model.classes_]
        alpha, errors = model.alpha_, model.candidate_errors_
        words = f"Alpha is {alpha:g}"
        if len(errors):
            least, most = int(errors.min()), int(errors.max())
            words += (
                f", chosen among {len(errors)} values: {least:,} rows held out were wrong, of the worst value {most:,}"
            )
        return cls(title, labels[1:] if len(inside) == 1 else labels, inside, outside, words + ".")


def penalty_parts(
    models: Sequence[PenaltyParts], image_shape: tuple[int, int] | None, feature_names: list[str] | None
) -> list[Figure]:
    """Return a picture of both parts of every method's coefficients: images, or bars."""
    return [
        _images(number, parts, image_shape) if image_shape else _bars(number, parts, feature_names)
        for number, parts in enumerate(models, 1)
    ]


def _images(number: int, parts: PenaltyParts, shape: tuple[int, int]) -> Figure:
    lines: list[tuple[str, list[Tile]]] = []
    reaches = [float(np.abs([w, u]).max()) or 1.0 for w, u in zip(parts.inside, parts.outside, strict=True)]
    for name, rows in (("inside", parts.inside), ("outside", parts.outside)):
        tiles = [
            Tile(row.reshape(shape), k, (-reaches[k], reaches[k]), "" if lines else parts.classes[k])
            for k, row in enumerate(rows[:MOST_MODELS])
        ]
        lines.append((name, tiles))
    sheet = mosaic(lines, (PAGE_WIDTH - NAMES_WIDTH) / max(len(lines[0][1]), 4), TALLEST, "RdBu_r")
    caption = (
        "Coefficients of the model of each class: inside of the subspace of the reduction above, outside below. What "
        "is outside a classifier of the reduced rows could not use. Red pixels speak for the class, blue ones against "
        "it; both parts of a class share a scale."
    )
    return _figure(number, parts, caption, drawing.png(sheet, palette=False))


def _figure(number: int, parts: PenaltyParts, caption: str, image: bytes) -> Figure:
    n_models = len(parts.classes)
    if n_models > MOST_MODELS:
        caption += f" The first {MOST_MODELS} of {n_models} classes are shown."
    if parts.alpha:
        caption += f" {parts.alpha}"
    return Figure(f"penalty-{number}", f"{plain(parts.title)}: inside and outside of the subspace", caption, image)


def _bars(number: int, parts: PenaltyParts, names: list[str] | None) -> Figure:
    count = min(MOST_MODELS, len(parts.classes))
    columns = min(count, 3)
    lines = -(-count // columns)
    features = min(LARGEST, parts.inside.shape[1])
    sheet = drawing.sheet(PAGE_WIDTH if columns > 1 else 0.65 * PAGE_WIDTH, lines * (0.24 * features + 0.6) + 0.45)
    panels = sheet.subplots(lines, columns, squeeze=False).ravel()
    for k, panel in enumerate(panels):
        if k >= count:
            panel.set_axis_off()
            continue
        _draw(panel, parts.inside[k], parts.outside[k], names)
        drawing.dress(panel, f"for {plain(parts.classes[k])}")
    sheet.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    caption = (
        f"The {features} largest coefficients of each model, inside and outside of the subspace of the reduction; "
        "their sum is what the model uses. What is outside a classifier of the reduced rows could not use."
    )
    return _figure(number, parts, caption, drawing.png(sheet))


def _draw(panel: Axes, inside: NDArray[np.float64], outside: NDArray[np.float64], names: list[str] | None) -> None:
    largest = np.argsort(-(np.abs(inside) + np.abs(outside)), kind="stable")[:LARGEST].tolist()
    labels = [f"column {i}" for i in largest] if names is None else drawing.distinct(
        [names[i] for i in largest], 17, "column {}", largest
    )  # fmt: skip
    positions = np.arange(len(largest))
    panel.barh(positions - 0.18, inside[largest], height=0.34, color=INSIDE, label="inside")
    panel.barh(positions + 0.18, outside[largest], height=0.34, color=OUTSIDE, label="outside")
    drawing.named_lines(panel, labels)
    panel.axvline(0, color=drawing.FAINT, linewidth=0.8)
