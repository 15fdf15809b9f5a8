"""Dask arrays of very many small blocks, where planning is all the work: ``python benchmarks/blocks.py [BLOCKS]``.

2.4 MB of rows in so many blocks (10,000) are fitted and transformed. Times are of the processor: of this process, all
its threads together.
"""

from __future__ import annotations

import sys
import time

import dask.array as da
import numpy as np

from mmpca_dist import MarginPCA

ROWS, COLUMNS = 10, 6
"""The size of a block."""


def grids(blocks: int) -> dict[str, tuple[int, int]]:
    """Return blocks along rows and along columns, by name."""
    side = round(blocks**0.5)
    return {
        "of whole rows": (blocks, 1),
        "two along columns": (blocks // 2, 2),
        "as many along columns as along rows": (side, side),
        "two along rows": (2, blocks // 2),
    }


def main() -> None:
    blocks = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    rng = np.random.default_rng(0)
    MarginPCA(1).fit(da.ones((4, 2)) * np.arange(8).reshape(4, 2), np.arange(4) % 2)  # imports
    print(f"{blocks} blocks".ljust(40), "fit, labels in Dask", "fit, labels in memory", "transform", sep="  ")
    for name, (down, across) in grids(blocks).items():
        rows = rng.standard_normal((down * ROWS, across * COLUMNS)).astype(np.float32)
        y = rng.integers(3, size=len(rows))
        X = da.from_array(rows, (ROWS, COLUMNS))
        times = []
        for labels in (da.from_array(y, ROWS), y):
            start = time.process_time()
            reducer = MarginPCA(2).fit(X, labels)
            times.append(time.process_time() - start)
        start = time.process_time()
        reducer.transform(X).compute()
        times.append(time.process_time() - start)
        shown = (f"{seconds:.1f} s".rjust(width) for seconds, width in zip(times, (19, 21, 9), strict=True))
        print(name.ljust(40), *shown, sep="  ")


if __name__ == "__main__":
    main()
