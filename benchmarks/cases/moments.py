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
    return {"angle": degrees(components, np.load(Path(data.get("axes", data["group"])) / "axes.npy"))}


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


def zarr_array(path: str) -> Any:
    """Return an array that is read by slices."""
    import zarr

    return zarr.open_array(path, mode="r")


def loaded(data: Data) -> NDArray:
    """Return all rows, in single precision as the peers need them."""
    X = zarr_array(data["path"])[:]
    return X if X.dtype == np.float32 else X.astype(np.float32)


def components_of_sklearn(X: Any, size: int | None = None) -> dict[str, Any]:
    """Fit scikit-learn's PCA to rows in memory."""
    from sklearn.decomposition import PCA

    model = PCA(size or spread(X.shape[1])[0], svd_solver="covariance_eigh").fit(X)
    return {"passes": 1, "value": model.components_}


def in_memory(data: Data) -> dict[str, Any]:
    """Load all rows and fit scikit-learn's PCA."""
    return components_of_sklearn(loaded(data))


def one_dal(data: Data) -> dict[str, Any]:
    """Load all rows and fit oneDAL's PCA."""
    from sklearnex.decomposition import PCA

    model = PCA(spread(data["columns"])[0], svd_solver="covariance_eigh").fit(loaded(data))
    return {"passes": 1, "value": model.components_}


def incremental(data: Data) -> dict[str, Any]:
    """Fit scikit-learn's IncrementalPCA by chunks."""
    from sklearn.decomposition import IncrementalPCA

    X = zarr_array(data["path"])
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


def layout(
    name: str, usual: int, columns: int = 256, make: Any = store, whole: Any = in_memory, **options: Any
) -> Case:
    """Return a case of rows in files, with scikit-learn's PCA and the floors."""
    shapes = {"tiny": (2_000, min(columns, 64)), "usual": (usual, columns), "full": (4 * usual, columns)}
    sizes = {size: {"rows": rows, "columns": width, **options} for size, (rows, width) in shapes.items()}
    case = Case(f"moments: {name}", make, sizes, angle)
    case.add("pca + m-pca0 + m-pca1a", fit, "ours")
    case.add("scikit-learn PCA(covariance_eigh), loaded whole", whole)
    if make is store:
        case.add("oneDAL PCA(covariance_eigh), loaded whole", one_dal, needs=("sklearnex",))
    case.add("reading alone", read_files, "floor")
    case.add("symmetric products alone", multiply, "floor")
    return case


def parquet(folder: Path, rows: int, columns: int) -> Data:
    """Make a Parquet file of the same rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = store(folder, rows, columns)
    path = folder / f"rows-{rows}-{columns}.parquet"
    with made(path) as missing:
        if missing:
            X, y = loaded(data), zarr_array(f"{data['group']}/y")[:]
            table = pa.table({**{f"f{column}": X[:, column] for column in range(columns)}, "label": y})
            pq.write_table(table, path, compression="none", row_group_size=max(CHUNK_BYTES // (4 * columns), 1))
    return {**data, "path": str(path), "axes": data["group"], "group": str(path)}


def loaded_parquet(data: Data) -> dict[str, Any]:
    """Load all rows with pandas and fit scikit-learn's PCA."""
    import pandas as pd

    return components_of_sklearn(pd.read_parquet(data["path"]).drop(columns="label").to_numpy())


