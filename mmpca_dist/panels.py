"""Products of tall matrices by panels of rows: one core a panel, and the same bits however many cores there are.

BLAS would share out a product by itself, but differently for another number of threads. Panels are of the same rows
everywhere, and their sums are taken in order, in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from dask.system import CPU_COUNT
from numpy.typing import DTypeLike, NDArray

from mmpca_dist.blas import single_blas_thread

PANEL_ROWS = 2048
"""Few enough that panels in double precision, copied from single, stay near the processor."""

T = TypeVar("T")


def over_panels(n_rows: int, task: Callable[[slice], T]) -> Iterator[T]:
    """Yield what ``task`` makes of each panel of rows, in order."""
    panels = [slice(start, start + PANEL_ROWS) for start in range(0, n_rows, PANEL_ROWS)]
    with single_blas_thread():
        if len(panels) < 2:
            yield from map(task, panels)
            return
        with ThreadPoolExecutor(min(CPU_COUNT, len(panels))) as pool:
            for start in range(0, len(panels), 2 * CPU_COUNT):  # results of the others would pile up
                yield from pool.map(task, panels[start : start + 2 * CPU_COUNT])


def products(left: NDArray, right: NDArray, dtype: DTypeLike | None = None) -> NDArray[np.float64]:
    """Return left^T right, shape (a, b), of (d, a) and (d, b); panels multiplied in ``dtype``, else in theirs."""

    def multiply(rows: slice) -> NDArray:
        return left[rows].astype(dtype, copy=False).T @ right[rows].astype(dtype, copy=False)

    if dtype is None:
        dtype = np.result_type(left, right)
    found = np.zeros((left.shape[1], right.shape[1]))
    for part in over_panels(len(left), multiply):
        found += part
    return found


def combinations(tall: NDArray, weights: NDArray, out: NDArray | None = None) -> NDArray:
    """Return tall weights, shape (d, b), of (d, a) and (a, b), in their common type."""
    found = np.empty((len(tall), weights.shape[1]), np.result_type(tall, weights)) if out is None else out

    def multiply(rows: slice) -> None:
        found[rows] = tall[rows] @ weights

    for _ in over_panels(len(tall), multiply):
        pass
    return found


def take_out(columns: NDArray, basis: NDArray) -> NDArray[np.float64]:
    """Subtract from columns (d, b), in place, what lies in an orthonormal basis (d, r); return their shares (r, b)."""
    shares = products(basis, columns)
    weights = shares.astype(columns.dtype, copy=False)

    def subtract(rows: slice) -> None:
        columns[rows] -= basis[rows] @ weights

    for _ in over_panels(len(columns) if basis.shape[1] else 0, subtract):
        pass
    return shares
