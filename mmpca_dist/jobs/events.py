"""``Callback``: the events of a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any


class Callback:
    """Base of progress bars, artifacts and logs: all methods do nothing by default."""

    def on_cluster(self, dashboard: str) -> None:
        """Called with the dashboard's URL of the cluster."""

    def on_plan(self, plan: Any) -> None:
        """Called with the plan, before anything heavy runs."""

    def on_stage_start(self, stage: str) -> None:
        """Called as a stage begins."""

    def on_pass(self, stage: str, name: str) -> None:
        """Called as a pass over the rows begins."""

    def on_sweep(self, stage: str, words: str) -> None:
        """Called after each sweep of a fit, with how far it is in words."""

    def on_compile(self, stage: str) -> None:
        """Called as a stage compiles its inner loops, once per machine."""

    def on_progress(self, stage: str, done: int, total: int) -> None:
        """Called with the number of finished spans of the current pass."""

    def on_expected(self, stage: str, seconds: float) -> None:
        """Called with the expected remaining seconds of a stage, after its first splits."""

    def on_stage_end(self, stage: str, record: Mapping[str, Any], reused: bool) -> None:
        """Called as a stage ends; ``reused`` says that its results were already there."""

    def on_note(self, message: str) -> None:
        """Called with a note for the user."""


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
