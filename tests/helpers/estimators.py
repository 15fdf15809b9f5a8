"""An estimator of every method, by its name, and the same with other parameters."""

import numpy as np
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
