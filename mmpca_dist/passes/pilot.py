"""``Pilot``: passes over their two largest units alone, on one thread, to measure what passes over all rows take."""

from __future__ import annotations

import copy
import functools
import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import log2
from typing import Any

import pyarrow as pa

from mmpca_dist.passes.checkpoint import SMALL, most_kept
from mmpca_dist.passes.schedulers import Finding, Graph, OnRows, Scheduler, SpanDone, merge_leaf, run_span
from mmpca_dist.passes.serialization import size_of
from mmpca_dist.passes.units import release
from mmpca_dist.tables.spans import Span

TRIED = 2
"""Reading units of each pass that a pilot reads."""
MOST_OF_A_KIND = 8
"""Passes of one name that a pilot makes."""


@dataclass(frozen=True)
class Footprint:
    """The memory and time of a pass over all rows, by a pilot of it; sizes in bytes."""

    name: str
    n_bytes: int
    """Of rows that the pass reads."""
    spans: int
    units: int
    held: int
    """In the process when the pass begins, since the pilot began."""
    task: int
    """The most that a task takes, its result included."""
    left: int
    """The result of a task."""
    merged: int
    """The result of two tasks."""
    merging: int
    """The most that merging them takes, besides them."""
    stored: tuple[int, int]
    """The arrays of the result of a task, and of that of two, which checkpoints keep."""
    seconds: float
    """Of all units, on one thread."""

    @property
    def checkpoints(self) -> int:
        """The most bytes of arrays that checkpoints of the pass keep; results that keep rows grow with these."""
        one, two = self.stored
        units = max(self.units // self.spans, 1)
        return most_kept(self.n_bytes, self.spans, lambda n_spans: one + (two - one) * (n_spans * units - 1))

    def memory(self, n_threads: int, seen: float) -> int:
        """Return the most that a process with so many threads takes, where two units have ``seen`` of all classes.

        Two tasks leave more than one where they have seen other classes, or keep rows.
        """
        growth = log2(min(max(self.merged / max(self.left, 1), 1.0), 2.0))
        most = self.merged / seen if seen < 1 else self.left * self.units**growth

        def left(n_units: float) -> float:
            return min(self.left * n_units**growth, most)

        own, depth = self.units / self.spans, (self.spans - 1).bit_length()
        waiting = sum(left(own * 2**level) for level in range(depth + 1))
        merging = left(self.units) * self.merging / max(self.merged, 1) if depth else 0
        return int(self.held + min(n_threads, self.spans) * (self.task - self.left + left(own)) + waiting + merging)


class EnoughError(Exception):
    """A pilot has seen a pass so often that it learns no more."""


@dataclass(eq=False)
class Pilot(Scheduler):
    """A scheduler that makes each pass over its two largest units, and keeps what that took."""

    in_process: bool = True
    n_threads = 1
    footprints: list[Footprint] = field(default_factory=list)
    between: int = 0
    """The most that the process took between passes."""
    _pass: tuple[str, int] = "", 0

    def begins(self, name: str, n_bytes: int) -> None:
        """Hear of a pass that begins."""
        self._pass = name, n_bytes

    def measured(self, task: Callable[[Span], Any], spans: Sequence[Span], merge: Callable[[Any, Any], Any]) -> Any:
        """Return what a pass over the two largest units leaves.

        The first task may import modules, which stay and take time once: of both tasks, what is left and the time are
        those of the one with less.

        Raises `EnoughError` where the pass has been made often, or is one over tables that other passes have laid out.
        """
        self.end()
        if not isinstance(task, OnRows):
            raise EnoughError
        if not task.X:  # labels and the like are read whole: others count on them
            return functools.reduce(partial(merge_leaf, merge), (run_span(task, span) for span in spans))
        if sum(each.name == self._pass[0] for each in self.footprints) == MOST_OF_A_KIND:
            raise EnoughError
        held = tracemalloc.get_traced_memory()[0]
        units = sorted((start - stop, span.index, start, stop) for span in spans for start, stop in span.units)
        results, tasks, left, seconds = [], [], [], []
        for _, index, start, stop in sorted(units[:TRIED], key=lambda unit: unit[2]):
            begin = time.perf_counter()
            result, most, kept = _measured(lambda span: run_span(task, span), Span(index, (start, stop)))
            if isinstance(result, Finding):
                return result
            share = (stop - start) / -units[0][0]
            seconds.append((time.perf_counter() - begin) / share)
            results.append(result)
            tasks.append(most)
            left.append(max(int(kept / share), size_of(result)))
        merged, merging, kept, stored = results[0], 0, left[0], size_of(results[0])
        if len(results) > 1:
            if stored < SMALL:
                merge_leaf(merge, *copy.deepcopy(results))  # a first merge may import modules, which is far more
            merged, merging, kept = _measured(merge_leaf, merge, *results)
            kept = max(kept, size_of(merged))  # other threads may have given back meanwhile
        self.footprints.append(
            Footprint(
                *self._pass, len(spans), len(units), held, max(tasks), min(left), kept, merging,
                (stored, size_of(merged)), min(seconds) * len(units),
            )
        )  # fmt: skip
        tracemalloc.reset_peak()
        return merged

    def end(self) -> None:
        """Take note of the most that the process took since the last pass."""
        self.between = max(self.between, tracemalloc.get_traced_memory()[1])

    def compute(self, graph: Graph, root: str, done: list[str], on_done: Callable[[SpanDone], None]) -> Any:
        raise NotImplementedError("a pilot makes passes by `measured`")


def _measured(function: Callable[..., Any], *given: Any) -> tuple[Any, int, int]:
    """Return the result of a function, the most bytes that the call took, and those that it left."""
    pool = pa.default_memory_pool()
    tracemalloc.reset_peak()
    collects = gc.isenabled()
    gc.disable()  # or what others left is collected meanwhile, and counts as given back
    try:
        before, arrow, largest = tracemalloc.get_traced_memory()[0], pool.bytes_allocated(), pool.max_memory()
        result = function(*given)
        most = tracemalloc.get_traced_memory()[1] - before
    finally:
        if collects:
            gc.enable()
    if pool.max_memory() > largest:  # else the pool has had as much before, and does not tell how much this time
        most += pool.max_memory() - arrow
    release()
    return result, most, max(tracemalloc.get_traced_memory()[0] - before, 0)


@contextmanager
def traced() -> Iterator[None]:
    """Trace what Python allocates meanwhile."""
    begun = tracemalloc.is_tracing()
    if not begun:
        tracemalloc.start()
    try:
        yield
    finally:
        if not begun:
            tracemalloc.stop()
