"""The registry of classifiers."""

from __future__ import annotations

from mmpca_dist.predictors.specification import Classifier
from mmpca_dist.registry import Registry

CLASSIFIERS = Registry(
    Classifier,
    "mmpca_dist.predictors",
    group="mmpca_dist.classifiers",
    order=lambda entry: (entry.rule is None, not entry.summed_scores, entry.out_of_core),
)
