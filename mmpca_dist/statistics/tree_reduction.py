"""One pass over the rows: a task a span, and a fixed pairwise tree that merges what the tasks leave.

The tree depends on the spans alone, so a pass gives the same bits on any number of threads or workers, in any
order of arrival, and when work lost with a worker is done again.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import dask
import psutil
from dask._task_spec import DataNode, GraphNode, List, Task, TaskRef  # the classes that Dask's specification names
from dask.callbacks import Callback
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.datasets.dataset import Dataset, Finding, Span
from mmpca_dist.errors import AccessError, ClusterError, InputError
from mmpca_dist.statistics.buffers import release, rented
from mmpca_dist.statistics.checkpoint import PassCheckpoint, keep, read_back

T = TypeVar("T")
Progress = Callable[[int, int], None]
"""Called with the number of spans done and the number of all spans."""
Graph = dict[Any, GraphNode]
"""Tasks by key, all of a pass in one dictionary: Dask plans many small graphs that are joined in quadratic time."""


@dataclass(frozen=True)
class SpanDone:
    """What a finished span tells the driver: whether the data was good, and the memory of its process."""

    finding: Finding | None
    memory: int


@dataclass
class PeakMemory:
    """The largest memory of a process that has run tasks, in bytes."""

    largest: int = 0

    def tell(self, n_bytes: int) -> None:
        """Take in the memory of a process."""
        self.largest = max(self.largest, n_bytes)


class Scheduler(Protocol):
    """Where tasks run."""

    @property
    def n_threads(self) -> int:
        """How many tasks run at a time, as far as it is known."""

    @property
    def in_process(self) -> bool:
        """Whether tasks share the memory of this process."""

    def inputs(self, task: Any) -> Graph:
        """Return the graph of what the leaves of ``task`` take from elsewhere."""

    def leaf(self, task: Any, shared: TaskRef, span: Span, merge: Callable[[T, T], T], key: str) -> list[GraphNode]:
        """Return the tasks that run ``task`` on a span, the last under ``key``; ``shared`` refers to the task."""

    def compute(self, graph: Graph, root: str, done: list[str], on_done: Callable[[SpanDone], None]) -> Any:
        """Compute the key ``root``, calling ``on_done`` with each of ``done`` as it is ready."""


class _ReadingScheduler:
    """Runs tasks that read their rows themselves."""

    def inputs(self, task: Any) -> Graph:
        return {}

    def leaf(self, task: Any, shared: TaskRef, span: Span, merge: Callable[[T, T], T], key: str) -> list[GraphNode]:
        return [Task(key, run_span, shared, span)]


@dataclass(frozen=True)
class Threads(_ReadingScheduler):
    """Dask's threaded scheduler in this process."""

    n_threads: int = field(default_factory=lambda: dask.system.CPU_COUNT)
    in_process = True

    def compute(self, graph: Graph, root: str, done: list[str], on_done: Callable[[SpanDone], None]) -> Any:
        keys = set(done)

        def posttask(key: Any, result: Any, *_: Any) -> None:
            if key in keys:
                on_done(result)

        try:
            # A pool of its own is waited for, be it after an error or an interrupt: no task writes or reads later.
            with ThreadPoolExecutor(self.n_threads) as pool, Callback(posttask=posttask):
                return dask.threaded.get(graph, [root, *done], pool=pool)[0]
        finally:
            release()


@dataclass(frozen=True)
class Configured(_ReadingScheduler):
    """Whatever scheduler Dask is configured with."""

    n_threads: int = 1

    @property
    def in_process(self) -> bool:
        scheduler = dask.base.get_scheduler()
        return scheduler in (None, dask.threaded.get, dask.local.get_sync)

    def compute(self, graph: Graph, root: str, done: list[str], on_done: Callable[[SpanDone], None]) -> Any:
        both = f"{root}-and-reports"
        layer = {**graph, both: List(TaskRef(root), *map(TaskRef, done))}
        try:
            whole = Delayed(both, HighLevelGraph.from_collections(both, layer))
            result, *reports = whole.compute()
        finally:
            release()
        for report in reports:
            on_done(report)
        return result


@dataclass(frozen=True)
class Cluster(_ReadingScheduler):
    """A Dask cluster, through its client."""

    client: Any
    n_threads: int = 0
    retries: int = 2
    in_process = False

    def compute(self, graph: Graph, root: str, done: list[str], on_done: Callable[[SpanDone], None]) -> Any:
        from distributed import KilledWorker, as_completed
        from distributed.comm import CommClosedError

        futures = []
        try:
            with telling_of_lost_connections():
                futures = self.client.get(graph, [root, *done], sync=False, retries=self.retries)
                # Without results: where the scheduler goes while they come, as_completed waits for them for ever.
                for batch in as_completed(futures[1:], loop=self.client.loop).batches():
                    for status in self.client.gather(batch):
                        on_done(status)
                return futures[0].result()
        except KilledWorker as error:
            raise ClusterError(
                f"Workers of the cluster died {error.allowed_failures + 1} times over the same piece of work. See "
                "their logs; where it was for memory, raise compute.memory_limit or lower compute.threads_per_worker. "
                "The same command goes on from what is done."
            ) from error
        finally:
            with suppress(CancelledError, CommClosedError):
                self.client.cancel(futures)


