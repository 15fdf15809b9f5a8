"""Class moments in one pass: layouts, medians, Parquet, side columns, sparse rows, many classes, and slopes."""

import os
import time
from functools import partial
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from typing import Any

import dask.array as da
import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import zarr
from fsspec.implementations.local import LocalFileSystem
from numpy.typing import NDArray
from scipy.sparse import random_array
from sklearn.decomposition import IncrementalPCA
from zarr.codecs import Crc32cCodec

from benchmarks.cases.common import degrees, floors, loaded, made, multiply, nothing, zarr_array
from benchmarks.harness import THREADS, Case, Data, sized
from mmpca_dist import MarginPCA, class_moments, open_dataset
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.eigen.options import SolverOptions
from mmpca_dist.methods.base.statistics_for import statistics_for
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.statistics.from_rows import moments_of
from mmpca_dist.statistics.widened_rows import widened
from mmpca_dist.tables.covariates import given_covariates
from mmpca_dist.tables.readers.memory import rows_in_memory, with_covariates

CHUNK_BYTES = 64 << 20
METHODS = ("pca", "m-pca0", "m-pca1a")
MEDIANS = (*METHODS, "m-pca1b")


def leading(columns: int) -> int:
    return max(min(32, columns // 8), 2)


def spread(columns: int) -> NDArray:
    return np.r_[np.geomspace(6, 2, leading(columns)), np.ones(columns - leading(columns))].astype(np.float32)


def draw(rng: np.random.Generator, labels: NDArray, columns: int, dtype: str = "f4") -> NDArray:
    """Return rows about means of their classes."""
    rows = rng.standard_normal((len(labels), columns), dtype=np.float32) * spread(columns) + np.float32(3)
    rows[:, -3] += labels % 7
    return (np.clip(np.rint(8 * rows), -127, 127) if dtype == "i1" else rows).astype(dtype)


def store(folder: Path, rows: int, columns: int, dtype: str = "f4", classes: int = 2, checksums: bool = False) -> Data:
    """Make a Zarr group of rows and labels, in chunks of 64 MiB without compression, and the components of PCA."""
    path = folder / f"rows-{rows}-{columns}-{dtype}-{classes}-{int(checksums)}.zarr"
    axes = path.with_suffix(".npy")
    with made(path) as missing:
        if missing:
            chunk = min(CHUNK_BYTES // (columns * np.dtype(dtype).itemsize), rows)
            group, rng = zarr.open_group(str(path), mode="w"), np.random.default_rng(1)
            options: Any = {"dtype": dtype, "compressors": [Crc32cCodec()] if checksums else None}
            X: Any = group.create_array("X", shape=(rows, columns), chunks=(chunk, columns), **options)
            y = np.where(rng.random(rows) < 0.4, 0, 1) if classes == 2 else rng.integers(classes, size=rows)
            group.create_array("y", data=y.astype("i4"))
            total, products = np.zeros(columns), np.zeros((columns, columns))
            for start in range(0, rows, chunk):
                part = X[start : start + chunk] = draw(rng, y[start : start + chunk], columns, dtype)
                wide = part.astype(np.float64)
                total, products = total + wide.sum(axis=0), products + wide.T @ wide
            covariance = products / rows - np.outer(total, total) / rows**2
            np.save(axes, np.linalg.eigh(covariance)[1][:, : -leading(columns) - 1 : -1].T)
    data = {"path": str(path / "X"), "group": str(path), "axes": str(axes)}
    return {**data, "rows": rows, "columns": columns, "bytes": rows * columns * np.dtype(dtype).itemsize}


def angle(data: Data, components: Any) -> dict[str, float]:
    """Return the angle to the components in double precision."""
    return {"angle": degrees(components, np.load(data["axes"]))}


def fit(data: Data, methods: tuple[str, ...] = METHODS, **options: Any) -> Data:
    """Fit methods from passes that they share."""
    size, passes = leading(data["columns"]), []
    models = [MarginPCA(size, method) for method in methods]
    needs = Needs.of_all((model.needs() for model in models), size)
    dataset = open_dataset(data["group"], **options)
    rows = Rows.of(dataset, Threads(THREADS), on_pass=lambda name, _: passes.append(name))
    statistics = statistics_for(rows, needs, SolverOptions(), precision="single", standardize=False)
    for model in models:
        model.fit_statistics(statistics)
    return {"passes": len(passes), "value": models[0].components_}


def fit_cold(data: Data) -> Data:
    for path in filter(Path.is_file, Path(data["path"]).rglob("*")):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return fit(data)


class Distant(LocalFileSystem):
    """Files of this machine, 50 ms away: a bucket without a server that shares the cores with what is timed."""

    protocol = "distant"

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        time.sleep(0.05)
        with Path(self._strip_protocol(path)).open("rb") as file:
            file.seek(start or 0)
            return file.read(-1 if end is None else end - (start or 0))


def fit_distant(data: Data) -> Data:
    fsspec.register_implementation("distant", Distant)
    os.environ["MMPCA_PROTOCOLS"] = "distant"
    return fit({**data, "group": f"distant://{data['group']}"})


def fit_dask(data: Data) -> Data:
    moments = class_moments(*(da.from_zarr(data["group"], component=name) for name in "Xy"))
    models = [MarginPCA.from_moments(moments, method, leading(data["columns"])) for method in METHODS]
    return {"passes": 1, "value": models[0].components_}


def pca_of(data: Data, load: Any = loaded, module: str = "sklearn") -> Data:
    """Fit PCA of scikit-learn, or of a library like it, to all rows."""
    X, kind = load(data), import_module(f"{module}.decomposition").PCA
    return {"passes": 1, "value": kind(leading(X.shape[1]), svd_solver="covariance_eigh").fit(X).components_}


def in_memory(data: Data) -> Data:
    """Load rows and labels, which is not timed."""
    return {**data, "X": loaded(data), "y": zarr_array(f"{data['group']}/y")[:]}


def fit_in_memory(data: Data) -> Data:
    moments = class_moments(data["X"], data["y"])
    models = [MarginPCA.from_moments(moments, method, leading(data["columns"])) for method in METHODS]
    return {"passes": 1, "value": models[0].components_}


def incremental(data: Data) -> Data:
    X, model = zarr_array(data["path"]), IncrementalPCA(leading(data["columns"]))
    for start in range(0, X.shape[0], X.chunks[0]):
        part = X[start : start + X.chunks[0]]
        if len(part) >= model.n_components:
            model.partial_fit(part)
    return {"passes": 1, "value": model.components_}


def dask_ml(data: Data) -> Data:
    from dask_ml import decomposition

    model = decomposition.PCA(leading(data["columns"]), svd_solver="randomized", random_state=0)
    return {"value": model.fit(da.from_zarr(data["path"])).components_}


def layout(name: str, usual: int, columns: int = 256, make: Any = store, load: Any = loaded, **more: Any) -> Case:
    """Return a case of rows in files, with scikit-learn's PCA and the floors."""
    shapes = sized("rows columns", (2_000, min(columns, 64)), (usual, columns), (4 * usual, columns), **more)
    case = Case(f"moments: {name}", make, shapes, angle)
    case.add("pca + m-pca0 + m-pca1a", fit, "ours")
    case.add("scikit-learn PCA(covariance_eigh), loaded whole", partial(pca_of, load=load))
    if make is store:
        case.add("oneDAL PCA(covariance_eigh), loaded whole", partial(pca_of, module="sklearnex"), needs=("sklearnex",))
    return floors(case)


def parquet(folder: Path, rows: int, columns: int) -> Data:
    """Make a Parquet file of the same rows."""
    data, path = store(folder, rows, columns), folder / f"rows-{rows}-{columns}.parquet"
    with made(path) as missing:
        if missing:
            X, y = loaded(data), zarr_array(f"{data['group']}/y")[:]
            table = pa.table({**{f"f{column}": X[:, column] for column in range(columns)}, "label": y})
            pq.write_table(table, path, compression="none", row_group_size=max(CHUNK_BYTES // (4 * columns), 1))
    return {**data, "path": str(path), "group": str(path)}


def loaded_parquet(data: Data) -> NDArray:
    return pd.read_parquet(data["path"]).drop(columns="label").to_numpy()


def side_columns(shape: Data) -> Data:
    """Return what takes moments of rows in ten classes: with weights, gaps in a tenth of the columns, covariates."""
    rng, n, tenth = np.random.default_rng(0), shape["rows"], slice(None, None, 10)
    y: Any = rng.integers(10, size=n)
    X, Z = draw(rng, y, shape["columns"]), given_covariates(rng.standard_normal((n, 10)), n)
    wider, gaps = np.concatenate([X, X[:, tenth]], axis=1), X.copy()
    gaps[:, tenth][rng.random(gaps[:, tenth].shape) < 0.1] = np.nan
    with_gaps = widened(rows_in_memory(gaps, y, "X"), np.isnan(gaps).sum(axis=0), np.nanmean(gaps, axis=0))
    adjusted = widened(with_covariates(rows_in_memory(X, y, "X"), Z))
    return {
        "class moments": partial(class_moments, X, y),
        "with weights": partial(class_moments, X, y, sample_weight=rng.uniform(0.1, 4, n)),
        "with gaps in a tenth of the columns": partial(moments_of, with_gaps, precision="single"),
        "a tenth more columns, no gaps": partial(class_moments, wider, y),
        "in double precision": partial(class_moments, X, y, precision="double"),
        "with ten covariates, in double precision": partial(moments_of, adjusted, precision="double"),
    }


def call(data: Data, name: str) -> Data:
    data[name]()
    return {"passes": 1}


SIZES = sized("rows columns", (500, 20), (100_000, 256), (400_000, 256))
BESIDE = Case("moments: weights, gaps and covariates", nothing, SIZES, load=side_columns)
for name in side_columns({"rows": 20, "columns": 20}):
    BESIDE.add(name, partial(call, name=name), "own" if BESIDE.entries else "ours")


def stored_values(shape: Data) -> Data:
    """Return CSR rows whose leading columns have larger values, in 50 classes."""
    rng, size = np.random.default_rng(0), (shape["rows"], shape["columns"])
    X = random_array(size, density=shape["density"], format="csr", dtype=np.float32, rng=rng)
    X.data *= spread(shape["columns"])[X.indices] ** 2
    return {"X": X, "dense": X.toarray(), "y": np.arange(shape["rows"]) % 50}


def fit_memory(data: Data, rows: str = "X") -> Data:
    model = MarginPCA(leading(data["X"].shape[1]), "pca", solver="dense").fit(data[rows], data["y"])
    return {"passes": 1, "value": model.components_}


def dense_angle(data: Data, components: Any) -> dict[str, float]:
    """Return the angle to the components of the dense rows in double precision."""
    covariance = np.cov(data["dense"].astype(np.float64), rowvar=False)
    return {"angle": degrees(components, np.linalg.eigh(covariance)[1][:, -len(components) :].T)}


SIZES = sized("rows columns density", (400, 60, 0.05), (16_000, 2_000, 0.01), (100_000, 2_304, 0.01))
SPARSE = Case("moments: sparse rows", nothing, SIZES, dense_angle, stored_values)
SPARSE.add("pca", fit_memory, "ours")
SPARSE.add("the same rows made dense", partial(fit_memory, rows="dense"), "own")
SPARSE.add("scikit-learn PCA(covariance_eigh)", partial(pca_of, load=itemgetter("X")))


def with_many(folder: Path, many: int, **shape: Any) -> Data:
    """Make a store with a second column of labels, of many classes."""
    data = store(folder, classes=10, **shape)
    with made(Path(f"{data['group']}.many")) as missing:
        if missing:
            labels = np.random.default_rng(2).integers(many, size=data["rows"], dtype=np.int32)
            zarr.open_group(data["group"])["many"] = labels
    return data


SIZES = sized("rows columns many", (2_000, 24, 100), (400_000, 768, 5_000), (14_000_000, 768, 21_000), dtype="f2")
MANY_CLASSES = Case("moments: many classes", with_many, SIZES, angle)
MANY_CLASSES.add("pca, 10 classes", partial(fit, methods=("pca",), label="y"), "ours")
MANY_CLASSES.add("pca, many classes", partial(fit, methods=("pca",), label="many"), "own")
floors(MANY_CLASSES)


def doubled(folder: Path, rows: int, columns: int) -> Data:
    """Make stores of an eighth, a quarter, half and all of the rows."""
    return {"stores": [store(folder, rows >> shift, columns) for shift in (3, 2, 1, 0)]}


def of_part(data: Data, number: int, run: Any) -> Data:
    one = data["stores"][number]
    return {**run(one), "value": None, "rows": one["rows"]}


SIZES = sized("rows columns", (1_600, 16), (4_000_000, 256), (16_000_000, 256))
SLOPES = Case("moments: slopes over rows", doubled, SIZES)
kinds = {"one pass": fit, "with m-pca1b": partial(fit, methods=MEDIANS), "scikit-learn PCA loaded whole": pca_of}
for number in (3, 2, 1, 0):
    for name, run in kinds.items():
        role: Any = "peer" if run is pca_of else "ours" if run is fit and number == 3 else "own"
        SLOPES.add(f"{name}, {1 << number}/8 of the rows", partial(of_part, number=number, run=run), role)


TWO, TABLE = layout("two classes", 1_000_000), layout("Parquet", 400_000, make=parquet, load=loaded_parquet)
TWO.add("the same from files that are not in the page cache", fit_cold, "own")
TWO.add("the same where each answer comes 50 ms later", fit_distant, "own")
TWO.add("the same from da.from_zarr", fit_dask, "own")
TWO.add("with m-pca1b", partial(fit, methods=MEDIANS), "own")
TWO.add("scikit-learn IncrementalPCA, by chunks", incremental)
TWO.add("dask-ml PCA(randomized), historical", dask_ml, approximate=True)
LOADED = Case("moments: rows in memory", store, TWO.sizes, angle, in_memory)
LOADED.add("pca + m-pca0 + m-pca1a", fit_in_memory, "ours")
for name, module in (("scikit-learn", "sklearn"), ("oneDAL", "sklearnex")):
    run = partial(pca_of, load=itemgetter("X"), module=module)
    LOADED.add(f"{name} PCA(covariance_eigh), PCA only", run, needs=(module,))
LOADED.add("products alone", multiply, "floor")
WIDE = layout("1,024 columns", 200_000, columns=1024)
NARROW = [layout(name, 400_000, dtype=dtype) for name, dtype in (("float16", "f2"), ("int8", "i1"))]
LAYOUTS = [TWO, layout("ten classes", 400_000, classes=10), layout("checksums", 400_000, checksums=True), *NARROW, WIDE]
CASES = [*LAYOUTS, LOADED, TABLE, BESIDE, SPARSE, MANY_CLASSES, SLOPES]
