"""Linear models with a projection penalty: what they use inside of the subspace of the reduction, and what outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Sheet
from numpy.typing import NDArray

from mmpca_dist.pictures import drawing
from mmpca_dist.pictures.drawing import PAGE_WIDTH, plain
from mmpca_dist.pictures.frame import Figure, ReportSection
from mmpca_dist.pictures.mosaic import coefficient_images

MAX_MODELS = 10
"""Models that are shown, the first ones."""
LARGEST = 8
"""Coefficients that have a bar, where columns are many."""
INSIDE, OUTSIDE = "#7FA8CB", "#C9562E"
"""Colours of the parts."""
ABOUT_OUTSIDE = "What is outside a classifier of the reduced rows could not use."


@dataclass(frozen=True)
class PenaltyParts:
    """The coefficients of m models in (standardised) columns."""

    title: str
    classes: list[str]  # that of each model
    inside: NDArray[np.float64]  # (m, d)
    outside: NDArray[np.float64]
    alpha: float

    @classmethod
    def of(cls, title: str, model: Any) -> PenaltyParts:
        """Return the parts of a fitted ``ProjectionPenaltyClassifier``."""
        inside, outside = np.split(model.components_, 2)
        named = hasattr(model, "target_names_")
        labels = [str(label) for label in (model.target_names_ if named else model.classes_)]
        return cls(title, labels[-len(inside) :], inside, outside, model.alpha_)


def _data(run: Any, methods: Sequence[Any]) -> list[PenaltyParts]:
    return [PenaltyParts.of(method.title, run.model(method.name)) for method in methods]


def penalty_parts(_: Sequence[Any], models: Sequence[PenaltyParts], dataset: Mapping[str, Any]) -> list[Figure]:
    """Return a picture of both parts of every method's coefficients: images, or bars."""
    return [_figure(number, parts, dataset) for number, parts in enumerate(models, 1)]


def _figure(number: int, parts: PenaltyParts, dataset: Mapping[str, Any]) -> Figure:
    shape, n_models = dataset["image_shape"], len(parts.classes)
    if shape:
        lines = [("inside", parts.inside[:MAX_MODELS]), ("outside", parts.outside[:MAX_MODELS])]
        sheet = coefficient_images(lines, shape, [plain(name, limit=12) for name in parts.classes], one_scale=True)
        caption = (
            "Coefficients of the model of each class: inside of the subspace of the reduction above, outside below. "
            f"{ABOUT_OUTSIDE} Red pixels speak for the class, blue ones against it; both parts of a class share a "
            "scale."
        )
    else:
        sheet = _bars(parts, dataset["feature_names"])
        caption = (
            f"The {min(LARGEST, parts.inside.shape[1])} largest coefficients of each model, inside and outside "
            f"of the subspace of the reduction; their sum is what the model uses. {ABOUT_OUTSIDE}"
        )
    if n_models > MAX_MODELS:
        caption += f" The first {MAX_MODELS} of {n_models} classes are shown."
    caption += f" Alpha is {parts.alpha:g}."
    title = f"{plain(parts.title)}: inside and outside of the subspace"
    return drawing.figure(f"penalty-{number}", title, caption, sheet, palette=not shape)


def _bars(parts: PenaltyParts, names: list[str] | None) -> Sheet:
    count = min(MAX_MODELS, len(parts.classes))
    columns = min(count, 3)
    lines = -(-count // columns)
    height = 0.24 * min(LARGEST, parts.inside.shape[1]) + 0.6
    sheet = drawing.sheet(PAGE_WIDTH if columns > 1 else 0.65 * PAGE_WIDTH, lines * height + 0.45)
    panels = sheet.subplots(lines, columns, squeeze=False).ravel()
    for panel, name, inside, outside in zip(panels, parts.classes, parts.inside, parts.outside, strict=False):
        largest = np.argsort(-(np.abs(inside) + np.abs(outside)), kind="stable")[:LARGEST].tolist()
        positions = np.arange(len(largest))
        panel.barh(positions - 0.18, inside[largest], height=0.34, color=INSIDE, label="inside")
        panel.barh(positions + 0.18, outside[largest], height=0.34, color=OUTSIDE, label="outside")
        unnamed = [f"column {i}" for i in largest]
        shown = drawing.distinct([names[i] for i in largest], 17, "column {}", largest) if names else unnamed
        panel.set_yticks(positions, shown)
        panel.set_ylim(len(largest) - 0.4, -0.6)
        panel.axvline(0, color=drawing.FAINT, linewidth=0.8)
        drawing.dress(panel, f"for {plain(name)}")
    for unused in panels[count:]:
        unused.set_axis_off()
    drawing.legend_below(sheet, *panels[0].get_legend_handles_labels())
    return sheet


PENALTY = ReportSection("penalty", 80, penalty_parts, _data)
