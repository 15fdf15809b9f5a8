"""Errors of an evaluation: against the number of components, of methods that one can hide, and split by split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import plural
from mmpca_dist.evaluation.component_rule import lowest
from mmpca_dist.evaluation.tables import Cell, Key
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.pictures import palette
from mmpca_dist.pictures.chart import NARROW, Axis, Panel, key, words
from mmpca_dist.pictures.frame import Figure, PagePart, Plot
from mmpca_dist.results.answer import guess, label, named, recommended
from mmpca_dist.results.evaluation import Evaluation
from mmpca_dist.results.forms import written

WIDE = 8
"""Numbers of components that span more than this factor have a logarithmic axis."""
LONG_NAME = 40
SPREAD, FEWEST = 0.4, 5
"""Share of the room between two numbers of components over which points are moved apart; of few, of so many."""
MAX_DRAWN = 2
"""Numbers of components that pictures of margins show; of more, the reference's best one."""
MARKER_SIZE = 7
"""Pixels of a mark."""


@dataclass(frozen=True)
class Style:
    """How a method is drawn."""

    colour: str
    mark: str = "circle"
    dash: str = ""
    width: float = 1.4


def styles(evaluation: Evaluation) -> dict[str, Style]:
    """Return how every method is drawn: in its own colour, the reference wide, all columns grey and dashed."""
    grey = evaluation.config.unreduced - {evaluation.config.reference}
    found = {
        method: Style("faint", "", "dashed")
        if method in grey
        else Style(*palette.method_look(method), palette.method_dash(method))
        for method in [evaluation.config.reference, *evaluation.config.labels]
    }
    return {**found, evaluation.config.reference: replace(found[evaluation.config.reference], width=2.6)}


def drawn_sizes(evaluation: Evaluation, classifier: str) -> Sequence[float]:
    """Return up to two numbers of components: all, or that with the reference's lowest mean under a classifier."""
    sizes, reference = evaluation.config.sizes, evaluation.config.reference
    if len(sizes) <= MAX_DRAWN:
        return sizes
    return [min(sizes, key=lambda size: evaluation.cells[reference, size, classifier].summary.mean)]


def errors_part(evaluation: Evaluation) -> PagePart:
    """Return the part of the page with the curves of all methods, under one classifier at a time."""
    still, drawn, names = error_curves(evaluation), styles(evaluation), list(evaluation.classifiers)
    sizes, positions, use = evaluation.config.sizes, axis_positions(evaluation.config.sizes), recommended(evaluation)
    at = positions + shifts(positions, len(drawn))[:, None]
    explorer = {
        "kind": "curves",
        "classifiers": list(evaluation.classifiers.values()),
        "start": names.index((use or lowest(list(evaluation.cells.values()))).classifier),
        "sizes": [str(size) for size in sizes],
        "positions": positions.tolist(),
        "methods": [
            {"name": title_of(method), "x": each.tolist(), **asdict(style)}
            for each, (method, style) in zip(at, drawn.items(), strict=True)
        ],
        "curves": [
            [_curve([evaluation.cells[method, size, name] for size in sizes]) for method in drawn] for name in names
        ],
        "ring": use and [names.index(use.classifier), [*drawn].index(use.method), sizes.index(use.n_components)],
    }
    caption = f"{curves_caption(evaluation)} Untick methods to hide them, or press None and tick those you want."
    caption += " The ring is what the answer says to use." * (use is not None)
    live = Plot("errors", still.title, caption, still.alt, explorer, still)
    return PagePart(still.name, still.title, plots=[live])


def _curve(cells: Sequence[Cell]) -> dict[str, list[Any]]:
    """Return means of cells, a standard error, its ends, and whether components are as many as asked for."""
    means = np.array([cell.summary.mean for cell in cells])
    errors = np.nan_to_num([cell.summary.corrected_standard_error for cell in cells])
    return {
        "mean": means.tolist(), "error": errors.tolist(), "low": (means - errors).tolist(),
        "high": (means + errors).tolist(), "full": [cell.used >= cell.n_components for cell in cells],
    }  # fmt: skip


def error_curves(evaluation: Evaluation) -> Figure:
    """Return one picture, a panel for each classifier."""
    drawn, sizes, panels = styles(evaluation), evaluation.config.sizes, []
    positions, use = axis_positions(sizes), recommended(evaluation)
    axis = "components" if sizes[-1] >= 1 else "share that components hold"
    for classifier in evaluation.classifiers:
        panel = Panel(words(label(evaluation, classifier), LONG_NAME), axis, "test error (%)", 260)
        for i, (method, style) in enumerate(drawn.items()):
            cells = [evaluation.cells[method, size, classifier] for size in sizes]
            draw_line(panel, positions + shifts(positions, len(drawn))[i], cells, style)
        panel.x = size_axis(panel.x, sizes, positions)
        if use is not None and use.classifier == classifier:
            i, j = list(drawn).index(use.method), sizes.index(use.n_components)
            at = positions[[j]] + shifts(positions, len(drawn))[i]
            panel.points(at, [use.summary.mean], "ring", "circle", 14, hollow=True, within=False)
        panel.rule("ink", y=evaluation.baseline, dash="dotted")
        panels.append(panel.drawn())
    many = len(sizes) > 1
    title = "Error against the number of components" if many else "Error of every method"
    caption = (
        f"{curves_caption(evaluation)} Points are moved apart sideways where they would cover each other. Dotted, if "
        f"in range: the baseline ({guess(evaluation)}), {evaluation.baseline:.1f}%. Vertical scales differ from panel "
        "to panel."
    )
    caption += " The ring is what the answer says to use." * (use is not None)
    keys = [
        key(title_of(method), style.colour, style.mark, style.dash, renderers=f"method-{i}")
        for i, (method, style) in enumerate(drawn.items())
    ]
    return Figure("errors-by-components", title, caption, panels, keys, _curves_in_words(evaluation))


