"""Pictures of errors split by split against the reference, as in Figure 4 of Luo & Durrant 2017."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from mmpca_dist.evaluation.results import Evaluation
from mmpca_dist.report import drawing
from mmpca_dist.report.drawing import FAINT, FEW_COLOURS, INK, Figure, plain
from mmpca_dist.report.evaluation_words import MOST_DRAWN, drawn_sizes, label, left_out, probability, title_of

COLOURS = FEW_COLOURS[:MOST_DRAWN]
LINE = 10.0
"""Points between lines of text."""


def split_errors(evaluation: Evaluation) -> list[Figure]:
    """Return a picture for each classifier, a panel for each method; none where nothing is paired with a reference."""
    return [
        figure
        for number, classifier in enumerate(evaluation.classifiers)
        for figure in _of_classifier(evaluation, classifier, number)
    ]


def _of_classifier(evaluation: Evaluation, classifier: str, number: int) -> list[Figure]:
    sizes, reference = drawn_sizes(evaluation, classifier), evaluation.reference
    points = {
        method: {size: _points(evaluation, method, size, classifier) for size in sizes}
        for method in evaluation.methods
        if method != reference
    }
    points = {m: {k: xy for k, xy in by_size.items() if xy.size} for m, by_size in points.items()}
    points = {method: by_size for method, by_size in points.items() if by_size}
    if not points:
        return []
    together = np.concatenate([xy for by_size in points.values() for xy in by_size.values()])
    low, high = float(together.min()), float(together.max())
    room = 0.06 * (high - low) or 1.0
    made, panels = drawing.panel_grid(len(points), 3.3 if len(points) <= 6 else 2.7)
    for i, (panel, (method, by_size)) in enumerate(zip(panels, points.items(), strict=True)):
        panel.plot([low - room, high + room], [low - room, high + room], color=FAINT, linewidth=0.9)
        for index, (size, xy) in enumerate(by_size.items()):
            _draw(panel, xy, index)
            _tell(panel, evaluation, (method, size, classifier), index, len(by_size) - 1 - index, len(sizes) > 1)
        panel.set_xlim(low - room, high + room)
        panel.set_ylim(low - room, high + room)
        panel.set_box_aspect(1)
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_locator(MaxNLocator(nbins=4))
        spec = panel.get_subplotspec()
        columns = spec.get_gridspec().ncols if spec else 1
        drawing.dress(
            panel,
            plain(title_of(method)),
            f"{plain(title_of(reference))}: error (%)" if i >= len(points) - columns else "",
            "the method: error (%)" if i % columns == 0 else "",
            pad=6 + LINE * len(by_size),
        )
    return [
        Figure(
            f"splits-{number + 1}",
            f"Split by split: {label(evaluation, classifier)}",
            _caption(evaluation, sizes) + left_out(evaluation, list(points)),
            drawing.png(made),
        )
    ]


def _caption(evaluation: Evaluation, sizes: list[int]) -> str:
    reference = title_of(evaluation.reference)
    listed = " and ".join(str(size) for size in sizes)
    chosen = "" if len(sizes) == len(evaluation.table.sizes) else f", the number at which {reference} errs least"
    colours = " (blue and orange)" if len(sizes) > 1 else ""
    return (
        f"Every point is a split: to the right the error of {reference}, upwards that of the method, both with "
        f"{listed} components{colours}{chosen}. Below the diagonal the method errs less. Larger points are several "
        "splits that coincide. The numbers are splits that the method wins and loses, ties, and the p-value of the "
        "sign test for its erring less, which is of these splits only: they share rows."
    )


def _points(evaluation: Evaluation, method: str, size: int, classifier: str) -> np.ndarray:
    """Return the reference's and the method's error in percent for each split that both have, shape (m, 2)."""
    table = evaluation.table
    own, other = table.paired((method, size, classifier), (evaluation.reference, size, classifier))
    return np.stack([table.percent(other), table.percent(own)], axis=1)


def _draw(panel: Axes, xy: np.ndarray, index: int) -> None:
    spots, times = np.unique(xy, axis=0, return_counts=True)
    panel.scatter(
        spots[:, 0], spots[:, 1], s=14 * times, color=COLOURS[index], alpha=0.6, linewidths=0.5, edgecolors="white",
        zorder=2,
    )  # fmt: skip


def _tell(
    panel: Axes, evaluation: Evaluation, key: tuple[str, int, str], index: int, below: int, several: bool
) -> None:
    test = evaluation.cells[key].test
    if test is None:
        return
    splits = len(evaluation.table.paired(key, (evaluation.reference, *key[1:]))[0])
    text = f"{test.wins} : {test.untied - test.wins}, {_ties(splits - test.untied)}, p = {probability(test.p_value)}"
    panel.annotate(
        f"K = {key[1]}: {text}" if several else text, (0, 1), xytext=(0, 4 + LINE * below), xycoords="axes fraction",
        textcoords="offset points", fontsize=drawing.TICK_SIZE - 0.5, color=COLOURS[index] if several else INK,
    )  # fmt: skip


def _ties(count: int) -> str:
    return f"{count} tie" if count == 1 else f"{count} ties"
