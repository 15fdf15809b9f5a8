"""One pass over the rows: a task a span, and a fixed pairwise tree that merges what the tasks leave.

The tree depends on the spans alone, so a pass gives the same bits on any number of threads or workers, in any
order of arrival, and when work lost with a worker is done again.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import dask
import psutil
from dask.callbacks import Callback
from dask.delayed import Delayed, delayed
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.datasets.base import Dataset, Finding, Span
from mmpca_dist.errors import AccessError, InputError
from mmpca_dist.statistics.buffers import release, rented

T = TypeVar("T")
Progress = Callable[[int, int], None]
"""Called with the number of spans done and the number of all spans."""


@dataclass(frozen=True)
class SpanDone:
    """What a finished span tells the driver: whether the data was good, and the memory of its process."""

    finding: Finding | None
    memory: int


class Scheduler(Protocol):
    """Where tasks run."""

    n_threads: int
    peak_memory: int

    @property
    def in_process(self) -> bool:
        """Whether tasks share the memory of this process."""

    def leaf(self, task: Any, shared: Delayed, span: Span, merge: Callable[[T, T], T], key: str) -> Delayed:
        """Return the result of ``task`` on a span, to be computed; ``shared`` is the task as one node of the graph."""

    def compute(self, root: Delayed, done: list[Delayed], on_done: Callable[[SpanDone], None]) -> Any:
        """Compute ``root``, calling ``on_done`` with each of ``done`` as it is ready."""


class _ReadingScheduler:
    """Runs tasks that read their rows themselves."""

    def leaf(self, task: Any, shared: Delayed, span: Span, merge: Callable[[T, T], T], key: str) -> Delayed:
        return delayed(run_span, pure=False, traverse=False)(shared, span, dask_key_name=key)


@dataclass
class Threads(_ReadingScheduler):
    """Dask's threaded scheduler in this process; ``held`` bytes of its memory are no part of the work."""

    n_threads: int = field(default_factory=lambda: dask.system.CPU_COUNT)
    peak_memory: int = 0
    held: int = 0
    in_process = True

    def compute(self, root: Delayed, done: list[Delayed], on_done: Callable[[SpanDone], None]) -> Any:
        keys = {item.key for item in done}

        def posttask(key: Any, result: Any, *_: Any) -> None:
            if key in keys:
                on_done(result)

        try:
            # A pool of its own is waited for, be it after an error or an interrupt: no task writes or reads later.
            with ThreadPoolExecutor(self.n_threads) as pool, Callback(posttask=posttask):
                return dask.compute(root, *done, scheduler="threads", pool=pool, optimize_graph=False)[0]
        finally:
            release()


@dataclass
class Configured(_ReadingScheduler):
    """Whatever scheduler Dask is configured with."""

    n_threads: int = 1
    peak_memory: int = 0

    @property
    def in_process(self) -> bool:
        scheduler = dask.base.get_scheduler()
        return scheduler in (None, dask.threaded.get, dask.local.get_sync)

    def compute(self, root: Delayed, done: list[Delayed], on_done: Callable[[SpanDone], None]) -> Any:
        try:
            result, *reports = dask.compute(root, *done)
        finally:
            release()
        for report in reports:
            on_done(report)
        return result


@dataclass
class Cluster(_ReadingScheduler):
    """A Dask cluster, through its client."""

    client: Any
    n_threads: int = 0
    peak_memory: int = 0
    retries: int = 2
    in_process = False

    def compute(self, root: Delayed, done: list[Delayed], on_done: Callable[[SpanDone], None]) -> Any:
        from distributed import as_completed

        futures = self.client.compute([root, *done], optimize_graph=False, retries=self.retries)
        try:
            for _, result in as_completed(futures[1:], with_results=True, loop=self.client.loop):
                on_done(result)
            return futures[0].result()
        finally:
            self.client.cancel(futures)


