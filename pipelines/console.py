"""Terminal output: progress, tables, summaries, one line for a mistake."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from mmpca_dist.durations import duration, time_left
from mmpca_dist.jobs.events import Callback

SECONDS = 10.0
"""Between two lines."""


class ProgressLines:
    """Prints every few seconds how far a stage is: the pass, units done, time since the stage began, and time left.

    Parameters
    ----------
    print_line : callable
        Called from another thread.
    """

    def __init__(self, print_line: Callable[[str], None], stage: str) -> None:
        self._print, self._stage, self._name = print_line, stage, ""
        self._done = self._total = 0
        self._begin = self._pass_begin = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress lines", daemon=True)
        self._thread.start()

    def begin_pass(self, name: str) -> None:
        """Count anew from here on."""
        self._name, self._done, self._total, self._pass_begin = name, 0, 0, time.monotonic()

    def update(self, done: int, total: int) -> None:
        """Take down how many units of the pass are done."""
        self._done, self._total = done, total

    def close(self) -> None:
        """Print no more; a line that waits for a terminal or file is not waited for longer than a second."""
        self._stop.set()
        self._thread.join(1)

    def line(self) -> str:
        """Return the line of this moment."""
        now, done, total = time.monotonic(), self._done, self._total
        parts = [f"{self._stage}: {self._name}" if self._name else self._stage]
        if total:
            parts.append(f"{done:,} of {total:,} ({100 * done // total}%)")
        parts.append(duration(now - self._begin))
        if 0 < done < total:
            parts.append(time_left((now - self._pass_begin) * (total - done) / done))
        return ", ".join(parts)

    def _run(self) -> None:
        while not self._stop.wait(SECONDS):
            self._print(self.line())


if TYPE_CHECKING:
    from mmpca_dist.runs.listing import RunState

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What a terminal obeys, and what turns the direction of writing."""


def visible(text: str) -> str:
    """Return text from data or settings with control characters written out, such as ``\\x1b``."""
    return CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


class Terminal(Console):
    """A console that shows the control characters of texts rather than sending them."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(visible(one) if isinstance(one, str) else one for one in objects), **options)


class ConsoleCallback(Callback):
    """Progress bars on a terminal; elsewhere a plain line every few seconds."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.notes: list[str] = []
        self.heading: str | None = None
        """Printed before the first stage, of work that has not been refused."""
        self._bars: Progress | None = None
        self._task: TaskID | None = None
        self._lines: ProgressLines | None = None

    def on_cluster(self, dashboard: str) -> None:
        self.console.print(f"Dask dashboard: {dashboard}", highlight=False, markup=False)

    def on_plan(self, plan: Any) -> None:
        self.close()
        self.console.print(plan_table(plan.rows()))

    def on_stage_start(self, stage: str) -> None:
        self.close()
        if self.heading is not None:
            self.console.print(self.heading, highlight=False, markup=False)
            self.heading = None
        if self.console.is_terminal:
            self._bars = Progress(
                TextColumn("{task.description:<22}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                console=self.console, transient=True,
            )  # fmt: skip
            self._bars.start()
            self._task = self._bars.add_task(stage, total=None)
        else:
            self._lines = ProgressLines(self._plain, stage)

    def on_pass(self, stage: str, name: str) -> None:
        if self._bars is not None and self._task is not None:
            self._bars.reset(self._task, description=f"{stage}: {name}", total=None)
        if self._lines is not None:
            self._lines.begin_pass(name)

    def on_compile(self, stage: str) -> None:
        self.console.print(f"  {stage}: compiling its inner loops, once per machine", highlight=False, markup=False)

    def on_progress(self, stage: str, done: int, total: int) -> None:
        if self._bars is not None and self._task is not None:
            self._bars.update(self._task, completed=done, total=total)
        if self._lines is not None:
            self._lines.update(done, total)

    def on_expected(self, stage: str, seconds: float) -> None:
        self._plain(f"{stage}: {time_left(seconds)}, by the time of the first splits")

    def _plain(self, line: str) -> None:
        self.console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)

    def on_stage_end(self, stage: str, record: Mapping[str, Any], reused: bool) -> None:
        self.close()
        note = "already done" if reused else f"{record.get('seconds', 0.0):.2f} s"
        self.console.print(f"  [green]✓[/] {stage:<10} {note}", highlight=False)
        for line in record.get("found", []):
            self.console.print(f"    {line}", highlight=False, markup=False)

    def on_note(self, message: str) -> None:
        self.notes.append(message)
        print_note(self.console, message)

    def close(self) -> None:
        """Take progress bars off the terminal, and print no more lines."""
        if self._lines is not None:
            self._lines.close()
            self._lines = None
        if self._bars is not None:
            self._bars.stop()
            self._bars = self._task = None


def print_note(console: Console, message: str, *, wrapped: bool = False) -> None:
    """Print something that the user should know; unless wrapped, addresses in it stay whole."""
    console.print(f"  note: {message}", style="yellow", highlight=False, markup=False, soft_wrap=not wrapped)


def runs_table(runs: list[RunState], folder: str) -> Table:
    """Return the runs in a folder and how far they are, as a table; names are those within the folder."""
    from dask.utils import format_bytes

    from mmpca_dist.datasets.stores import storage

    table = Table(title=f"Runs in {escape(folder)}", title_justify="left")
    for name in ("run", "state", "data set", "methods", "scratch"):
        table.add_column(name, overflow="fold")
    for run in runs:
        name = run.uri.removeprefix(storage.normalize(folder)).strip("/") or folder
        shown = (name, run.words, run.dataset, ", ".join(run.methods), format_bytes(run.scratch))
        table.add_row(*map(_cell, shown))
    return table


def plan_table(rows: list[Any]) -> Table:
    """Return the plan as a table."""
    table = Table(title="Plan", show_header=False, title_justify="left")
    for name, value in rows:
        table.add_row(_cell(name), _cell(value))
    return table


def components_table(rows: list[dict[str, Any]]) -> Table:
    """Return one row a method."""
    return rows_table("Components", rows)


def rows_table(title: str, rows: list[dict[str, Any]]) -> Table:
    """Return rows with the same keys as a table."""
    table = Table(title=title, title_justify="left")
    for name in rows[0]:
        table.add_column(_cell(name), overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    return table


def _cell(value: object) -> str:
    return escape(visible(str(value)))


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
