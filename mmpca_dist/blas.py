"""One BLAS thread per task: as many tasks as cores beat many threads per task, and the bits stay the same."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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

    The limit is the process's, not the thread's: whoever leaves first must not lift it for the others. It holds also
    where the caller set another one, and is taken back whichever thread leaves last.
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
