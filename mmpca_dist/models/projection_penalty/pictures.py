"""Linear models with a projection penalty: what they use inside of the subspace of the reduction, and what outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.pictures.chart import Axis, Panel, distinct, key, words
from mmpca_dist.pictures.frame import Drawn, Figure, ReportSection
from mmpca_dist.pictures.mosaic import coefficients, mosaic

MAX_MODELS = 10
"""Models that are shown, the first ones."""
LARGEST = 8
"""Coefficients that have a bar, where columns are many."""
INSIDE, OUTSIDE = "c5", "c1"
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
    keys = []
    if shape:
        panels = []
        for name, *parts_of in zip(parts.classes[:MAX_MODELS], parts.inside, parts.outside, strict=False):
            reach = float(np.abs(parts_of).max())
            images = [coefficients(row.reshape(shape), reach) for row in parts_of]
            panels.append(mosaic(f"for {words(name)}", [("", images, ["inside", "outside"])]))
        caption = (
            "Coefficients of the model of each class: inside of the subspace of the reduction, and outside. "
            f"{ABOUT_OUTSIDE} Red pixels speak for the class, blue ones against it; both parts of a class share a "
            "scale."
        )
    else:
        panels = [_bars(parts, i, dataset["feature_names"]) for i in range(min(MAX_MODELS, n_models))]
        keys = [key("inside", INSIDE), key("outside", OUTSIDE)]
        caption = (
            f"The {min(LARGEST, parts.inside.shape[1])} largest coefficients of each model, inside and outside "
            f"of the subspace of the reduction; their sum is what the model uses. {ABOUT_OUTSIDE}"
        )
    if n_models > MAX_MODELS:
        caption += f" The first {MAX_MODELS} of {n_models} classes are shown."
    caption += f" Alpha is {parts.alpha:g}."
    title = f"{words(parts.title)}: inside and outside of the subspace"
    return Figure(f"penalty-{number}", title, caption, panels, keys)


def _bars(parts: PenaltyParts, model: int, names: list[str] | None) -> Drawn:
    inside, outside = parts.inside[model], parts.outside[model]
    largest = np.argsort(-(np.abs(inside) + np.abs(outside)), kind="stable")[:LARGEST].tolist()
    shown = distinct([names[i] for i in largest], 17, largest) if names else [f"column {i}" for i in largest]
    places = -np.arange(len(largest), dtype=float)
    panel = Panel(f"for {words(parts.classes[model])}", height=60 + 22 * len(largest))
    panel.y = Axis(float(places[-1]) - 0.6, 0.6, ticks=list(zip(places.tolist(), shown, strict=True)))
    for values, up, colour in ((inside, 0.18, INSIDE), (outside, -0.18, OUTSIDE)):
        panel.boxes(0 * places, values[largest], places + up - 0.17, places + up + 0.17, colour)
    panel.rule("faint", x=0)
    return panel.drawn()


PENALTY = ReportSection("penalty", 80, penalty_parts, _data)
