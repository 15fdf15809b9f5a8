"""Costs of weights, gaps and covariates: class moments of the same rows with and without them, in turn.

Gaps in a tenth of the columns add indicators of these: rows with as many more columns, and no gaps, are their peer.
That of ten covariates are rows with ten more columns.

``python benchmarks/messy.py``. Medians of seconds, and of seconds of the processor, which other work on the machine
disturbs less; and the most memory beyond the rows.
"""

from __future__ import annotations

import statistics
import time
import tracemalloc

import numpy as np

from mmpca_dist import class_moments
from mmpca_dist.statistics.from_rows import moments_of
from mmpca_dist.statistics.widened_rows import widened
from mmpca_dist.tables.covariates import given_covariates
from mmpca_dist.tables.readers.memory import rows_in_memory, with_covariates

SHAPES = ((400_000, 64), (100_000, 256), (20_000, 1000))
REPEATS = 25
KINDS = "wall", "processor"


def measured(functions):
    """Return the median of seconds, and of those of the processor, of each of several functions, which take turns.

    Each turn has an order of its own, and each function runs once before it is timed: the kernel takes long over memory
    that the function before did not need.
    """
    seconds, rng = [([], []) for _ in functions], np.random.default_rng(0)
    for _ in range(REPEATS):
        for number in rng.permutation(len(functions)):
            times, function = seconds[number], functions[number]
            function()
            begin = time.perf_counter(), time.process_time()
            function()
            times[0].append(time.perf_counter() - begin[0])
            times[1].append(time.process_time() - begin[1])
    return [[statistics.median(times[kind]) for times in seconds] for kind in (0, 1)]


def peaks(functions):
    """Return the most memory that each function takes beyond its rows, in MiB."""
    found = []
    for function in functions:
        tracemalloc.start()
        function()
        found.append(tracemalloc.get_traced_memory()[1] / 2**20)
        tracemalloc.stop()
    return found


def cases(n, d):
    """Return what is timed: plain, weights, gaps and their peer; in double precision plain, covariates and theirs."""
    rng = np.random.default_rng(0)
    X, y, w = rng.standard_normal((n, d), dtype=np.float32), rng.integers(10, size=n), rng.uniform(0.1, 4, n)
    wider, gaps = np.concatenate([X, X[:, ::10]], axis=1), X.copy()
    gaps[:, ::10][rng.random((n, len(range(0, d, 10)))) < 0.1] = np.nan
    missing = np.isnan(gaps).sum(axis=0)
    with_gaps = widened(rows_in_memory(gaps, y, "X"), missing, np.nanmean(gaps, axis=0))
    ten_more = np.concatenate([X, X[:, :10]], axis=1)
    covariates = widened(with_covariates(rows_in_memory(X, y, "X"), given_covariates(rng.standard_normal((n, 10)), n)))
    return [
        lambda: class_moments(X, y),
        lambda: class_moments(X, y, sample_weight=w),
        lambda: moments_of(with_gaps, precision="single"),
        lambda: class_moments(wider, y),
        lambda: class_moments(X, y, precision="double"),
        lambda: moments_of(covariates, precision="double"),
        lambda: class_moments(ten_more, y, precision="double"),
    ]


def main():
    print("rows x columns: seconds plain; ratios with weights; with gaps in a tenth of the columns (with a tenth more")
    print("columns and no gaps); with ten covariates (with ten more columns)")
    for n, d in SHAPES:
        functions = cases(n, d)
        for kind, (plain, weighted, filled, wider, double, removed, ten) in zip(
            KINDS, measured(functions), strict=True
        ):
            print(
                f"{n:>8,} x {d:>5}: {plain:.3f} s ({kind}); {weighted / plain:.2f}, {filled / plain:.2f} "
                f"({wider / plain:.2f}), {removed / double:.2f} ({ten / double:.2f}) of double precision "
                f"({double / plain:.2f})", flush=True,
            )  # fmt: skip
        plain, weighted, filled, wider, double, removed, _ = (f"{peak:.0f}" for peak in peaks(functions))
        print(f"{'':>16}  {plain} MiB; {weighted}, {filled} ({wider}), {removed} of double precision ({double})")


if __name__ == "__main__":
    main()
