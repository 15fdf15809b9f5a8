"""Floors, files that are made once, loading and angles, which several cases share."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from scipy.linalg import subspace_angles
from scipy.linalg.blas import ssyrk
from threadpoolctl import threadpool_limits

from benchmarks.harness import THREADS, Case, Data

BLOCK_BYTES = 2 << 20
"""Buffer that floors read into and multiply, as large as a block of a pass."""


def in_threads(work: Callable[[int], None]) -> None:
    """Run a function of the thread's number on every core, BLAS with one thread each."""
    with threadpool_limits(1, user_api="blas"):
        threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def read_files(data: Data) -> Data:
    """Read the files of the rows, each thread every other block of them, into a buffer."""
    root = Path(data["path"])
    files = sorted(path for path in ([root] if root.is_file() else root.rglob("*")) if path.is_file())

    def work(number: int) -> None:
        buffer = memoryview(bytearray(BLOCK_BYTES))
        for path in files:
            with path.open("rb", buffering=0) as file:
                for start in range(number * BLOCK_BYTES, path.stat().st_size, THREADS * BLOCK_BYTES):
                    file.seek(start)
                    file.readinto(buffer)

    in_threads(work)
    return {}


def multiply(data: Data, vectors: int = 0) -> Data:
    """Multiply as many blocks as the rows have by themselves; or by vectors, and the results by the blocks again."""
    columns, vectors = data["columns"], data.get("vectors", vectors)
    rows = min(max(BLOCK_BYTES // (4 * columns), 1), data["rows"])

    def work(number: int) -> None:
        block = np.random.default_rng(number).standard_normal((rows, columns), dtype=np.float32)
        total = np.zeros((columns, 0 if vectors else columns), np.float32, order="F")
        V = np.ones((columns, vectors), np.float32)
        for _ in range(number, -(-data["rows"] // rows), THREADS):
            if vectors:
                block.T @ (block @ V)
            else:
                ssyrk(1.0, block.T, beta=1.0, c=total, overwrite_c=1)

    in_threads(work)
    return {}


def floors(case: Case, vectors: int = 0) -> Case:
    """Add reading alone and products alone."""
    case.add("reading alone", read_files, "floor")
    case.add("products alone", partial(multiply, vectors=vectors), "floor")
    return case


@contextmanager
def made(path: Path) -> Iterator[bool]:
    """Yield whether the file or folder must be made; a marker beside it tells that it is whole."""
    marker = path.with_name(path.name + ".whole")
    yield not marker.exists()
    marker.touch()


def nothing(_folder: Path, **shape: Any) -> Data:
    """Make no file: rows are drawn where they are needed."""
    return shape


def zarr_array(path: str) -> Any:
    return zarr.open_array(path, mode="r")


def loaded(data: Data) -> NDArray:
    """Return all rows, in single precision as the peers need them."""
    X = zarr_array(data["path"])[:]
    return X if X.dtype == np.float32 else X.astype(np.float32)


def degrees(components: Any, others: Any) -> float:
    """Return the largest angle between the spans of the rows of two matrices."""
    return float(np.degrees(subspace_angles(np.asarray(components, float).T, np.asarray(others, float).T).max()))


def number(_data: Any, value: float, name: str) -> dict[str, float]:
    """Return the number that an entry found as its accuracy: an objective, or an error in percent."""
    return {name: value}
