"""Is shifted subspace iteration worth a place next to block Krylov? ``python benchmarks/shifted_subspace.py``.

Subspace iteration with dynamic shifts (Feng, Yu, Xie & Tang 2024, "Algorithm 1043: Faster randomized SVD with dynamic
shifts", ACM TOMS 50) keeps one block where block Krylov keeps those of all passes. It is written here as a solver of
the library, in one file, and compared with block Krylov: passes over the rows, the largest ||S v - l v|| / l of
``pca``, seconds, and peak memory above that before the fit. Each fit runs in a process of its own. docs/design.md has
the decision.
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
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist import MarginPCA, open_dataset
from mmpca_dist.blas import combinations, products, single_blas_thread, take_out
from mmpca_dist.eigen.block_solver import BLOCK_SOLVERS, BlockSolver, Projected
from mmpca_dist.eigen.orthonormal import orthonormal, unit_columns
from mmpca_dist.jobs.job import watched_memory
from mmpca_dist.passes.schedulers import Threads

CASES = {
    "mnist": ("mnist.npz", 30, (2, 3, 4, 6, 8, 12, 16)),
    "newsgroups20": ("newsgroups20.npz", 50, (2, 3, 4, 6, 8, 12, 16)),
}


class ShiftedBlock:
    """One orthonormal block X, the scatter S in it, and the shift a: the next block spans (S - a I) X."""

    def __init__(self, start: NDArray, image: NDArray[np.float64], others: NDArray[np.float64], _: int) -> None:
        self._width, self._others, self._shift = start.shape[1], others, 0.0
        self.block = start
        self.absorb(image)

    def absorb(self, image: NDArray[np.float64]) -> None:
        """Take up the image of the block: its part inside, and what leads outside."""
        self._image = image.astype(self.block.dtype)
        self._rest = self._image.copy()
        inside = np.zeros((self.block.shape[1],) * 2)
        for _ in range(2):
            inside += take_out(self._rest, self.block)
        self._inside = (inside + inside.T) / 2

    def grow(self, others: NDArray[np.float64] | None = None) -> bool:
        """Choose the next block: the shifted image, with the mean differences, which methods need in the basis."""
        with single_blas_thread():
            values, turn = scipy.linalg.eigh(self._inside)
        smallest = float(values[-self._width :][0])
        if smallest > self._shift:
            self._shift = (smallest + self._shift) / 2
        turn = turn[:, -self._width :].astype(self._image.dtype)
        following = combinations(self._image, turn) - self._shift * combinations(self.block, turn)
        size = float(np.linalg.norm(following, axis=0).max())
        joining = (unit_columns(self._others) * size).astype(following.dtype)
        self.block = orthonormal(np.concatenate([joining, following], axis=1), self.block[:, :0], size)
        return bool(self.block.shape[1])

    def projected(self) -> Projected:
        """Return the scatter in the block."""
        values, vectors = scipy.linalg.eigh(products(self._rest, self._rest, np.float64))
        return Projected(self.block, self._inside, np.sqrt(np.maximum(values, 0))[:, None] * vectors.T)


SHIFTED = BlockSolver(
    "shifted", "subspace iteration with dynamic shifts", ShiftedBlock, lambda passes, width, item: 2 * width * item
)


def measure(uri: str, n_components: int, kind: str, passes: int) -> dict[str, Any]:
    """Fit once and return what it took."""
    vars(BLOCK_SOLVERS)["_objects"] = {**BLOCK_SOLVERS, "shifted": SHIFTED}
    dataset, threads = open_dataset(uri), Threads(psutil.cpu_count() or 1)
    model = MarginPCA(n_components, variant="pca", solver=kind, passes=passes, tolerance=0)
    base, begin = psutil.Process().memory_info().rss, time.perf_counter()
    with watched_memory(0.005) as peak:
        model._fit_rows(dataset, threads)
    seconds, known = time.perf_counter() - begin, model.certificate_
    return {"seconds": seconds, "mib": (peak() - base) / 2**20, "relative": max(known["relative"])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(*json.loads(arguments.one))))
        return
    data = Path(os.environ.get("MMPCA_DATA", "../shared/data"))
    for name in arguments.cases:
        uri, n_components, counts = CASES[name]
        uri = uri if ":" in uri else str(data / uri)
        print(f"\n{name}, {n_components} components\n\n| solver | passes | residual | seconds | MiB |\n|{' --- |' * 5}")
        for kind in ("krylov", "shifted"):
            for passes in counts:
                one = [sys.executable, __file__, "--one", json.dumps([uri, n_components, kind, passes])]
                found = json.loads(subprocess.run(one, check=True, capture_output=True, text=True).stdout)
                print(f"| {kind} | {passes} | {found['relative']:.0e} | {found['seconds']:.1f} | {found['mib']:.0f} |")


if __name__ == "__main__":
    main()
