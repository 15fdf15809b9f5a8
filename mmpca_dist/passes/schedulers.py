"""Where tasks run: threads of this process, what Dask is configured with, or a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import dask
from dask._task_spec import GraphNode, List, Task, TaskRef  # the classes that Dask's specification names
from dask.callbacks import Callback
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.errors import ClusterError, InputError, instead_of
from mmpca_dist.faults import Fault
from mmpca_dist.passes.units import release
from mmpca_dist.passes.worker_code import ASYNCHRONOUS, refuse_other_code
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import Span

T = TypeVar("T")
Graph = dict[Any, GraphNode]
"""Tasks by key, all of a pass in one dictionary: Dask plans many small graphs that are joined in quadratic time."""


@dataclass(frozen=True)
class OnRows:
    """A task on the rows of a data set: a function of these and a span of them."""

    dataset: Dataset
    function: Callable[[Dataset, Span], Any]
    X: bool = True
    """Whether it reads the rows, or only what columns say of them."""

    def __call__(self, span: Span) -> Any:
        return self.function(self.dataset, span)


@dataclass(frozen=True)
class Prepared:
    """A task that a first one makes, such as with rows in memory: once, for all spans."""

    make: Callable[[], Callable[[Span], Any]]

    def __call__(self, span: Span) -> Any:
        return self.make()(span)


@dataclass(frozen=True)
class Finding:
    """Something wrong with the data. Tasks return it, as Dask logs an exception on a worker with its traceback."""

    faults: tuple[Fault, ...]
    kind: type[InputError]


@dataclass(frozen=True)
class SpanDone:
    """The report of a finished span: a fault of the data, if any, and the memory of its process."""

    finding: Finding | None
    memory: int


class Scheduler(ABC):
    """Where tasks run; by default tasks that read their rows themselves."""

    label: str = ""
    """Begins the names of tasks, which Dask's pages show."""

    @property
    @abstractmethod
    def n_threads(self) -> int:
        """How many tasks run at a time, as far as it is known."""

    @property
    @abstractmethod
    def in_process(self) -> bool:
        """Whether tasks share the memory of this process."""

    def inputs(self) -> Graph:
        """Return the graph of what leaves take from elsewhere."""
        return {}

    def leaf(self, task: Any, shared: TaskRef, span: Span, merge: Callable[[T, T], T], key: str) -> list[GraphNode]:
        """Return the tasks that run ``task`` on a span, the last under ``key``; ``shared`` refers to the task."""
        return [Task(key, run_span, shared, span)]

    @abstractmethod
    def compute(self, graph: Graph, root: str, done: list[str], on_done: Callable[[SpanDone], None]) -> Any:
        """Compute the key ``root``, calling ``on_done`` with each of ``done`` as it is ready."""


@dataclass(frozen=True)
class Threads(Scheduler):
    """Dask's threaded scheduler in this process."""

    n_threads: int = dask.system.CPU_COUNT
    in_process = True

    def compute(self, graph: Graph, root: str, done: list[str], on_done: Callable[[SpanDone], None]) -> Any:
        keys = set(done)

        def posttask(key: Any, result: Any, *_: Any) -> None:
            if key in keys:
                on_done(result)

        try:
            if len(done) == 1 or self.n_threads == 1:  # a pool costs more than a pass over few rows
                with Callback(posttask=posttask):
                    return dask.local.get_sync(graph, [root, *done])[0]
            # A pool of its own is waited for, be it after an error or an interrupt: no task writes or reads later.
            with ThreadPoolExecutor(self.n_threads) as pool, Callback(posttask=posttask):
                return dask.threaded.get(graph, [root, *done], pool=pool)[0]
        finally:
            release()


def _configured() -> Any:
    with instead_of(RuntimeError, InputError, ASYNCHRONOUS):
        return dask.base.get_scheduler()


@dataclass(frozen=True)
class Configured(Scheduler):
    """Whatever scheduler Dask is configured with."""

    n_threads: int = 1

    @property
    def in_process(self) -> bool:
        return _configured() in (None, dask.threaded.get, dask.local.get_sync)

    def compute(self, graph: Graph, root: str, done: list[str], on_done: Callable[[SpanDone], None]) -> Any:
        client = getattr(_configured(), "__self__", None)
        if hasattr(client, "nthreads"):
            refuse_other_code(client)
        both = f"{root}-and-reports"
        layer = {**graph, both: List(TaskRef(root), *map(TaskRef, done))}
        try:
            result, *reports = Delayed(both, HighLevelGraph.from_collections(both, layer)).compute()
        finally:
            release()
        for report in reports:
            on_done(report)
        return result


@dataclass(frozen=True)
class Cluster(Scheduler):
    """A Dask cluster, through its client."""

    client: Any
    n_threads: int = 0
    retries: int = 2
    label: str = ""
    in_process = False

    def compute(self, graph: Graph, root: str, done: list[str], on_done: Callable[[SpanDone], None]) -> Any:
        from distributed import KilledWorker, as_completed
        from distributed.comm import CommClosedError

        futures = []
        try:
            with telling_of_lost_connections():
                refuse_other_code(self.client)
                futures = self.client.get(graph, [root, *done], sync=False, retries=self.retries)
                # Without results: where the scheduler goes while they come, as_completed waits for them for ever.
                for batch in as_completed(futures[1:], loop=self.client.loop).batches():
                    for status in self.client.gather(batch):
                        on_done(status)
                refuse_other_code(self.client)  # of workers that came meanwhile
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


def telling_of_lost_connections() -> AbstractContextManager[None]:
    """Turn the exceptions of a lost Dask scheduler into a ClusterError of one sentence."""
    from distributed.comm import CommClosedError

    lost = "The connection to the Dask scheduler is lost. See whether it is running; the same command goes on from what"
    return instead_of((CancelledError, CommClosedError), ClusterError, f"{lost} is done.")


def run_span(task: Callable[[Span], T] | Finding, span: Span) -> T | Finding:
    """Run a task on one BLAS thread; an ``InputError`` comes back as a finding."""
    return task if isinstance(task, Finding) else _finding(task, span)


def prepare(task: Prepared) -> Callable[[Span], Any] | Finding:
    """Make a task, likewise."""
    return _finding(task.make)


def _finding(function: Callable[..., T], *args: Any) -> T | Finding:
    try:
        with single_blas_thread():
            return function(*args)
    except InputError as error:
        return Finding(error.faults, type(error))


def merge_leaf(merge: Callable[[T, T], T], left: T | Finding, right: T | Finding) -> T | Finding:
    """Merge two results; a finding wins."""
    if isinstance(left, Finding):
        return left
    if isinstance(right, Finding):
        return right
    with single_blas_thread():
        return merge(left, right)
