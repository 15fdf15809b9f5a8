"""The tables of an evaluation as rows of text."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from dask.utils import format_bytes

from mmpca_dist.evaluation.cost_meter import ERRORS, MARGINS, MOMENTS
from mmpca_dist.evaluation.published import Compared, agreement, sources_of
from mmpca_dist.evaluation.results import Evaluation, standings
from mmpca_dist.evaluation.tables import Cell
from mmpca_dist.report.evaluation_words import (
    ALL_COLUMNS,
    components,
    digits,
    label,
    probability,
    title_of,
)
from mmpca_dist.report.signed_margins import signed_margins
from mmpca_dist.report.templates import seconds_in_words

WIDEST = 8
"""Up to so many pairs of a number of components and a classifier share one table."""
DASH = "\N{EN DASH}"
PLUS_MINUS = " \N{PLUS-MINUS SIGN} "


@dataclass(frozen=True)
class Entry:
    """A cell of a table: its text, what stands small below, and whether it and the first small line are marked."""

    text: str
    below: str = ""
    remark: str = ""
    sign_test: str = ""
    best: bool = False
    significant: bool = False


@dataclass(frozen=True)
class Grid:
    """A table with a row for each method.

    Attributes
    ----------
    title : str
    columns : list of (heading, what stands small below)
    rows : list of (title, what stands small below, list of Entry)
    """

    title: str
    columns: list[tuple[str, str]]
    rows: list[tuple[str, str, list[Entry]]] = field(default_factory=list)

    def records(self) -> list[dict[str, str]]:
        """Return a dict for each row, as table artifacts take it."""
        names = [" ".join(filter(None, column)) for column in self.columns]
        return [
            {"method": title}
            | {
                name: " ".join(
                    filter(None, [entry.text + ("*" if entry.best else ""), entry.below, entry.sign_test, entry.remark])
                )
                for name, entry in zip(names, entries, strict=True)
            }
            for title, _, entries in self.rows
        ]


def error_grids(evaluation: Evaluation) -> list[Grid]:
    """Return the error tables: one, or one for each classifier where columns are many."""
    sizes = evaluation.table.sizes
    classifiers = [name for name in evaluation.classifiers if any(key[2] == name for key in evaluation.cells)]
    if len(sizes) * len(classifiers) <= WIDEST:
        pairs = [(size, name) for size in sizes for name in classifiers]
        headings = [(name, f"K = {size}") for size, name in pairs]
        return [_error_grid(evaluation, "", pairs, headings)] if pairs else []
    return [
        _error_grid(
            evaluation, label(evaluation, name), [(size, name) for size in sizes], [(f"K = {k}", "") for k in sizes]
        )
        for name in classifiers
    ]


def _error_grid(
    evaluation: Evaluation, title: str, pairs: list[tuple[int, str]], headings: list[tuple[str, str]]
) -> Grid:
    lowest = {pair: min((c.summary.mean for c in evaluation.column(*pair)), default=math.nan) for pair in pairs}
    places = digits(evaluation)
    rows = []
    for method in evaluation.methods:
        entries = [_error_entry(evaluation.cells.get((method, *pair)), lowest[pair], places) for pair in pairs]
        note = "the reference" if method == evaluation.reference else method
        rows.append((title_of(method), note, entries))
    return Grid(title, headings, rows)


def _error_entry(cell: Cell | None, lowest: float, places: int) -> Entry:
    if cell is None:
        return Entry(DASH)
    return Entry(
        spread(cell, places),
        _p_value(cell),
        f"with {cell.used}" if cell.used < cell.n_components else "",
        f"sign {probability(cell.test.p_value)}" if cell.test is not None else "",
        best=math.isclose(cell.summary.mean, lowest, rel_tol=1e-12, abs_tol=1e-12),
        significant=cell.differs,
    )


def _p_value(cell: Cell) -> str:
    if cell.t_test is None:
        return ""
    return f"p = {probability(cell.t_test.adjusted)}" if cell.t_test.adjusted is not None else "p unknown"


def spread(cell: Cell, places: int) -> str:
    """Return mean and deviation: "17.3 ± 3.0"."""
    mean, deviation = cell.summary.mean, cell.summary.deviation
    return f"{mean:.{places}f}" + (f"{PLUS_MINUS}{deviation:.{places}f}" if math.isfinite(deviation) else "")


def standing_rows(evaluation: Evaluation) -> list[dict[str, str]]:
    """Return a row for each method: its best cell, how it stands against the reference, its time and bytes."""
    places, rows = digits(evaluation), []
    for standing in standings(evaluation):
        best = standing.best
        rows.append(
            {
                "method": title_of(standing.method),
                "lowest mean error": f"{spread(best, places)}%" if best else DASH,
                "with": f"{components(best)}, {label(evaluation, best.classifier)}" if best else "no component",
                "lower": f"{standing.lower} of {standing.compared}" if standing.compared else DASH,
                "significantly lower": str(standing.lower_significant) if standing.compared else DASH,
                "higher": f"{standing.higher} of {standing.compared}" if standing.compared else DASH,
                "significantly higher": str(standing.higher_significant) if standing.compared else DASH,
            }
        )
    return rows


SHARED = {
    MOMENTS: "For all methods: moments of the rows that train",
    ERRORS: "For all methods: errors on the rows held out",
    MARGINS: "For all methods: margins",
}


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


def margin_grids(evaluation: Evaluation) -> list[Grid]:
    """Return a table of smallest margins and Wasserstein-1 distances for each classifier that has margins."""
    margins_of = signed_margins(evaluation)
    grids = []
    for classifier in dict.fromkeys(key[2] for key in margins_of):
        sizes = sorted({size for method, size, name in margins_of if method and name == classifier})
        before = [margins for (method, _, name), margins in margins_of.items() if not method and name == classifier]
        rows = []
        for margins in before:
            number = f"{margins.n_components} columns"
            rows.append((ALL_COLUMNS, number, [Entry(f"{margins.minimum:.3g}", DASH) for _ in sizes]))
        for method in evaluation.methods:
            entries = [margins_of.get((method, size, classifier)) for size in sizes]
            if any(entries):
                cells = [Entry(f"{e.minimum:.3g}", f"{e.wasserstein:.3g}") if e else Entry(DASH) for e in entries]
                rows.append((title_of(method), method, cells))
        grids.append(Grid(label(evaluation, classifier), [(f"K = {size}", "") for size in sizes], rows))
    return grids


def published_rows(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return own and published figures side by side, with reasons where they are far apart."""
    return [_published_row(evaluation, row) for row in evaluation.compared]


