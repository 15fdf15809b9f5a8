"""Solvers in passes against their peers: ``python benchmarks/krylov.py [wide|memory|text|scaling ...]``.

``wide``: 100,000 x 20,000 float32 (8 GB of Zarr, low rank plus noise, made once), 50 components, against
``da.linalg.svd_compressed(compute=True)`` on rows whose mean was subtracted beforehand, at no charge. ``memory``:
rows that fit, against scikit-learn's ``randomized_svd`` and ``TruncatedSVD``. ``text``: 20 Newsgroups (CSR, found
through ``MMPCA_DATA``), 100 components, all methods together, ``pca`` in passes and by ARPACK, and scikit-learn's with
arpack.
``scaling``: time and memory as rows and columns double, as a picture. Each case runs in a process of its own; the
residual is the largest ||S v - l v|| / l of the components, from a further pass in double precision that is not timed.
Ratios within one run are what counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

THREADS = psutil.cpu_count(logical=True) or 2
WIDE = (100_000, 20_000)
FITS = (20_000, 4_000)
RANK, K, CHUNK = 80, 50, 800
CASES = {
    "wide": ["ours 3", "compressed 2", "ours 5", "compressed 4"],
    "memory": ["ours 4", "randomized_svd", "truncated_svd"],
    "text": ["all", "pca", "m-pca0", "pca 4", "pca 6", "arpack"],
}
REPEATS = {"memory": 3, "text": 3}
"""Short fits are repeated, and the shortest time counts; six methods together are a run, and are not."""


def make(n: int, d: int, folder: Path) -> str:
    """Return the path of a Zarr group of low rank plus noise, made once: two classes, mean far from zero."""
    import zarr

    path = folder / f"low-rank-{n}x{d}.zarr"
    if path.exists():
        return str(path)
    rng = np.random.default_rng(0)
    directions = np.linalg.qr(rng.standard_normal((d, RANK)))[0].T.astype(np.float32)
    sizes = np.geomspace(30, 2, RANK).astype(np.float32)
    group = zarr.open_group(str(path), mode="w")
    X = group.create_array("X", shape=(n, d), dtype="float32", chunks=(CHUNK, d), compressors=None)
    group.create_array("y", data=rng.integers(0, 2, n))
    for start in range(0, n, CHUNK):
        rows = min(CHUNK, n - start)
        leading = rng.standard_normal((rows, RANK), dtype=np.float32) * sizes
        noise = rng.standard_normal((rows, d), dtype=np.float32) * np.float32(0.3)
        X[start : start + rows] = leading @ directions + noise + np.float32(5)
    return str(path)


def residual(X: Any, components: np.ndarray) -> float:
    """Return the largest ||S v - l v|| / l for the scatter of centred rows (array or Zarr), in double precision."""
    n, V = X.shape[0], components.T.astype(np.float64)
    total, image, mean_along = np.zeros(X.shape[1]), np.zeros(V.shape), np.zeros(V.shape[1])
    for start in range(0, n, CHUNK):
        rows = X[start : start + CHUNK]
        along = rows @ V
        total += np.asarray(rows.sum(axis=0)).ravel()
        mean_along += along.sum(axis=0)
        image += rows.T @ along
    mean = total / n
    image = image / n - np.outer(mean, mean_along / n)
    values = np.einsum("ij,ij->j", V, image)
    return float(np.max(np.linalg.norm(image - V * values, axis=0) / values))


def measure(kind: str, case: str, folder: Path) -> dict[str, Any]:
    """Run a case and return seconds, bytes, residual and passes."""
    import dask

    dask.config.set(scheduler="threads", num_workers=THREADS)
    task, X = {"wide": _wide, "memory": _memory, "text": _text}[kind](case, folder)
    base, seconds = psutil.Process().memory_info().rss, float("inf")
    for _ in range(1 if case == "all" else REPEATS.get(kind, 1)):
        begin = time.perf_counter()
        components, passes = task()
        seconds = min(seconds, time.perf_counter() - begin)
    peak = _peak()
    return {
        "seconds": seconds, "bytes": peak, "more": peak - base, "passes": passes,
        "residual": None if components is None else residual(X, components),
    }  # fmt: skip


def _wide(case: str, folder: Path) -> tuple[Any, Any]:
    import dask.array as da
    import zarr

    path = make(*WIDE, folder)
    X = zarr.open_group(path, mode="r")["X"]
    kind, number = case.split()
    mean = da.from_zarr(X).mean(axis=0).compute()  # by ours too: the page cache is warm for both
    if kind == "ours":
        return lambda: _fit_stored(path, int(number)), X
    rows = da.from_zarr(X)

    def compressed() -> tuple[np.ndarray, int]:
        _, _, V = da.linalg.svd_compressed(rows - mean, K, n_power_iter=int(number), compute=True, seed=0)
        return V.compute(), 2 * int(number) + 2

    return compressed, X


def _fit_stored(path: str, passes: int) -> tuple[np.ndarray, int]:
    from mmpca_dist import MarginPCA, open_dataset
    from mmpca_dist.passes.schedulers import Threads

    model = MarginPCA(K, variant="pca", solver="krylov", passes=passes, tolerance=0)
    model._fit_rows(open_dataset(path), Threads(THREADS))
    return model.components_, model.certificate_["passes"]


def _memory(case: str, folder: Path) -> tuple[Any, Any]:
    import zarr
    from sklearn.decomposition import TruncatedSVD
    from sklearn.utils.extmath import randomized_svd

    from mmpca_dist import MarginPCA

    group = zarr.open_group(make(*FITS, folder), mode="r")
    X, y = group["X"][...], group["y"][...]
    centred = X - X.mean(axis=0)
    if case.startswith("ours"):
        model = MarginPCA(K, variant="pca", solver="krylov", passes=int(case.split()[1]))
        return lambda: (model.fit(X, y).components_, model.certificate_["passes"]), X
    if case == "randomized_svd":
        return lambda: (randomized_svd(centred, K, random_state=0)[2], None), X
    return lambda: (TruncatedSVD(K, random_state=0).fit(centred).components_, None), X


def _text(case: str, folder: Path) -> tuple[Any, Any]:
    from sklearn.decomposition import PCA

    from mmpca_dist import MarginPCA, open_dataset
    from mmpca_dist.passes.schedulers import Threads

    path = Path(os.environ.get("MMPCA_DATA", "../shared/data")) / "newsgroups20.npz"
    if not path.exists():
        sys.exit(f"There is no {path}: set MMPCA_DATA.")
    dataset = open_dataset(str(path))
    X = dataset.read_sparse(0, dataset.n_rows)
    if case == "arpack":
        rows = X.astype(np.float64)
        return lambda: (PCA(100, svd_solver="arpack", random_state=0).fit(rows).components_, None), X
    if case != "all":
        variant, *passes = case.split()
        in_passes = {"solver": "krylov", "passes": int(passes[0])} if passes else {}
        model = MarginPCA(100, variant, **in_passes)

        def fit() -> tuple[np.ndarray | None, int]:  # the residual is that of pca alone
            components = model._fit_rows(dataset, Threads(THREADS)).components_
            return components if variant == "pca" else None, model.certificate_["passes"]

        return fit, X
    return lambda: (_all_methods(path, folder), None), X


def _all_methods(path: Path, folder: Path) -> None:
    import shutil

    from mmpca_dist import run

    output = folder / "text-run"
    shutil.rmtree(output, ignore_errors=True)
    methods = ["pca", "m-pca0", "m-pca1a", "fisher", "hsic", "lol"]
    run(
        {
            "dataset": {"uri": str(path)}, "methods": methods, "n_components": 100, "project": {"methods": []},
            "compute": {"workers": THREADS}, "output": str(output),
        }
    )  # fmt: skip


def scaling(folder: Path) -> None:
    """Fit n x d and doubles of either, print a table, and draw time and memory with straight lines."""
    from matplotlib.figure import Figure

    sizes = {"rows": [(12_500 * 2**i, 8_000) for i in range(4)], "columns": [(12_500, 8_000 * 2**i) for i in range(4)]}
    sheet = Figure(figsize=(8, 3.2), layout="constrained")
    print("\n| rows | columns | seconds | MiB beyond the library |\n| --- | --- | --- | --- |")
    for axes, (name, shapes) in zip(sheet.subplots(1, 2), sizes.items(), strict=True):
        found = []
        for n, d in shapes:
            make(n, d, folder)
            told = _run(["--one", str(n), str(d), "--folder", str(folder)])
            found.append((told["seconds"], told["more"] / 2**20))
            print(f"| {n:,} | {d:,} | {told['seconds']:.2f} | {told['more'] / 2**20:.0f} |", flush=True)
        axis = [n if name == "rows" else d for n, d in shapes]
        axes.loglog(axis, [s for s, _ in found], "o-", label="seconds")
        axes.loglog(axis, [m / 100 for _, m in found], "s-", label="memory, 100 MiB")
        axes.loglog(axis, [found[0][0] * a / axis[0] for a in axis], ":", color="grey", label="linear")
        axes.set_xticks(axis, [f"{size:,}" for size in axis])
        axes.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
        axes.minorticks_off()
        axes.set_xlabel(f"number of {name}")
        axes.legend(frameon=False)
    sheet.savefig(folder / "krylov-scaling.png", dpi=150)


def _one(n: int, d: int, folder: Path) -> dict[str, Any]:
    path = make(n, d, folder)
    _fit_stored(make(1_000, 200, folder), 2)  # imports are done
    base, begin = psutil.Process().memory_info().rss, time.perf_counter()
    _fit_stored(path, 4)
    return {"seconds": time.perf_counter() - begin, "more": _peak() - base}


def _peak() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _run(arguments: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(subprocess.check_output([sys.executable, __file__, *arguments]).splitlines()[-1])
    return found


def table(kind: str, folder: Path) -> None:
    print(f"\n| {kind} | seconds | passes | residual | peak MiB |\n| --- | --- | --- | --- | --- |")
    for case in CASES[kind]:
        found = _run(["--case", kind, case, "--folder", str(folder)])
        error = "" if found["residual"] is None else f"{found['residual']:.1e}"
        passes, size = found["passes"] or "", found["bytes"] / 2**20
        print(f"| {case} | {found['seconds']:.2f} | {passes} | {error} | {size:.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=[*CASES, "scaling"])
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--case", nargs=2)
    parser.add_argument("--one", nargs=2, type=int)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.case:
        print(json.dumps(measure(*options.case, options.folder)))
    elif options.one:
        print(json.dumps(_one(*options.one, options.folder)))
    else:
        for kind in options.kinds:
            scaling(options.folder) if kind == "scaling" else table(kind, options.folder)


if __name__ == "__main__":
    main()
