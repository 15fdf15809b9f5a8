"""The search for nearest rows of other classes against FAISS: ``python benchmarks/neighbors.py``.

Both directions (every row of either class is a query), preparation included, the same number of threads, each case in
a process of its own. MNIST (digits 0-4 against 5-9) is found through ``MMPCA_DATA``; the clusters are made here. FAISS
is no dependency: without it its rows are left out. ``--large`` runs 10,000,000 x 32 out of core instead, on two
worker processes. The angle is that between the leading eight-dimensional subspaces of M-PCA2 from exact and from
approximate neighbours. Ratios within one run are what counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from scipy.linalg import subspace_angles

THREADS = psutil.cpu_count(logical=True) or 2
K = 8
CLUSTERS = "synthetic:clusters?n={n}&d=64&k=500&classes=2&assign=random&seed=1&separation={separation}"
SEPARATION = {"apart": 2, "close": 1}
DATA = {
    "mnist": "70,000 x 784 (MNIST)",
    "300000-apart": "300,000 x 64 (clusters)",
    "300000-close": "300,000 x 64 (overlapping clusters)",
    "1000000-apart": "1,000,000 x 64 (clusters)",
    "1000000-close": "1,000,000 x 64 (overlapping clusters)",
}
IVF = {
    "mnist": [(256, 8), (256, 16), (256, 32)],
    "300000-apart": [(512, 2), (512, 8), (512, 32)],
    "300000-close": [(512, 8), (512, 32)],
    "1000000-apart": [(512, 2), (512, 32)],
    "1000000-close": [(512, 32)],
}
"""Lists and probes: among them the fewest probes that reach a recall of 0.98."""
RECALLS = (0.98, 0.95, 0.9)


def load(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return float32 rows and two classes, from files that are made once."""
    rows, classes = folder / f"{name}-X.npy", folder / f"{name}-y.npy"
    if not rows.exists():
        X, y = _mnist() if name == "mnist" else _clusters(name)
        np.save(rows, X)
        np.save(classes, y)
    return np.load(rows), np.load(classes)


def _mnist() -> tuple[np.ndarray, np.ndarray]:
    path = Path(os.environ.get("MMPCA_DATA", "../shared/data")) / "mnist.npz"
    if not path.exists():
        sys.exit(f"There is no {path}: set MMPCA_DATA, or name other data sets with --data.")
    arrays = dict(np.load(path))
    X, y = next(a for a in arrays.values() if a.ndim == 2), next(a for a in arrays.values() if a.ndim == 1)
    return X.astype(np.float32), (y.astype(int) >= 5).astype(np.int64)


def _clusters(name: str) -> tuple[np.ndarray, np.ndarray]:
    from mmpca_dist import open_dataset

    n, kind = name.split("-")
    dataset = open_dataset(CLUSTERS.format(n=n, separation=SEPARATION[kind]))
    return dataset.read_rows(0, int(n)), dataset.read_labels(0, int(n))


def ours(X: np.ndarray, y: np.ndarray, **settings: Any) -> tuple[np.ndarray, dict[str, Any]]:
    from mmpca_dist import NearestOpposite

    search = NearestOpposite(**settings).fit(X, y)
    rows = search.kneighbors(return_distance=False)
    return rows[:, 0], search.certificate_


