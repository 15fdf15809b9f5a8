"""Classifiers of reduced rows, made from class moments and a projection with no further pass over the rows."""

from mmpca_dist.predictors.classifiers import ClassifierSpec, fit_from_moments, fit_rows, is_from_moments, linear_parts
from mmpca_dist.predictors.gaussian import naive_bayes, quadratic_discriminant
from mmpca_dist.predictors.linear import fisher_linear, linear_discriminant
from mmpca_dist.predictors.reduced import ReducedMoments
from mmpca_dist.predictors.rules import Rule

__all__ = [
    "ReducedMoments",
    "Rule",
    "fisher_linear",
    "linear_discriminant",
    "naive_bayes",
    "quadratic_discriminant",
]
