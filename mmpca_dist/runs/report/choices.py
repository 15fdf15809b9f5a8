"""Pictures of how numbers of components were chosen."""

from __future__ import annotations

from matplotlib.axes import Axes

from mmpca_dist.evaluation.choosing import lowest
from mmpca_dist.runs.report import drawing
from mmpca_dist.runs.report.contents import Choice, ReportContents
from mmpca_dist.runs.report.drawing import FAINT, FEW_COLOURS, INK, Figure, plain
from mmpca_dist.runs.report.error_curves import draw_line, places_of, size_axis
from mmpca_dist.runs.report.evaluated import Style

HEIGHT = 2.7
"""Inches of a panel."""
SHOWN = 12
"""Standard errors above the lowest mean up to which errors are shown: those of few components would hide the band."""
CURVE = Style(FEW_COLOURS[0], "o", False)


def choices(contents: ReportContents) -> list[Figure]:
    """Return one picture, a panel for each method; none where numbers of components were given."""
    found = contents.choices
    if not found:
        return []
    made, panels = drawing.panel_grid(len(found), HEIGHT)
    for panel, choice in zip(panels, found, strict=True):
        _draw(panel, choice)
    corrected = ", corrected for folds that share rows" if found[0].taken.summary.overlap else ""
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
    places = places_of(sizes)
    best, taken = lowest(choice.cells), choice.taken
    error = best.summary.corrected_standard_error
    panel.axhspan(best.summary.mean, best.summary.mean + error, color=FAINT, alpha=0.22, linewidth=0)
    draw_line(panel, places, choice.cells, CURVE)
    panel.plot(
        [places[sizes.index(taken.n_components)]], [taken.summary.mean], marker="o", markersize=11, markeredgewidth=1.6,
        markerfacecolor="none", color=INK, linestyle="none",
    )  # fmt: skip
    size_axis(panel, sizes, places)
    top = best.summary.mean + SHOWN * error
    if best.summary.mean < top < panel.get_ylim()[1]:
        lower = [cell.summary.mean - cell.summary.corrected_standard_error for cell in choice.cells]
        panel.set_ylim(min(lower) - error, top)
    drawing.dress(panel, f"{plain(choice.title)}: {taken.used}", "components", "error in folds (%)")
