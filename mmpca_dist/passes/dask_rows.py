"""Dask arrays as data sets: their blocks are inputs of the tasks, which do not read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import dask
import dask.array as da
import numpy as np
import psutil
import zarr
from dask._task_spec import DataNode, GraphNode, List, Task, TaskRef, convert_legacy_graph
from dask.utils import format_bytes
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from mmpca_dist.errors import InputError
from mmpca_dist.passes.schedulers import Configured, Graph, Scheduler, Threads, run_span
from mmpca_dist.passes.tree_reduction import joined, merge_leaf
from mmpca_dist.tables.dataset import (
    Dataset,
    Span,
    Table,
    chunk_edges,
    default_chunk_rows,
    grain_edges,
)
from mmpca_dist.tables.facts import Facts
from mmpca_dist.tables.labels import label_array, normalize_labels
from mmpca_dist.tables.memory_limits import check_table
from mmpca_dist.tables.readers.csr import SparseRows, value_type
from mmpca_dist.tables.readers.memory import SparseArray
from mmpca_dist.tables.readers.zarr_dense import ZarrReader
from mmpca_dist.tables.target_rows import GivenLabels, as_targets
from mmpca_dist.tables.weights import as_weights, weighted

NAME = "the Dask collection"
STORED = "mmpca-stored-rows"
ZEROS = "mmpca-zeros"


class DaskRows(Table):
    """The table that the row blocks of a Dask array are; a task reads its blocks as a ``_TaskRows`` in its place.

    Blocks of CSR rows are far larger when they are dense: they are read in pieces.
    """

    def __init__(self, X: da.Array) -> None:
        sparse = issparse(X._meta)
        dtype = value_type(X.dtype) if sparse else X.dtype
        self.facts = Facts(NAME, X.shape[0], X.shape[1], dtype, sparse=sparse, kind="memory")
        self._edges = _block_edges(X)
        if self.sparse:
            self._edges = np.union1d(self._edges, grain_edges(self.n_rows, self.row_bytes))

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return self._edges


class _TaskRows(Dataset):
    """Rows of one task under their row numbers in the whole array, with labels or targets from blocks."""

    def __init__(self, y: NDArray, start: int) -> None:
        has_weights = y.dtype.names is not None
        self._y, self._start = y["labels"] if has_weights else y, start
        self._weights = y["weights"] if has_weights else None

    def fingerprint(self) -> str:
        return ""

    def read_labels(self, start: int, stop: int) -> NDArray:
        return normalize_labels(self._y[start - self._start : stop - self._start], "y")

    def read_weights(self, start: int, stop: int) -> NDArray[np.float64] | None:
        if self._weights is None:
            return None
        weights = self._weights[start - self._start : stop - self._start]
        return as_weights(weights, stop - start, "sample_weight", lambda row: start + row)

    def read_targets(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return continuous targets, shape (stop - start, q)."""
        return as_targets(self._y[start - self._start : stop - self._start], "y")


class _Blocks(_TaskRows):
    """The blocks of a task."""

    def __init__(self, X: NDArray, y: NDArray, edges: NDArray[np.int64]) -> None:
        super().__init__(y, int(edges[0]))
        check_table(NAME, X.shape, X.dtype, len(y))
        self._X, self._edges = X, edges
        self.facts = Facts(NAME, X.shape[0], X.shape[1], X.dtype, kind="memory")

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return self._edges

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        return self._X[start - self._start : stop - self._start]


class _SparseBlocks(_TaskRows, SparseRows):
    """The blocks of CSR rows of a task."""

    def __init__(self, X: Any, y: NDArray, edges: NDArray[np.int64]) -> None:
        super().__init__(y, int(edges[0]))
        check_table(NAME, X.shape, X.dtype, len(y))
        self._X = SparseArray(X, None, NAME)
        self.facts = replace(self._X.facts, has_labels=True)

    def _stored(self, start: int, stop: int) -> tuple[NDArray, NDArray, NDArray]:
        return self._X._stored(start - self._start, stop - self._start)

    @property
    def _ends(self) -> NDArray:
        return self._X._ends


class _StoredRows(_TaskRows):
    """Rows of the Zarr array behind ``da.from_zarr``, which tasks read into reused buffers."""

    def __init__(self, reader: ZarrReader, y: NDArray, start: int) -> None:
        super().__init__(y, start)
        self._reader = reader
        n_rows, n_features = reader.array.shape
        self.facts = Facts(NAME, n_rows, n_features, reader.array.dtype)

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return chunk_edges(self.n_rows, int((self._reader.array.shards or self._reader.array.chunks)[0]))

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        out = np.empty((stop - start, self.n_features), self.dtype) if out is None else out
        return self._reader.read(start, stop, out)


