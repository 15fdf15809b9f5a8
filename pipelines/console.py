"""Terminal output: progress, tables, summaries, one line for a mistake."""

from __future__ import annotations

import re
import tempfile
import webbrowser
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pydantic_core
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from mmpca_dist.compile_notice import COMPILING
from mmpca_dist.durations import time_left
from mmpca_dist.jobs.events import Callback, StageLines

if TYPE_CHECKING:
    from mmpca_dist.results.result import Result
    from mmpca_dist.runs.checked_table import TableCheck
    from mmpca_dist.runs.compare_runs import Comparison
    from mmpca_dist.runs.listing import RunState


WHOLE_NAMES, WIDE = 16, 100
"""Letters of a name in the first column of a table that are not broken over lines; columns of a wide terminal."""
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that a terminal obeys, or that turn the direction of writing."""


def visible(text: str) -> str:
    """Return text from data or settings with control characters written out, such as ``\\x1b``."""
    return CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


class Terminal(Console):
    """A console that shows the control characters of texts rather than sending them, and draws as its output can."""

    verbose = False
    """Whether every pass is told."""

    @property
    def encoding(self) -> str:
        """The encoding of the output, by which tables are drawn in ASCII; rich takes UTF-8 for standard output."""
        return (getattr(self.file, "encoding", None) or "utf-8").lower()

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(visible(one) if isinstance(one, str) else one for one in objects), **options)


console = Terminal()
errors = Terminal(stderr=True)


class ProgressBar:
    """Shows how far a stage is as a bar on a terminal."""

    def __init__(self, console: Console, stage: str) -> None:
        self._stage = stage
        self._progress = Progress(
            TextColumn("{task.description:<22}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            console=console, transient=True,
        )  # fmt: skip
        self._progress.start()
        self._task = self._progress.add_task(stage, total=None)

    def begin_pass(self, name: str) -> None:
        self._progress.reset(self._task, description=f"{self._stage}: {name}", total=None)

    def update(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total)

    def close(self) -> None:
        self._progress.stop()


SILENT = StageLines(lambda line: None, "")
"""Shows nothing, between stages."""


class ConsoleCallback(Callback):
    """Progress bars on a terminal; elsewhere a plain line every few seconds."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.notes: list[str] = []
        self.alarmed = False
        self.heading: str | None = None
        """Printed before the first stage, of work that has not been refused."""
        self._progress: ProgressBar | StageLines = SILENT
        self._sweep = ""

    def on_page(self, address: str) -> None:
        print_text(self.console, f"Flow run: {address}")

    def on_cluster(self, dashboard: str) -> None:
        print_text(self.console, f"Dask dashboard: {dashboard}")

    def on_plan(self, plan: Any) -> None:
        self.close()
        self.console.print(plan_table(plan.rows()))

    def on_stage_start(self, stage: str) -> None:
        self.close()
        self._sweep = ""
        if self.heading is not None:
            print_text(self.console, self.heading)
            self.heading = None
        if self.console.is_terminal:
            self._progress = ProgressBar(self.console, stage)
        else:
            self._progress = StageLines(lambda line: print_text(self.console, f"  {line}"), stage)

    def on_pass(self, stage: str, name: str) -> None:
        if getattr(self.console, "verbose", False):
            print_text(self.console, f"  {stage}: {name}", style="dim")
        self._progress.begin_pass(f"{name} (after {self._sweep})" if self._sweep else name)

    def on_sweep(self, stage: str, words: str) -> None:
        self._sweep = words

    def on_compile(self, stage: str) -> None:
        print_text(self.console, f"  {stage}: {COMPILING}")

    def on_progress(self, stage: str, done: int, total: int) -> None:
        self._progress.update(done, total)

    def on_expected(self, stage: str, seconds: float) -> None:
        print_text(self.console, f"  {stage}: {time_left(seconds)}, by the time of the first splits")

    def on_stage_end(self, stage: str, record: Mapping[str, Any], reused: bool) -> None:
        self.close()
        note = "already done" if reused else f"{record.get('seconds', 0.0):.2f} s"
        tick = "+" if self.console.options.ascii_only else "✓"
        self.console.print(f"  [green]{tick}[/] {stage:<10} {note}", highlight=False)
        for line in record.get("found", []):
            print_text(self.console, f"    {line}", soft_wrap=False)

    def on_note(self, message: str) -> None:
        self.notes.append(message)
        print_text(self.console, f"  note: {message}", style="yellow")

    def on_alarm(self, job: str, dataset: str, words: str) -> None:
        self.alarmed = True

    def close(self) -> None:
        """Remove the progress bar, and print no more lines."""
        self._progress.close()
        self._progress = SILENT


