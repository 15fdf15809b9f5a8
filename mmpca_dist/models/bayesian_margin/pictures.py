"""Models fitted by the evidence lower bound: how it rose from sweep to sweep, and which components it switched off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.pictures.chart import Axis, Panel, distinct, key, words
from mmpca_dist.pictures.frame import Drawn, Figure, ReportSection
from mmpca_dist.pictures.palette import COLOURS, place_look

MAX_PANELS = 12
"""Models that have a panel each, the first ones."""
LEAST = 1e-3
"""Squared lengths below this share of the noise variance are drawn at it."""
MAX_NAMED = COLOURS
"""Models whose lines have names."""


@dataclass(frozen=True)
class Evidence:
    """How the m models of a method were fitted, and what is left of their k components."""

    title: str
    classes: list[str]
    """The m names of the models; empty where there is one model."""
    bounds: NDArray[np.float64]
    """Shape (sweeps, m): the evidence lower bound after each sweep, in nats a row."""
    squares: NDArray[np.float64]
    """Shape (m, k): squared lengths of the loadings, decreasing for each model."""
    noise: NDArray[np.float64]
    """Shape (m,): variance of the noise in each column."""
    switched_off: NDArray[np.bool_]
    """Shape (m, k)."""

    @classmethod
    def of(cls, title: str, model: Any, n_rows: int) -> Evidence:
        """Return what pictures need of a fitted estimator with ``bounds_``, of so many rows."""
        m = model.bounds_.shape[1]
        components = model.components_.reshape(m, -1, model.components_.shape[-1])
        return cls(
            title=title,
            classes=[str(label) for label in model.classes_] if m > 1 else [],
            bounds=model.bounds_ / n_rows,
            squares=np.einsum("mkd,mkd->mk", components, components),
            noise=1 / model.noise_,
            switched_off=model.switched_off_.reshape(m, -1),
        )

    @property
    def names(self) -> list[str]:
        """Names of the models, as pictures write them."""
        return distinct(self.classes, 18)


def _data(run: Any, methods: Sequence[Any]) -> list[Evidence]:
    return [Evidence.of(method.title, run.model(method.name), run.table.n_rows) for method in methods]


def evidence(_: Sequence[Any], fitted: Sequence[Evidence], __: Mapping[str, Any]) -> list[Figure]:
    """Return pictures of the bounds and of the components switched off."""
    return [_bounds(fitted), _relevance(fitted)]


def _bounds(fitted: Sequence[Evidence]) -> Figure:
    panels = [_lines(method) for method in fitted]
    several = next(
        (method for method in fitted if method.classes), None
    )  # all methods of a run are of the same classes
    keys = []
    if several is not None:
        named = [key(name, *_look(several, i), "") for i, name in enumerate(several.names)]
        keys = [*(named if len(named) <= MAX_NAMED else [key("a class against the rest", "before", dash="")]),
                key("mean", "ink", "circle", "")]  # fmt: skip
    caption = (
        "The fit maximizes a lower bound on the log evidence of the rows, which no sweep over them lowers; here it is "
        "divided by the number of rows. Where the curve is flat, more sweeps would change little. A late bump is often "
        "a component that is being switched off."
    )
    if any(method.classes for method in fitted):
        caption += " Each class has a model against the rest; their mean has the colour of the text."
    return Figure("evidence", "How the evidence rose with every sweep", caption, panels, keys)


def _look(method: Evidence, model: int) -> tuple[str, str]:
    return place_look(model) if len(method.classes) <= MAX_NAMED else ("before", "")


def _lines(method: Evidence) -> Drawn:
    """Return the bounds of each model, and their mean where there are several."""
    sweeps, many = np.arange(1, len(method.bounds) + 1), len(method.classes) > MAX_NAMED
    # Most of the bound is gained in the first few sweeps.
    panel = Panel(words(method.title), "sweep", "evidence bound, nats a row", 230, x=Axis(log=True, whole=True))
    curves = [(method.bounds[:, i], *_look(method, i)) for i in range(method.bounds.shape[1])]
    curves += [(method.bounds.mean(axis=1), "ink", "circle")] if method.classes else []
    for values, colour, mark in curves:
        panel.line(sweeps, values, colour, 0.7 if many and colour != "ink" else 1.5)
        if mark:
            panel.points(sweeps, values, colour, mark, 4)
    return panel.drawn()


def _relevance(fitted: Sequence[Evidence]) -> Figure:
    models = [(method, i) for method in fitted for i in range(len(method.squares))]
    panels = [_squares(method, i) for method, i in models[:MAX_PANELS]]
    caption = (
        "The loadings of each component have a precision of their own, r, which the fit learns: where a component "
        "explains too little, r grows, its loadings shrink towards zero, and it is switched off (automatic relevance "
        "determination). Shown are the squared lengths of the loadings, which are the variance that a component adds "
        "along its direction, against the variance of the noise along any direction (dashed). Hollow: switched off; "
        f"those below {LEAST:g} of the noise are drawn there."
    )
    if len(models) > MAX_PANELS:
        caption += f" The first {MAX_PANELS} of {len(models)} models are shown."
    for method in fitted:
        off = np.count_nonzero(method.switched_off)
        caption += f" {method.title} has switched off {off} of {method.switched_off.size} components."
    return Figure("relevance", "How relevant each component is", caption, panels)


def _squares(method: Evidence, model: int) -> Drawn:
    """Return the squared lengths of a model's loadings and the noise, on an axis that models of a method share."""
    levels = np.maximum(method.squares, LEAST * method.noise[:, None])
    numbers, ends = np.arange(1, levels.shape[1] + 1), [*method.noise, levels.min(), levels.max()]
    title = f"{words(method.title)}: {method.names[model]}" if method.classes else words(method.title)
    panel = Panel(
        title, "component", "squared length", x=Axis(whole=True), y=Axis(min(ends) / 2, 2 * max(ends), log=True)
    )
    off = method.switched_off[model]
    for chosen, hollow in ((~off, False), (off, True)):
        panel.points(numbers[chosen], levels[model][chosen], "c0", "circle", 7 if len(numbers) <= 20 else 4, hollow)
    panel.rule("ink", y=float(method.noise[model]), dash="dashed")
    return panel.drawn()


EVIDENCE = ReportSection("evidence", 55, evidence, _data)
