"""Distances to the nearest row of another class, before and after projection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.jobs.run_needs import SEARCH, run_needs
from mmpca_dist.pictures.chart import NARROW, Axis, Panel, key, percent, words
from mmpca_dist.pictures.frame import Figure, ReportSection
from mmpca_dist.results.figures import Figures, note_of_first
from mmpca_dist.results.run_result import SolvedRun
from mmpca_dist.statistics.pair_scatter import PairScatter

AFTER = "c1"
TALLEST = 1.7
"""Outlines are cut at so many times the height of the highest bar."""
TAIL, STRETCH = 99.5, 1.25
"""Percent of the distances that a panel shows at least, and the room it has beyond them."""


@dataclass(frozen=True)
class PairMargins:
    """Distances between rows and their nearest rows of other classes, before and after projection."""

    edges: NDArray[np.float64]
    counts: NDArray[np.int64]
    """With ``edges``, of shape (b + 1,), the histogram of all distances before projection, shape (b,)."""
    before: NDArray[np.float64]
    """Shape (s,): distances of pairs spread evenly over all."""
    after: dict[str, NDArray[np.float64]]
    """By name of the method, of shape (s,): the lengths of what its components see of these pairs' differences, that is
    of their orthogonal projections onto the space that the components span."""
    standardized: bool = False

    @classmethod
    def of(cls, pairs: PairScatter, methods: Sequence[Figures], standardized: bool) -> PairMargins:
        """Project the sampled differences of pairs by every method."""
        after = {}
        for method in methods:
            components = np.asarray(method.leading, np.float64)
            basis = components if method.method.orthonormal else np.linalg.qr(components.T)[0].T
            after[method.name] = np.linalg.norm(pairs.sample @ basis.T, axis=1)
        return cls(pairs.edges, pairs.counts, np.linalg.norm(pairs.sample, axis=1), after, standardized)

    def quantile(self, percent: float) -> float:
        """Return the right edge of the bar up to which so many percent of all distances lie."""
        shares = np.cumsum(self.counts) / self.counts.sum()
        return float(self.edges[1 + int(np.searchsorted(shares, percent / 100))])


def _data(finished: SolvedRun, methods: Sequence[Figures]) -> PairMargins | None:
    """Return the margins of the first search for nearest rows of other classes; None without one."""
    search = next((search for search in run_needs(finished.config, SEARCH) if search.stage in finished.results), None)
    if search is None:
        return None
    return PairMargins.of(search.load(finished.run, finished.results), methods, finished.config.standardizes)


def _pair_margins(methods: Sequence[Figures], margins: PairMargins, _: Mapping[str, Any]) -> list[Figure]:
    if not len(margins.before):
        return []
    edges, before = margins.edges[::4], margins.counts.reshape(-1, 4).sum(axis=1) / margins.counts.sum()
    right = min(edges[-1], STRETCH * margins.quantile(TAIL) + edges[1] - edges[0])
    lengths = [margins.after[method.name] for method in methods]
    after = [np.histogram(np.minimum(some, edges[-1]), edges)[0] / len(some) for some in lengths]
    highest, top = float(np.max([before, *after])), TALLEST * float(before.max())
    panels = []
    for i, method in enumerate(methods):
        title = f"{words(method.title)} ({len(method.leading)})"
        panel = Panel(title, "distance within a pair", "share of pairs", 150, NARROW)
        panel.x.low, panel.x.high, panel.y = 0, right, Axis(0, min(top, 1.06 * highest), format=percent, most=4)
        panel.steps(edges, before, "before", fill=True)
        panel.steps(edges, after[i], AFTER)
        for values, colour in ((margins.before, "faint"), (lengths[i], AFTER)):
            panel.rule(colour, x=float(np.median(values)), dash="dashed")
        panels.append(panel.drawn())
    keys = [key("before projection: all pairs", "before"), key("after projection", AFTER, dash="")]
    title = "The margin before and after projection"
    return [Figure("margins", title, _caption(methods, margins, highest > top), panels, keys)]


def _caption(methods: Sequence[Figures], margins: PairMargins, cut: bool) -> str:
    total, sampled = int(margins.counts.sum()), len(margins.before)
    pairs = f"all {total:,} pairs" if sampled == total else f"{sampled:,} of the {total:,} pairs, evenly spaced"
    caption = (
        "Rows are paired with their nearest rows of another class. Grey: how far apart the rows of a pair are"
        + (", in columns divided by their standard deviations" if margins.standardized else "")
        + f" ({total:,} pairs). Outline: how much of that distance is left when both rows are projected by a method "
        f"({pairs}). Dashed lines are the medians; in brackets, the number of components. A method whose outline stays "
        "near the grey keeps the margin between the classes open; one whose outline moves to the left lets it close. "
        "The pairs are those that are nearest before projection: other rows may be nearer afterwards."
    )
    skewed = [method.title for method in methods if not method.method.orthonormal]
    if skewed:
        caption += (
            f" The components of {', '.join(skewed)} have units of their own; here, lengths are those within the "
            "space that they span, so that they compare with the others."
        )
    caption += note_of_first(methods)
    if cut:
        caption += " Outlines that are far higher than the grey are cut off at the top."
    coincide = int((margins.before == 0).sum())
    if coincide:
        caption += f" {coincide:,} of the {sampled:,} pairs coincide: equal rows of different classes."
    return caption


MARGINS = ReportSection("margins", 30, _pair_margins, _data)
