"""Read the units of a data set into buffers that tasks reuse, and name the row or chunk that is bad.

Page faults of new memory cost more than reading into it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mmpca_dist.errors import AccessError, InputError
from mmpca_dist.stores import failures
from mmpca_dist.tables.batch import Batch, dense, refuse_not_finite
from mmpca_dist.tables.dataset import Dataset, Roles
from mmpca_dist.tables.spans import Span, chunk_of

_lock = threading.Lock()
_free: list[NDArray[np.uint8]] = []
BLOCK_BYTES, BLOCK_ROWS = 1 << 20, 2048
"""Bytes of an array of a block, which then stays near the processor, and the most rows of a block: symmetric products
of 2,048 and 4,096 rows of 256 columns run equally fast, those of 512 rows 1.5 times slower."""
CLASS_ROWS = 1024
"""Rows of each class in a block, about, at least: symmetric products of 1,024 rows of up to 256 columns run as fast,
row for row, as those of more; wider ones need ``BLOCK_ROWS``."""


def rows_within(n_bytes: int, row_bytes: int, maximum: int = BLOCK_ROWS, minimum: int = 1) -> int:
    """Return how many rows take up so many bytes: at least ``minimum`` and, before that, at most ``maximum``.

    By this all blocks are cut: from what a row takes there, never from the number of workers.
    """
    return max(min(maximum, n_bytes // row_bytes), minimum)


def block_rows(width: int, fewest: int = 64) -> int:
    """Return the number of rows of a block, each of which has ``width`` outputs, of all models together."""
    return rows_within(BLOCK_BYTES, 8 * max(width, 1), minimum=fewest)


def rows_of_classes(n_classes: int, n_features: int) -> int:
    """Return the rows of a block whose classes are taken one by one."""
    return max(BLOCK_ROWS, n_classes * rows_within(4 * n_features, 1, minimum=CLASS_ROWS))


def blocks(n_rows: int, size: int) -> Iterator[slice]:
    """Yield blocks of at most ``size`` rows, in order."""
    return (slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size))


@contextmanager
def rented(n_rows: int, n_features: int, dtype: np.dtype) -> Iterator[NDArray]:
    """Yield an array of this shape with arbitrary content; its memory goes to the next task."""
    size = n_rows * n_features * dtype.itemsize
    with _lock:
        fitting = [i for i, buffer in enumerate(_free) if buffer.nbytes >= size]
        buffer = _free.pop(fitting[0]) if fitting else None
        if buffer is None:
            _free.clear()  # those of an earlier pass, too small for this one
    if buffer is None:
        buffer = np.empty(size, np.uint8)
    try:
        yield buffer[:size].view(dtype).reshape(n_rows, n_features)
    finally:
        with _lock:
            _free.append(buffer)


def release() -> None:
    """Give the memory of free buffers back."""
    with _lock:
        _free.clear()


def read_batch(
    dataset: Dataset, start: int, stop: int, roles: Roles = None, out: NDArray | None = None, *, sparse: bool = False
) -> Batch:
    """Read rows, dense or in CSR form, and their roles. An unreadable chunk is named by an ``AccessError``."""
    with _naming_damage(dataset, start, stop):
        batch = dataset.batch(start, stop, roles=roles, out=None if dataset.sparse else out)
        return replace(batch, X=csr_array(batch.X) if sparse else dense(batch.X, out))


@contextmanager
def _naming_damage(dataset: Dataset, start: int, stop: int) -> Iterator[None]:
    """Turn whatever a reading of rows raises into an ``AccessError`` that names the chunk."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # whatever a store or codec raises for damaged data
        raise AccessError(_damage(dataset, start, stop, error)) from error


def read_batches(
    dataset: Dataset, span: Span, roles: Roles = None, *, sparse: bool = False, by_blocks: bool = False
) -> Iterator[Batch]:
    """Yield the units of a span: CSR rows, or dense ones in one buffer that the next unit overwrites.

    Units that are taken ``by_blocks`` alone, see `Batch.blocks`, may have no X, and are read as their blocks are. From
    an object store the next unit is fetched while one is worked on.
    """
    if by_blocks and not sparse and dataset.by_blocks:
        for start, stop in span.units:
            with _naming_damage(dataset, start, stop):
                batch = dataset.batch(start, stop, X=False, roles=roles)
            yield replace(batch, read_blocks=partial(_read_blocks, dataset, start, stop))
        return
    largest = max(stop - start for start, stop in span.units)
    ahead = dataset.reads_ahead and len(span.units) > 1
    with ExitStack() as stack:
        shape = largest, dataset.n_features, dataset.dtype
        n_buffers = 0 if sparse or dataset.in_memory else 1 + ahead
        buffers = [stack.enter_context(rented(*shape)) for _ in range(n_buffers)]

        def read(number: int) -> Batch:
            start, stop = span.units[number]
            out = buffers[number % n_buffers][: stop - start] if buffers else None
            return read_batch(dataset, start, stop, roles, out, sparse=sparse)

        yield from _one_ahead(read, len(span.units)) if ahead else map(read, range(len(span.units)))


def _one_ahead(read: Callable[[int], Batch], count: int) -> Iterator[Batch]:
    """Yield what is read for each number; the next one is read by another thread while one is worked on."""
    with ThreadPoolExecutor(1, thread_name_prefix="reading-ahead") as pool:
        following = pool.submit(copy_context().run, read, 0)
        for number in range(1, count):
            batch = following.result()
            following = pool.submit(copy_context().run, read, number)
            yield batch
        yield following.result()


def _read_blocks(dataset: Dataset, start: int, stop: int, size: int) -> Iterator[NDArray]:
    """Yield the rows of a unit in a buffer for as many as ``size`` of them."""
    with rented(min(size, stop - start), dataset.n_features, dataset.dtype) as buffer:
        blocks = dataset.blocks(start, stop, buffer)
        while True:
            with _naming_damage(dataset, start, stop):
                block = next(blocks, None)
            if block is None:
                return
            yield block


def read_finite(dataset: Dataset, span: Span, roles: Roles = None) -> Batch:
    """Read the rows of a span, dense or in CSR form as they are stored; an ``InputError`` names what is not finite."""
    batch = read_batch(dataset, span.start, span.stop, roles, sparse=dataset.sparse)
    refuse_not_finite(batch)
    return batch


def _damage(dataset: Dataset, start: int, stop: int, error: Exception) -> str:
    """Read a unit once more, chunk by chunk, to name the one that fails."""
    row, cause = start, error
    while row < stop:
        _, first, last = chunk_of(dataset.chunk_edges, row)
        try:
            dataset.read(max(first, start), min(last, stop))
        except Exception as chunk_error:  # the same as before, for one chunk
            cause = chunk_error
            break
        row = last
    return (
        f"Cannot read {dataset.describe_chunk(min(row, stop - 1))}: {failures.in_words(cause)}. "
        "It is damaged or out of reach: restore it from its source."
    )
