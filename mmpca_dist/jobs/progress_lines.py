"""Lines that tell how far a run is, where nobody else does: in notebooks and scripts."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from mmpca_dist.jobs.events import Callback, Callbacks

EVERY = 0.5
"""Seconds between changes of a line."""


class ProgressLines(Callback):
    """Writes a line for each stage of a run, and how far it is: ``run(config, [ProgressLines()])``.

    Runs, evaluations, transforms and refreshes in notebooks do so unless they are given other callbacks.
    """

    def __init__(self) -> None:
        self._told = time.monotonic()

    def on_progress(self, stage: str, done: int, total: int) -> None:
        """Write how far a stage is."""
        if time.monotonic() - self._told > EVERY:
            self._told = time.monotonic()
            sys.stderr.write(f"\r{stage} {done / max(total, 1):.0%}   ")
            sys.stderr.flush()

    def on_note(self, message: str) -> None:
        """Write a note."""
        sys.stderr.write(f"\rnote: {message}\n")

    def on_stage_end(self, stage: str, record: Mapping[str, Any], reused: bool) -> None:
        """Write that a stage is done."""
        words = "was done before" if reused else f"done in {record.get('seconds', 0):.1f} s"
        sys.stderr.write(f"\r{stage} {words}\n")


def told(callbacks: Sequence[Callback] | None) -> Callbacks:
    """Return callbacks as one; in notebooks lines of progress where none are given."""
    return Callbacks([ProgressLines()] if callbacks is None and "ipykernel" in sys.modules else callbacks or [])
