"""Pictures of the margins of an evaluation: signed distances to a hyperplane, before and after projection."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from mmpca_dist.errors import plural
from mmpca_dist.evaluation.results import Evaluation
from mmpca_dist.evaluation.tables import Key
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.pictures import drawing
from mmpca_dist.pictures.drawing import BEFORE, FEW_COLOURS, INK, plain
from mmpca_dist.pictures.frame import Figure
from mmpca_dist.report.error_curves import MAX_DRAWN, drawn_sizes
from mmpca_dist.results.answer import label
from mmpca_dist.results.error_tables import SignedMargins, signed_margins
from mmpca_dist.results.forms import written

AFTER = FEW_COLOURS[:MAX_DRAWN]
BARS = 48
TALLEST = 2.2
"""Outlines are cut at so many times the height of the highest bar of the original columns."""


def margin_pictures(evaluation: Evaluation) -> list[Figure]:
    """Return a picture of the margins under each classifier that has any."""
    margins_of = signed_margins(evaluation)
    classifiers = dict.fromkeys(name for _, _, name in margins_of)
    drawn = (_picture(evaluation, margins_of, name, number) for number, name in enumerate(classifiers, 1))
    return [figure for figure in drawn if figure is not None]


def _picture(
    evaluation: Evaluation, margins_of: dict[Key, SignedMargins], classifier: str, number: int
) -> Figure | None:
    """Return a panel for each method with margins under a classifier; None without any."""
    sizes, own_units = drawn_sizes(evaluation, classifier), evaluation.own_units
    before = next(margins for key, margins in margins_of.items() if key[0] == "" and key[2] == classifier)
    after: dict[str, list[SignedMargins]] = {}
    for method in evaluation.reducing:
        keys = [(method, size, classifier) for size in sizes]
        if margins := [margins_of[key] for key in keys if key in margins_of]:
            after[method] = margins
    if not after:
        return None
    comparable = [one for method, margins in after.items() for one in margins if method not in own_units]
    edges = _edges(comparable, before)
    grey = before.shares(edges)
    highest = max(float(shares.max()) for shares in [grey, *(margins.shares(edges) for margins in comparable)])
    top = 1.06 * min(highest, TALLEST * float(grey.max()))
    sheet, panels = drawing.panel_grid(len(after), 2.2)
    for panel, (method, margins) in zip(panels, after.items(), strict=True):
        if method in own_units:
            _outlines(panel, margins, _edges(margins, None), sizes)
        else:
            panel.stairs(grey, edges, fill=True, color=BEFORE, label="original columns")
            _outlines(panel, margins, edges, sizes)
            panel.set_ylim(0, top)
        panel.axvline(0, color=INK, linewidth=0.8)
        drawing.shares_of_distances(panel)
        drawing.dress(panel, plain(title_of(method)), "signed distance", "share of rows", outer=True)
    handles = {text: line for panel in panels for line, text in zip(*panel.get_legend_handles_labels(), strict=True)}
    drawing.legend_below(sheet, list(handles.values()), list(handles))
    title = f"Margins: {label(evaluation, classifier)}"
    caption = _caption(evaluation, list(after), sizes)
    medians = ", ".join(
        f"{title_of(method)} {written('margin', margins[-1].median)}" for method, margins in after.items()
    )
    original = written("margin", before.median)
    seen = f"Median signed distances: original columns {original}, {medians}, with {sizes[-1]} components."
    return drawing.figure(f"signed-margins-{number}", title, caption, sheet, seen)


def _outlines(panel: Axes, drawn: list[SignedMargins], edges: NDArray[np.float64], sizes: Sequence[int]) -> None:
    for margins in drawn:
        colour = AFTER[sizes.index(margins.n_components) % len(AFTER)]
        count = plural(margins.n_components, "component")
        panel.stairs(margins.shares(edges), edges, color=colour, linewidth=1.4, baseline=None, label=count)
        panel.axvline(margins.median, color=colour, linewidth=0.9, linestyle=(0, (4, 2)))
    panel.set_xlim(edges[0], edges[-1])


def _edges(drawn: list[SignedMargins], before: SignedMargins | None) -> NDArray[np.float64]:
    """Return the edges of bars over zero, all of the original columns, and what most methods reach."""
    reaches = np.array([margins.reach() for margins in drawn] or [(0.0, 0.0)])
    low, high = np.median(reaches, axis=0)
    if before:
        low, high = min(low, before.reach()[0]), max(high, before.reach()[1])
    low, high = min(0.0, float(low)), max(0.0, float(high))
    room = 0.08 * (high - low) or 1.0
    return np.linspace(low - room, high + room, BARS + 1)


def _caption(evaluation: Evaluation, methods: list[str], sizes: list[int]) -> str:
    reference = title_of(evaluation.reference)
    chosen = len(sizes) < len(evaluation.n_components)
    missing = [title_of(m) for m in evaluation.reducing if m not in (*methods, evaluation.reference)]
    caption = (
        f"Signed distances of {evaluation.margin_rows} to the hyperplane of the classifier, of all splits together: "
        "left of zero, rows are misclassified. "
        f"Grey: in the original columns{', standardised' * evaluation.standardized}. "
        "Outlines: after projection; dashed lines are the medians."
        + (f" Shown with the number of components at which {reference} errs least." if chosen else "")
        + (f" Not shown, because their classifiers have no hyperplane: {', '.join(missing)}." if missing else "")
    )
    skewed = [title_of(method) for method in methods if method in evaluation.own_units]
    if skewed:
        caption += (
            f" The components of {', '.join(skewed)} have units of their own: neither their distances nor their "
            "Wasserstein-1 distances compare with the others."
        )
    return caption + " What lies far out, and outlines much higher than the rest, are cut off."
