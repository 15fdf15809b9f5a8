"""An estimator of every method, by its name."""

from __future__ import annotations

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
from mmpca_dist.reducers.margin import VARIANTS

UNITS = {"single": float(np.finfo(np.float32).eps), "double": float(np.finfo(np.float64).eps)}
ALL = {
    **{name: MarginPCA(variant=name) for name in VARIANTS},
    "fisher": FisherDiscriminant(), "hsic": SupervisedPCA(), "lol": LOL(), "pls": PLS(), "ridge": RidgeDirections(),
    "lasso": LassoSelection(), "fisher-score": FisherScore(), "random-projection": RandomProjection(),
}  # fmt: skip


def make(name, **parameters):
    """Return a fresh estimator of this method."""
    return clone(ALL[name]).set_params(**parameters)
