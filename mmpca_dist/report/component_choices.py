"""How many components: the errors in folds that ``n_components: auto`` went by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from mmpca_dist.evaluation.comparisons import Summary
from mmpca_dist.evaluation.component_rule import lowest
from mmpca_dist.evaluation.tables import Cell
from mmpca_dist.jobs.records import ChoiceRecord
from mmpca_dist.methods.registry import title_of
from mmpca_dist.report import drawing
from mmpca_dist.report.drawing import FAINT, FEW_COLOURS, INK, Figure, plain
from mmpca_dist.report.error_curves import axis_positions, draw_line, size_axis
from mmpca_dist.report.evaluation_words import Style

HEIGHT = 2.7
"""Inches of a panel."""
SHOWN = 12
"""Standard errors above the lowest mean up to which errors are shown: those of few components would hide the band."""
CURVE = Style(FEW_COLOURS[0], "o", False)


@dataclass(frozen=True)
class TriedNumbers:
    """Title of a method, errors of the numbers that were tried (ascending, over folds), and the one that was chosen."""

    title: str
    cells: list[Cell]
    chosen: Cell


@dataclass(frozen=True)
class ComponentChoices:
    """The choices of all methods, in ``folds`` folds under the classifier ``classifier`` and by ``rule``."""

    methods: list[TriedNumbers]
    folds: int
    classifier: str
    rule: str

    @classmethod
    def of(cls, record: ChoiceRecord, methods: Sequence[str]) -> ComponentChoices:
        """Return the choices of methods from the record of the stage."""
        choices = []
        for name in methods:
            candidate, cells = record["methods"][name]["candidate"], tried(name, record)
            chosen = next(cell for cell in cells if cell.n_components == candidate)
            choices.append(TriedNumbers(title_of(name), cells, chosen))
        return cls(choices, record["folds"], record["classifier"], record["rule"])


def tried(method: str, record: ChoiceRecord) -> list[Cell]:
    """Return the errors of the numbers that were tried of a method."""
    entry, folds, cells = record["methods"][method], record["folds"], []
    overlap = record.get("overlap", 0.0)  # earlier versions went by standard errors without correction
    for i, size in enumerate(entry["candidates"]):
        deviation = entry["standard_errors"][i] / math.sqrt(1 / folds + overlap)
        summary = Summary(entry["means"][i], deviation, folds, overlap)
        cells.append(Cell(method, size, record["classifier"], summary, used=entry["used"][i]))
    return cells


def component_choices(choices: ComponentChoices | None) -> list[Figure]:
    """Return one picture, a panel for each method; none where numbers of components were given."""
    if choices is None:
        return []
    sheet, panels = drawing.panel_grid(len(choices.methods), HEIGHT)
    for panel, choice in zip(panels, choices.methods, strict=True):
        _draw(panel, choice)
    corrected = ", corrected for folds that share rows" if choices.methods[0].chosen.summary.overlap else ""
    caption = (
        f"Mean error in {choices.folds} folds, each held out once while the others train, in percent, against the "
        f"number of components; bars are one standard error to either side{corrected}. Classifier: "
        f"{choices.classifier}. The band reaches from the lowest mean to one standard error above it; the ring is the "
        "number that was chosen, the smallest whose mean is within the band. Errors beyond twelve standard errors are "
        "cut off. Hollow: the method gave fewer components than were tried. Vertical scales differ from panel to panel."
    )
    return [Figure("choice", "How many components", caption, drawing.png(sheet))]


def _draw(panel: Axes, choice: TriedNumbers) -> None:
    sizes = [cell.n_components for cell in choice.cells]
    positions, chosen = axis_positions(sizes), choice.chosen
    best = lowest(choice.cells).summary
    error = best.corrected_standard_error
    panel.axhspan(best.mean, best.mean + error, color=FAINT, alpha=0.22, linewidth=0)
    draw_line(panel, positions, choice.cells, CURVE)
    panel.plot(
        [positions[sizes.index(chosen.n_components)]], [chosen.summary.mean], marker="o", markersize=11,
        markeredgewidth=1.6, markerfacecolor="none", color=INK, linestyle="none",
    )  # fmt: skip
    size_axis(panel, sizes, positions)
    top = best.mean + SHOWN * error
    if best.mean < top < panel.get_ylim()[1]:
        bottom = min(cell.summary.mean - cell.summary.corrected_standard_error for cell in choice.cells)
        panel.set_ylim(bottom - error, top)
    drawing.dress(panel, f"{plain(choice.title)}: {chosen.used}", "components", "error in folds (%)")
