"""How eigenvectors converged, where a solver passed over the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mmpca_dist.pictures.chart import Axis, Panel, key, words
from mmpca_dist.pictures.frame import Drawn, Figure, Key, ReportSection
from mmpca_dist.pictures.palette import place_look
from mmpca_dist.results.figures import Figures

FOLLOWED = 5
"""Components whose residuals have a line of their own: the first, the last, and some between."""
LEAST_RESIDUAL = 1e-16


def _convergence(methods: Sequence[Figures], tolerance: float, _: Mapping[str, Any]) -> list[Figure]:
    """Return one picture, a panel for every method whose passes were followed; none where there is no such method."""
    followed = [method for method in methods if method.history]
    if not followed:
        return []
    panels, legends = zip(*(_residuals(method, tolerance) for method in followed), strict=True)
    caption = (
        "The residual |S v - l v| of a component, over its eigenvalue l, after every pass over the rows (for M-PCA2, "
        "over the pairs of rows): an eigenvalue of S is no farther than that from the one found. The passes end when "
        "all components are below the dashed line, the tolerance, or when there were as many as allowed "
        "(solver.passes). Methods that differ by what lies between class means share the passes and the basis."
    )
    keys = max(legends, key=len)
    return [Figure("convergence", "How exact the components are after every pass", caption, panels, keys)]


def _residuals(method: Figures, tolerance: float) -> tuple[Drawn, list[Key]]:
    count = min(len(state["values"]) for state in method.history)
    numbers = np.unique(np.linspace(0, count - 1, min(FOLLOWED, count)).astype(int))
    # The first pass takes the class means and cannot tell residuals; the picture begins with the second.
    passes = np.arange(len(method.history)) + method.first_pass
    panel = Panel(words(method.title), "passes", "residual over eigenvalue", 230, x=Axis(whole=True), y=Axis(log=True))
    for i, number in enumerate(numbers):
        errors = [max(state["residuals"][number] / state["values"][number], LEAST_RESIDUAL) for state in method.history]
        colour, mark = place_look(i)
        panel.line(passes, errors, colour)
        panel.points(passes, errors, colour, mark, 5)
    if tolerance > 0:
        panel.rule("faint", y=tolerance, dash="dashed")
    keys = [key(f"component {number + 1}", *place_look(i), "") for i, number in enumerate(numbers)]
    return panel.drawn(), keys


CONVERGENCE = ReportSection("convergence", 50, _convergence, lambda finished, _: finished.config.solver.tolerance)
