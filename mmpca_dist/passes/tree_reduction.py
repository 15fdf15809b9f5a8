"""One pass over the rows: a task a span, and a fixed pairwise tree that merges what the tasks leave.

The tree depends on the spans alone, so a pass gives the same bits on any number of threads or workers, in any
order of arrival, and when work lost with a worker is done again.
"""

from __future__ import annotations

import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

import numpy as np
import psutil
from dask._task_spec import DataNode, GraphNode, Task, TaskRef  # the classes that Dask's specification names
from scipy.sparse import csr_array, issparse, vstack

from mmpca_dist.errors import MmpcaError
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.checkpoint import Checkpoint, PassCheckpoint, keep, read_back
from mmpca_dist.passes.pilot import Pilot
from mmpca_dist.passes.schedulers import Finding, Graph, Prepared, Scheduler, SpanDone, merge_leaf, prepare
from mmpca_dist.tables.spans import Span

T = TypeVar("T")
Progress = Callable[[int, int], None]
"""Called with the number of spans done and the number of all spans."""
OnPass = Callable[[str, int], None]
"""Called with the name of a pass as it begins, and with the bytes of rows that it reads."""


@dataclass
class PeakMemory:
    """The largest memory of a process that has run tasks, in bytes."""

    largest: int = 0

    def tell(self, n_bytes: int) -> None:
        self.largest = max(self.largest, n_bytes)


