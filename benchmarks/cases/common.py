"""What several cases share: floors, files that are made once, angles."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import THREADS

BLOCK_BYTES = 2 << 20
"""Buffer that floors read into and multiply, as large as a block of a pass."""


def in_threads(work: Callable[[int], None]) -> None:
    """Run a function of the thread's number on every core, BLAS with one thread each."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def read_files(data: Mapping[str, Any]) -> dict[str, Any]:
    """Read the files of the rows into a buffer of a block's size for each thread."""
    root = Path(data["path"])
    files = sorted(path for path in ([root] if root.is_file() else root.rglob("*")) if path.is_file())

    def work(number: int) -> None:
        buffer = memoryview(bytearray(BLOCK_BYTES))
        for path in files[number::THREADS]:
            with path.open("rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass

    in_threads(work)
    return {}


def multiply(data: Mapping[str, Any], times: Callable[[NDArray, int], Any] | None = None) -> dict[str, Any]:
    """Multiply a block by itself (or as ``times`` does) as often as the rows have blocks."""
    from scipy.linalg.blas import dsyrk, ssyrk

    dtype = np.dtype(data.get("product", "f4"))
    rows = min(max(BLOCK_BYTES // (dtype.itemsize * data["columns"]), 1), data["rows"])
    syrk = ssyrk if dtype.itemsize == 4 else dsyrk

    def work(number: int) -> None:
        block = np.random.default_rng(number).standard_normal((rows, data["columns"])).astype(dtype)
        total = np.zeros((data["columns"],) * 2, dtype, order="F")
        for turn in range(number, -(-data["rows"] // rows), THREADS):
            if times:
                times(block, turn)
            else:
                syrk(1.0, block.T, beta=1.0, c=total, overwrite_c=1)

    in_threads(work)
    return {}


@contextmanager
def made(path: Path) -> Iterator[bool]:
    """Yield whether the file or folder must be made; a marker beside it tells that it is whole."""
    marker = path.with_name(path.name + ".whole")
    yield not marker.exists()
    marker.touch()


def degrees(components: Any, others: Any) -> float:
    """Return the largest angle between the spans of the rows of two matrices."""
    from scipy.linalg import subspace_angles

    return float(np.degrees(subspace_angles(np.asarray(components, float).T, np.asarray(others, float).T).max()))
