"""Drift of MNIST in 32 coordinates, nights drawn at random from all rows: alarms, and classes that move."""

import numpy as np
import pytest

from mmpca_dist import MarginPCA, class_moments

NIGHTS, ROWS, COORDINATES = 400, 2000, 32


@pytest.mark.slow
def test_nights_of_mnist(real_path):
    """Without drift 3 to 7% of nights alarm at 5%; a class that moved by 0.3 of its spread is named on 85% or more.

    It moves along a random direction by 0.3 in the metric of the scatter within classes, 200 rows of it a night.
    """
    arrays = np.load(real_path("mnist.npz"))
    X, y = arrays["X"].astype(np.float32), arrays["y"].astype(int)
    Z = MarginPCA(COORDINATES, "pca").fit(X, y).transform(X).astype(float)
    stored, rng = class_moments(Z, y, precision="double"), np.random.default_rng(0)
    root = np.linalg.cholesky(stored.scatter(np.ones(10)) / stored.total)
    alarms, named = 0, 0
    for _ in range(NIGHTS):
        night = rng.choice(len(Z), ROWS, replace=False)
        alarms += bool(stored.drift(class_moments(Z[night], y[night], precision="double")).moved(0.05))
        moving = int(rng.integers(10))
        own = rng.choice(np.flatnonzero(y == moving), 200, replace=False)
        others = night[y[night] != moving]
        direction = rng.standard_normal(COORDINATES)
        step = 0.3 * root @ (direction / np.linalg.norm(direction))
        rows, labels = np.concatenate([Z[own] + step, Z[others]]), np.concatenate([y[own], y[others]])
        drift = stored.drift(class_moments(rows, labels, precision="double"))
        named += moving in [one.label for one in drift.moved(0.05)]
    print(f"alarms on {alarms / NIGHTS:.1%} of nights, the class named on {named / NIGHTS:.1%}")
    assert 0.03 <= alarms / NIGHTS <= 0.07
    assert named / NIGHTS >= 0.85
