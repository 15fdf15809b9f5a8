"""Let the C library give the memory of freed arrays back to the system."""

from __future__ import annotations

import ctypes
import functools
import sys

LARGE, KEPT = 4 << 20, 32 << 20
"""NumPy asks for huge pages, which are cheap, for so many bytes; and what an arena may keep free at its end."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


@functools.cache
def return_freed_arrays() -> None:
    """Have arrays of `LARGE` bytes or more leave this process as they are freed; only glibc needs to be told.

    By itself glibc raises that size to that of the largest array that was freed, up to 32 MiB, and keeps twice as much
    free in each arena, of which every thread has its own: 250 MiB were free next to 70 MiB of arrays. Dask tells its
    workers by an environment variable.
    """
    if sys.platform == "linux":
        set_option = getattr(ctypes.CDLL(None), "mallopt", None)  # absent from other C libraries
        if set_option is not None:
            set_option(M_MMAP_THRESHOLD, LARGE)
            set_option(M_TRIM_THRESHOLD, KEPT)
