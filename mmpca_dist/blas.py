"""Dense matrix products: one BLAS thread a task, and tall matrices by panels of rows; fits that go one by one."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from dask.system import CPU_COUNT
from numpy.typing import DTypeLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import OpenBLASController, ThreadpoolController

_lock = threading.Lock()
_holders = 0
_limiter: Any = None


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread while any thread of this process is inside.

    The limit is the process's, not the thread's: the last thread that leaves lifts it. It replaces any other limit.
    """
    global _holders, _limiter
    with _lock:
        _holders += 1
        if _holders == 1:
            _take_control()
            _limiter = _controller().limit(limits=1, user_api="blas")
            _limiter.__enter__()
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0:
                _take_control()
                _limiter.__exit__(None, None, None)
                _limiter = None


def _take_control() -> None:
    """Let this thread set limits: from threadpoolctl 3.8 on, only the thread that set the last one can."""
    clear = getattr(OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


_alone = threading.RLock()


@contextmanager
def alone() -> Iterator[None]:
    """Keep the other threads of the process from fitting meanwhile, and suppress what fits warn of.

    LIBLINEAR and LIBSVM draw from one generator a process, which every fit seeds. Threads that fit at the same time
    disturb each other's draws, and then results differ from run to run. Filters of warnings belong to the process too.
    Fits count what did not converge by their iterations (`unconverged`).
    """
    with _alone, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "The number of unique classes is greater", UserWarning)
        yield


PANEL_ROWS = 2048
"""Few enough that panels in double precision, copied from single, stay near the processor."""

T = TypeVar("T")


def over_panels(n_rows: int, task: Callable[[slice], T]) -> Iterator[T]:
    """Yield the result of ``task`` for each panel of rows, in order."""
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
    total = np.zeros((left.shape[1], right.shape[1]))
    for product in over_panels(len(left), multiply):
        total += product
    return total


def combinations(tall: NDArray, weights: NDArray, out: NDArray | None = None) -> NDArray:
    """Return tall weights, shape (d, b), of (d, a) and (a, b), in their common type."""
    if out is None:
        out = np.empty((len(tall), weights.shape[1]), np.result_type(tall, weights))

    def multiply(rows: slice) -> None:
        out[rows] = tall[rows] @ weights

    for _ in over_panels(len(tall), multiply):
        pass
    return out


def take_out(columns: NDArray, basis: NDArray) -> NDArray[np.float64]:
    """Subtract from columns (d, b), in place, what lies in an orthonormal basis (d, r); return their shares (r, b)."""
    shares = products(basis, columns)
    weights = shares.astype(columns.dtype, copy=False)

    def subtract(rows: slice) -> None:
        columns[rows] -= basis[rows] @ weights

    for _ in over_panels(len(columns) if basis.shape[1] else 0, subtract):
        pass
    return shares
