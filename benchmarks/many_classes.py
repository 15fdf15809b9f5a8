"""``pca`` and ``fisher`` over 21,000 classes and over 10, in one pass: ``python benchmarks/many_classes.py``.

A Zarr store of N x 768 float16 rows is made once, with two columns of labels drawn at random: the shape of image
embeddings (N = 14,000,000 takes 21 GB). Every case runs in a process of its own on two threads. The seconds of the
processor, of both threads together, depend least on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

D, CHUNK, COUNTS, K, THREADS = 768, 43_690, (10, 21_000), 32, 2


def make_store(path: Path, rows: int) -> None:
    """Write rows about a random mean of each of the 21,000 classes, and both columns of labels."""
    if path.exists():
        return
    import zarr

    rng = np.random.default_rng(0)
    group = zarr.open_group(str(path), mode="w")
    X = group.create_array("X", shape=(rows, D), chunks=(CHUNK, D), dtype="f2", compressors=None)
    labels = [
        group.create_array(f"y{count}", shape=(rows,), chunks=(16 * CHUNK,), dtype="i4", fill_value=-1)
        for count in COUNTS
    ]
    for y, count in zip(labels, COUNTS, strict=True):
        y[...] = rng.integers(count, size=rows, dtype=np.int32)
    means = rng.standard_normal((max(COUNTS), D), dtype=np.float32) / 2
    for start in range(0, rows, CHUNK):
        codes = labels[-1][start : start + CHUNK]
        X[start : start + CHUNK] = means[codes] + rng.standard_normal((len(codes), D), dtype=np.float32)


def fit(path: str, n_classes: str) -> dict[str, float]:
    """Fit both methods from one pass."""
    import resource

    from mmpca_dist import FisherDiscriminant, MarginPCA, open_dataset
    from mmpca_dist.eigen.needs import Needs
    from mmpca_dist.eigen.options import SolverOptions
    from mmpca_dist.methods.base.statistics_for import statistics_for
    from mmpca_dist.passes.rows import Rows
    from mmpca_dist.passes.schedulers import Threads

    reducers = [MarginPCA(K, "pca"), FisherDiscriminant(min(K, int(n_classes) - 1))]
    needs = Needs.of_all((reducer.needs() for reducer in reducers), K)
    clock, cpu = time.perf_counter(), time.process_time()
    rows = Rows.of(open_dataset(path, label=f"y{n_classes}"), Threads(THREADS))
    statistics = statistics_for(rows, needs, SolverOptions(), precision="single", standardize=False)
    passed = time.process_time() - cpu
    for reducer in reducers:
        reducer.fit_statistics(statistics)
    return {
        "seconds": time.perf_counter() - clock,
        "processor": time.process_time() - cpu,
        "of that passes": passed,
        "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path("benchmarks"))
    parser.add_argument("--case", nargs=2)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(fit(*options.case)))
        return
    path = options.folder / f"many-{options.rows}.zarr"
    make_store(path, options.rows)
    processor = {}
    for count in COUNTS:
        command = [sys.executable, __file__, "--case", str(path), str(count)]
        result = json.loads(subprocess.check_output(command))
        processor[count] = result["processor"]
        print(f"{count:,} classes: " + ", ".join(f"{name} {value:.1f}" for name, value in result.items()))
    print(f"{processor[COUNTS[1]] / processor[COUNTS[0]]:.2f} times the seconds of the processor")


if __name__ == "__main__":
    main()