def flat(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    import faiss

    return _both(X, y, lambda queries, rows: faiss.knn(queries, rows, 1)[1])


def ivf(X: np.ndarray, y: np.ndarray, lists: int, probes: int) -> np.ndarray:
    import faiss

    def search(queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
        index = faiss.IndexIVFFlat(faiss.IndexFlatL2(rows.shape[1]), rows.shape[1], lists)
        index.train(rows)
        index.add(rows)
        index.nprobe = probes
        return index.search(queries, 1)[1]

    return _both(X, y, search)


def _both(X: np.ndarray, y: np.ndarray, search: Any) -> np.ndarray:
    found = np.empty(len(X), np.int64)
    members = [np.flatnonzero(y == label) for label in (0, 1)]
    for own, other in (members, members[::-1]):
        found[own] = other[search(np.ascontiguousarray(X[own]), np.ascontiguousarray(X[other]))[:, 0]]
    return found


def subspace(X: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
    """Return the leading eigenvectors of the mean outer product of differences."""
    S = np.zeros((X.shape[1],) * 2)
    for start in range(0, len(X), 65_536):
        D = X[start : start + 65_536].astype(np.float64) - X[neighbours[start : start + 65_536]]
        S += D.T @ D
    return np.linalg.eigh(S)[1][:, -K:]


def measure(case: str, name: str, folder: Path) -> dict[str, Any]:
    """Run a case and return its seconds, peak memory, recall and angle."""
    X, y = load(name, folder)
    kind, *numbers = case.split()
    if kind in ("flat", "ivf"):
        import faiss

        faiss.omp_set_num_threads(THREADS)
    else:
        ours(X[:2000], y[:2000])  # compiled loops are loaded, imports done
    base, begin = psutil.Process().memory_info().rss, time.perf_counter()
    certificate: dict[str, Any] = {}
    if kind == "exact":
        found, certificate = ours(X, y)
    elif kind == "approximate":
        found, certificate = ours(X, y, search="approximate", recall=float(numbers[0]))
    else:
        found = flat(X, y) if kind == "flat" else ivf(X, y, *(int(n) for n in numbers))
    seconds = time.perf_counter() - begin
    peak = _peak() - base
    truth = folder / f"{name}-exact.npy"
    if kind == "exact":
        np.save(truth, found)
    exact = np.load(truth)
    d, e = (np.linalg.norm(X - X[rows], axis=1) for rows in (found, exact))
    angle = np.degrees(subspace_angles(subspace(X, found), subspace(X, exact)).max())
    return {"seconds": seconds, "bytes": peak, "recall": float(np.mean(d <= e * (1 + 1e-6))), "angle": float(angle),
            "certificate": certificate}  # fmt: skip


def _peak() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def table(name: str, folder: Path) -> None:
    """Print one data set's table."""
    print(f"\n| {DATA[name]}, {THREADS} threads | seconds | times ours | recall | angle | peak MiB |")
    print("| --- | --- | --- | --- | --- | --- |")
    cases = ["exact", *(f"approximate {recall}" for recall in RECALLS)]
    if _has_faiss():
        cases += ["flat", *(f"ivf {lists} {probes}" for lists, probes in IVF[name])]
    reference = None
    for case in cases:
        command = [sys.executable, __file__, "--case", case, "--data", name, "--folder", str(folder)]
        found = json.loads(subprocess.check_output(command).splitlines()[-1])
        reference = reference or found["seconds"]
        size = found["bytes"] / 2**20
        print(
            f"| {case} | {found['seconds']:.2f} | {found['seconds'] / reference:.2f} | {found['recall']:.4f} | "
            f"{found['angle']:.2f} | {size:.0f} |",
            flush=True,
        )


def _has_faiss() -> bool:
    try:
        import faiss  # noqa: F401
    except ImportError:
        print("FAISS is not installed: its rows are left out (pip install faiss-cpu).")
        return False
    return True


def large(rows: int) -> None:
    """Search out of core on two worker processes, and print what it cost."""
    from mmpca_dist import run

    settings = {
        "recall 0.95": {"mode": "approximate", "recall": 0.95},
        "exact, 100,000 queries": {"max_queries": 100_000},
    }
    for title, neighbors in settings.items():
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            results = run(
                {
                    "dataset": {"uri": f"synthetic:clusters?n={rows}&d=32&k=500&classes=2&assign=random&seed=1"},
                    "methods": ["m-pca2"], "n_components": K, "neighbors": neighbors,
                    "project": {"methods": []},
                    "compute": {"cluster": "local", "workers": 2, "memory_limit": "1536MiB"},
                    "output": f"{folder}/run",
                }
            )  # fmt: skip
        search, seconds = results["search"], time.perf_counter() - begin
        print(f"{rows:,} x 32, {title}: {seconds:.0f} s in all, search {search['seconds']:.0f} s, "
              f"{search['memory'] / 2**20:.0f} MiB a worker", flush=True)  # fmt: skip
        print(json.dumps(search["certificate"]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--case")
    parser.add_argument("--large", type=int, nargs="?", const=10_000_000)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.case:
        print(json.dumps(measure(options.case, options.data[0], options.folder)))
    elif options.large:
        large(options.large)
    else:
        for name in options.data:
            load(name, options.folder)
            table(name, options.folder)


if __name__ == "__main__":
    main()
