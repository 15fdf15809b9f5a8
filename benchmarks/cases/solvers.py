"""Solvers in passes: wide rows in Zarr, sparse rows in memory, and counts of cells in a Dask array."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.cases.common import made, multiply, read_files
from benchmarks.harness import THREADS, Case, Data

CHUNK, RANK, OVERSAMPLING = 800, 80, 10


def low_rank(folder: Path, rows: int, columns: int, size: int) -> Data:
    """Make a Zarr group of low rank plus noise, its mean far from zero."""
    import zarr

    path = folder / f"low-rank-{rows}-{columns}.zarr"
    with made(path) as missing:
        if missing:
            rng, rank = np.random.default_rng(0), min(RANK, columns // 2)
            directions = np.linalg.qr(rng.standard_normal((columns, rank)))[0].T.astype(np.float32)
            group = zarr.open_group(str(path), mode="w")
            shape: Any = {"shape": (rows, columns), "chunks": (min(CHUNK, rows), columns)}
            X: Any = group.create_array("X", dtype="f4", compressors=None, **shape)
            group.create_array("y", data=rng.integers(0, 2, rows))
            for start in range(0, rows, CHUNK):
                count = min(CHUNK, rows - start)
                leading = rng.standard_normal((count, rank), dtype=np.float32) * np.geomspace(30, 2, rank, dtype="f4")
                noise = rng.standard_normal((count, columns), dtype=np.float32) * np.float32(0.3)
                X[start : start + count] = leading @ directions + noise + np.float32(5)
    whole = {"rows": rows, "columns": columns, "bytes": 4 * rows * columns, "size": size}
    return {"path": str(path / "X"), "group": str(path), **whole}


def residual(X: Any, components: Any) -> dict[str, float]:
    """Return the largest ||S v - l v|| / l of components v for the scatter S of centred rows, in double precision."""
    V = np.asarray(components, np.float64).T
    total, image, sums = np.zeros(X.shape[1]), np.zeros(V.shape), np.zeros(V.shape[1])
    for start in range(0, X.shape[0], CHUNK):
        rows = X[start : start + CHUNK]
        along = rows @ V
        total, sums = total + np.asarray(rows.sum(axis=0)).ravel(), sums + along.sum(axis=0)
        image += rows.T @ along
    image = image / X.shape[0] - np.outer(total, sums) / X.shape[0] ** 2
    values = np.einsum("ij,ij->j", V, image)
    return {"residual": float(np.max(np.linalg.norm(image - V * values, axis=0) / values))}


def stored_residual(data: Data, components: Any) -> dict[str, float]:
    """Return the residual for rows in Zarr."""
    import zarr

    return residual(zarr.open_array(data["path"], mode="r"), components)


def memory_residual(data: Data, components: Any) -> dict[str, float]:
    """Return the residual for rows in memory."""
    return residual(data["X"], components)


def krylov(data: Data, passes: int) -> dict[str, Any]:
    """Fit PCA in passes over a store."""
    from mmpca_dist import MarginPCA, open_dataset

    model = MarginPCA(data["size"], "pca", solver="krylov", passes=passes, tolerance=0).fit(open_dataset(data["group"]))
    return {"passes": model.certificate_["passes"], "value": model.components_}


def compressed(data: Data, iterations: int) -> dict[str, Any]:
    """Fit by Dask's compressed SVD, the mean of the rows subtracted."""
    import dask.array as da

    X: Any = da.from_zarr(data["path"])
    V = da.linalg.svd_compressed(X - X.mean(axis=0), data["size"], n_power_iter=iterations, compute=True, seed=0)[2]
    return {"passes": 2 * iterations + 3, "value": V.compute()}


def randomized(data: Data) -> dict[str, Any]:
    """Load all rows and fit by scikit-learn's randomized SVD."""
    import zarr
    from sklearn.utils.extmath import randomized_svd

    X: NDArray = np.asarray(zarr.open_array(data["path"], mode="r")[:])
    X -= X.mean(axis=0)
    return {"value": randomized_svd(X, data["size"], random_state=0)[2]}


def both_products(data: Data) -> dict[str, Any]:
    """Multiply blocks by as many vectors as a pass does, and the transposed blocks by these products."""
    V = np.ones((data["columns"], data["size"] + OVERSAMPLING), np.float32)
    return multiply(data, lambda block, _: block.T @ (block @ V))


def wide() -> Case:
    """Return the case of wide rows out of core."""
    shapes = {"tiny": (300, 120, 5), "usual": (20_000, 8_000, 50), "full": (100_000, 20_000, 50)}
    sizes = {name: {"rows": n, "columns": d, "size": k} for name, (n, d, k) in shapes.items()}
    case = Case("solvers: wide rows in Zarr", low_rank, sizes, stored_residual)
    case.add("pca, 5 passes", partial(krylov, passes=5), "ours")
    case.add("pca, 3 passes", partial(krylov, passes=3), "own", approximate=True)
    case.add("da.linalg.svd_compressed, 2 iterations", partial(compressed, iterations=2), approximate=True)
    case.add("da.linalg.svd_compressed, 4 iterations", partial(compressed, iterations=4), approximate=True)
    case.add("scikit-learn randomized_svd, loaded whole", randomized, approximate=True)
    case.add("reading alone", read_files, "floor")
    case.add("products with vectors alone", both_products, "floor")
    return case


