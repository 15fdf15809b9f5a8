"""Covariates of sparse rows in passes: removed from vectors, against rows that are made dense without them.

``python benchmarks/sparse_covariates.py``: 20,000 x 20,000 CSR rows that store 100 values each, ten covariates, ``pca``
with 20 components. Each case runs in a process of its own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import numpy as np
import scipy.sparse

from mmpca_dist.eigen.block_passes import statistics_in_passes
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.eigen.options import SolverOptions
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.statistics.scatters import ClassWeighting
from mmpca_dist.statistics.widened_rows import adjusted_rows, adjustment_from_pass, widened
from mmpca_dist.tables.covariates import given_covariates
from mmpca_dist.tables.readers.memory import rows_in_memory, with_covariates

ROWS, COLUMNS, STORED, COVARIATES = 20_000, 20_000, 100, 10
CASES = {
    "none": "without covariates",
    "vectors": "removed from vectors",
    "rows": "removed from rows, made dense by units",
}


def dataset(case):
    """Return the rows of a case."""
    rng = np.random.default_rng(0)
    indices = np.sort(rng.integers(0, COLUMNS, (ROWS, STORED)), axis=1).ravel()
    data = rng.gamma(2, 1, ROWS * STORED).astype(np.float32)
    X = scipy.sparse.csr_array((data, indices, np.arange(ROWS + 1) * STORED), shape=(ROWS, COLUMNS))
    X.sum_duplicates()
    rows = rows_in_memory(X, rng.integers(5, size=ROWS), "X")
    Z = given_covariates(rng.standard_normal((ROWS, COVARIATES)), ROWS)
    return rows if case == "none" else widened(with_covariates(rows, Z))


def measure(case):
    """Return seconds, MiB beyond the rows, and the trace that was found."""
    rows = Rows.of(dataset(case), Threads(1))
    needs = Needs(frozenset([ClassWeighting.EQUAL]), n_components=20)
    solver = SolverOptions("krylov", passes=4, tolerance=0)
    before, begin = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    adjustment = None if case == "none" else adjustment_from_pass(rows)
    if case == "rows":
        rows, adjustment = adjusted_rows(rows, adjustment), None
    found = statistics_in_passes(rows, needs, solver, precision="double", adjustment=adjustment)
    seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "seconds": seconds, "processor": used, "more": (after.ru_maxrss - before.ru_maxrss) / 1024,
        "trace": found.within_trace(),
    }  # fmt: skip


def main():
    print(
        "| covariates | seconds | processor seconds | MiB beyond the rows | scatter |\n| --- | --- | --- | --- | --- |"
    )
    for case, words in CASES.items():
        told = subprocess.run([sys.executable, __file__, case], check=True, capture_output=True, text=True)
        line = json.loads(told.stdout)
        print(
            f"| {words} | {line['seconds']:.1f} | {line['processor']:.1f} | {line['more']:.0f} | {line['trace']:.12g} |"
        )


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(measure(sys.argv[1])))
    else:
        main()
