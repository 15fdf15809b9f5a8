"""Seconds and bytes of an evaluation, by method."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.passes.tree_reduction import OnPass

Item = TypeVar("Item")

MOMENTS, ERRORS, MARGINS = "moments", "errors", "margins"
"""Work that serves all methods: the statistics of rows that train, and measures of those held out."""

MEDIANS = "medians"
_PASSES_FOR_MEDIANS = ("sample", "medians")


def owners_of(methods: Mapping[str, MomentReducer]) -> dict[Hashable, str]:
    """Map each median, search and sweep to the one method that uses it, or to ``MOMENTS`` if several do."""
    users: dict[Hashable, list[str]] = {}
    for label, reducer in methods.items():
        needs = reducer.needs()
        for need in (*([MEDIANS] if needs.medians else []), *needs.searches, *needs.swept):
            users.setdefault(need, []).append(label)
    return {need: labels[0] if len(labels) == 1 else MOMENTS for need, labels in users.items()}


class Meter:
    """Charges time, and the bytes of passes, to one thing after the other: first to moments.

    ``seconds``, up to the last turn, and ``n_bytes`` are by what they are charged to. ``watcher`` is called at every
    pass; ``owners`` are as of `owners_of`.
    """

    def __init__(self, watcher: OnPass | None = None, owners: Mapping[Hashable, str] | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self.n_bytes: dict[str, int] = {}
        self._watcher, self._owners = watcher, owners or {}
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

    def charging_owner(self, need: Hashable) -> AbstractContextManager[None]:
        """Charge what happens within to who needs a search, or sweeps."""
        return self.charging(self.owner_of(need))

    def owner_of(self, need: Hashable) -> str:
        """Return who is charged with medians, a search, or sweeps."""
        return self._owners.get(need, MOMENTS)

    def charged(self, what: str, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items; charge only the time spent producing them."""
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
            if self._what in (MOMENTS, self.owner_of(MEDIANS)):
                self.turn(self.owner_of(MEDIANS) if name in _PASSES_FOR_MEDIANS else MOMENTS)
            self.n_bytes[self._what] = self.n_bytes.get(self._what, 0) + n_bytes
        if self._watcher is not None:
            self._watcher(name, n_bytes)
