"""Rows with continuous targets."""

from __future__ import annotations

import numpy as np

from helpers.samples import labelled


def with_targets(n, d, q, seed, mean=3.0):
    """Return rows, and targets that follow them with noise."""
    X, _ = labelled(n, d, 2, seed, mean=mean)
    rng = np.random.default_rng(seed)
    Y = (X - mean) @ rng.standard_normal((d, q)) + 0.5 * rng.standard_normal((n, q)) + mean
    return X, Y
