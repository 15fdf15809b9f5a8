"""scikit-learn estimators built from statistics, scatters and solvers."""

from mmpca_dist.reducers.margin import MarginPCA
from mmpca_dist.reducers.regressions import PLS
from mmpca_dist.reducers.supervised import LOL, FisherDiscriminant, SupervisedPCA

__all__ = ["LOL", "PLS", "FisherDiscriminant", "MarginPCA", "SupervisedPCA"]
