"""Projection penalties compared with one pass: ``python benchmarks/projection_penalty.py [--rows N]``.

The store of ``moments.py``: N x 256 float32 rows in two classes. The reduction has 16 components of M-PCA2, found by a
search for some of the rows and the same for all cases. Cases run in processes of their own, one after the other, on the
same number of cores, and report time and peak memory above what their imports took:

- ``moments``: a pass for class moments;
- ``squares``: squared losses for ten values of alpha, from these moments, which takes no further pass;
- ``logistic``, ``hinge``: passes until the duality gap is 1e-5 of the objective, those for moments included.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from moments import of_cases
from sweeps import moments

K, ALPHA, EPSILON = 16, 10.0, 1e-2
ALPHAS = tuple(10.0**exponent for exponent in range(-8, 11, 2))


def reduction(path: Path) -> np.ndarray:
    """Return the components, which are found once."""
    file = path.with_suffix(".reduction.npy")
    if not file.exists():
        from mmpca_dist import MarginPCA, open_dataset

        np.save(file, MarginPCA(K, "m-pca2", max_queries=2_000).fit(open_dataset(str(path))).components_)
    return np.load(file)


def squares(path: Path) -> dict[str, Any]:
    from mmpca_dist import ProjectionPenaltyClassifier, class_moments, open_dataset

    P, found = reduction(path), class_moments(open_dataset(str(path)))
    begin = time.perf_counter()
    for alpha in ALPHAS:
        ProjectionPenaltyClassifier.from_moments(found, reduction=P, alpha=alpha, epsilon=EPSILON, loss="squared")
    return {"seconds": time.perf_counter() - begin}


def _ours(path: Path, loss: str) -> dict[str, Any]:
    from mmpca_dist import ProjectionPenaltyClassifier, open_dataset

    P, begin = reduction(path), time.perf_counter()
    model = ProjectionPenaltyClassifier(P, alpha=ALPHA, epsilon=EPSILON, loss=loss).fit(open_dataset(str(path)))
    seconds = time.perf_counter() - begin
    return {"seconds": seconds, "objective": float(model.objective_[0]), "passes": model.n_iter_ + 1}


CASES = {"moments": moments, "squares": squares, **{loss: partial(_ours, loss=loss) for loss in ("logistic", "hinge")}}


def main() -> None:
    rows, measured = of_cases(CASES, __doc__, reduction)
    print(f"| {rows:,} x 256, alpha = {ALPHA:g}, epsilon = {EPSILON:g} | seconds | MiB | objective |")
    print("| --- | --- | --- | --- |")
    for name, found in measured.items():
        objective = f"{found['objective']:.8g}" if "objective" in found else ""
        passes = f", {found['passes']} passes" if "passes" in found else ""
        print(f"| {name}{passes} | {found['seconds']:.2f} | {found['bytes'] / 2**20:.0f} | {objective} |")


if __name__ == "__main__":
    main()
