"""Pictures of the margins of an evaluation: signed distances to a hyperplane, before and after projection."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.evaluation.tables import Key
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.pictures.chart import NARROW, Axis, Panel, key, percent, words
from mmpca_dist.pictures.frame import Figure
from mmpca_dist.report.error_curves import drawn_sizes
from mmpca_dist.results.answer import label
from mmpca_dist.results.error_tables import SignedMargins, signed_margins
from mmpca_dist.results.evaluation import Evaluation
from mmpca_dist.results.forms import written

AFTER = ("c0", "c1")
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
    before = next(margins for of, margins in margins_of.items() if of[0] == "" and of[2] == classifier)
    after: dict[str, list[SignedMargins]] = {}
    for method in evaluation.reducing:
        keys = [(method, size, classifier) for size in sizes]
        if margins := [margins_of[one] for one in keys if one in margins_of]:
            after[method] = margins
    if not after:
        return None
    comparable = [one for method, margins in after.items() for one in margins if method not in own_units]
    edges = _edges(comparable, before)
    grey = before.shares(edges)
    highest = max(float(shares.max()) for shares in [grey, *(margins.shares(edges) for margins in comparable)])
    top = 1.06 * min(highest, TALLEST * float(grey.max()))
    panels = []
    for method, margins in after.items():
        used = dict.fromkeys(evaluation.cells[method, one.n_components, classifier].used for one in margins)
        title = f"{words(title_of(method))} ({', '.join(map(str, used))})"
        panel = Panel(title, "signed distance", "share of rows", 150, NARROW)
        panel.y = Axis(0, format=percent, most=4)
        own = edges
        if method in own_units:
            own = _edges(margins, None)
        else:
            panel.steps(edges, grey, "before", fill=True)
            panel.y.high = top
        panel.x.low, panel.x.high = float(own[0]), float(own[-1])
        panel.rule("ink", x=0)
        for one in margins:
            colour = AFTER[sizes.index(one.n_components)]
            panel.steps(own, one.shares(own), colour)
            panel.rule(colour, x=one.median, dash="dashed")
        panels.append(panel.drawn())
    entries = [key("original columns", "before")]
    entries += [
        key("projected" + f", {written('size', size)}" * (len(sizes) > 1), AFTER[i], dash="")
        for i, size in enumerate(sizes)
    ]
    title = f"Margins: {label(evaluation, classifier)}"
    caption = _caption(evaluation, list(after), len(sizes) < len(evaluation.config.sizes))
    medians = ", ".join(
        f"{title_of(method)} {written('margin', margins[-1].median)}" for method, margins in after.items()
    )
    original = written("margin", before.median)
    seen = f"Median signed distances: original columns {original}, {medians}, with {sizes[-1]} components."
    return Figure(f"signed-margins-{number}", title, caption, panels, entries, seen)


def _edges(drawn: list[SignedMargins], before: SignedMargins | None) -> NDArray[np.float64]:
    """Return the edges of bars over zero, all of the original columns, and what most methods reach."""
    reaches = np.array([margins.reach() for margins in drawn] or [(0.0, 0.0)])
    low, high = np.median(reaches, axis=0)
    if before:
        low, high = min(low, before.reach()[0]), max(high, before.reach()[1])
    low, high = min(0.0, float(low)), max(0.0, float(high))
    room = 0.08 * (high - low) or 1.0
    return np.linspace(low - room, high + room, BARS + 1)


def _caption(evaluation: Evaluation, methods: list[str], chosen: bool) -> str:
    reference = title_of(evaluation.config.reference)
    missing = [title_of(m) for m in evaluation.reducing if m not in (*methods, evaluation.config.reference)]
    caption = (
        f"Signed distances of {evaluation.margin_rows} to the hyperplane of the classifier, of all splits together: "
        "left of zero, rows are misclassified. "
        f"Grey: in the original columns{', standardised' * evaluation.config.standardizes}. "
        "Outlines: after projection; dashed lines are the medians; in brackets, the number of components."
        + (f" Shown with the number of components at which {reference} errs least." if chosen else "")
        + (f" Not shown, because their classifiers have no hyperplane: {', '.join(missing)}." if missing else "")
    )
    skewed = [title_of(method) for method in methods if method in evaluation.own_units]
    if skewed:
        caption += (
            f" The components of {', '.join(skewed)} have units of their own, so that there is no grey to "
            "compare with: neither their distances nor their Wasserstein-1 distances compare with the others."
        )
    return caption + " What lies far out, and outlines much higher than the rest, are cut off."
