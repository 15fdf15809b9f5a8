"""Let the C library give the memory of freed arrays back to the system."""

from __future__ import annotations

import ctypes
import functools
import sys

LARGE, KEPT = 4 << 20, 32 << 20
"""Bytes from which NumPy asks for huge pages, which make new memory cheap; and what may stay free at the end of a heap."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


@functools.cache
def return_freed_arrays() -> None:
    """Have arrays of `LARGE` bytes or more leave this process as they are freed; only glibc needs to be told.

    By itself glibc raises that size to the largest array that was freed, up to 32 MiB, and keeps twice as much free in
    each arena; threads have arenas of their own. Beside 70 MiB of arrays, 250 MiB were free. Dask tells its workers by
    an environment variable.
    """
    if sys.platform == "linux":
        set_option = getattr(ctypes.CDLL(None), "mallopt", None)  # absent from other C libraries
        if set_option is not None:
            set_option(M_MMAP_THRESHOLD, LARGE)
            set_option(M_TRIM_THRESHOLD, KEPT)
