"""A sweep of BM2PCA compared with a pass for moments, and row by row: ``python benchmarks/sweeps.py [--rows N]``.

The store of ``moments.py``: N x 256 float32 rows in two classes, ten components. Every case runs in a process of its
own, on the same number of cores, and reports its time and its peak memory above what its imports took. ``row by row``
is the paper's way, an inverse of a k x k matrix for every row: NumPy's stacked inverses, block by block, in double
precision on all cores. Ratios within one run are what counts.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from moments import THREADS, of_cases

K, C, SWEEPS, BLOCK = 10, 100.0, 4, 8192


def moments(path: Path) -> dict[str, Any]:
    from mmpca_dist import class_moments, open_dataset

    times = []
    for _ in range(3):
        begin = time.perf_counter()
        class_moments(open_dataset(str(path)))
        times.append(time.perf_counter() - begin)
    return {"seconds": min(times)}


def sweeps(path: Path) -> dict[str, Any]:
    from mmpca_dist import BayesianMarginPCA, open_dataset
    from mmpca_dist.eigen.options import SolverOptions
    from mmpca_dist.methods.base.statistics_for import class_statistics, with_sweeps
    from mmpca_dist.passes.rows import Rows
    from mmpca_dist.passes.schedulers import Threads

    begins: list[float] = []
    model = BayesianMarginPCA(K, C=C, tol=0.0, max_iter=SWEEPS)
    rows = Rows.of(
        open_dataset(str(path)), Threads(THREADS), on_pass=lambda name, _: begins.append(time.perf_counter())
    )
    statistics = class_statistics(rows, model.needs(), SolverOptions(), precision="single", standardize=False)
    begins.clear()
    with_sweeps(statistics, rows, model._fit(), [K])
    return {"seconds": float(np.diff([*begins, time.perf_counter()]).min())}


def row_by_row(path: Path) -> dict[str, Any]:
    """Update z and lambda of every row with an inverse of its own, and add up what the updates need."""
    import zarr

    group = zarr.open_group(str(path), mode="r")
    X, y = group["X"], np.where(np.asarray(group["y"][:]) == 1, 1.0, -1.0)
    rng = np.random.default_rng(0)
    M, mean = rng.standard_normal((X.shape[1], K)), np.asarray(X[:BLOCK]).mean(axis=0)
    eta = rng.standard_normal(K + 1)
    squares = np.outer(eta, eta) + 0.01 * np.eye(K + 1)
    B = np.eye(K) + M.T @ M
    inverse = np.full(len(y), 1 / C)

    def block(start: int) -> tuple[np.ndarray, ...]:
        rows = np.asarray(X[start : start + BLOCK], np.float64) - mean
        signs, s = y[start : start + len(rows)], inverse[start : start + len(rows)]
        covariance = np.linalg.inv(B + C**2 * s[:, None, None] * squares[:K, :K])
        pull = rows @ M + (C * signs * (1 + C * s))[:, None] * eta[:K] - C**2 * s[:, None] * squares[K, :K]
        z = np.append(np.einsum("nij,nj->ni", covariance, pull), np.ones((len(rows), 1)), axis=1)
        second = z[:, :, None] * z[:, None, :]
        second[:, :K, :K] += covariance
        chi = C**2 * (1 - 2 * signs * (z @ eta) + np.einsum("nij,ij->n", second, squares))
        s = inverse[start : start + len(rows)] = 1 / np.sqrt(chi)
        return rows.T @ z, second.sum(axis=0), np.einsum("n,nij->ij", s, second), (C * signs * (1 + C * s)) @ z

    begin = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(block, range(0, len(y), BLOCK)):
            pass
    return {"seconds": time.perf_counter() - begin}


CASES = {case.__name__: case for case in (moments, sweeps, row_by_row)}


def main() -> None:
    rows, found = of_cases(CASES, __doc__)
    print(f"| {rows:,} x 256, k = {K}, {THREADS} threads | seconds | MiB | times a sweep |")
    print("| --- | --- | --- | --- |")
    for name, case in found.items():
        ratio = case["seconds"] / found["sweeps"]["seconds"]
        print(f"| {name.replace('_', ' ')} | {case['seconds']:.2f} | {case['bytes'] / 2**20:.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
