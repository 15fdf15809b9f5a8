"""Problems for projection penalties with a kernel."""

import numpy as np

POLY = {"kernel": "poly", "degree": 2, "gamma": 0.3, "coef0": 1.0}
SHAPES = {"tall": (30, 3), "wide": (12, 7)}


def overlapping(n, d, seed, classes=2):
    """Rows of classes whose means lie one standard deviation apart."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return rng.standard_normal((n, d)) + y[:, None] * np.eye(classes, d)[y], y


def reduction_of(d, n_components, seed):
    return np.random.default_rng(seed).standard_normal((n_components, d))


def signs(y):
    return np.where(y == y.max(), 1.0, -1.0)
