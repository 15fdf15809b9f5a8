"""Class moments in one pass: layouts, medians, Parquet, side columns, sparse rows, many classes, and slopes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.cases.common import degrees, made, multiply, read_files
from benchmarks.harness import THREADS, Case, Data

CHUNK_BYTES = 64 << 20
METHODS = ("pca", "m-pca0", "m-pca1a")
HOLDS = {"f4": 1.0, "f2": 1.0, "i1": 8.0}
"""Standard deviations of noise: 8 steps of whole numbers, whose range is 127."""


def spread(columns: int) -> tuple[int, NDArray]:
    """Return how many columns lead, and the standard deviations of all."""
    leading = max(min(32, columns // 8), 2)
    return leading, np.r_[np.geomspace(6, 2, leading), np.ones(columns - leading)].astype(np.float32)


def draw(rng: np.random.Generator, labels: NDArray, columns: int, dtype: str = "f4") -> NDArray:
    """Return rows about means of their classes, in a few columns with more variance than the others."""
    rows = rng.standard_normal((len(labels), columns), dtype=np.float32) * spread(columns)[1]
    rows[:, -3] += labels % 7
    rows = rows * np.float32(HOLDS[dtype]) + np.float32(3)
    return (np.clip(np.rint(rows), -127, 127) if dtype == "i1" else rows).astype(dtype)


def store(folder: Path, rows: int, columns: int, dtype: str = "f4", classes: int = 2, checksums: bool = False) -> Data:
    """Make a Zarr group of rows and labels, in chunks of 64 MiB without compression, and the components of PCA."""
    import zarr
    from zarr.codecs import Crc32cCodec

    path = folder / f"rows-{rows}-{columns}-{dtype}-{classes}-{int(checksums)}.zarr"
    with made(path) as missing:
        if missing:
            chunk = min(CHUNK_BYTES // (columns * np.dtype(dtype).itemsize), rows)
            group = zarr.open_group(str(path), mode="w")
            codecs = [Crc32cCodec()] if checksums else None
            options = {"shape": (rows, columns), "chunks": (chunk, columns), "dtype": dtype, "compressors": codecs}
            X, rng = group.create_array("X", **options), np.random.default_rng(1)
            y = np.where(rng.random(rows) < 0.4, 0, 1) if classes == 2 else rng.integers(classes, size=rows)
            group.create_array("y", data=y.astype("i4"))
            total, products = np.zeros(columns), np.zeros((columns, columns))
            for start in range(0, rows, chunk):
                part = X[start : start + chunk] = draw(rng, y[start : start + chunk], columns, dtype)
                wide = part.astype(np.float64)
                total, products = total + wide.sum(axis=0), products + wide.T @ wide
            covariance = products / rows - np.outer(total, total) / rows**2
            np.save(path / "axes.npy", np.linalg.eigh(covariance)[1][:, : -spread(columns)[0] - 1 : -1].T)
    size = rows * columns * np.dtype(dtype).itemsize
    return {"path": str(path / "X"), "group": str(path), "rows": rows, "columns": columns, "bytes": size}


def angle(data: Data, components: Any) -> dict[str, float]:
    """Return the angle to the components in double precision."""
    return {"angle": degrees(components, np.load(Path(data["group"]) / "axes.npy"))}


def fit(data: Data, methods: tuple[str, ...] = METHODS, **options: Any) -> dict[str, Any]:
    """Fit methods from passes that they share."""
    from mmpca_dist import MarginPCA, open_dataset
    from mmpca_dist.eigen.needs import Needs
    from mmpca_dist.eigen.options import SolverOptions
    from mmpca_dist.methods.base.statistics_for import statistics_for
    from mmpca_dist.passes.rows import Rows
    from mmpca_dist.passes.schedulers import Threads

    size, passes = spread(data["columns"])[0], []
    models = [MarginPCA(size, method) for method in methods]
    needs = Needs.of_all((model.needs() for model in models), size)
    dataset = open_dataset(data["group"], **options)
    rows = Rows.of(dataset, Threads(THREADS), on_pass=lambda name, _: passes.append(name))
    statistics = statistics_for(rows, needs, SolverOptions(), precision="single", standardize=False)
    for model in models:
        model.fit_statistics(statistics)
    return {"passes": len(passes), "value": models[0].components_}


def fit_dask(data: Data) -> dict[str, Any]:
    """Fit the same from Dask arrays."""
    import dask.array as da

    from mmpca_dist import MarginPCA, class_moments

    X, y = (da.from_zarr(data["group"], component=name) for name in "Xy")
    moments, size = class_moments(X, y), spread(data["columns"])[0]
    models = [MarginPCA.from_moments(moments, method, size) for method in METHODS]
    return {"passes": 1, "value": models[0].components_}


def loaded(data: Data) -> NDArray:
    """Return all rows, as floating-point numbers of the narrowest kind that all peers take."""
    import zarr

    X = zarr.open_array(data["path"], mode="r")[:]
    return X if X.dtype == np.float32 else X.astype(np.float32)


def in_memory(data: Data) -> dict[str, Any]:
    """Load all rows and fit scikit-learn's PCA."""
    from sklearn.decomposition import PCA

    model = PCA(spread(data["columns"])[0], svd_solver="covariance_eigh").fit(loaded(data))
    return {"passes": 1, "value": model.components_}


