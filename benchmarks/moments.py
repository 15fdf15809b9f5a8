"""One pass for three methods, against the peers on the same file: ``python benchmarks/moments.py [--rows N]``.

A Zarr store of N x 256 float32 rows in two classes is made once. Every case runs in a process of its own, on the same
number of cores, with the file in the page cache, and reports its time and its peak memory above what its imports took.
Ratios within one run are what counts.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from mmpca_dist.jobs.job import watched_memory
from mmpca_dist.passes.rows import Rows

D, K, CHUNK = 256, 32, 65_536
METHODS = ("pca", "m-pca0", "m-pca1a")
THREADS = psutil.cpu_count(logical=True) or 2


def make_store(path: Path, rows: int) -> None:
    """Write the store with plain 64 MiB chunks, as zarr-python users do without compression."""
    if path.exists():
        return
    import zarr

    from mmpca_dist import open_dataset

    source = open_dataset(f"synthetic:gaussian?n={rows}&d={D}&imbalance=0.4&seed=1")
    group = zarr.open_group(str(path), mode="w")
    X = group.create_array("X", shape=(rows, D), chunks=(CHUNK, D), dtype="f4", compressors=None, fill_value=np.nan)
    y = group.create_array("y", shape=(rows,), chunks=(CHUNK,), dtype="i8", fill_value=0,
                           config={"write_empty_chunks": True})  # fmt: skip
    for start in range(0, rows, CHUNK):
        stop = min(start + CHUNK, rows)
        X[start:stop], y[start:stop] = source.read_rows(start, stop), source.read_labels(start, stop)


def ours(path: Path, methods: tuple[str, ...] = METHODS) -> None:
    from mmpca_dist import MarginPCA, open_dataset
    from mmpca_dist.passes.census import take_census
    from mmpca_dist.passes.schedulers import Threads
    from mmpca_dist.passes.tree_reduction import Tasks
    from mmpca_dist.statistics.from_rows import gather_statistics
    from mmpca_dist.tables.spans import make_spans

    dataset, scheduler = open_dataset(str(path)), Threads(THREADS)
    spans = make_spans(dataset)
    census = take_census(dataset, spans, Tasks(scheduler=scheduler))
    pairings = ("one-vs-rest",) if "m-pca1b" in methods else ()
    statistics = gather_statistics(
        Rows(dataset=dataset, census=census, spans=spans, scheduler=scheduler), precision="single", pairings=pairings
    )
    for method in methods:
        MarginPCA(K, method).fit_statistics(statistics)


def ours_with_medians(path: Path) -> None:
    ours(path, (*METHODS, "m-pca1b"))


def ours_from_dask(path: Path) -> None:
    import dask.array as da

    from mmpca_dist import MarginPCA, class_moments

    moments = class_moments(da.from_zarr(str(path), component="X"), da.from_zarr(str(path), component="y"))
    for method in METHODS:
        MarginPCA.from_moments(moments, method, K)


def dask_ml_randomized(path: Path) -> None:
    import dask.array as da
    from dask_ml.decomposition import PCA

    PCA(K, svd_solver="randomized", random_state=0).fit(da.from_zarr(str(path), component="X"))


def incremental_pca(path: Path) -> None:
    import zarr
    from sklearn.decomposition import IncrementalPCA

    X = zarr.open_array(str(path / "X"), mode="r")
    model = IncrementalPCA(K)
    for start in range(0, X.shape[0], CHUNK):
        model.partial_fit(X[start : start + CHUNK])


def in_memory_covariance_eigh(path: Path) -> None:
    import zarr
    from sklearn.decomposition import PCA

    PCA(K, svd_solver="covariance_eigh").fit(zarr.open_array(str(path / "X"), mode="r")[:])


def _in_threads(work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def reading_alone(path: Path) -> None:
    """Zarr's own reading, into a reused buffer."""
    import zarr
    from zarr.core.buffer.cpu import NDBuffer

    X = zarr.open_array(str(path / "X"), mode="r")

    def work(first: int) -> None:
        buffer = np.empty((CHUNK, D), np.float32)
        for chunk in range(first, -(-X.shape[0] // CHUNK), THREADS):
            stop = min((chunk + 1) * CHUNK, X.shape[0])
            selection = (slice(chunk * CHUNK, stop), slice(None))
            X.get_basic_selection(selection, out=NDBuffer(buffer[: stop - chunk * CHUNK]))

    _in_threads(work)


def reading_alone_dask(path: Path) -> None:
    """Dask's reading: every block of da.from_zarr, and nothing done with it."""
    import dask.array as da

    X = da.from_zarr(str(path), component="X")
    X.map_blocks(lambda block: np.zeros((1, 1)), chunks=(1, 1), dtype=float).compute()


def reading_direct(path: Path) -> None:
    """This library's reading of plain local chunks."""
    from mmpca_dist import open_dataset

    dataset = open_dataset(str(path))

    def work(first: int) -> None:
        buffer = np.empty((CHUNK, D), np.float32)
        for chunk in range(first, -(-dataset.n_rows // CHUNK), THREADS):
            stop = min((chunk + 1) * CHUNK, dataset.n_rows)
            dataset.read_rows(chunk * CHUNK, stop, buffer[: stop - chunk * CHUNK])

    _in_threads(work)


def products_alone(path: Path) -> None:
    """Symmetric products of as many rows, from one block in memory, a thread a core."""
    import zarr
    from threadpoolctl import threadpool_limits

    from mmpca_dist.passes.units import BLOCK_ROWS

    blocks = zarr.open_array(str(path / "X"), mode="r").shape[0] // BLOCK_ROWS // THREADS

    def work(seed: int) -> None:
        rows = np.random.default_rng(seed).standard_normal((BLOCK_ROWS, D), dtype=np.float32)
        product = np.empty((D, D), np.float32)
        for _ in range(blocks):
            np.matmul(rows.T, rows, out=product)

    with threadpool_limits(1, user_api="blas"):
        _in_threads(work)


CASES = {
    "pca + m-pca0 + m-pca1a (open_dataset)": ours,
    "pca + m-pca0 + m-pca1a (da.from_zarr)": ours_from_dask,
    "... + m-pca1b (open_dataset)": ours_with_medians,
    "reading alone, zarr, reused buffers": reading_alone,
    "reading alone, da.from_zarr": reading_alone_dask,
    "reading alone, this library": reading_direct,
    "symmetric products alone": products_alone,
    "dask-ml PCA(randomized)": dask_ml_randomized,
    "load + scikit-learn PCA(covariance_eigh)": in_memory_covariance_eigh,
    "scikit-learn IncrementalPCA, by chunks": incremental_pca,
}
SLOW = ("dask-ml PCA(randomized)", "scikit-learn IncrementalPCA, by chunks", "load + scikit-learn PCA(covariance_eigh)")


def measure(case: str, path: Path) -> dict[str, float]:
    """Run a case in this process and return seconds and peak bytes above its imports."""
    import dask.array
    import sklearn.decomposition  # noqa: F401
    import zarr  # noqa: F401

    if case.startswith("dask-ml"):
        import dask_ml.decomposition  # noqa: F401
    import mmpca_dist  # noqa: F401

    dask.config.set(scheduler="threads", num_workers=THREADS)
    base = psutil.Process().memory_info().rss
    with watched_memory(0.005) as peak:
        begin = time.perf_counter()
        CASES[case](path)
        seconds = time.perf_counter() - begin
    return {"seconds": seconds, "bytes": peak() - base}


def of_cases(
    cases: dict[str, Callable[[Path], dict[str, Any]]], description: str | None, prepare: Callable[[Path], Any] = Path
) -> tuple[int, dict[str, dict[str, Any]]]:
    """Return the rows of a store that is prepared once, and what each case returned of it, with its peak memory.

    Every case runs in a process of its own: the same script, which ends here.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path("runs/benchmarks"))
    parser.add_argument("--case", choices=list(cases))
    arguments = parser.parse_args()
    path = arguments.folder / f"moments-{arguments.rows}.zarr"
    if arguments.case:
        base = psutil.Process().memory_info().rss
        with watched_memory(0.002) as peak:
            found = cases[arguments.case](path)
        print(json.dumps({**found, "bytes": peak() - base}))
        sys.exit()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    make_store(path, arguments.rows)
    prepare(path)
    here = [sys.executable, sys.argv[0], "--rows", str(arguments.rows), "--folder", str(arguments.folder)]
    outputs = {name: subprocess.check_output([*here, "--case", name]) for name in cases}
    return arguments.rows, {name: json.loads(output.splitlines()[-1]) for name, output in outputs.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 4_000_000])
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--case")
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(options.case, options.folder)))
        return
    print(f"{platform.processor() or platform.machine()}, {THREADS} cores, Python {platform.python_version()}")
    for rows in options.rows:
        path = options.folder / f"rows-{rows}.zarr"
        make_store(path, rows)
        reading_alone(path)  # fills the page cache
        print(f"\n{rows:,} x {D} float32, K = {K}; median of {options.repeats}\n")
        print("| case | seconds | peak MiB above imports | times ours |\n| --- | --- | --- | --- |")
        reference = None
        for case in CASES:
            if case in SLOW and rows > 1_000_000:
                continue
            repeats = 1 if case in SLOW else options.repeats
            command = [sys.executable, __file__, "--case", case, "--folder", str(path)]
            found = [json.loads(subprocess.check_output(command)) for _ in range(repeats)]
            seconds = float(np.median([f["seconds"] for f in found]))
            size = max(f["bytes"] for f in found) / 2**20
            reference = reference or seconds
            print(f"| {case} | {seconds:.2f} | {size:.0f} | {seconds / reference:.1f} |", flush=True)


if __name__ == "__main__":
    main()