def _published_row(evaluation: Evaluation, row: Compared) -> dict[str, Any]:
    published = row.published.summary
    return {
        "K": str(row.own.n_components),
        "method": title_of(row.own.method),
        "classifier": row.own.classifier,
        "own": spread(row.own, digits(evaluation)),
        "published": f"{published.mean:.1f}{PLUS_MINUS}{published.deviation:.1f}",
        "standard errors apart": _signed(row.apart),
        "within two": {True: "yes", False: "no", None: DASH}[row.within],
        "column": "" if row.published.certain else "uncertain",
        "reason": row.reason,
    }


def _signed(value: float) -> str:
    if math.isnan(value):
        return DASH
    return f"{value:+.1f}" if abs(value) >= 0.05 else "0.0"


def published_words(evaluation: Evaluation) -> str:
    """Return in words how many of the PCA and M-PCA means agree with the published ones."""
    whole, certain = agreement(evaluation.compared), agreement(evaluation.compared, certain_only=True)
    source = sources_of(evaluation.published)
    said = f"Own figures, of {evaluation.dataset['uri']}, beside those of {source} for {evaluation.published}. "
    if not evaluation.compared:
        return said + "None of the published cells was evaluated here."
    if not whole.compared:
        return said + "One split has no standard error, so that nothing can be said of the differences."
    missed = [row for row in evaluation.compared if row.within is False]
    unknown = sum(not row.explained for row in missed)
    undecided = f", and {whole.open} more may be, as published ones are rounded" if whole.open else ""
    return (
        f"{said}Of the {whole.compared} means of PCA and M-PCA, {whole.within} ({whole.share:.0%}) are within two "
        f"combined standard errors{undecided}. Of the {certain.compared} in columns that are certain, {certain.within} "
        f"are. Of all {len(evaluation.compared)} cells, {len(missed)} miss by more, {unknown} of them for no "
        "reason that was measured on this data set. Published figures are rounded to a tenth of a percent."
    )
