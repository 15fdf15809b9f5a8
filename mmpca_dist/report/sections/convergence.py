"""How eigenvectors converged, where a solver passed over the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from mmpca_dist.pictures import drawing
from mmpca_dist.pictures.drawing import FAINT, FEW_COLOURS, INK, plain
from mmpca_dist.pictures.frame import Figure, ReportSection
from mmpca_dist.results.figures import Figures

FOLLOWED = 5
"""Components whose residuals have a line of their own: the first, the last, and some between."""
LEAST_RESIDUAL = 1e-16


def _convergence(methods: Sequence[Figures], tolerance: float, _: Mapping[str, Any]) -> list[Figure]:
    """Return one picture, a panel for every method whose passes were followed; none where there is no such method."""
    followed = [method for method in methods if method.history]
    if not followed:
        return []
    sheet, panels = drawing.panel_grid(len(followed), 2.9)
    for panel, method in zip(panels, followed, strict=True):
        _residuals(panel, method, tolerance)
    caption = (
        "The residual |S v - l v| of a component, over its eigenvalue l, after every pass over the rows (for M-PCA2, "
        "over the pairs of rows): an eigenvalue of S is no farther than that from the one found. The passes end when "
        "all components are below the dashed line, the tolerance, or when there were as many as allowed "
        "(solver.passes). Methods that differ by what lies between class means share the passes and the basis."
    )
    return [drawing.figure("convergence", "How exact the components are after every pass", caption, sheet)]


def _residuals(panel: Axes, method: Figures, tolerance: float) -> None:
    count = min(len(state["values"]) for state in method.history)
    numbers = np.unique(np.linspace(0, count - 1, min(FOLLOWED, count)).astype(int))
    # The first pass takes the class means and cannot tell residuals; the picture begins with the second.
    passes = np.arange(len(method.history)) + method.first_pass
    for i, number in enumerate(numbers):
        errors = [max(state["residuals"][number] / state["values"][number], LEAST_RESIDUAL) for state in method.history]
        panel.semilogy(
            passes, errors, marker="o", markersize=4, linewidth=1.4, color=FEW_COLOURS[i % len(FEW_COLOURS)],
            label=f"component {number + 1}",
        )  # fmt: skip
    if tolerance > 0:
        panel.axhline(tolerance, color=FAINT, linewidth=0.9, linestyle="--")
    panel.set_xticks(passes)
    panel.legend(frameon=False, fontsize=drawing.TICK_SIZE, labelcolor=INK)
    drawing.dress(panel, plain(method.title), "passes", "residual over eigenvalue")


CONVERGENCE = ReportSection("convergence", 50, _convergence, lambda finished, _: finished.config.solver.tolerance)
