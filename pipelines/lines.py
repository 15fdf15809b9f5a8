"""Progress as plain lines, for log files and pipes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from mmpca_dist.durations import duration, time_left

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
