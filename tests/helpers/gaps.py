"""Rows with gaps, and the same rows filled."""

import numpy as np
from sklearn.impute import SimpleImputer

from helpers.samples import labelled


def rows(n, d, seed=1, mean=0.0):
    """Return rows of which about a fifth of the values of some columns are missing, and labels."""
    X, y = labelled(n, d, 3, seed=seed)
    y[:6] = [0, 1, 2, 0, 1, 2]
    X = X + mean
    bad = np.random.default_rng(seed).random(X.shape) < 0.2
    bad[:, ::3], bad[:6] = False, False
    return np.where(bad, np.nan, X), y


def filled(X):
    return SimpleImputer().fit_transform(X)
