"""What the steps of an evaluation take, in seconds and bytes: by method, or by what serves them all."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from mmpca_dist.reducers.methods import METHODS
from mmpca_dist.statistics.sample import OnPass

Item = TypeVar("Item")

MOMENTS, ERRORS, MARGINS = "moments", "errors", "margins"
"""What serves all methods: the statistics of rows that train, and what is measured on those held out."""

OF_MEDIANS = next(name for name, method in METHODS.items() if method.needs_medians)
OF_PAIRS = next(name for name, method in METHODS.items() if method.needs_pairs)
"""The methods that passes are made for which no other has a use of."""


class Meter:
    """Charges time to one thing after the other, and to each the bytes of the passes that are made for it.

    Parameters
    ----------
    watcher : callable, optional
        Told of every pass.

    Attributes
    ----------
    seconds, n_bytes : dict
        By what they are charged to.
    """

    def __init__(self, watcher: OnPass | None = None) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.n_bytes: dict[str, int] = defaultdict(int)
        self._watcher = watcher
        self._what = MOMENTS
        self._since = time.perf_counter()

    def turn(self, what: str) -> str:
        """Charge the time from now on to something, and return what it was charged to before."""
        now, before = time.perf_counter(), self._what
        self.seconds[before] += now - self._since
        self._what, self._since = what, now
        return before

    def passes(self, what: str, others: Mapping[str, str] | None = None) -> OnPass:
        """Return who is told of passes that are made for something; those of some names are for others."""

        def told(name: str, n_bytes: int) -> None:
            self.turn((others or {}).get(name, what))
            self.n_bytes[self._what] += n_bytes
            if self._watcher is not None:
                self._watcher(name, n_bytes)

        return told

    def shares(
        self, solving: Sequence[Mapping[str, float]], judging: Sequence[Mapping[str, float]]
    ) -> list[dict[str, float]]:
        """Return the seconds of every part that is held out: its own, and its share of what served all of them.

        Parameters
        ----------
        solving, judging : sequence of dict
            For every part, what each method took of the time for moments, and for errors.
        """
        together = {**dict.fromkeys((MOMENTS, ERRORS, MARGINS), 0.0), **self.seconds}
        together[MOMENTS] -= sum(sum(own.values()) for own in solving)
        together[ERRORS] -= sum(sum(own.values()) for own in judging)
        found = []
        for own, judged in zip(solving, judging, strict=True):
            names = dict.fromkeys([*together, *own, *judged])
            found.append(
                {
                    name: together.get(name, 0.0) / len(solving) + own.get(name, 0.0) + judged.get(name, 0.0)
                    for name in names
                }
            )
        return found

    def charged(self, what: str, items: Iterable[Item]) -> Iterator[Item]:
        """Yield items, whose making is charged to something, and nothing else."""
        remaining = iter(items)
        while True:
            before = self.turn(what)
            try:
                item = next(remaining)
            except StopIteration:
                return
            finally:
                self.turn(before)
            yield item
