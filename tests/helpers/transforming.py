"""Tables with named columns in several formats, a run on one, and projected rows."""

import numpy as np
import zarr

from helpers.tables import config_of, write_parquet
from mmpca_dist import run

N, D = 60, 4


NAMES = ["length", "width", "height", "weight"]


def table():
    rng = np.random.default_rng(0)
    y = np.arange(N) % 2
    return rng.standard_normal((N, D)) + y[:, None], y


def write_named(path, X, y=None, names=NAMES, **beside):
    return write_parquet(path, X, y, names, **beside)


def fit(folder, uri, **changes):
    project = {"methods": [], "format": ["zarr", "parquet"]}
    run(config_of(folder / "fitted", uri, **{"methods": ["pca", "m-pca0"], "project": project, **changes}))
    return str(folder / "fitted")


def projected(destination, method="pca"):
    group = zarr.open_group(f"{destination}/projected/{method}.zarr", mode="r")
    return group["X"][...], group["y"][...] if "y" in group else None


X, Y = table()
