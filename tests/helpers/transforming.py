"""Tables with named columns in several formats, a run on one, and projected rows."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr

from mmpca_dist import run
from mmpca_dist.configuration.schema import parse_config

N, D = 60, 4


NAMES = ["length", "width", "height", "weight"]


def table():
    rng = np.random.default_rng(0)
    y = np.arange(N) % 2
    return rng.standard_normal((N, D)) + y[:, None], y


def write_parquet(path, X, y=None, names=NAMES, **others):
    columns = {**others, **dict(zip(names, X.T, strict=True))}
    pq.write_table(pa.table(columns if y is None else {**columns, "label": y}), path, row_group_size=25)
    return str(path)


def write_zarr(path, X, y=None, names=None):
    group = zarr.open_group(str(path), mode="w")
    group.create_array("X", data=X, chunks=(25, X.shape[1]))
    if y is not None:
        group.create_array("y", data=y)
    if names is not None:
        group.attrs["feature_names"] = names
    return str(path)


def write_npz(path, X, y=None):
    np.savez(path, X=X, **({} if y is None else {"y": y}))
    return str(path)


def fit(folder, uri, **changes):
    content = {
        "dataset": {"uri": uri}, "methods": ["pca", "m-pca0"], "n_components": 2, "precision": "double",
        "project": {"methods": [], "format": ["zarr", "parquet"]}, "output": str(folder / "fitted"),
    }  # fmt: skip
    run(parse_config({**content, **changes}, "the test"))
    return str(folder / "fitted")


def projected(destination, method="pca"):
    group = zarr.open_group(f"{destination}/projected/{method}.zarr", mode="r")
    return group["X"][...], group["y"][...] if "y" in group else None


X, Y = table()
