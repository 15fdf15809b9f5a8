"""Large buffers that tasks reuse: page faults of fresh memory cost more than reading into it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

_lock = threading.Lock()
_free: list[NDArray[np.uint8]] = []


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
