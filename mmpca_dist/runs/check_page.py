"""The page of ``mmpca check``: the columns of a table as ``TableCheck`` has them, those with alerts first."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

import numpy as np

from mmpca_dist.column_words import PERSONAL
from mmpca_dist.errors import plural
from mmpca_dist.pictures.chart import gauge, sparkline
from mmpca_dist.pictures.frame import Field, Heading, PagePart, PrintedTable
from mmpca_dist.report.pages import page
from mmpca_dist.results.dataset_tables import bars
from mmpca_dist.results.forms import written
from mmpca_dist.runs.checked_table import HEAVY, LABEL, LEFT_OUT, ColumnRole, TableCheck
from mmpca_dist.runs.draft import suggested_yaml
from mmpca_dist.statistics.telling_columns import telling_notes

MAX_ROWS, MAX_UNNAMED = 2_000, 20
"""Rows of a table on the page, and columns of an array, of which those with most of the scatter are shown."""
ABOUT = (
    "Histograms are of numbers between the ends that are named, or of the most frequent values, with a grey bar for "
    "all others, cut at the tallest. Those of numbers count all rows of a small table, and rows at even distances of a "
    "large one. Values that may say who somebody is are not shown here. The scatter is that of all features before "
    "columns are standardised. Of the classes, a column tells the share of their variance that lies between its "
    "levels, or between the parts of the best splits."
)
COLUMN, VALUES, USE = Heading("column", "head"), Heading("values", "picture"), Heading("what would be done")


def check_page(checked: TableCheck, output: str | None = None) -> str:
    """Return a page on a table that was checked as one HTML document.

    ``output`` is the file of the configuration, where there is one. The page reads no rows: its numbers are those of
    ``checked.to_json()``.
    """
    classes, alerts, uses = dict(sorted(checked.classes.items())), checked.alerts, checked.uses
    in_alerts = telling_notes(checked.telling)
    dataset = {
        "uri": checked.uri, "n_rows": checked.n_rows, "n_features": checked.n_features, "classes": [*classes],
        "counts": [checked.n_rows - checked.n_unlabelled] if checked.predicts else [*classes.values()],
        **({"targets": [checked.label]} if checked.predicts else {}),
    }  # fmt: skip
    notes = [note for note in checked.notes if note not in in_alerts]
    config = "" if checked.refused else suggested_yaml(checked)
    lead = " ".join(f"{line}." for line in checked.remedies[sum(use.refused for use in uses) :])
    values = {use.column.name: _values(use) for use in uses}
    found = [(one["column"], values.get(one["column"], ""), Field(mark=one["alert"]), one["reason"], one["use"])
             for one in alerts]  # fmt: skip
    headings = [COLUMN, VALUES, Heading("alert", "name"), Heading("what was found"), USE]
    return page(
        "Check",
        dataset,
        [PagePart("alerts", "Columns to look at", lead=[lead or "Nothing."] if lead or not found else [],
                  tables=[_table(headings, found)] if found else []),
         _columns(checked, values) if uses else _unnamed(checked)],
        {**({"column": len(uses)} if uses else {}), "alert": len(alerts)},
        notes=notes, config=config, answer=_answer(checked, output), about_config="as mmpca check writes it with -o",
    )  # fmt: skip


def _answer(checked: TableCheck, output: str | None) -> PagePart:
    if checked.refused:
        return PagePart("answer", "", lead=["This table cannot be run as it is.", *checked.refused])
    label = checked.label or ""
    write = f"mmpca check {shlex.quote(checked.uri)}{f' --label {shlex.quote(label)}' * bool(label)} -o my.yaml\n"
    run = f"{'' if output else write}mmpca run {shlex.quote(output or 'my.yaml')}"
    made, left_out = plural(checked.n_features, "feature"), len(checked.of_use(LEFT_OUT))
    used = f"makes {made} and leaves out {plural(left_out, 'column')}" if left_out else f"makes {made}"
    heavy = [f"{one['column']} alone holds {one['reason']}." for one in checked.alerts if one["alert"] == HEAVY]
    lead = [f"A run {used}.", *heavy[:1], *([f"The label is {label}, {checked.why}."] if label else [])]
    aim = "Run it:" if output else "Write a configuration and run it:"
    return PagePart("answer", "", lead=lead, commands={aim: run})


def _values(use: ColumnRole) -> Field:
    """Return the histogram of a column and its ends or most frequent values, but no texts that may name somebody."""
    column, heights = use.column, use.column.bars
    hidden = PERSONAL.search(column.name) or not (use.n_features or column.is_number)
    words = "not shown" if hidden and use.what != LABEL and column.n_distinct > 1 else use.row()["values"]
    rest = not column.is_number and len(heights) < column.n_distinct
    return Field("", [words] if words else [], picture=sparkline(heights, rest) if heights else None)


def _columns(checked: TableCheck, values: Mapping[str, Field]) -> PagePart:
    numbers = [Heading(name, "number") for name in ("different", "missing", "of the scatter", "tells of classes")]
    marks: dict[str, list[str]] = {}
    for one in checked.alerts:
        marks.setdefault(one["column"], []).extend([one["alert"]] if one["alert"] != LEFT_OUT else [])
    rows = []
    for each, use in zip(checked.to_json()["columns"], checked.uses, strict=True):
        name, lost = each["column"], each["missing"] / max(checked.n_rows, 1)
        rows.append([
            name, each["type"], values[name], use.column.distinct,
            Field(f"{each['missing']:,}", [written("share", lost)] if lost else []),
            *map(_share, (each["scatter"], each["tells"])),
            Field(use.what, [use.reason] if use.reason else [], ", ".join(marks.get(name, ()))),
        ])  # fmt: skip
    table = _table([COLUMN, Heading("type", "kind"), VALUES, *numbers, USE], rows)
    return PagePart("columns", "All columns", [ABOUT], tables=[table])


def _unnamed(checked: TableCheck) -> PagePart:
    """Return the columns of an array, of which no more is known than their scatter."""
    scatter = np.array(checked.scatter)
    largest = np.argsort(-scatter, kind="stable")[:MAX_UNNAMED]
    shares = (written("share", share) for share in scatter[largest])
    rows = list(zip(map(str, largest), shares, bars(scatter[largest]), strict=True))
    words = f"Of {plural(len(scatter), 'column')}, {np.sum(scatter == 0):,} are the same in all rows."
    headings = [Heading("no.", "number"), Heading("of the scatter", "number"), Heading("", "bar")]
    return PagePart("columns", "Columns with most of the scatter", [words], tables=[PrintedTable(headings, rows)])


def _share(share: float | None) -> Field:
    return Field(written("share", share), picture=None if share is None else gauge(share))


def _table(headings: Sequence[Heading], rows: Sequence[Sequence[Field | str]]) -> PrintedTable:
    below = f"These are the first {MAX_ROWS:,} of {len(rows):,}; mmpca check --json lists all."
    return PrintedTable(headings, rows[:MAX_ROWS], below=below if len(rows) > MAX_ROWS else "")
