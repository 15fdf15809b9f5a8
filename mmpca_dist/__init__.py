"""Supervised linear dimensionality reduction for labelled tables larger than memory."""

from typing import Any

from mmpca_dist.datasets import open_dataset
from mmpca_dist.reducers import (
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
from mmpca_dist.runs.config import RunConfig, load_config
from mmpca_dist.runs.models import load_model, load_moments
from mmpca_dist.runs.stages import run
from mmpca_dist.statistics.gather import class_moments
from mmpca_dist.statistics.moments import ClassMoments

__all__ = [
    "LOL",
    "PLS",
    "ClassMoments",
    "FisherDiscriminant",
    "FisherScore",
    "LassoSelection",
    "MarginPCA",
    "NearestOpposite",
    "RandomProjection",
    "RidgeDirections",
    "RunConfig",
    "SupervisedPCA",
    "class_moments",
    "load_config",
    "load_model",
    "load_moments",
    "open_dataset",
    "run",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "NearestOpposite":  # slow to import, for its inner loops are compiled
        from mmpca_dist.neighbors import NearestOpposite

        return NearestOpposite
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