def print_json(value: Any) -> None:
    """Print plain values as JSON on standard output, with null in the place of NaN."""
    click.echo(pydantic_core.to_json(value, indent=2, inf_nan_mode="null", fallback=str))


def print_text(console: Console, text: str, **options: Any) -> None:
    """Print text as it is: no markup, no highlights and, unless ``soft_wrap=False``, no broken lines."""
    console.print(text, **{"highlight": False, "markup": False, "soft_wrap": True, **options})


def runs_table(runs: list[RunState], folder: str) -> Table:
    """Return the runs in a folder and how far they are, as a table; names are those within the folder."""
    from dask.utils import format_bytes

    from mmpca_dist.stores import storage

    root = storage.normalize(folder)
    rows = [
        {
            "run": run.uri.removeprefix(root).strip("/") or folder,
            "state": run.words,
            "data set": run.dataset,
            "methods": ", ".join(run.methods),
            "scratch": format_bytes(run.scratch),
        }
        for run in runs
    ]
    return rows_table(f"Runs in {folder}", rows)


def print_check(checked: TableCheck) -> None:
    """Print what a table holds, and a use of each column."""
    for line in checked.lines():
        print_text(console, line)
    if checked.uses:
        hidden = ("type", "values") if console.width < WIDE else ()
        rows = [{name: value for name, value in use.row().items() if name not in hidden} for use in checked.uses]
        console.print(rows_table("Columns", rows))
    if checked.remedies:
        print_text(console, "The configuration sees to what a run would refuse:")
    for line in checked.remedies:
        print_text(console, f"  {line}")


def plan_table(rows: list[Any]) -> Table:
    """Return a plan as a table for a terminal."""
    table = rows_table("Plan: what the work is expected to need", [{"what": a, "planned": b} for a, b in rows])
    table.show_header = False
    return table


def rows_table(title: str, rows: list[dict[str, Any]]) -> Table:
    """Return records as a table for a terminal."""
    table = Table(title=escape(title), title_justify="left")
    for i, name in enumerate(rows[0]):
        widest = max(len(visible(str(row[name]))) for row in rows)
        table.add_column(_cell(name), overflow="fold", no_wrap=i == 0 and widest <= WHOLE_NAMES)
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    return table


def _cell(value: object) -> str:
    return escape(visible(str(value)))


def print_result(result: Result, printed: Collection[str] = ()) -> None:
    """Print what came out of a run or an evaluation, with the notes that were not printed while it ran."""
    first, *others = result.lead
    print_text(console, first, style="bold")
    for line in (" ".join(others), *(f"  {command}" for command in result.commands), *result.words):
        if line:
            print_text(console, line)
    console.print(rows_table(result.title, result.rows))
    if result.legend:
        print_text(console, result.legend, style="dim", soft_wrap=False)
    for note in result.notes:
        if note not in printed:
            print_text(console, f"  note: {note}", style="yellow", soft_wrap=False)
    if result.report is not None:
        print_text(console, f"\nReport: {result.report['html']}")


def print_differences(comparison: Comparison) -> None:
    """Print what differs between runs as two tables, and its notes."""
    print_text(console, "; ".join(f"{letter}: {name}" for letter, name in comparison.runs.items()))
    for title, rows in comparison.tables().items():
        if rows:
            console.print(rows_table(title, rows))
        else:
            print_text(console, f"{title}: none")
    for note in comparison.notes:
        print_text(console, note, style="dim", soft_wrap=False)


def open_page(html: str, name: str, file: str | None = None) -> None:
    """Write a page, to a temporary file unless one is named, and open it in the browser."""
    page = Path(file or Path(tempfile.mkdtemp(prefix=f"mmpca-{name}-")) / "index.html").resolve()
    page.write_text(html, encoding="utf-8")
    print_text(console, f"Page: {page}")
    open_report(str(page))


def open_report(address: str) -> None:
    """Open the report of a finished run or evaluation in the browser; download one that is not on this machine."""
    from mmpca_dist.stores import storage

    page = Path(address)
    if not storage.is_local(address):
        page = Path(tempfile.mkdtemp(prefix="mmpca-report-")) / "index.html"
        page.write_bytes(storage.read_bytes(address))
        print_text(console, f"Downloaded to {page}")
    if not webbrowser.open(page.as_uri()):
        print_text(console, f"No browser was found. Open this file in one: {page}")
