"""Dask arrays as data sets: their blocks are inputs of the tasks, which do not read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import dask
import numpy as np
import psutil
import zarr
from dask._task_spec import DataNode, GraphNode, List, Task, TaskRef, convert_legacy_graph
from dask.utils import format_bytes
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from mmpca_dist import dask_arrays as da
from mmpca_dist.errors import InputError
from mmpca_dist.faults import Setting
from mmpca_dist.passes.schedulers import Configured, Graph, Scheduler, Threads, run_span
from mmpca_dist.passes.tree_reduction import joined, merge_leaf
from mmpca_dist.tables.column import Column, Known
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.facts import Facts
from mmpca_dist.tables.labels import label_array
from mmpca_dist.tables.memory_limits import check_table
from mmpca_dist.tables.plain_arrays import with_known_chunks
from mmpca_dist.tables.readers.csr import SparseRows, value_type
from mmpca_dist.tables.readers.memory import SparseArrayRows, given, weighted
from mmpca_dist.tables.readers.zarr_dense import ZarrReader
from mmpca_dist.tables.roles import LABEL, WEIGHT, Played
from mmpca_dist.tables.source import Source
from mmpca_dist.tables.spans import Span, chunk_edges, default_chunk_rows, grain_edges
from mmpca_dist.tables.values import given_weights

NAME = "the Dask collection"
STORED = "mmpca-stored-rows"
LABELS, WEIGHTS = "y", "sample_weight"
"""Columns in the blocks."""
ROLE = {LABELS: LABEL, WEIGHTS: WEIGHT}
EMPTY: Mapping[str, NDArray] = MappingProxyType({})


class _Blocks(Source):
    """Base of rows of a Dask array: of all of them for who plans passes, of its own for a task.

    Rows keep their numbers in the whole array. ``beside`` are labels or targets, and weights, by name.
    """

    def __init__(
        self, like: Any, edges: NDArray[np.int64], X: Any = None, beside: Mapping[str, NDArray] = EMPTY
    ) -> None:
        """Make the source of rows ``like`` an array, of which X (None where nothing is read) begins at a row."""
        self._X, self._edges, self._beside, self._start = X, edges, beside, int(edges[0])
        self.facts = Facts(NAME, like.shape[0], like.shape[1], like.dtype, kind="memory")

    def read(self, start: int, stop: int, out: NDArray | None = None) -> Any:
        return self._X[start - self._start : stop - self._start]

    def column(self, name: str | None, setting: Setting | str) -> Column:
        assert name is not None  # noqa: S101  (blocks have names)
        return Column(name, name, self.n_rows, partial(self._read_column, name), in_blocks=True)

    def _read_column(self, name: str, start: int, stop: int) -> Known:
        values = self._beside[name][start - self._start : stop - self._start]
        return values, np.ones(len(values), bool)

    def fingerprint(self) -> str:
        return ""


class _SparseBlocks(_Blocks, SparseRows):
    """CSR rows; blocks of these are far larger when they are dense: they are read in pieces."""

    def __init__(
        self, like: Any, edges: NDArray[np.int64], X: Any = None, beside: Mapping[str, NDArray] = EMPTY
    ) -> None:
        super().__init__(like, edges, X, beside)
        self.facts = replace(self.facts, dtype=value_type(like.dtype), sparse=True)
        self._rows = None if X is None else SparseArrayRows(X, NAME)

    read = SparseRows.read

    def _stored(self, start: int, stop: int) -> tuple[NDArray, NDArray, NDArray]:
        assert self._rows is not None  # noqa: S101  (tasks have blocks)
        return self._rows._stored(start - self._start, stop - self._start)

    @property
    def _ends(self) -> NDArray:
        assert self._rows is not None  # noqa: S101
        return self._rows._ends


class _StoredRows(_Blocks):
    """Rows of the Zarr array behind ``da.from_zarr``, which tasks read into reused buffers."""

    in_memory = False

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        array = self._X.array
        return chunk_edges(array.shape[0], int((array.shards or array.chunks)[0]))

    def read(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        out = np.empty((stop - start, self.n_features), self.dtype) if out is None else out
        return self._X.read(start, stop, out)


@dataclass(frozen=True, kw_only=True)
class BlockScheduler(Configured):
    """The scheduler that Dask is configured with, for tasks on the blocks of an array."""

    graph: Graph
    """The graph of the blocks."""
    row_blocks: list[TaskRef]
    beside: Mapping[str, list[TaskRef]]
    """The blocks of labels and weights, by name."""
    edges: NDArray[np.int64]
    """Rows where blocks begin, and where the last one ends."""
    sparse: bool = False
    stored: ZarrReader | None = None

    def inputs(self) -> Graph:
        return self.graph if self.stored is None else {**self.graph, STORED: DataNode(STORED, self.stored)}

    def _beside(self, first: int, last: int) -> dict[str, List]:
        return {name: List(*blocks[first:last]) for name, blocks in self.beside.items()}

    def leaf(self, task: Any, shared: TaskRef, span: Span, merge: Callable, key: str) -> list[GraphNode]:
        """Return the tasks of a span: one a unit, merged from the left."""
        if self.stored is not None:
            first, last = np.searchsorted(self.edges, [span.start, span.stop])
            beside = self._beside(first, last)
            return [Task(key, _run_on_blocks, shared, span, TaskRef(STORED), np.asarray([span.start]), **beside)]  # type: ignore[arg-type]
        # A block of CSR rows is small, and may hold many units.
        pieces = [span.edges] if self.sparse else span.units
        tasks: list[GraphNode] = []
        result: TaskRef | None = None
        for number, edges in enumerate(pieces):
            first = int(np.searchsorted(self.edges, edges[0], side="right")) - 1
            last = int(np.searchsorted(self.edges, edges[-1]))
            rows = self.row_blocks[first:last] if task.X else []
            name = f"{key}-{number}" if len(pieces) > 1 else key
            unit = Task(
                name, _run_on_blocks, shared, Span(span.index, edges), List(*rows), self.edges[first : last + 1],
                **self._beside(first, last),  # type: ignore[arg-type]
            )  # fmt: skip
            tasks.append(unit)
            if result is not None:
                merged = key if number == len(pieces) - 1 else f"{key}-to-{number}"
                tasks.append(Task(merged, merge_leaf, merge, result, unit.ref()))
            result = tasks[-1].ref()
        return tasks


def _run_on_blocks(
    task: Any, span: Span, rows: Sequence[NDArray] | ZarrReader, edges: NDArray[np.int64], **columns: Sequence[NDArray]
) -> Any:
    beside = {name: _joined(blocks) for name, blocks in columns.items()}
    if isinstance(rows, ZarrReader):
        blocks: Source = _StoredRows(rows.array, edges, rows, beside)
    else:
        for name, pieces in {"X": rows, **columns}.items():
            if pieces and [each.shape[0] for each in pieces] != np.diff(edges).tolist():
                raise InputError(f"A block of {name} has another number of rows than those beside it.")
        X = _joined(rows) if rows else np.empty((len(beside[LABELS]), 1))  # a task for labels alone looks at no rows
        check_table(NAME, X.shape, X.dtype, sparse=issparse(X))
        blocks = (_SparseBlocks if issparse(X) else _Blocks)(X, edges, X, beside)
    return run_span(replace(task, dataset=task.dataset.over(blocks)), span)


def _joined(blocks: Sequence[Any]) -> Any:
    arrays = [csr_array(block) if issparse(block) else np.asarray(block) for block in blocks]
    return arrays[0] if len(arrays) == 1 else joined(*arrays)


def lazy_rows(rows: Dataset | da.Array, y: Any, weights: Any = None) -> tuple[Dataset, Scheduler]:
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
    dataset = rows if y is None else given(rows, LABEL, label_array(y, "y"), "y")
    if weights is not None:
        dataset = weighted(dataset, weights)
    return dataset, Threads() if configured.in_process else configured


def dask_rows(X: da.Array, y: Any, weights: Any = None) -> tuple[Dataset, BlockScheduler]:
    """Return a Dask array (n, d) with its labels (n,), or targets (n, q), as a data set, and the scheduler for it.

    ``weights`` are of shape (n,), if there are any. Raises InputError where rows and labels differ in number.
    """
    if y is None:
        raise InputError("The labels y are None; they are needed.")
    stored = _stored_rows(X)
    X = whole_rows(X)
    X, y, weights = _with_known_chunks(X, y, weights)
    n_labels = y.shape[0] if dask.is_dask_collection(y) else len(y)
    if X.shape[0] != n_labels:
        raise InputError(f"X has {X.shape[0]} rows and y {n_labels} labels; there must be one label a row.")
    if not dask.is_dask_collection(y):
        y = label_array(y, "y")
        y = da.from_array(y, (X.chunks[0], *y.shape[1:]))
    y = y.rechunk((X.chunks[0], *y.shape[1:]))
    columns = {LABELS: y}
    if weights is not None:
        n_before = X.shape[0]
        X, columns = _weighted_blocks(X, y, weights)
        stored = stored if X.shape[0] == n_before else None
    edges = np.unique(np.concatenate([[0], np.cumsum(X.chunks[0])]).astype(np.int64))
    sparse = issparse(X._meta)
    if X.dtype.kind not in "fiub":
        raise InputError(f"X has type {X.dtype}; features must be numbers.")
    source: Source = _Blocks(X, edges)
    if sparse:
        row_bytes = X.shape[1] * value_type(X.dtype).itemsize
        source = _SparseBlocks(X, np.union1d(edges, grain_edges(X.shape[0], row_bytes)))
    played = tuple(Played(ROLE[name], source.column(name, "")) for name in columns)
    dataset = replace(Dataset.of(source), played=played)
    filled = np.flatnonzero(X.chunks[0])
    graph = _graph_of(*columns.values(), *([] if stored is not None else [X]))
    beside = {name: _blocks_of(column, filled) for name, column in columns.items()}
    scheduler = BlockScheduler(
        graph=graph, row_blocks=_blocks_of(X, filled), beside=beside, edges=edges, sparse=sparse, stored=stored
    )
    return dataset, scheduler


def _weighted_blocks(X: da.Array, y: da.Array, weights: Any) -> tuple[da.Array, dict[str, da.Array]]:
    """Return rows, and labels and weights by name, without the rows of weight zero; tasks refuse bad weights."""
    if not dask.is_dask_collection(weights):
        weights = given_weights(weights, X.shape[0])
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
    return X, {LABELS: y, WEIGHTS: weights}


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


def _with_known_chunks(X: da.Array, *beside: Any) -> tuple[Any, ...]:
    """Give arrays that come from data frames their chunk sizes, where possible by computing those beside X only.

    Rows that come in as many blocks are blocks of the same frame; a task refuses blocks of another number of rows.
    """
    lazy = [each for each in beside if dask.is_dask_collection(each)]
    alike = [each for each in lazy if np.isnan(each.shape[0]) and each.numblocks[0] == X.numblocks[0]]
    for each in lazy:
        with_known_chunks(each, "y")
    if np.isnan(X.shape[0]) and alike:
        X = X.copy()
        X._chunks = (alike[0].chunks[0], X.chunks[1])
    return with_known_chunks(X, "X"), *beside
