"""Pictures of the choice of the number of components."""

from __future__ import annotations

import math

from matplotlib.axes import Axes

from mmpca_dist.evaluation.comparisons import Summary
from mmpca_dist.evaluation.component_rule import lowest
from mmpca_dist.evaluation.tables import Cell
from mmpca_dist.jobs.records import ChoiceRecord
from mmpca_dist.report import drawing
from mmpca_dist.report.contents import Choice, ReportContents
from mmpca_dist.report.drawing import FAINT, FEW_COLOURS, INK, Figure, plain
from mmpca_dist.report.error_curves import draw_line, places_of, size_axis
from mmpca_dist.report.evaluation_words import Style

HEIGHT = 2.7
"""Inches of a panel."""
SHOWN = 12
"""Standard errors above the lowest mean up to which errors are shown: those of few components would hide the band."""
CURVE = Style(FEW_COLOURS[0], "o", False)


def choices(contents: ReportContents) -> list[Figure]:
    """Return one picture, a panel for each method; none where numbers of components were given."""
    choices_of_methods = contents.choices
    if not choices_of_methods:
        return []
    made, panels = drawing.panel_grid(len(choices_of_methods), HEIGHT)
    for panel, choice in zip(panels, choices_of_methods, strict=True):
        _draw(panel, choice)
    corrected = ", corrected for folds that share rows" if choices_of_methods[0].chosen.summary.overlap else ""
    caption = (
        f"Mean error in {contents.folds} folds, each held out once while the others train, in percent, against the "
        f"number of components; bars are one standard error to either side{corrected}. Classifier: {contents.judge}. "
        "The band reaches from the lowest mean to one standard error above it; the ring is the number that was chosen, "
        "the smallest whose mean is within the band. Errors beyond twelve standard errors are cut off. Hollow: the "
        "method gave fewer components than were tried. Vertical scales differ from panel to panel."
    )
    return [Figure("choice", "How many components", caption, drawing.png(made))]


def _draw(panel: Axes, choice: Choice) -> None:
    sizes = [cell.n_components for cell in choice.cells]
    marks = places_of(sizes)
    best, chosen = lowest(choice.cells), choice.chosen
    error = best.summary.corrected_standard_error
    panel.axhspan(best.summary.mean, best.summary.mean + error, color=FAINT, alpha=0.22, linewidth=0)
    draw_line(panel, marks, choice.cells, CURVE)
    panel.plot(
        [marks[sizes.index(chosen.n_components)]], [chosen.summary.mean], marker="o", markersize=11,
        markeredgewidth=1.6,
        markerfacecolor="none", color=INK, linestyle="none",
    )  # fmt: skip
    size_axis(panel, sizes, marks)
    top = best.summary.mean + SHOWN * error
    if best.summary.mean < top < panel.get_ylim()[1]:
        lower = [cell.summary.mean - cell.summary.corrected_standard_error for cell in choice.cells]
        panel.set_ylim(min(lower) - error, top)
    drawing.dress(panel, f"{plain(choice.title)}: {chosen.used}", "components", "error in folds (%)")


def tried(method: str, record: ChoiceRecord) -> list[Cell]:
    """Return the errors of the numbers that were tried of a method, from the record of the stage."""
    entry, folds, cells = record["methods"][method], record["folds"], []
    overlap = record.get("overlap", 0.0)  # earlier versions went by standard errors without correction
    for i, size in enumerate(entry["candidates"]):
        deviation = entry["standard_errors"][i] / math.sqrt(1 / folds + overlap)
        summary = Summary(entry["means"][i], deviation, folds, overlap)
        cells.append(Cell(method, size, record["classifier"], summary, used=entry["used"][i]))
    return cells
