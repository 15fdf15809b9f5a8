"""Moments of CSR rows from stored values and from dense panels: ``python benchmarks/sparse_moments.py``.

Both take the same rows, of 50 classes, in one process on one thread; the best of two times. Scatters are pooled.
"""

from __future__ import annotations

import time

import numpy as np
from scipy.sparse import random_array

from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.statistics import from_rows
from mmpca_dist.tables.readers.memory import rows_in_memory
from mmpca_dist.tables.spans import make_spans


def seconds(rows: Rows, stored: bool) -> float:
    """Return the seconds of the processor of a pass over rows as stored, or made dense."""
    from_rows.multiplies_stored = lambda dataset: stored
    times = []
    for _ in range(2):
        begin = time.process_time()
        from_rows.take_moments(rows, precision="single", weights=np.ones((1, 50)))
        times.append(time.process_time() - begin)
    return min(times)


def main() -> None:
    rng = np.random.default_rng(0)
    n, d = 16_000, 2_000
    for density in (0.003, 0.01, 0.03, 0.05, 0.08):
        X = random_array((n, d), density=density, format="csr", dtype=np.float32, rng=rng)
        dataset = rows_in_memory(X, np.arange(n) % 50, "the rows")
        rows = Rows.of(dataset, Threads(1), make_spans(dataset))
        stored, dense = seconds(rows, True), seconds(rows, False)
        print(f"{density:.1%}: {stored:.2f} s and {dense:.2f} s, {dense / stored:.1f} times")


if __name__ == "__main__":
    main()
