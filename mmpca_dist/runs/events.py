"""What a run tells the world: a callback with methods that do nothing until they are overridden."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Callback:
    """Base of whoever watches a run: progress bars, artifacts, logs."""

    def on_cluster(self, dashboard: str) -> None:
        """Hear the address of the dashboard of the cluster that works."""

    def on_plan(self, plan: Any) -> None:
        """Hear the plan, before anything heavy runs."""

    def on_stage_start(self, stage: str) -> None:
        """Hear that a stage begins."""

    def on_pass(self, stage: str, name: str) -> None:
        """Hear that a pass over the rows begins within a stage."""

    def on_compile(self, stage: str) -> None:
        """Hear that a stage compiles its inner loops, which happens once per machine."""

    def on_progress(self, stage: str, done: int, total: int) -> None:
        """Hear how many spans of the present pass are done."""

    def on_expected(self, stage: str, seconds: float) -> None:
        """Called with the seconds that a stage is expected to take still, once its first splits are done."""

    def on_stage_end(self, stage: str, manifest: dict[str, Any], reused: bool) -> None:
        """Hear that a stage is done, or that its results were already there."""

    def on_note(self, message: str) -> None:
        """Hear something the user should know."""


class Callbacks(Callback):
    """Passes everything on to several callbacks."""

    def __init__(self, callbacks: Iterable[Callback] = ()) -> None:
        self._callbacks = list(callbacks)

    def on_cluster(self, dashboard: str) -> None:
        for callback in self._callbacks:
            callback.on_cluster(dashboard)

    def on_plan(self, plan: Any) -> None:
        for callback in self._callbacks:
            callback.on_plan(plan)

    def on_stage_start(self, stage: str) -> None:
        for callback in self._callbacks:
            callback.on_stage_start(stage)

    def on_pass(self, stage: str, name: str) -> None:
        for callback in self._callbacks:
            callback.on_pass(stage, name)

    def on_compile(self, stage: str) -> None:
        for callback in self._callbacks:
            callback.on_compile(stage)

    def on_progress(self, stage: str, done: int, total: int) -> None:
        for callback in self._callbacks:
            callback.on_progress(stage, done, total)

    def on_expected(self, stage: str, seconds: float) -> None:
        for callback in self._callbacks:
            callback.on_expected(stage, seconds)

    def on_stage_end(self, stage: str, manifest: dict[str, Any], reused: bool) -> None:
        for callback in self._callbacks:
            callback.on_stage_end(stage, manifest, reused)

    def on_note(self, message: str) -> None:
        for callback in self._callbacks:
            callback.on_note(message)