def pyarrow_alone(data: Data) -> dict[str, Any]:
    """Read all rows with pyarrow, batch by batch."""
    import pyarrow.parquet as pq

    for _ in pq.ParquetFile(data["path"]).iter_batches(batch_size=CHUNK_BYTES // (4 * data["columns"])):
        pass
    return {"passes": 1}


def nothing(_folder: Path, **shape: Any) -> Data:
    """Make no file: rows are drawn where they are needed."""
    return shape


def side_columns(shape: Data) -> dict[str, Any]:
    """Return rows in ten classes, with weights, gaps in a tenth of the columns, and ten covariates."""
    from mmpca_dist.statistics.widened_rows import widened
    from mmpca_dist.tables.covariates import given_covariates
    from mmpca_dist.tables.readers.memory import rows_in_memory, with_covariates

    rng, rows = np.random.default_rng(0), shape["rows"]
    y = rng.integers(10, size=rows)
    X, Z = draw(rng, y, shape["columns"]), given_covariates(rng.standard_normal((rows, 10)), rows)
    gaps, holed = X.copy(), slice(None, None, 10)
    gaps[:, holed][rng.random(gaps[:, holed].shape) < 0.1] = np.nan
    return {
        "X": X, "y": y, "weights": rng.uniform(0.1, 4, rows), "wider": np.concatenate([X, X[:, holed]], axis=1),
        "gaps": widened(rows_in_memory(gaps, y, "X"), np.isnan(gaps).sum(axis=0), np.nanmean(gaps, axis=0)),
        "covariates": widened(with_covariates(rows_in_memory(X, y, "X"), Z)),
    }  # fmt: skip


def plain(data: dict[str, Any], rows: str = "X", **options: Any) -> dict[str, Any]:
    """Take class moments of rows in memory."""
    from mmpca_dist import class_moments

    class_moments(data[rows], data["y"], **options)
    return {"passes": 1}


def weighted(data: dict[str, Any]) -> dict[str, Any]:
    """Take class moments of rows with weights."""
    return plain(data, sample_weight=data["weights"])


def of_dataset(data: dict[str, Any], name: str, precision: str) -> dict[str, Any]:
    """Take class moments of rows with gaps or covariates."""
    from mmpca_dist.statistics.from_rows import moments_of

    moments_of(data[name], precision=precision)
    return {"passes": 1}


def beside() -> Case:
    """Return the case of weights, gaps and covariates."""
    sizes = {"tiny": (500, 20), "usual": (100_000, 256), "full": (400_000, 256)}
    shapes = {name: {"rows": rows, "columns": columns} for name, (rows, columns) in sizes.items()}
    case = Case("moments: weights, gaps and covariates", nothing, shapes, load=side_columns)
    case.add("class moments", plain, "ours")
    case.add("with weights", weighted, "own")
    case.add("with gaps in a tenth of the columns", partial(of_dataset, name="gaps", precision="single"), "own")
    case.add("a tenth more columns, no gaps", partial(plain, rows="wider"), "own")
    case.add("in double precision", partial(plain, precision="double"), "own")
    case.add("with ten covariates", partial(of_dataset, name="covariates", precision="double"), "own")
    return case


def stored_values(shape: Data) -> dict[str, Any]:
    """Return CSR rows whose leading columns have larger values, in 50 classes."""
    from scipy.sparse import random_array

    rng = np.random.default_rng(0)
    size = (shape["rows"], shape["columns"])
    X = random_array(size, density=shape["density"], format="csr", dtype=np.float32, rng=rng)
    X.data *= spread(shape["columns"])[1][X.indices] ** 2
    return {"X": X, "dense": X.toarray(), "y": np.arange(shape["rows"]) % 50, "size": spread(shape["columns"])[0]}


def fit_memory(data: dict[str, Any], rows: str = "X") -> dict[str, Any]:
    """Fit PCA from the moments of rows in memory."""
    from mmpca_dist import MarginPCA

    return {"passes": 1, "value": MarginPCA(data["size"], "pca", solver="dense").fit(data[rows], data["y"]).components_}


def sparse_sklearn(data: dict[str, Any]) -> dict[str, Any]:
    """Fit scikit-learn's PCA to CSR rows."""
    return components_of_sklearn(data["X"], data["size"])


def dense_angle(data: dict[str, Any], components: Any) -> dict[str, float]:
    """Return the angle to the components of the dense rows in double precision."""
    covariance = np.cov(data["dense"].astype(np.float64), rowvar=False)
    return {"angle": degrees(components, np.linalg.eigh(covariance)[1][:, -data["size"] :].T)}


def sparse() -> Case:
    """Return the case of sparse rows."""
    shapes = {"tiny": (400, 60), "usual": (16_000, 2_000), "full": (100_000, 2_304)}
    sizes = {name: {"rows": rows, "columns": columns, "density": 0.01} for name, (rows, columns) in shapes.items()}
    sizes["tiny"]["density"] = 0.05
    case = Case("moments: sparse rows", nothing, sizes, dense_angle, stored_values)
    case.add("pca", fit_memory, "ours")
    case.add("the same rows made dense", partial(fit_memory, rows="dense"), "own")
    case.add("scikit-learn PCA(covariance_eigh)", sparse_sklearn)
    return case


def with_many(folder: Path, many: int, **shape: Any) -> Data:
    """Make a store with a second column of labels, of many classes."""
    import zarr

    data = store(folder, classes=10, **shape)
    with made(Path(f"{data['group']}.many")) as missing:
        if missing:
            labels = np.random.default_rng(2).integers(many, size=data["rows"], dtype=np.int32)
            zarr.open_group(data["group"])["many"] = labels
    return data


def many_classes() -> Case:
    """Return the case of many classes."""
    usual = {"rows": 400_000, "columns": 768, "dtype": "f2", "many": 5_000}
    tiny = {"rows": 2_000, "columns": 24, "dtype": "f2", "many": 100}
    sizes = {"tiny": tiny, "usual": usual, "full": {**usual, "rows": 14_000_000, "many": 21_000}}
    case = Case("moments: many classes", with_many, sizes, angle)
    case.add("pca, 10 classes", partial(fit, methods=("pca",), label="y"), "ours")
    case.add("pca, many classes", partial(fit, methods=("pca",), label="many"), "own")
    case.add("reading alone", read_files, "floor")
    case.add("symmetric products alone", multiply, "floor")
    return case


def doubled(folder: Path, rows: int, columns: int) -> Data:
    """Make stores of an eighth, a quarter, half and all of the rows."""
    return {"stores": [store(folder, rows >> shift, columns) for shift in (3, 2, 1, 0)]}


def of_part(data: Data, number: int, run: Any) -> dict[str, Any]:
    """Run an entry on one of the stores."""
    one = data["stores"][number]
    return {**run(one), "value": None, "rows": one["rows"]}


def slopes() -> Case:
    """Return the case of time and memory over rows."""
    sizes = {"tiny": (1_600, 16), "usual": (1_000_000, 256), "full": (8_000_000, 256)}
    shapes = {name: {"rows": rows, "columns": columns} for name, (rows, columns) in sizes.items()}
    case = Case("moments: slopes over rows", doubled, shapes)
    for number in (3, 2, 1, 0):
        part = f"{1 << number}/8 of the rows"
        case.add(f"one pass, {part}", partial(of_part, number=number, run=fit), "own" if number < 3 else "ours")
        medians = partial(of_part, number=number, run=partial(fit, methods=(*METHODS, "m-pca1b")))
        case.add(f"with m-pca1b, {part}", medians, "own")
        case.add(f"scikit-learn PCA loaded whole, {part}", partial(of_part, number=number, run=in_memory))
    return case


def cases() -> list[Case]:
    """Return the cases of this theme."""
    two = layout("two classes", 1_000_000)
    two.add("the same from da.from_zarr", fit_dask, "own")
    two.add("with m-pca1b", partial(fit, methods=(*METHODS, "m-pca1b")), "own")
    two.add("scikit-learn IncrementalPCA, by chunks", incremental)
    two.add("dask-ml PCA(randomized), historical", dask_ml, approximate=True)
    table = layout("Parquet", 400_000, make=parquet, whole=loaded_parquet)
    table.add("pyarrow alone, by batches", pyarrow_alone)
    return [
        two,
        layout("ten classes", 400_000, classes=10),
        layout("checksums", 400_000, checksums=True),
        layout("float16", 400_000, dtype="f2"),
        layout("int8", 400_000, dtype="i1"),
        layout("1,024 columns", 200_000, columns=1024),
        table,
        beside(),
        sparse(),
        many_classes(),
        slopes(),
    ]