@dataclass(frozen=True, kw_only=True)
class Tasks:
    """Where tasks run, and who watches."""

    scheduler: Scheduler
    progress: Progress | None = None  # called with the number of tasks done and of all
    on_pass: OnPass | None = None  # called with the name of each pass as it begins, and the bytes of rows that it reads
    on_sweep: Callable[[str], None] | None = None  # called after each sweep of a fit, with how far it is in words
    checkpoint: Checkpoint | None = None  # where passes keep what groups of spans leave, for another attempt
    memory: PeakMemory | None = None  # told the memory of the processes that ran tasks

    def run(
        self, task: Callable[[Span], T], spans: Sequence[Span], merge: Callable[[T, T], T], name: str, kept: bool = True
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
        kept : bool
            Whether the checkpoint may keep what groups of spans leave: not where tasks leave more than their results,
            in the memory of this process.

        Raises
        ------
        InputError
            As soon as a task has found that the data cannot be used.
        """
        if isinstance(self.scheduler, Pilot):
            result = self.scheduler.measured(task, spans, merge)
            _raise_if_finding(result)
            return result
        checkpoint = None if self.checkpoint is None else self.checkpoint.next_pass(name, len(spans))
        tree = _Tree(task, spans, merge, self.scheduler, name, checkpoint if kept else None)
        root = tree.node(tree.top, 0)
        n_done = len(spans) - len(tree.done)

        def tell() -> None:
            if self.progress is not None:
                self.progress(n_done, len(spans))

        def on_done(status: SpanDone) -> None:
            nonlocal n_done
            _raise_if_finding(status.finding)
            n_done += 1
            if self.memory is not None:
                self.memory.tell(status.memory)
            tell()

        tell()
        with _repeated(tell):
            result = self.scheduler.compute(tree.graph, root, tree.done, on_done)
        _raise_if_finding(result)
        return result

    def keeping_apart(self, part: str) -> Self:
        """Return the context of a part of the stage, which another attempt may find done and skip."""
        return replace(self, checkpoint=self.checkpoint and self.checkpoint.within(part))

    def begins(self, name: str, n_bytes: int = 0) -> None:
        """Report that a pass begins, and how many bytes of rows it reads."""
        if self.on_pass is not None:
            self.on_pass(name, n_bytes)

    def tell_work(self, name: str, done: int, total: int) -> None:
        """Report the progress of work that reads no rows."""
        if done == 1:
            self.begins(name)
        if self.progress is not None:
            self.progress(done, total)


@contextmanager
def _repeated(tell: Callable[[], None]) -> Iterator[None]:
    """Call a function every few seconds meanwhile: a task of a search takes minutes, and a silent run seems to hang."""
    ended, context = threading.Event(), copy_context()  # loggers of Prefect look for the flow run there

    def repeat() -> None:
        while not ended.wait(LIMITS.progress_line_seconds):
            with suppress(MmpcaError):  # which ends the work once a task is done
                context.run(tell)

    threading.Thread(target=repeat, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _raise_if_finding(result: Any) -> None:
    if isinstance(result, Finding):
        raise result.kind(*result.faults)


@dataclass
class _Tree(Generic[T]):
    """The graph of a pass: node ``number`` of a depth merges nodes 2 number and 2 number + 1 of the depth below.

    Nodes that an earlier attempt has kept are read, not computed.
    """

    task: Callable[[Span], T]
    spans: Sequence[Span]
    merge: Callable[[T, T], T]
    scheduler: Scheduler
    name: str
    checkpoint: PassCheckpoint | None

    def __post_init__(self) -> None:
        self._token = uuid.uuid4().hex[:8]
        self.name = f"{self.scheduler.label}{self.name}"
        key = f"{self.name}_task-{self._token}"
        once = isinstance(self.task, Prepared)
        # Once in the graph, however large it is.
        shared: GraphNode = Task(key, prepare, self.task) if once else DataNode(key, self.task)
        self._shared = shared.ref()
        self.graph: Graph = {**self.scheduler.inputs(), key: shared}
        self.top = (len(self.spans) - 1).bit_length()
        self.done: list[str] = []
        """The report of every span that is computed."""

    def node(self, depth: int, number: int) -> str:
        """Add the tasks of a stretch of spans to the graph, and return the key of its result."""
        checkpoint = self.checkpoint
        if checkpoint is None or not checkpoint.keeps(depth):
            return self._computed(depth, number)
        uri = checkpoint.uri_of(depth, number)
        if checkpoint.has(depth, number):
            return self._add(Task(f"{self.name}_read-{self._token}-{depth}-{number}", read_back, uri))
        key = f"{self.name}_keep-{self._token}-{depth}-{number}"
        result = TaskRef(self._computed(depth, number))
        return self._add(Task(key, keep, result, uri, checkpoint.largest(depth)))

    def _computed(self, depth: int, number: int) -> str:
        if depth == 0:
            return self._leaf(number)
        left = self.node(depth - 1, 2 * number)
        if (2 * number + 1) << (depth - 1) >= len(self.spans):
            return left
        key = f"{self.name}_merge-{self._token}-{depth}-{number}"
        right = self.node(depth - 1, 2 * number + 1)
        return self._add(Task(key, merge_leaf, self.merge, TaskRef(left), TaskRef(right)))

    def _leaf(self, number: int) -> str:
        key = f"{self.name}-{self._token}-{number}"
        for task in self.scheduler.leaf(self.task, self._shared, self.spans[number], self.merge, key):
            self._add(task)
        self.done.append(self._add(Task(f"{self.name}_done-{self._token}-{number}", _report, TaskRef(key))))
        return key

    def _add(self, task: GraphNode) -> str:
        self.graph[task.key] = task
        return str(task.key)


class ArraySums:
    """Base of dataclasses that add up field by field, as `added` does."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*added(tuple(vars(self).values()), tuple(vars(other).values())))


def added(left: Any, right: Any) -> Any:
    """Return the sum of arrays, numbers or sums of them: of tuples item by item, of lists end to end.

    A part that is None in one of both is None in the sum.
    """
    if left is None or right is None:
        return None
    if isinstance(left, tuple):
        return tuple(added(*pair) for pair in zip(left, right, strict=True))
    return left + right


def joined(*parts: Any) -> Any:
    """Return arrays, or rows in CSR form, one below the other."""
    return csr_array(vstack(parts, format="csr")) if issparse(parts[0]) else np.concatenate(parts)


def concatenated(*parts: T) -> T:
    """Return tuples, dictionaries or dataclasses of arrays joined end to end, array by array."""
    if isinstance(parts[0], dict):
        return {name: joined(*(part[name] for part in parts)) for name in parts[0]}  # type: ignore[index,return-value]
    rows = [part if isinstance(part, tuple) else vars(part).values() for part in parts]
    columns = [joined(*column) for column in zip(*rows, strict=True)]
    return tuple(columns) if isinstance(parts[0], tuple) else type(parts[0])(*columns)  # type: ignore[return-value]


def _report(result: Any) -> SpanDone:
    """Report the largest resident memory that this process has had, in bytes (the present one on Windows)."""
    finding = result if isinstance(result, Finding) else None
    try:
        import resource
    except ImportError:
        return SpanDone(finding, int(psutil.Process().memory_info().rss))
    unit = 1 if sys.platform == "darwin" else 1024
    return SpanDone(finding, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
