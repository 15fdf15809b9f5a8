"""Print summaries of runs and evaluations."""

from __future__ import annotations

from collections.abc import Collection

from rich.console import Console

from .console import components_table, print_note, rows_table


def print_summary(console: Console, output: str, told: Collection[str] = ()) -> None:
    """Print the summary of a run, with the notes that were not told while it ran."""
    from mmpca_dist.runs.summary import choice, components, headline, legend, notes, report_of, searches

    console.print(headline(output), highlight=False, markup=False)
    rows = components(output)
    console.print(components_table(rows))
    console.print(legend(output), style="dim", highlight=False, markup=False)
    for line in (choice(output), *searches(output)):
        if line is not None:
            console.print(line, highlight=False, markup=False)
    _end(console, notes(output), told, report_of(output))


def print_comparison(console: Console, output: str, told: Collection[str] = ()) -> None:
    """Print the summary of an evaluation, with the notes that were not told while it ran."""
    from mmpca_dist.evaluation_runs.results import error_rows, headline_of, notes_of, report_of

    console.print(headline_of(output), highlight=False, markup=False, soft_wrap=True)
    console.print(rows_table("Errors in percent: mean (standard deviation) over splits", error_rows(output)))
    _end(console, notes_of(output), told, report_of(output))


def _end(console: Console, notes: list[str], told: Collection[str], report: str | None) -> None:
    for note in notes:
        if note not in told:
            print_note(console, note, wrapped=True)
    if report is not None:
        console.print(f"\nReport: {report}", highlight=False, markup=False, soft_wrap=True)
