"""Solvers in passes: wide rows in Zarr, sparse rows in memory, and counts of cells in a Dask array."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import zarr
from scipy.sparse import csr_array
from sklearn.decomposition import PCA
from sklearn.utils.extmath import randomized_svd

from benchmarks.cases.common import floors, loaded, made, nothing, zarr_array
from benchmarks.harness import THREADS, Case, Data, sized
from mmpca_dist import MarginPCA, open_dataset

CHUNK, RANK, OVERSAMPLING = 800, 80, 10
BLOG = ("Dask's compressed SVD", "15-20", "200 GB drawn in memory, one machine, several GPUs (Dask's blog, 2020-05-13)")


def low_rank(folder: Path, rows: int, columns: int, size: int) -> Data:
    """Make a Zarr group of low rank plus noise, its mean far from zero."""
    path = folder / f"low-rank-{rows}-{columns}.zarr"
    with made(path) as missing:
        if missing:
            rng, rank = np.random.default_rng(0), min(RANK, columns // 2)
            directions = np.linalg.qr(rng.standard_normal((columns, rank)))[0].T.astype(np.float32)
            group, chunks = zarr.open_group(str(path), mode="w"), (min(CHUNK, rows), columns)
            X: Any = group.create_array("X", shape=(rows, columns), dtype="f4", chunks=chunks, compressors=None)
            group.create_array("y", data=rng.integers(0, 2, rows))
            for start in range(0, rows, CHUNK):
                count = min(CHUNK, rows - start)
                leading = rng.standard_normal((count, rank), dtype=np.float32) * np.geomspace(30, 2, rank, dtype="f4")
                noise = rng.standard_normal((count, columns), dtype=np.float32) * np.float32(0.3)
                X[start : start + count] = leading @ directions + noise + np.float32(5)
    known = {"path": str(path / "X"), "group": str(path), "rows": rows, "columns": columns, "size": size}
    return {**known, "bytes": 4 * rows * columns, "vectors": size + OVERSAMPLING}


def residual(data: Data, components: Any) -> dict[str, float]:
    """Return the largest ||S v - l v|| / l of components v for the scatter S of centred rows, in double precision."""
    X, V = data["X"] if "X" in data else zarr_array(data["path"]), np.asarray(components, np.float64).T
    total, image, sums = np.zeros(X.shape[1]), np.zeros(V.shape), np.zeros(V.shape[1])
    for start in range(0, X.shape[0], CHUNK):
        rows = X[start : start + CHUNK]
        along = rows @ V
        total, sums = total + np.asarray(rows.sum(axis=0)).ravel(), sums + along.sum(axis=0)
        image += rows.T @ along
    image = image / X.shape[0] - np.outer(total, sums) / X.shape[0] ** 2
    values = np.einsum("ij,ij->j", V, image)
    return {"residual": float(np.max(np.linalg.norm(image - V * values, axis=0) / values))}


def krylov(data: Data, passes: int, solver: str = "krylov", tolerance: float = 0) -> Data:
    rows = (data["X"], data["y"]) if "X" in data else (open_dataset(data["group"]),)
    model = MarginPCA(data["size"], "pca", solver=solver, passes=passes, tolerance=tolerance).fit(*rows)
    return {"passes": model.certificate_["passes"], "value": model.components_}


def compressed(data: Data, iterations: int) -> Data:
    X: Any = da.from_zarr(data["path"])
    V = da.linalg.svd_compressed(X - X.mean(axis=0), data["size"], n_power_iter=iterations, compute=True, seed=0)[2]
    return {"passes": 2 * iterations + 3, "value": V.compute()}


def randomized(data: Data) -> Data:
    X = loaded(data)
    X -= X.mean(axis=0)
    return {"value": randomized_svd(X, data["size"], random_state=0)[2]}


SIZES = sized("rows columns size", (300, 120, 5), (20_000, 8_000, 50), (100_000, 20_000, 50))
WIDE = Case("solvers: wide rows in Zarr", low_rank, SIZES, residual, published=(BLOG,))
WIDE.add("pca, 5 passes", partial(krylov, passes=5), "ours")
WIDE.add("pca, 3 passes", partial(krylov, passes=3), "own", approximate=True)
WIDE.add("da.linalg.svd_compressed, 2 iterations", partial(compressed, iterations=2), approximate=True)
WIDE.add("da.linalg.svd_compressed, 4 iterations", partial(compressed, iterations=4), approximate=True)
WIDE.add("scikit-learn randomized_svd, loaded whole", randomized, approximate=True)
floors(WIDE)


def drawn_counts(rows: int, columns: int, mean: float) -> Data:
    """Return CSR counts whose columns fall in frequency, in topics that are the classes."""
    rng = np.random.default_rng(0)
    y, lengths = rng.integers(20, size=rows), rng.poisson(mean, rows) + 1
    column = ((rng.pareto(1.0, lengths.sum()) * 10).astype(np.int64) * (1 + np.repeat(y, lengths) % 5)) % columns
    pointers = np.r_[0, np.cumsum(lengths)]
    X = csr_array((np.ones(len(column), np.float32), column, pointers), shape=(rows, columns))
    X.sum_duplicates()
    return {"X": X, "y": y}


def text(data: Data) -> Data:
    """Return 20 Newsgroups where it is at hand, otherwise as many rows that are drawn."""
    path = Path(os.environ.get("MMPCA_DATA", "../shared/data")) / "newsgroups20.npz"
    if data["rows"] < 10_000 or not path.exists():
        return {**data, **drawn_counts(data["rows"], data["columns"], 80)}
    dataset = open_dataset(str(path))
    return {**data, "X": dataset.read_sparse(0, dataset.n_rows), "y": dataset.read_labels(0, dataset.n_rows)}


def arpack(data: Data) -> Data:
    model = PCA(data["size"], svd_solver="arpack", random_state=0).fit(data["X"].astype(np.float64))
    return {"value": model.components_}


SIZES = sized("rows columns size", (300, 1_200, 4), (15_935, 62_061, 100), (15_935, 62_061, 100))
SPARSE = Case("solvers: 20 Newsgroups", nothing, SIZES, residual, text)
SPARSE.add("pca, from ARPACK", partial(krylov, passes=4, solver="arpack", tolerance=1e-4), "ours")
SPARSE.add("pca, 4 passes", partial(krylov, passes=4), "own", approximate=True)
SPARSE.add("scikit-learn PCA(arpack)", arpack)


def cells(data: Data) -> Data:
    """Return a Dask array of CSR blocks, and the rows in memory for the judge."""
    counted = drawn_counts(data["rows"], data["columns"], data["columns"] / 12)
    X, step = counted["X"], -(-data["rows"] // (4 * THREADS))
    X.data = np.log1p(X.data)
    blocks = [da.from_array(X[start : start + step], chunks=(-1, -1)) for start in range(0, data["rows"], step)]
    return {**data, **counted, "lazy": da.concatenate(blocks), "labels": da.from_array(counted["y"], step)}


def fit_lazy(data: Data) -> Data:
    return {"passes": 1, "value": MarginPCA(data["size"], "pca").fit(data["lazy"], data["labels"]).components_}


def scanpy(data: Data) -> Data:
    import anndata
    import scanpy as sc

    table = anndata.AnnData(data["lazy"])
    sc.pp.pca(table, n_comps=data["size"], svd_solver="covariance_eigh")
    return {"passes": 1, "value": table.varm["PCs"].T}


SIZES = sized("rows columns size", (400, 40, 4), (50_000, 2_000, 50), (500_000, 2_000, 50))
SINGLE_CELLS = Case("solvers: cells in a Dask array of CSR blocks", nothing, SIZES, residual, cells)
SINGLE_CELLS.add("pca", fit_lazy, "ours")
SINGLE_CELLS.add("scanpy", scanpy, needs=("scanpy",))
CASES = [WIDE, SPARSE, SINGLE_CELLS]
