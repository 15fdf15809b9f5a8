"""Nearest rows of the other class: exact and approximate search against FAISS and pynndescent, preparation included."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from benchmarks.cases.common import degrees, made
from benchmarks.harness import THREADS, Case, Data, sized
from mmpca_dist import NearestOpposite, open_dataset

SIZE = 8
"""The angle is that between leading subspaces of so many dimensions of M-PCA2."""
CLUSTERS = "synthetic:clusters?n={rows}&d={columns}&k={clusters}&classes=2&assign=random&seed=1&separation={separation}"


def clusters(folder: Path, **shape: Any) -> Data:
    """Make rows of clusters whose classes are random."""
    dataset, name = open_dataset(CLUSTERS.format(**shape)), "-".join(str(value) for value in shape.values())
    n = shape["rows"]
    return kept(folder / f"clusters-{name}.npz", lambda: (dataset.read_rows(0, n), dataset.read_labels(0, n)))


def mnist(folder: Path, rows: int) -> Data:
    """Make rows of MNIST in two classes, digits 0 to 4 and 5 to 9; of scikit-learn's digits for few rows."""

    def read() -> tuple[NDArray, NDArray]:
        if rows < 1_000:
            X, y = load_digits(return_X_y=True)
        else:
            with np.load(Path(os.environ.get("MMPCA_DATA", "../shared/data")) / "mnist.npz") as arrays:
                X, y = arrays["X"], arrays["y"]
        return X[:rows].astype(np.float32), (y[:rows].astype(int) >= 5).astype(np.int64)

    return kept(folder / f"mnist-{rows}.npz", read)


def kept(path: Path, read: Callable[[], tuple[NDArray, NDArray]]) -> Data:
    """Keep rows, labels and exact neighbours in a file."""
    with made(path) as missing:
        if missing:
            X, y = read()
            np.savez(path, X=X, y=y, exact=ours({"X": X, "y": y})["value"])
    return {"path": str(path)}


def load(data: Data) -> Data:
    with np.load(data["path"]) as arrays:
        return dict(arrays)


def ours(data: Data, **options: Any) -> Data:
    found = NearestOpposite(**options).fit(data["X"], data["y"]).kneighbors(return_distance=False)
    return {"value": found[:, 0]}


def both(data: Data, search: Callable[[NDArray, NDArray], NDArray]) -> Data:
    """Search in both directions with a function of queries and rows."""
    nearest = np.empty(len(data["X"]), np.int64)
    members = [np.flatnonzero(data["y"] == label) for label in (0, 1)]
    for own, other in (members, members[::-1]):
        nearest[own] = other[search(data["X"][own], data["X"][other])[:, 0]]
    return {"value": nearest}


def flat(data: Data) -> Data:
    import faiss

    return both(data, lambda queries, rows: faiss.knn(queries, rows, 1)[1])


def ivf(data: Data, share: float) -> Data:
    import faiss

    def search(queries: NDArray, rows: NDArray) -> NDArray:
        lists = int(len(rows) ** 0.5)
        index: Any = faiss.IndexIVFFlat(faiss.IndexFlatL2(rows.shape[1]), rows.shape[1], lists)
        index.train(rows)
        index.add(rows)
        index.nprobe = max(int(share * lists), 1)
        return np.asarray(index.search(queries, 1)[1])

    return both(data, search)


def descent(data: Data) -> Data:
    from pynndescent import NNDescent

    def search(queries: NDArray, rows: NDArray) -> NDArray:
        index = NNDescent(rows, n_neighbors=15, random_state=0, n_jobs=THREADS)
        return np.asarray(index.query(queries, k=10)[0])  # with k=1 it stops too early

    return both(data, search)


def subspace(X: NDArray, nearest: NDArray) -> NDArray:
    """Return the leading eigenvectors of the mean outer product of differences, as rows."""
    total = np.zeros((X.shape[1],) * 2)
    for start in range(0, len(X), 65_536):
        difference = X[start : start + 65_536].astype(np.float64) - X[nearest[start : start + 65_536]]
        total += difference.T @ difference
    return np.asarray(np.linalg.eigh(total)[1][:, -SIZE:].T)


def judge(data: Data, nearest: Any) -> dict[str, float]:
    """Return the share of rows whose neighbour is a nearest one, and the angle between subspaces."""
    X, exact = data["X"], data["exact"]
    far, near = (np.linalg.norm(X - X[rows], axis=1) for rows in (nearest, exact))
    recall = float(np.mean(far <= near * (1 + 1e-5)))
    return {"recall": recall, "angle": degrees(subspace(X, nearest), subspace(X, exact))}


def case(name: str, make: Any, sizes: dict[str, dict[str, Any]]) -> Case:
    """Return a case of one kind of rows."""
    one = Case(f"search: {name}", make, sizes, judge, load)
    one.add("exact, all proved", ours, "ours")
    for recall in (0.98, 0.9):
        run = partial(ours, search="approximate", recall=recall)
        one.add(f"approximate, recall {recall} asked for", run, "own", approximate=True)
    one.add("FAISS flat", flat, needs=("faiss",))
    for share in (0.02, 0.1):
        one.add(f"FAISS IVF, {share:.0%} of the lists", partial(ivf, share=share), needs=("faiss",), approximate=True)
    one.add("pynndescent", descent, needs=("pynndescent",), approximate=True)
    return one


SHAPES = [(600, 8, 10), (100_000, 64, 500), (1_000_000, 64, 500)]
APART, CLOSE = (sized("rows columns clusters", *SHAPES, separation=separation) for separation in (2, 1))
CASES = [
    case("MNIST", mnist, sized("rows", (600,), (70_000,), (70_000,))),
    case("clusters apart", clusters, APART), case("overlapping clusters", clusters, CLOSE),
]  # fmt: skip
