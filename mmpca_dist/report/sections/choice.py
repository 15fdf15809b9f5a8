"""How many components: the errors in folds that ``n_components: auto`` went by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mmpca_dist.evaluation.comparisons import Summary
from mmpca_dist.evaluation.component_rule import lowest
from mmpca_dist.evaluation.tables import Cell
from mmpca_dist.jobs.records import CHOOSE, ChoiceRecord
from mmpca_dist.pictures.chart import Panel, words
from mmpca_dist.pictures.frame import Drawn, Figure, ReportSection
from mmpca_dist.report.error_curves import Style, axis_positions, draw_line, size_axis
from mmpca_dist.results.figures import Figures

CURVE = Style("c0")


def tried(method: str, record: ChoiceRecord) -> list[Cell]:
    """Return the errors of the numbers that were tried of a method."""
    entry, folds, overlap, cells = record["methods"][method], record["folds"], record["overlap"], []
    for i, size in enumerate(entry["candidates"]):
        deviation = entry["standard_errors"][i] / math.sqrt(1 / folds + overlap)
        summary = Summary(entry["means"][i], deviation, folds, overlap)
        cells.append(Cell(method, size, record["classifier"], summary, used=entry["used"][i]))
    return cells


def _choices(methods: Sequence[Figures], record: ChoiceRecord, _: Mapping[str, Any]) -> list[Figure]:
    corrected = ", corrected for folds that share rows" if record["overlap"] else ""
    caption = (
        f"Mean error in {record['folds']} folds, each held out once while the others train, in percent, against the "
        f"number of components; bars are one standard error to either side{corrected}. Classifier: "
        f"{record['classifier']}. The band reaches from the lowest mean to one standard error above it; the ring is "
        "the number that was chosen, the smallest whose mean is within the band. Hollow: the method gave fewer "
        "components than were tried. Vertical scales differ from panel to panel."
    )
    return [Figure("choice", "How many components", caption, [_draw(method, record) for method in methods])]


def _draw(method: Figures, record: ChoiceRecord) -> Drawn:
    cells = tried(method.name, record)
    sizes = [cell.n_components for cell in cells]
    positions, at = axis_positions(sizes), sizes.index(record["methods"][method.name]["candidate"])
    best = lowest(cells).summary
    panel = Panel(f"{words(method.title)}: {cells[at].used}", "components", "error in folds (%)")
    panel.boxes(-math.inf, math.inf, best.mean, best.mean + best.corrected_standard_error, "faint", 0.22)
    draw_line(panel, positions, cells, CURVE)
    panel.points(positions[[at]], [cells[at].summary.mean], "ink", "circle", 13, hollow=True)
    draw_line(panel, positions[[at]], [cells[at]], CURVE)
    panel.x = size_axis(panel.x, sizes, positions)
    return panel.drawn()


CHOICE = ReportSection("choice", 10, _choices, lambda run, _: run.results.find(CHOOSE))
