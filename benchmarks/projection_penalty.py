"""Projection penalties compared with one pass: ``python benchmarks/projection_penalty.py [--rows N]``.

The store of ``moments.py``: N x 256 float32 rows in two classes. The reduction has 16 components of M-PCA2, found by a
search for some of the rows and the same for all cases. Cases run in processes of their own, one after the other, on the
same number of cores, and report time and peak memory above what their imports took:

- ``moments``: a pass for class moments;
- ``squares``: squared losses for ten values of alpha, from these moments, which takes no further pass;
- ``logistic``, ``hinge``: passes until the duality gap is 1e-5 of the objective, those for moments included.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from moments import make_store

K, ALPHA, EPSILON = 16, 10.0, 1e-2
ALPHAS = tuple(10.0**exponent for exponent in range(-8, 11, 2))


def reduction(path: Path) -> np.ndarray:
    """Return the components, which are found once."""
    file = path.with_suffix(".reduction.npy")
    if not file.exists():
        from mmpca_dist import MarginPCA, open_dataset

        np.save(file, MarginPCA(K, "m-pca2", max_queries=2_000).fit(open_dataset(str(path))).components_)
    return np.load(file)


def moments(path: Path, P: np.ndarray) -> dict[str, Any]:
    from mmpca_dist import class_moments, open_dataset

    times = []
    for _ in range(3):
        begin = time.perf_counter()
        class_moments(open_dataset(str(path)))
        times.append(time.perf_counter() - begin)
    return {"seconds": min(times)}


def squares(path: Path, P: np.ndarray) -> dict[str, Any]:
    from mmpca_dist import ProjectionPenaltyClassifier, class_moments, open_dataset

    found = class_moments(open_dataset(str(path)))
    begin = time.perf_counter()
    for alpha in ALPHAS:
        ProjectionPenaltyClassifier.from_moments(found, reduction=P, alpha=alpha, epsilon=EPSILON, loss="squared")
    return {"seconds": time.perf_counter() - begin}


def _ours(path: Path, P: np.ndarray, loss: str) -> dict[str, Any]:
    from mmpca_dist import ProjectionPenaltyClassifier, open_dataset

    begin = time.perf_counter()
    model = ProjectionPenaltyClassifier(P, alpha=ALPHA, epsilon=EPSILON, loss=loss).fit(open_dataset(str(path)))
    seconds = time.perf_counter() - begin
    return {"seconds": seconds, "objective": float(model.objective_[0]), "passes": model.n_iter_ + 1}


def logistic(path: Path, P: np.ndarray) -> dict[str, Any]:
    return _ours(path, P, "logistic")


def hinge(path: Path, P: np.ndarray) -> dict[str, Any]:
    return _ours(path, P, "hinge")


CASES = {case.__name__: case for case in (moments, squares, logistic, hinge)}


def measure(name: str, path: Path) -> None:
    """Run a case in this process, and print what it took."""
    from mmpca_dist.jobs.job import watched_memory

    P, base = reduction(path), psutil.Process().memory_info().rss
    with watched_memory(0.002) as peak:
        found = CASES[name](path, P)
    print(json.dumps({**found, "bytes": peak() - base}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path("runs/benchmarks"))
    parser.add_argument("--case", choices=list(CASES))
    arguments = parser.parse_args()
    path = arguments.folder / f"moments-{arguments.rows}.zarr"
    if arguments.case:
        measure(arguments.case, path)
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    make_store(path, arguments.rows)
    reduction(path)
    print(f"| {arguments.rows:,} x 256, alpha = {ALPHA:g}, epsilon = {EPSILON:g} | seconds | MiB | objective |")
    print("| --- | --- | --- | --- |")
    for name in CASES:
        command = [sys.executable, __file__, "--case", name, "--rows", str(arguments.rows)]
        output = subprocess.check_output([*command, "--folder", str(arguments.folder)])
        found = json.loads(output.splitlines()[-1])
        objective = f"{found['objective']:.8g}" if "objective" in found else ""
        passes = f", {found['passes']} passes" if "passes" in found else ""
        print(f"| {name}{passes} | {found['seconds']:.2f} | {found['bytes'] / 2**20:.0f} | {objective} |")


if __name__ == "__main__":
    main()
