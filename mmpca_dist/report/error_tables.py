"""The tables of an evaluation as rows of text."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from dask.utils import format_bytes

from mmpca_dist.evaluation.component_rule import lowest
from mmpca_dist.evaluation.cost_meter import ERRORS, MARGINS, MOMENTS
from mmpca_dist.evaluation.results import Evaluation
from mmpca_dist.evaluation.tables import Cell
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.report.evaluation_words import components, digits, label, probability, spread
from mmpca_dist.report.pages import DASH, seconds_in_words

WIDEST = 8
"""Up to so many pairs of a number of components and a classifier share one table."""
SHARED = {
    MOMENTS: "For all methods: moments of the rows that train",
    ERRORS: "For all methods: errors on the rows held out",
    MARGINS: "For all methods: margins",
}


@dataclass(frozen=True)
class Entry:
    """A cell of a table: its text, small print below, and whether the text and the first small line are marked."""

    text: str
    below: str = ""
    remark: str = ""
    sign_test: str = ""
    best: bool = False
    significant: bool = False

    @property
    def words(self) -> str:
        """All of it in one line; a star marks the best."""
        return " ".join(filter(None, [self.text + "*" * self.best, self.below, self.sign_test, self.remark]))


@dataclass(frozen=True)
class Grid:
    """A table with a row for each method."""

    title: str
    columns: list[tuple[str, str]]
    """Heading, and small print below it."""
    rows: list[tuple[str, str, list[Entry]]] = field(default_factory=list)
    """Title, small print below it, and the cells."""

    def records(self) -> list[dict[str, str]]:
        """Return a dict for each row, as table artifacts take it."""
        names = [" ".join(filter(None, column)) for column in self.columns]
        return [
            {"method": title, **{name: entry.words for name, entry in zip(names, entries, strict=True)}}
            for title, _, entries in self.rows
        ]


def error_grids(evaluation: Evaluation) -> list[Grid]:
    """Return the error tables: one, or one for each classifier where columns are many."""
    sizes, classifiers = evaluation.n_components, evaluation.classifiers
    if len(sizes) * len(classifiers) <= WIDEST:
        pairs = [(size, name) for size in sizes for name in classifiers]
        headings = [(name, f"K = {size}") for size, name in pairs]
        return [_error_grid(evaluation, "", pairs, headings)]
    headings = [(f"K = {size}", "") for size in sizes]
    return [
        _error_grid(evaluation, label(evaluation, name), [(size, name) for size in sizes], headings)
        for name in classifiers
    ]


def _error_grid(
    evaluation: Evaluation, title: str, pairs: list[tuple[int, str]], headings: list[tuple[str, str]]
) -> Grid:
    cells, methods, decimals = evaluation.cells, evaluation.methods, digits(evaluation)
    least = {pair: min(cells[method, *pair].summary.mean for method in methods) for pair in pairs}
    rows = []
    for method in methods:
        entries = [_error_entry(cells[method, *pair], least[pair], decimals) for pair in pairs]
        note = "the reference" if method == evaluation.reference else method
        rows.append((title_of(method), note, entries))
    return Grid(title, headings, rows)


def _error_entry(cell: Cell, least: float, decimals: int) -> Entry:
    return Entry(
        spread(cell.summary, decimals),
        _p_value(cell),
        f"with {cell.used}" if cell.used < cell.n_components else "",
        f"sign {probability(cell.test.p_value)}" if cell.test is not None else "",
        best=math.isclose(cell.summary.mean, least, rel_tol=1e-12, abs_tol=1e-12),
        significant=cell.differs,
    )


def _p_value(cell: Cell) -> str:
    if cell.t_test is None:
        return ""
    return probability(cell.t_test.adjusted) if cell.t_test.adjusted is not None else "p unknown"


def standing_rows(evaluation: Evaluation) -> list[dict[str, str]]:
    """Return a row for each method: its lowest mean error, and how it compares with the reference.

    Of the cells with a lower and a higher mean than the reference's with as many components under the same classifier,
    those that repeat others, where both gave fewer components than were asked for, count once. The significant ones
    differ by the corrected t-test after Holm's correction.
    """
    decimals, rows = digits(evaluation), []
    for method in evaluation.methods:
        cells = [cell for cell in evaluation.cells.values() if cell.method == method]
        pairs: dict[tuple[Any, ...], tuple[Cell, float]] = {}
        for cell in cells:
            if cell.test is not None:
                other = evaluation.cells[(evaluation.reference, *cell.key[1:])]
                pairs.setdefault((cell.models, other.models), (cell, cell.summary.mean - other.summary.mean))
        lower = [cell for cell, difference in pairs.values() if difference < 0]
        higher = [cell for cell, difference in pairs.values() if difference > 0]
        counts = {
            "lower": f"{len(lower)} of {len(pairs)}",
            "significantly lower": str(sum(cell.differs for cell in lower)),
            "higher": f"{len(higher)} of {len(pairs)}",
            "significantly higher": str(sum(cell.differs for cell in higher)),
        }
        best = lowest(cells)
        rows.append(
            {
                "method": title_of(method),
                "lowest mean error": f"{spread(best.summary, decimals)}%",
                "with": f"{components(evaluation, best)}, {label(evaluation, best.classifier)}",
                **(counts if pairs else dict.fromkeys(counts, DASH)),
            }
        )
    return rows


def cost_rows(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return time and bytes read for each method, and for what serves several."""
    names = list(dict.fromkeys([*evaluation.methods, *SHARED, *evaluation.seconds, *evaluation.bytes_read]))
    names = [name for name in names if name in evaluation.seconds or name in evaluation.bytes_read]
    longest = max([*evaluation.seconds.values(), 1e-9])
    return [
        {
            "what": SHARED.get(name) or title_of(name),
            "time": seconds_in_words(evaluation.seconds[name]) if name in evaluation.seconds else DASH,
            "width": f"{100 * evaluation.seconds.get(name, 0) / longest:.1f}",
            "read": format_bytes(evaluation.bytes_read[name]) if name in evaluation.bytes_read else DASH,
        }
        for name in names
    ]
