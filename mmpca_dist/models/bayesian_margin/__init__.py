"""Bayesian maximum margin principal components (Du et al. 2015)."""

from mmpca_dist.models.bayesian_margin.estimators import METHOD as METHOD
