"""Compile inner loops with numba, and cache them on disk."""

from __future__ import annotations

import functools
import hashlib
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import event
from numba.core.registry import cpu_target

from mmpca_dist import compile_notice

MODULES = ("neighbors/bounds", "neighbors/kernels", "statistics/sparse_products")
"""Modules with compiled functions."""

N = np.uint64
"""Type of indices in inner loops: signed ones could be negative, and slices are counted references; both cost more
than the arithmetic."""


class _Compilations(event.Listener):
    """Listens to what numba compiles of this package because its cache does not have it."""

    def on_start(self, event: Any) -> None:
        # Functions that other libraries make at run time may be of no module.
        if str(event.data["dispatcher"].py_func.__module__).startswith("mmpca_dist."):
            compile_notice.begun()

    def on_end(self, event: Any) -> None:
        """Ignore the end."""


event.register("numba:compile", _Compilations())

# At its first call numba registers types, of which it has one table without a lock: while one thread registered,
# another that looked one up raised "dictionary changed size during iteration". So they are registered here.
cpu_target.target_context.refresh()


@functools.cache
def _sources() -> str:
    """Return a checksum of all modules with compiled functions."""
    sources = (files(__package__).joinpath(f"{name}.py").read_bytes() for name in (*MODULES, "jit"))
    return hashlib.sha256(b"".join(sources)).hexdigest()[:12]


@functools.cache
def _shared(module: str) -> str:
    """Return the path of a copy of a module that all environments of a user have, or its own where there is none.

    Numba keeps what it compiles next to the file that the code of a function names, or under the path of that file.
    """
    if os.environ.get("NUMBA_CACHE_DIR"):  # the user has chosen
        return module
    try:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        copy = caches / "mmpca" / f"numba-{numba.__version__}-{_sources()}" / Path(module).name
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            partial = copy.with_suffix(f".{os.getpid()}")
            partial.write_bytes(Path(module).read_bytes())
            partial.replace(copy)
    except (OSError, RuntimeError):  # no home, or none to write to
        return module
    return str(copy)


def compiled(function: Any, **options: Any) -> Any:
    """Compile a function, and cache it on disk."""
    # Numba compares a cached function with its own file alone, but a caller contains the functions and constants that
    # it takes from other files. The name is part of the cache's file names.
    function.__qualname__ = f"{function.__qualname__}_{_sources()}"
    function.__code__ = function.__code__.replace(co_filename=_shared(function.__code__.co_filename))
    return numba.njit(nogil=True, cache=True, error_model="numpy", **options)(function)


reordered = functools.partial(compiled, fastmath={"reassoc", "contract"})
"""Compile a function with sums in any order: for bounds, never for distances."""