@dataclass(frozen=True, kw_only=True)
class BlockScheduler(Configured):
    """The scheduler that Dask is configured with, for tasks on the blocks of an array."""

    graph: Graph
    """The graph of the blocks."""
    row_blocks: list[TaskRef]
    label_blocks: list[TaskRef]
    edges: NDArray[np.int64]
    """Rows where blocks begin, and where the last one ends."""
    sparse: bool = False
    stored: ZarrReader | None = None

    def inputs(self) -> Graph:
        return self.graph if self.stored is None else {**self.graph, STORED: DataNode(STORED, self.stored)}

    def leaf(self, task: Any, shared: TaskRef, span: Span, merge: Callable, key: str) -> list[GraphNode]:
        """Return the tasks of a span: one a unit, merged from the left."""
        if self.stored is not None:
            first, last = np.searchsorted(self.edges, [span.start, span.stop])
            labels = List(*self.label_blocks[first:last])
            return [Task(key, _run_on_stored, shared, span, TaskRef(STORED), labels)]
        # A block of CSR rows is small, and may hold many units.
        pieces = [span.edges] if self.sparse else span.units
        tasks: list[GraphNode] = []
        result: TaskRef | None = None
        for number, edges in enumerate(pieces):
            first = int(np.searchsorted(self.edges, edges[0], side="right")) - 1
            last = int(np.searchsorted(self.edges, edges[-1]))
            rows = [] if getattr(task, "labels_only", False) else self.row_blocks[first:last]
            name = f"{key}-{number}" if len(pieces) > 1 else key
            blocks = List(*rows), List(*self.label_blocks[first:last])
            unit = Task(name, _run_on_blocks, shared, Span(span.index, edges), *blocks, self.edges[first : last + 1])
            tasks.append(unit)
            if result is not None:
                merged = key if number == len(pieces) - 1 else f"{key}-to-{number}"
                tasks.append(Task(merged, merge_leaf, merge, result, unit.ref()))
            result = tasks[-1].ref()
        return tasks


def _run_on_blocks(
    task: Any, span: Span, rows: Sequence[NDArray], labels: Sequence[NDArray], edges: NDArray[np.int64]
) -> Any:
    y = _joined(labels)
    X = _joined(rows) if rows else np.empty((len(y), 1))  # a task for labels alone looks at no rows
    blocks = _SparseBlocks if issparse(X) else _Blocks
    return run_span(lambda unit: replace(task, dataset=task.dataset.over(blocks(X, y, edges)))(unit), span)


def _run_on_stored(task: Any, span: Span, reader: ZarrReader, labels: Sequence[NDArray]) -> Any:
    rows = _StoredRows(reader, _joined(labels), span.start)
    return run_span(lambda unit: replace(task, dataset=task.dataset.over(rows))(unit), span)


def _block_edges(X: da.Array) -> NDArray[np.int64]:
    return np.unique(np.concatenate([[0], np.cumsum(X.chunks[0])]).astype(np.int64))


def _joined(blocks: Sequence[Any]) -> Any:
    arrays = [csr_array(block) if issparse(block) else np.asarray(block) for block in blocks]
    return arrays[0] if len(arrays) == 1 else joined(*arrays)


def lazy_rows(rows: Any, y: Any, weights: Any = None) -> tuple[Dataset, Scheduler]:
    """Return a ``Dataset``, or a Dask array, with its labels and weights as a data set, and who reads it.

    Parameters
    ----------
    rows : Dataset or Dask array of shape (n, d)
    y : array or Dask array of shape (n,) or (n, q)
        Labels or targets; None for those of a ``Dataset``, which is read on the cluster of Dask's default client where
        there is one.
    weights : array or Dask array of shape (n,), optional
        By default every row counts once.
    """
    if not isinstance(rows, Dataset):
        return dask_rows(rows, y, weights)
    configured = Configured()
    dataset = rows if y is None else GivenLabels(rows, y)
    if weights is not None:
        dataset = weighted(dataset, as_weights(weights, rows.n_rows, "sample_weight"))
    return dataset, Threads() if configured.in_process else configured


def dask_rows(X: da.Array, y: Any, weights: Any = None) -> tuple[Dataset, BlockScheduler]:
    """Return a Dask array (n, d) with its labels (n,), or targets (n, q), as a data set, and the scheduler for it.

    ``weights`` are of shape (n,), if there are any. Raises InputError where rows and labels differ in number.
    """
    if y is None:
        raise InputError("The labels y are None; they are needed.")
    stored = _stored_rows(X)
    X = whole_rows(X)
    X, y = _with_known_chunks(X, y)
    n_labels = y.shape[0] if dask.is_dask_collection(y) else len(y)
    if X.shape[0] != n_labels:
        raise InputError(f"X has {X.shape[0]} rows and y {n_labels} labels; there must be one label a row.")
    if not dask.is_dask_collection(y):
        y = label_array(y, "y")
        y = da.from_array(y, (X.chunks[0], *y.shape[1:]))
    y = y.rechunk((X.chunks[0], *y.shape[1:]))
    if weights is not None:
        n_before = X.shape[0]
        X, y = _weighted_blocks(X, y, weights)
        stored = stored if X.shape[0] == n_before else None
    dataset = DaskRows(X)
    if dataset.dtype.kind not in "fiub":
        raise InputError(f"X has type {dataset.dtype}; features must be numbers.")
    filled = np.flatnonzero(X.chunks[0])
    graph = _graph_of(y) if stored is not None else _graph_of(X, y)
    rows, labels = _blocks_of(X, filled), _blocks_of(y, filled)
    scheduler = BlockScheduler(
        graph=graph, row_blocks=rows, label_blocks=labels, edges=_block_edges(X), sparse=dataset.sparse, stored=stored
    )
    return cast(Dataset, dataset), scheduler  # every task has rows that it can read in place of it


