"""What the steps of an evaluation take, in seconds and bytes: by method, or by what serves them all."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from mmpca_dist.reducers.methods import METHODS
from mmpca_dist.statistics.sample import OnPass

Item = TypeVar("Item")

MOMENTS, ERRORS, MARGINS = "moments", "errors", "margins"
"""What serves all methods: the statistics of rows that train, and what is measured on those held out."""

OF_MEDIANS = next(name for name, method in METHODS.items() if method.needs_medians)
OF_PAIRS = next(name for name, method in METHODS.items() if method.needs_pairs)
"""The methods that have passes of their own while statistics are gathered."""

_GATHERING = {"sample": OF_MEDIANS, "medians": OF_MEDIANS}


class Meter:
    """Charges time, and the bytes of passes, to one thing after the other: first to moments.

    Parameters
    ----------
    watcher : callable, optional
        Told of every pass.

    Attributes
    ----------
    seconds, n_bytes : dict
        By what they are charged to; seconds up to the last turn.
    """

    def __init__(self, watcher: OnPass | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self.n_bytes: dict[str, int] = {}
        self._watcher = watcher
        self._what = MOMENTS
        self._since = time.perf_counter()

    def turn(self, what: str) -> str:
        """Charge what comes from now on to something, and return what it was charged to before."""
        now, before = time.perf_counter(), self._what
        self.seconds[before] = self.seconds.get(before, 0.0) + now - self._since
        self._what, self._since = what, now
        return before

    @contextmanager
    def charging(self, what: str) -> Iterator[None]:
        """Charge what happens within to something."""
        before = self.turn(what)
        try:
            yield
        finally:
            self.turn(before)

    def charged(self, what: str, items: Iterable[Item]) -> Iterator[Item]:
        """Yield items, whose making is charged to something, and nothing else."""
        remaining = iter(items)
        while True:
            with self.charging(what):
                try:
                    item = next(remaining)
                except StopIteration:
                    return
            yield item

    def on_pass(self, name: str, n_bytes: int) -> None:
        """Charge the bytes of a pass; those for medians among the moments begin a turn of their own."""
        if n_bytes:
            if self._what in (MOMENTS, OF_MEDIANS):
                self.turn(_GATHERING.get(name, MOMENTS))
            self.n_bytes[self._what] = self.n_bytes.get(self._what, 0) + n_bytes
        if self._watcher is not None:
            self._watcher(name, n_bytes)
