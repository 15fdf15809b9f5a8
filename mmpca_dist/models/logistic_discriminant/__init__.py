"""Logistic discriminant analysis: the subspace that multinomial logistic regression tells classes apart in."""

from mmpca_dist.models.logistic_discriminant.estimator import METHOD as METHOD
