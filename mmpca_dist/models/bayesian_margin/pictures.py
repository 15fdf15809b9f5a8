"""Models fitted by the evidence lower bound: how it rose from sweep to sweep, and which components it switched off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from mmpca_dist.pictures import drawing
from mmpca_dist.pictures.drawing import FEW_COLOURS, INK, plain
from mmpca_dist.pictures.frame import Figure, ReportSection

MAX_PANELS = 12
"""Models that have a panel each, the first ones."""
LEAST = 1e-3
"""Squared lengths below this share of the noise variance are drawn at it."""
MAX_NAMED = len(FEW_COLOURS) - 1
"""Models whose lines have names: black is the mean."""
BEHIND = "#9ecae1"
"""Colour of lines behind their mean."""


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
        return drawing.distinct(self.classes, 18)


def _data(run: Any, methods: Sequence[Any]) -> list[Evidence]:
    return [Evidence.of(method.title, run.model(method.name), run.table.n_rows) for method in methods]


def evidence(_: Sequence[Any], fitted: Sequence[Evidence], __: Mapping[str, Any]) -> list[Figure]:
    """Return pictures of the bounds and of the components switched off."""
    return [_bounds(fitted), _relevance(fitted)]


def _bounds(fitted: Sequence[Evidence]) -> Figure:
    sheet, panels = drawing.panel_grid(len(fitted), 2.9)
    for panel, method in zip(panels, fitted, strict=True):
        _lines(panel, method)
        panel.set_xscale("log")  # most of the bound is gained in the first few sweeps
        panel.yaxis.set_major_locator(MaxNLocator(nbins=5))
        _plain_numbers(panel.xaxis)
        drawing.dress(panel, plain(method.title), "sweep", "evidence bound, nats a row")
    several = next((panel for panel, method in zip(panels, fitted, strict=True) if method.classes), None)
    if several is not None:  # all methods of a run are of the same classes
        drawing.legend_below(sheet, *several.get_legend_handles_labels())
    caption = (
        "The fit maximizes a lower bound on the log evidence of the rows, which no sweep over them lowers; here it is "
        "divided by the number of rows. Where the curve is flat, more sweeps would change little. A late bump is often "
        "a component that is being switched off."
    )
    if any(method.classes for method in fitted):
        caption += " Each class has a model against the rest; their mean is black."
    return drawing.figure("evidence", "How the evidence rose with every sweep", caption, sheet)


def _lines(panel: Axes, method: Evidence) -> None:
    """Draw the bounds of each model, and their mean where there are several; of many, thin lines without names."""
    sweeps, names, many = np.arange(1, len(method.bounds) + 1), method.names or [""], len(method.classes) > MAX_NAMED
    for i, name in enumerate(names):
        colour, label = FEW_COLOURS[i % len(FEW_COLOURS)], name
        if many:
            colour, label = BEHIND, "a class against the rest" if i == 0 else ""
        panel.plot(
            sweeps, method.bounds[:, i], color=colour, linewidth=0.7 if many else 1.5, label=label or None,
            marker="" if many else ".",
        )  # fmt: skip
    if method.classes:
        panel.plot(sweeps, method.bounds.mean(axis=1), color=INK, linewidth=1.4, label="mean", marker=".")


def _plain_numbers(axis: Axis) -> None:
    """Label the powers of ten of a logarithmic axis, without formulas."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _relevance(fitted: Sequence[Evidence]) -> Figure:
    models = [(method, i) for method in fitted for i in range(len(method.squares))]
    sheet, panels = drawing.panel_grid(min(len(models), MAX_PANELS), 2.4)
    for panel, (method, i) in zip(panels, models, strict=False):
        _squares(panel, method, i)
        title = plain(method.title) if not method.classes else f"{plain(method.title)}: {method.names[i]}"
        drawing.dress(panel, title, "component", "squared length", outer=True)
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
    return drawing.figure("relevance", "How relevant each component is", caption, sheet)


def _squares(panel: Axes, method: Evidence, model: int) -> None:
    """Draw the squared lengths of a model's loadings and the noise, on an axis that all models of the method share."""
    levels = np.maximum(method.squares, LEAST * method.noise[:, None])
    numbers, ends = np.arange(1, levels.shape[1] + 1), [*method.noise, levels.min(), levels.max()]
    off = method.switched_off[model]
    for chosen, face in ((~off, FEW_COLOURS[0]), (off, "white")):
        panel.plot(
            numbers[chosen], levels[model][chosen], "o", markersize=5 if len(numbers) <= 20 else 3,
            markerfacecolor=face, markeredgecolor=FEW_COLOURS[0],
        )  # fmt: skip
    panel.axhline(method.noise[model], color=INK, linewidth=1, linestyle="--")
    panel.set_yscale("log")
    panel.set_ylim(min(ends) / 2, 2 * max(ends))
    panel.yaxis.set_major_locator(LogLocator(numticks=6))
    _plain_numbers(panel.yaxis)
    drawing.whole_numbers(panel, len(numbers))


EVIDENCE = ReportSection("evidence", 55, evidence, _data)
