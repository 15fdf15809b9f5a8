"""Classifiers of reduced rows: made from class moments with no further pass, or fitted to the rows."""

from mmpca_dist.predictors.classifiers import (
    CLASSIFIERS,
    LINEAR,
    OUT_OF_CORE,
    ClassifierSection,
    ClassifierSpec,
    check_classes,
    fit_from_moments,
    is_from_moments,
)
from mmpca_dist.predictors.fitting import FittedRows, convergence_note, fit_rows, linear_parts
from mmpca_dist.predictors.gaussian import naive_bayes, quadratic_discriminant
from mmpca_dist.predictors.linear import fisher_linear, linear_discriminant
from mmpca_dist.predictors.penalties import choose_C, fits_of
from mmpca_dist.predictors.reduced import ReducedMoments
from mmpca_dist.predictors.rules import Rule

__all__ = [
    "CLASSIFIERS",
    "LINEAR",
    "OUT_OF_CORE",
    "ClassifierSection",
    "ClassifierSpec",
    "FittedRows",
    "ReducedMoments",
    "Rule",
    "check_classes",
    "choose_C",
    "convergence_note",
    "fisher_linear",
    "fit_from_moments",
    "fit_rows",
    "fits_of",
    "is_from_moments",
    "linear_discriminant",
    "linear_parts",
    "naive_bayes",
    "quadratic_discriminant",
]
