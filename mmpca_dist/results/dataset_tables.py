"""The table in words: its classes or numbers to predict, its gaps; and how long the stages took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mmpca_dist.errors import plural
from mmpca_dist.pictures.frame import Heading, PagePart, PrintedTable
from mmpca_dist.results.forms import written
from mmpca_dist.tables.column_faults import gaps_by_column

ABOUT_TIMES = (
    "What each stage took, {} together. Not counted are the start of the command and of servers, the conversion of "
    "text, this report, and what was done of a stage before it was broken off."
)
MAX_CLASSES = 20
"""Classes that are listed; of more only the largest are, in a table that folds away."""


def stages_part(stages: Mapping[str, float]) -> PagePart:
    """Return the seconds of each stage as a table."""
    about = ABOUT_TIMES.format(written("time", sum(stages.values())))
    columns = [Heading("stage"), Heading("time", "number"), Heading("", "bar")]
    rows = zip(stages, (written("time", seconds) for seconds in stages.values()), bars(stages.values()), strict=True)
    return PagePart("run", "The run", [about], tables=[PrintedTable(columns, list(rows))])


def table_parts(dataset: Mapping[str, Any]) -> list[PagePart]:
    """Return the classes of a table, or its numbers to predict, and how much is missing of its columns."""
    title = "Numbers to predict" if "targets" in dataset else "Classes"
    return [PagePart("classes", title, tables=[_classes_table(dataset)]), *_gaps_part(dataset)]


def bars(values: Iterable[float]) -> list[str]:
    """Return numbers as percentages of the largest, for columns of bars."""
    numbers = list(values)
    longest = max(numbers, default=0) or 1e-9
    return [f"{100 * number / longest:.1f}" for number in numbers]


def _gaps_part(dataset: Mapping[str, Any]) -> list[PagePart]:
    """Return how much is missing of the columns that lack most, where any do."""
    worst = gaps_by_column(dataset.get("missing") or [], dataset.get("feature_names"))
    if not worst:
        return []
    shown = worst[:MAX_CLASSES]
    rows = [
        (name, f"{count:,}", written("share", count / dataset["n_rows"]), length)
        for (name, count), length in zip(shown, bars(count for _, count in shown), strict=True)
    ]
    about = (
        f"{plural(len(worst), 'column')} with missing values, for which the mean of the others stands: it shrinks the "
        f"variance of a column by the share that is missing.{' The worst are:' if len(worst) > len(shown) else ''}"
    )
    columns = [Heading("column"), Heading("missing", "number"), Heading("share", "number"), Heading("", "bar")]
    return [PagePart("gaps", "Missing values", [about], tables=[PrintedTable(columns, rows)])]


def _classes_table(dataset: Mapping[str, Any]) -> PrintedTable:
    counts, weights = dataset["counts"], dataset.get("weights")
    names = [", ".join(dataset["targets"])] if "targets" in dataset else dataset["classes"]
    amounts = weights or counts
    total, lengths, hidden = sum(amounts) or 1, bars(amounts), len(counts) - MAX_CLASSES
    listed: Sequence[int] = range(len(counts))
    if hidden > 0:
        listed = sorted(listed, key=lambda i: -amounts[i])[:MAX_CLASSES]
    numbers = [Heading(name, "number") for name in ("rows", *(["weight"] if weights else []), "share")]
    outcome = Heading("target" if "targets" in dataset else "class")
    columns = [Heading("no.", "number"), outcome, *numbers, Heading("", "bar")]
    rows = [
        (str(i), names[i], f"{counts[i]:,}", *([f"{weights[i]:,.6g}"] if weights else []),
         written("share", amounts[i] / total), lengths[i])
        for i in listed
    ]  # fmt: skip
    if hidden <= 0:
        return PrintedTable(columns, rows)
    return PrintedTable(columns, rows, "The largest classes", f"of {len(names):,}", opens=False)
