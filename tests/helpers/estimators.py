"""An estimator of every method, by its name, and the same with other parameters."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import zarr
from sklearn.base import clone

from mmpca_dist import (
    LOL,
    PLS,
    FisherDiscriminant,
    FisherScore,
    LassoSelection,
    MarginPCA,
    RandomProjection,
    RidgeDirections,
    SupervisedPCA,
)
from mmpca_dist.methods.margin_pca import VARIANTS

UNITS = {"single": float(np.finfo(np.float32).eps), "double": float(np.finfo(np.float64).eps)}
ALL = {
    **{name: MarginPCA(variant=name) for name in VARIANTS},
    "fisher": FisherDiscriminant(), "hsic": SupervisedPCA(), "lol": LOL(), "pls": PLS(), "ridge": RidgeDirections(),
    "lasso": LassoSelection(), "fisher-score": FisherScore(), "random-projection": RandomProjection(),
}  # fmt: skip
VARIED = {
    **ALL,
    "m-pca2 one-vs-one": MarginPCA(variant="m-pca2", pairing="one-vs-one"),
    "m-pca2 approximate": MarginPCA(variant="m-pca2", search="approximate", max_queries=40, standardize=True),
    "m-pca1a one-vs-one": MarginPCA(variant="m-pca1a", pairing="one-vs-one"),
    "m-pca1b one-vs-one": MarginPCA(variant="m-pca1b", pairing="one-vs-one"),
    "centred": MarginPCA(center=True),
    "standardized": MarginPCA(standardize=True, precision="double"),
    "m-pca1b standardized": MarginPCA(variant="m-pca1b", standardize=True, center=True),
    "fisher standardized": FisherDiscriminant(standardize=True, center=True),
    "pls standardized": PLS(standardize=True, center=True), "lasso standardized": LassoSelection(standardize=True),
    "random-projection centred": RandomProjection(center=True),
}  # fmt: skip


CONTINUOUS = {
    "continuous": SupervisedPCA(target="continuous"),
    "pls continuous": PLS(target="continuous"),
    "continuous standardized": SupervisedPCA(target="continuous", standardize=True, center=True),
}


def make(name, **parameters):
    """Return a fresh estimator of this method."""
    return clone(VARIED[name]).set_params(**parameters)


def dask_forms(X, y):
    """Return the same rows and labels, or targets (n, T), in every form that Dask gives them."""
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcde")[: X.shape[1]]), npartitions=4, sort=False)
    labels = dd.from_pandas((pd.Series if y.ndim == 1 else pd.DataFrame)(y), npartitions=4, sort=False)
    d = X.shape[1]
    return {
        "rows": (da.from_array(X, (17, d)), da.from_array(y, 17)),
        "row and column chunks": (da.from_array(X, (17, 2)), da.from_array(y, (30, 1)[: y.ndim])),
        "one chunk a row": (da.from_array(X, (1, d)), da.from_array(y, 90)),
        "labels in memory": (da.from_array(X, (40, d)), y),
        "empty chunks": (da.from_array(X, ((0, 50, 0, 40), (d,))), y),
        "data frames": (frame, labels),
        "data frame, array": (frame, da.from_array(y, 23)),
        "unknown chunk sizes": (frame.to_dask_array(), labels.to_dask_array()),
        "from Zarr": (da.from_zarr(zarr.array(X, chunks=(17, d))), da.from_array(y, 30)),
    }


DASK_FORMS = tuple(dask_forms(np.zeros((90, 5)), np.zeros(90, int)))