@contextmanager
def telling_of_lost_connections() -> Iterator[None]:
    """Turn what Dask raises where its scheduler has gone into one sentence.

    Raises
    ------
    ClusterError
    """
    from distributed.comm import CommClosedError

    try:
        yield
    except (CancelledError, CommClosedError) as error:
        raise ClusterError(
            "The connection to the Dask scheduler is lost. See whether it is running; the same command goes on from "
            "what is done."
        ) from error


def reduce_spans(
    task: Callable[[Span], T],
    spans: Sequence[Span],
    merge: Callable[[T, T], T],
    *,
    scheduler: Scheduler,
    name: str,
    progress: Progress | None = None,
    checkpoint: PassCheckpoint | None = None,
    memory: PeakMemory | None = None,
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
    checkpoint : PassCheckpoint, optional
        Where what groups of spans leave is kept for another attempt.
    memory : PeakMemory, optional
        Told the memory of the processes that ran tasks.

    Raises
    ------
    InputError
        As soon as a task has found that the data cannot be used.
    """
    tree = _Tree(task, spans, merge, scheduler, name, checkpoint)
    root = tree.node(tree.top, 0)
    finished = len(spans) - len(tree.done)
    if finished and progress is not None:
        progress(finished, len(spans))

    def on_done(status: SpanDone) -> None:
        nonlocal finished
        if status.finding is not None:
            raise status.finding.kind(status.finding.message)
        finished += 1
        if memory is not None:
            memory.tell(status.memory)
        if progress is not None:
            progress(finished, len(spans))

    result = scheduler.compute(tree.graph, root, tree.done, on_done)
    if isinstance(result, Finding):
        raise result.kind(result.message)
    return result


class _Tree(Generic[T]):
    """The graph of a pass: node ``number`` of a depth merges nodes 2 number and 2 number + 1 of the depth below.

    What an earlier attempt has kept is read in place of being computed.
    """

    def __init__(
        self,
        task: Callable[[Span], T],
        spans: Sequence[Span],
        merge: Callable[[T, T], T],
        scheduler: Scheduler,
        name: str,
        checkpoint: PassCheckpoint | None,
    ) -> None:
        self._task, self._spans, self._merge = task, spans, merge
        self._scheduler, self._name, self._checkpoint = scheduler, name, checkpoint
        self._token = uuid.uuid4().hex[:8]
        shared = DataNode(f"{name}_task-{self._token}", task)  # once in the graph, however large it is
        self._shared = shared.ref()
        self.graph: Graph = {**scheduler.inputs(task), shared.key: shared}
        self.top = (len(spans) - 1).bit_length()
        self.done: list[str] = []
        """The report of every span that is computed."""

    def node(self, depth: int, number: int) -> str:
        """Add what a stretch of spans takes to the graph, and return the key of its result."""
        checkpoint = self._checkpoint
        if checkpoint is None or not checkpoint.keeps(depth):
            return self._computed(depth, number)
        place = checkpoint.place(depth, number)
        if checkpoint.has(depth, number):
            return self._add(Task(f"{self._name}_read-{self._token}-{depth}-{number}", read_back, place))
        key = f"{self._name}_keep-{self._token}-{depth}-{number}"
        found = TaskRef(self._computed(depth, number))
        return self._add(Task(key, keep, found, place, checkpoint.most(depth)))

    def _computed(self, depth: int, number: int) -> str:
        if depth == 0:
            return self._leaf(number)
        left = self.node(depth - 1, 2 * number)
        if (2 * number + 1) << (depth - 1) >= len(self._spans):
            return left
        key = f"{self._name}_merge-{self._token}-{depth}-{number}"
        right = self.node(depth - 1, 2 * number + 1)
        return self._add(Task(key, merge_leaf, self._merge, TaskRef(left), TaskRef(right)))

    def _leaf(self, number: int) -> str:
        key = f"{self._name}-{self._token}-{number}"
        for task in self._scheduler.leaf(self._task, self._shared, self._spans[number], self._merge, key):
            self._add(task)
        self.done.append(self._add(Task(f"{self._name}_done-{self._token}-{number}", _report, TaskRef(key))))
        return key

    def _add(self, task: GraphNode) -> str:
        self.graph[task.key] = task
        return str(task.key)


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
