"""``Callback``: the events of a job; and lines that tell how far it is, where no bar does."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from mmpca_dist.durations import duration, time_left
from mmpca_dist.limits import LIMITS


class Callback:
    """Base of progress bars, artifacts and logs: all methods do nothing by default.

    A run calls them in its own process, ``on_plan`` once and the others as often as they happen.

    Examples
    --------
    >>> import tempfile
    >>> from mmpca_dist import Callback, run
    >>> class Stages(Callback):
    ...     def on_stage_end(self, stage, record, reused):
    ...         print(stage)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     settings = {"methods": "pca", "n_components": 2, "output": folder, "project": {"methods": []}}
    ...     _ = run({"dataset": {"uri": "bundled:iris"}, **settings}, [Stages()])
    count
    plan
    reduce
    solve
    project
    report
    """

    def on_cluster(self, dashboard: str) -> None:
        """Take the dashboard's URL of the cluster."""

    def on_plan(self, plan: Any) -> None:
        """Take the plan, before anything heavy runs."""

    def on_stage_start(self, stage: str) -> None:
        """Hear that a stage begins."""

    def on_pass(self, stage: str, name: str) -> None:
        """Hear that a pass over the rows begins."""

    def on_sweep(self, stage: str, words: str) -> None:
        """Hear in words how far a fit is, after each sweep."""

    def on_compile(self, stage: str) -> None:
        """Hear that a stage compiles its inner loops, once per machine."""

    def on_progress(self, stage: str, done: int, total: int) -> None:
        """Take the number of finished spans of the current pass."""

    def on_expected(self, stage: str, seconds: float) -> None:
        """Take the expected remaining seconds of a stage, after its first splits."""

    def on_stage_end(self, stage: str, record: Mapping[str, Any], reused: bool) -> None:
        """Hear that a stage ends; ``reused`` says that its results were already there."""

    def on_note(self, message: str) -> None:
        """Take a note for the user."""

    def on_alarm(self, job: str, dataset: str, words: str) -> None:
        """Hear that a refresh or a monitor (``job``) met rows that are not like those of its run."""


EVENTS = tuple(name for name in vars(Callback) if name.startswith("on_"))


class Callbacks(Callback):
    """Passes all events on to several callbacks."""

    def __init__(self, callbacks: Iterable[Callback] = ()) -> None:
        self._callbacks = list(callbacks)
        for name in EVENTS:
            setattr(self, name, partial(self._tell, name))

    def _tell(self, name: str, *arguments: Any) -> None:
        for callback in self._callbacks:
            getattr(callback, name)(*arguments)


class StageLines:
    """Says the pass of a stage, units done, time passed and time left, at most every few seconds."""

    def __init__(self, say: Callable[[str], None], stage: str, every: float | None = None) -> None:
        self._say, self._stage, self._name = say, stage, ""
        self._every = LIMITS.progress_line_seconds if every is None else every
        self._begin = self._printed = time.monotonic()
        self._first: tuple[float, int] | None = None
        """When the first units of the pass were done, and how many: none that were compiled for, or done before."""

    def begin_pass(self, name: str) -> None:
        self._name, self._first = name, None

    def update(self, done: int, total: int) -> None:
        now = time.monotonic()
        if self._first is None or done < self._first[1]:
            self._first = now, done
        if now - self._printed < self._every:
            return
        self._printed = now
        parts = [f"{self._stage}: {self._name}" if self._name else self._stage]
        parts += [f"{done:,} of {total:,} ({100 * done // total}%)", duration(now - self._begin)]
        begin, before = self._first
        if before < done < total:
            left = time_left((now - begin) * (total - done) / (done - before))
            parts.append(f"{left} of this pass" if self._name else left)
        self._say(", ".join(parts))

    def close(self) -> None:
        pass


class ProgressLines(Callback):
    """Tells of the stages of a run, and how far each is, in lines on the standard error, or the output of a notebook.

    ``run(config, [ProgressLines()])`` does so in scripts; in notebooks, runs, evaluations, transforms and refreshes do
    so unless they are given other callbacks.
    """

    def __init__(self) -> None:
        self._lines = StageLines(_say, "")

    def on_stage_start(self, stage: str) -> None:
        """Begin a stage."""
        self._lines = StageLines(_say, stage)

    def on_pass(self, stage: str, name: str) -> None:
        """Begin a pass over the rows."""
        self._lines.begin_pass(name)

    def on_progress(self, stage: str, done: int, total: int) -> None:
        """Tell how far a stage is, every few seconds."""
        self._lines.update(done, total)

    def on_note(self, message: str) -> None:
        """Tell a note."""
        _say(f"note: {message}")

    def on_stage_end(self, stage: str, record: Mapping[str, Any], reused: bool) -> None:
        """Tell that a stage is done."""
        _say(f"{stage}: {'done before' if reused else duration(record.get('seconds', 0))}")


def _say(line: str) -> None:
    (sys.stdout if "ipykernel" in sys.modules else sys.stderr).write(f"{line}\n")  # notebooks show the latter in red


def told(callbacks: Sequence[Callback] | None) -> Callbacks:
    """Return callbacks as one; in notebooks lines of progress where none are given."""
    return Callbacks([ProgressLines()] if callbacks is None and "ipykernel" in sys.modules else callbacks or [])