def text(_folder: Path, rows: int, size: int) -> Data:
    """Name 20 Newsgroups where it is at hand; otherwise as many rows are drawn."""
    path = Path(os.environ.get("MMPCA_DATA", "../shared/data")) / "newsgroups20.npz"
    return {"rows": rows, "size": size, "path": str(path) if path.exists() and rows > 10_000 else ""}


def counts(data: Data) -> dict[str, Any]:
    """Return sparse counts and labels: stored ones, or drawn ones with frequent columns and topics."""
    from mmpca_dist import open_dataset

    if data["path"]:
        dataset = open_dataset(data["path"])
        return {**data, "X": dataset.read_sparse(0, dataset.n_rows), "y": dataset.read_labels(0, dataset.n_rows)}
    return {**data, **drawn_counts(data["rows"], data.get("columns", 4 * data["rows"]))}


def drawn_counts(rows: int, columns: int, mean: float = 30) -> dict[str, Any]:
    """Return CSR counts whose columns fall in frequency, in topics that are the classes."""
    from scipy.sparse import csr_array

    rng = np.random.default_rng(0)
    y = rng.integers(20, size=rows)
    lengths = rng.poisson(mean, rows) + 1
    column = ((rng.pareto(1.0, lengths.sum()) * 10).astype(np.int64) * (1 + np.repeat(y, lengths) % 5)) % columns
    pointers = np.r_[0, np.cumsum(lengths)]
    X = csr_array((np.ones(len(column), np.float32), column, pointers), shape=(rows, columns))
    X.sum_duplicates()
    return {"X": X, "y": y}


def krylov_memory(data: Data, passes: int) -> dict[str, Any]:
    """Fit PCA in passes over rows in memory."""
    from mmpca_dist import MarginPCA

    model = MarginPCA(data["size"], "pca", solver="krylov", passes=passes, tolerance=0).fit(data["X"], data["y"])
    return {"passes": model.certificate_["passes"], "value": model.components_}


def arpack(data: Data) -> dict[str, Any]:
    """Fit by ARPACK, in double precision."""
    from sklearn.decomposition import PCA

    model = PCA(data["size"], svd_solver="arpack", random_state=0).fit(data["X"].astype(np.float64))
    return {"value": model.components_}


def sparse() -> Case:
    """Return the case of text in memory."""
    sizes = {"tiny": {"rows": 300, "size": 4}, "usual": {"rows": 15_935, "size": 100}}
    case = Case("solvers: 20 Newsgroups", text, {**sizes, "full": sizes["usual"]}, memory_residual, counts)
    case.add("pca, 6 passes", partial(krylov_memory, passes=6), "ours", approximate=True)
    case.add("pca, 4 passes", partial(krylov_memory, passes=4), "own", approximate=True)
    case.add("scikit-learn PCA(arpack)", arpack)
    return case


def shape_of(_folder: Path, **shape: Any) -> Data:
    """Make no file."""
    return {**shape, "path": ""}


def cells(data: Data) -> dict[str, Any]:
    """Return a Dask array of CSR blocks, and the rows in memory for the judge."""
    import dask.array as da

    counted = drawn_counts(data["rows"], data["columns"], mean=data["columns"] / 12)
    X = counted["X"]
    X.data = np.log1p(X.data)
    step = -(-data["rows"] // (4 * THREADS))
    blocks = [da.from_array(X[start : start + step], chunks=(-1, -1)) for start in range(0, data["rows"], step)]
    return {**data, **counted, "lazy": da.concatenate(blocks), "labels": da.from_array(counted["y"], step)}


def fit_lazy(data: Data) -> dict[str, Any]:
    """Fit PCA to the Dask array."""
    from mmpca_dist import MarginPCA

    return {"passes": 1, "value": MarginPCA(data["size"], "pca").fit(data["lazy"], data["labels"]).components_}


def scanpy(data: Data) -> dict[str, Any]:
    """Fit scanpy's PCA to the Dask array."""
    import anndata
    import scanpy as sc

    table = anndata.AnnData(data["lazy"])
    sc.pp.pca(table, n_comps=data["size"], svd_solver="covariance_eigh")
    return {"passes": 1, "value": table.varm["PCs"].T}


def single_cells() -> Case:
    """Return the case of scanpy."""
    shapes = {"tiny": (400, 40, 4), "usual": (50_000, 2_000, 50), "full": (500_000, 2_000, 50)}
    sizes = {name: {"rows": n, "columns": d, "size": k} for name, (n, d, k) in shapes.items()}
    case = Case("solvers: cells in a Dask array of CSR blocks", shape_of, sizes, memory_residual, cells)
    case.add("pca", fit_lazy, "ours")
    case.add("scanpy", scanpy, needs=("scanpy",))
    return case


def cases() -> list[Case]:
    """Return the cases of this theme."""
    return [wide(), sparse(), single_cells()]