def _curves_in_words(evaluation: Evaluation) -> str:
    cells = evaluation.cells.values()
    best = [lowest([cell for cell in cells if cell.method == method]) for method in evaluation.config.labels]
    best.sort(key=lambda cell: cell.summary.mean)
    means = "; ".join(f"{named(evaluation, cell)} {cell.summary.mean:.1f}%" for cell in best)
    return f"The lowest mean error of every method: {means}."


def curves_caption(evaluation: Evaluation) -> str:
    """Return how to read curves of errors."""
    cells = evaluation.cells.values()
    caption = "Mean test error over the splits, in percent; lower is better. "
    if any(cell.summary.count > 1 for cell in cells):
        caption += "Bars are one standard error of the mean to either side, corrected for splits that share rows. "
    all_grey = ", and all columns are grey" if evaluation.all_columns not in {None, evaluation.config.reference} else ""
    caption += f"The reference, {title_of(evaluation.config.reference)}, has the widest line{all_grey}."
    if any(cell.used < cell.n_components for cell in cells):
        caption += " Hollow: the method gave fewer components than asked for."
    return caption


def shifts(positions: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return how far each of ``count`` curves is moved sideways, so that bars do not hide each other."""
    room = min(np.diff(positions).min(), np.ptp(positions) / FEWEST) if len(positions) > 1 else 1.0
    step = SPREAD * room / count
    return np.asarray(step * (np.arange(count) - (count - 1) / 2), np.float64)


def axis_positions(sizes: Sequence[float]) -> NDArray[np.float64]:
    """Return the positions of numbers of components, ascending, on an axis: their logarithms if they span much."""
    logarithmic = sizes[0] > 0 and sizes[-1] > WIDE * sizes[0]
    return np.log2(sizes) if logarithmic else np.asarray(sizes, float)


def size_axis(axis: Axis, sizes: Sequence[float], positions: NDArray[np.float64]) -> Axis:
    """Return an axis with the numbers of components at these positions."""
    return replace(axis, ticks=[(float(at), str(size)) for at, size in zip(positions, sizes, strict=True)])


def draw_line(panel: Panel, at: NDArray[np.float64], cells: Sequence[Cell], style: Style) -> None:
    """Draw the means of cells with bars of one standard error, hollow where components are fewer than asked for."""
    means, _, low, high, full = map(np.array, _curve(cells).values())
    panel.line(at, means, style.colour, style.width, style.dash)
    panel.whiskers(at, low, high, style.colour)
    for chosen, hollow in ((full, False), (~full, True)):
        if style.mark and chosen.any():
            panel.points(at[chosen], means[chosen], style.colour, style.mark, MARKER_SIZE - 1, hollow)


def split_errors(evaluation: Evaluation) -> list[Figure]:
    """Return a picture of the cell that the answer names, split by split against each other method; none without any.

    As in Figure 4 of Luo & Durrant 2017. Each other method has the number of components at which it errs least under
    the same classifier.
    """
    use = recommended(evaluation)
    if use is None or len(evaluation.config.labels) < 2 or use.summary.count < 2:
        return []
    cells = [cell for cell in evaluation.distinct if cell.classifier == use.classifier and cell.method != use.method]
    others = sorted((lowest([cell for cell in cells if cell.method == m]) for m in {c.method for c in cells}),
                    key=lambda cell: (cell.summary.mean, cell.method))  # fmt: skip
    points = {other.key: _points(evaluation, other.key, use.key) for other in others}
    everything = np.concatenate(list(points.values()))
    ends = np.array([everything.min(), everything.max()])
    panels, seen, title = [], [], title_of(use.method)
    for other in others:
        outcome, of_other = _test_words(evaluation, use, other), f"{title_of(other.method)} ({other.used})"
        up, notes = f"{words(title)}: error (%)", [(outcome, "ink")]
        panel = Panel(words(of_other, 28), "its error (%)", up, width=NARROW, notes=notes, square=True)
        panel.x.most = panel.y.most = 4
        panel.line(ends, ends, "faint", 1)
        spots, counts = np.unique(points[other.key], axis=0, return_counts=True)
        for count in np.unique(counts):
            chosen = spots[counts == count].T
            colour, _ = palette.method_look(other.method)
            panel.points(chosen[0], chosen[1], colour, size=5 * count**0.5, opacity=0.7)
        panels.append(panel.drawn())
        seen.append(f"{of_other}: {outcome}")
    caption = (
        f"Every point is a split: upwards the error of {named(evaluation, use)}, to the right that of another method, "
        "with the number of components (in brackets) at which it errs least under this classifier. Below the diagonal "
        f"{title} errs less. Larger points are several splits that coincide. The numbers are splits that it wins and "
        "loses, ties, and the p-value of the sign test for its erring less, which is of these splits only: they share "
        "rows."
    )
    return [Figure("splits", "Split by split", caption, panels, alt=f"Splits won and lost. {'; '.join(seen)}.")]


def _points(evaluation: Evaluation, across: Key, up: Key) -> NDArray[np.float64]:
    """Return the errors of two cells in percent for each split, shape (S, 2)."""
    counts = evaluation.table.counts
    return np.stack([counts[across].percent, counts[up].percent], axis=1)


def _test_words(evaluation: Evaluation, use: Cell, other: Cell) -> str:
    test = evaluation.table.sign_test(use.key, other.key)
    ties = use.summary.count - test.untied
    return f"{test.wins} : {test.untied - test.wins}, {plural(ties, 'tie')}, {written('p', test.p_value)}"
