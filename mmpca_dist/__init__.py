"""Supervised linear dimensionality reduction for labelled tables larger than memory."""

from mmpca_dist.datasets import open_dataset
from mmpca_dist.reducers import LOL, FisherDiscriminant, MarginPCA, SupervisedPCA
from mmpca_dist.statistics.gather import class_moments
from mmpca_dist.statistics.moments import ClassMoments

__all__ = ["LOL", "ClassMoments", "FisherDiscriminant", "MarginPCA", "SupervisedPCA", "class_moments", "open_dataset"]
__version__ = "0.1.0"
