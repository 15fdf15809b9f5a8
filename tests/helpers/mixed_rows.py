"""Rows whose classes differ in some columns."""

from __future__ import annotations

import numpy as np


def mixed(n, d, n_classes, seed):
    """Return rows of few directions and noise, whose path lets columns leave, with unequal scales and a far mean."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    y[:n_classes] = np.arange(n_classes)
    hidden = rng.standard_normal((n, 3)) + y[:, None] * rng.standard_normal(3)
    X = hidden @ rng.standard_normal((3, d)) + 0.5 * rng.standard_normal((n, d))
    return X * np.logspace(-1, 1, d) + 7, y