def reduce_spans(
    task: Callable[[Span], T],
    spans: Sequence[Span],
    merge: Callable[[T, T], T],
    *,
    scheduler: Scheduler,
    name: str,
    progress: Progress | None = None,
) -> T:
    """Run ``task`` on every span and merge the results in a fixed pairwise tree.

    Parameters
    ----------
    task : callable
        Takes a span; picklable. An ``InputError`` it raises is a finding about the data.
    merge : callable
        Takes the results of two neighbouring stretches of spans, left and right; must not change them.
    name : str
        What the tasks are called on the Dask dashboard.

    Raises
    ------
    InputError
        As soon as a task has found that the data cannot be used.
    """
    token = uuid.uuid4().hex[:8]
    shared = delayed(task, pure=False, traverse=False)  # once in the graph, however large it is
    leaves = [scheduler.leaf(task, shared, span, merge, f"{name}-{token}-{span.index}") for span in spans]
    done = [
        delayed(_report, pure=False)(leaf, dask_key_name=f"{name}_done-{token}-{i}") for i, leaf in enumerate(leaves)
    ]
    level, depth = list(leaves), 0
    while len(level) > 1:
        depth += 1
        level = [
            delayed(merge_leaf, pure=False)(
                merge, *level[i : i + 2], dask_key_name=f"{name}_merge-{token}-{depth}-{i // 2}"
            )
            if i + 1 < len(level)
            else level[i]
            for i in range(0, len(level), 2)
        ]
    finished = 0

    def on_done(status: SpanDone) -> None:
        nonlocal finished
        if status.finding is not None:
            raise status.finding.kind(status.finding.message)
        finished += 1
        scheduler.peak_memory = max(scheduler.peak_memory, status.memory)
        if progress is not None:
            progress(finished, len(spans))

    result = scheduler.compute(level[0], done, on_done)
    if isinstance(result, Finding):
        raise result.kind(result.message)
    return result


def read_unit(dataset: Dataset, start: int, stop: int, out: Any = None, *, sparse: bool = False) -> Any:
    """Read rows, dense or in CSR form; a chunk that cannot be read becomes an ``InputError`` that says which."""
    try:
        return dataset.read_sparse(start, stop) if sparse else dataset.read_rows(start, stop, out)
    except InputError:
        raise
    except Exception as error:  # whatever a store or codec raises for damaged data
        raise AccessError(_damage(dataset, start, stop, error)) from error


def read_units(dataset: Dataset, span: Span) -> Iterator[tuple[int, NDArray]]:
    """Yield the first row and the rows of each unit of a span, in one buffer that the next overwrites."""
    if dataset.in_memory:
        for start, stop in span.units:
            yield start, read_unit(dataset, start, stop)
        return
    largest = max(stop - start for start, stop in span.units)
    with rented(largest, dataset.n_features, dataset.dtype) as buffer:
        for start, stop in span.units:
            yield start, read_unit(dataset, start, stop, buffer[: stop - start])


def read_sparse_units(dataset: Dataset, span: Span) -> Iterator[tuple[int, Any]]:
    """Yield the first row and the CSR rows of each unit of a span."""
    for start, stop in span.units:
        yield start, read_unit(dataset, start, stop, sparse=True)


def _damage(dataset: Dataset, start: int, stop: int, error: Exception) -> str:
    """Read a unit once more, chunk by chunk, to name the one that fails."""
    row, found = start, error
    while row < stop:
        _, first, last = dataset.chunk_of(row)
        try:
            dataset.read_rows(max(first, start), min(last, stop))
        except Exception as chunk_error:  # the same as before, for one chunk
            found = chunk_error
            break
        row = last
    reason = str(found).rstrip(".") or type(found).__name__
    return (
        f"Cannot read {dataset.describe_chunk(min(row, stop - 1))}: {reason}. "
        "It is damaged or out of reach: restore it from its source."
    )


def run_span(task: Callable[[Span], T], span: Span) -> T | Finding:
    """Run a task on one BLAS thread; an ``InputError`` comes back as a finding."""
    try:
        with single_blas_thread():
            return task(span)
    except InputError as error:
        return Finding(span.start, str(error), type(error))


def merge_leaf(merge: Callable[[T, T], T], left: T | Finding, right: T | Finding) -> T | Finding:
    """Merge two results; a finding wins."""
    if isinstance(left, Finding):
        return left
    if isinstance(right, Finding):
        return right
    with single_blas_thread():
        return merge(left, right)


def _report(result: Any) -> SpanDone:
    return SpanDone(result if isinstance(result, Finding) else None, process_peak())


def process_peak() -> int:
    """Return the largest resident memory this process has had, in bytes (the present one on Windows)."""
    try:
        import resource
    except ImportError:
        return int(psutil.Process().memory_info().rss)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
