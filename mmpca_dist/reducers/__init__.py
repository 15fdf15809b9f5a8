"""scikit-learn estimators built from statistics, scatters and solvers."""

from mmpca_dist.reducers.margin import MarginPCA
from mmpca_dist.reducers.random import RandomProjection
from mmpca_dist.reducers.regressions import PLS, RidgeDirections
from mmpca_dist.reducers.selections import FisherScore, LassoSelection
from mmpca_dist.reducers.supervised import LOL, FisherDiscriminant, SupervisedPCA

__all__ = [
    "LOL",
    "PLS",
    "FisherDiscriminant",
    "FisherScore",
    "LassoSelection",
    "MarginPCA",
    "RandomProjection",
    "RidgeDirections",
    "SupervisedPCA",
]