def one_dal(data: Data) -> dict[str, Any]:
    """Load all rows and fit oneDAL's PCA."""
    from sklearnex.decomposition import PCA

    model = PCA(spread(data["columns"])[0], svd_solver="covariance_eigh").fit(loaded(data))
    return {"passes": 1, "value": model.components_}


def incremental(data: Data) -> dict[str, Any]:
    """Fit scikit-learn's IncrementalPCA by chunks."""
    import zarr
    from sklearn.decomposition import IncrementalPCA

    X = zarr.open_array(data["path"], mode="r")
    model = IncrementalPCA(spread(data["columns"])[0])
    for start in range(0, X.shape[0], X.chunks[0]):
        part = X[start : start + X.chunks[0]]
        if len(part) >= model.n_components:
            model.partial_fit(part)
    return {"passes": 1, "value": model.components_}


def dask_ml(data: Data) -> dict[str, Any]:
    """Fit dask-ml's PCA, which passes over the rows several times."""
    import dask.array as da
    from dask_ml.decomposition import PCA

    X = da.from_zarr(data["path"])
    model = PCA(spread(data["columns"])[0], svd_solver="randomized", random_state=0).fit(X)
    return {"value": model.components_}


def layout(name: str, usual: int, columns: int = 256, tiny: int = 2_000, **options: Any) -> Case:
    """Return a case of rows in Zarr, with scikit-learn's and oneDAL's PCA and the floors."""
    shape = {"columns": columns, **options}
    small = {"rows": tiny, "columns": min(columns, 64), **options}
    sizes = {"tiny": small, "usual": {"rows": usual, **shape}, "full": {"rows": 4 * usual, **shape}}
    case = Case(f"moments: {name}", store, sizes, angle)
    case.add("pca + m-pca0 + m-pca1a", fit, "ours")
    case.add("scikit-learn PCA(covariance_eigh), loaded whole", in_memory)
    case.add("oneDAL PCA(covariance_eigh), loaded whole", one_dal, needs=("sklearnex",))
    case.add("reading alone", read_files, "floor")
    case.add("symmetric products alone", multiply, "floor")
    return case


def cases() -> list[Case]:
    """Return the cases of this theme."""
    two = layout("two classes", 1_000_000)
    two.add("the same from da.from_zarr", fit_dask, "own")
    two.add("with m-pca1b", partial(fit, methods=(*METHODS, "m-pca1b")), "own")
    two.add("scikit-learn IncrementalPCA, by chunks", incremental)
    two.add("dask-ml PCA(randomized), historical", dask_ml, approximate=True)
    return [
        two,
        layout("ten classes", 400_000, classes=10),
        layout("checksums", 400_000, checksums=True),
        layout("float16", 400_000, dtype="f2"),
        layout("int8", 400_000, dtype="i1"),
        layout("1,024 columns", 200_000, columns=1024),
    ]