def _weighted_blocks(X: da.Array, y: da.Array, weights: Any) -> tuple[da.Array, da.Array]:
    """Return rows, and labels with their weights, without the rows of weight zero; tasks refuse bad weights."""
    if not dask.is_dask_collection(weights):
        weights = as_weights(weights, X.shape[0], "sample_weight")
    weights = da.asarray(weights)
    if weights.shape != X.shape[:1]:
        raise InputError(f"Weights in sample_weight have shape {weights.shape}; X has {X.shape[0]} rows.")
    if weights.dtype.kind not in "fiub":
        raise InputError(f"Weights in sample_weight have type {weights.dtype}; they must be numbers.")
    weights = weights.rechunk(X.chunks[:1])
    if bool((weights == 0).any().compute()):
        kept = weights != 0
        X, y, weights = X[kept], y[kept], weights[kept].compute_chunk_sizes()
        X._chunks, y._chunks = (weights.chunks[0], X.chunks[1]), (weights.chunks[0], *y.chunks[1:])
    if not weights.shape[0]:
        raise InputError(f"No row of {NAME} is left: all have weight zero.")
    both = np.dtype([("labels", y.dtype, y.shape[1:]), ("weights", np.float64)])
    beside = weights.reshape(-1, *(1,) * (y.ndim - 1))  # blocks are told apart by the last axis first
    return X, da.map_blocks(_with_weights, y, beside, both=both, dtype=both, drop_axis=list(range(1, y.ndim)))


def _with_weights(y: NDArray, weights: NDArray, both: np.dtype) -> NDArray:
    rows = np.empty(len(y), both)
    rows["labels"], rows["weights"] = y, weights.reshape(-1)
    return rows


def _graph_of(*arrays: da.Array) -> Graph:
    """Return one graph of all blocks, optimised once for all passes."""
    graphs = (array.__dask_graph__() for array in dask.optimize(*arrays))
    return dict(convert_legacy_graph({key: task for graph in graphs for key, task in graph.items()}))


def _blocks_of(array: da.Array, numbers: NDArray[np.intp]) -> list[TaskRef]:
    return [TaskRef((array.name, number, *(0,) * (array.ndim - 1))) for number in numbers.tolist()]


def whole_rows(X: da.Array) -> da.Array:
    """Return an array whose chunks span all columns.

    Raises InputError where that takes more memory than there is.
    """
    if X.numblocks[1] == 1:
        return X
    row_bytes = X.shape[1] * X.dtype.itemsize
    largest, free = max(X.chunks[0]) * row_bytes, psutil.virtual_memory().available
    if Configured().in_process and not issparse(X._meta) and 2 * largest > free:
        raise InputError(
            f"The chunks of X hold {max(X.chunks[0])} rows of some columns each; whole rows of them take "
            f"{format_bytes(largest)}, twice while they are joined, and {format_bytes(free)} are free. Make chunks of "
            f"whole rows where X comes from: chunks=({default_chunk_rows(row_bytes)}, -1)."
        )
    return X.rechunk({1: -1})


def _stored_rows(X: da.Array) -> ZarrReader | None:
    """Return a reader of the Zarr array that ``X`` is, unchanged, straight from ``da.from_zarr``; else None.

    Its blocks would be read into fresh memory, at half the speed and twice the memory.
    """
    source = f"original-{X.name}"
    if not X.name.startswith("from-zarr-") or set(X.dask.layers) != {X.name, source}:
        return None
    array = X.dask.get(source)
    if not isinstance(array, zarr.Array) or array.shape != X.shape or array.dtype != X.dtype:
        return None
    return ZarrReader.of(array)


def _with_known_chunks(X: da.Array, y: Any) -> tuple[da.Array, Any]:
    """Give arrays that come from data frames their chunk sizes, where both do by computing the labels only."""
    same_blocks = False
    if dask.is_dask_collection(y) and np.isnan(y.shape[0]):
        same_blocks, y = X.numblocks[0] == y.numblocks[0], y.compute_chunk_sizes()
    if np.isnan(X.shape[0]) and same_blocks:
        X = X.copy()
        X._chunks = (y.chunks[0], X.chunks[1])
    elif np.isnan(X.shape[0]):
        X = X.compute_chunk_sizes()
    return X, y
