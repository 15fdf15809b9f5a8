"""Scatters of nearest pairs beside their twins."""

import naive
import numpy as np
import pytest

from helpers.samples import angle_bound, largest_angle

EPS = float(np.finfo(np.float64).eps)


@pytest.fixture(autouse=True)
def small(limits):
    """Many cells, pieces and segments from few rows."""
    limits.rows_per_cell, limits.smallest_segment = 10, 16


def assert_components(reducer, rows, unit):
    """Components span the leading eigenspaces of the difference rows' scatter."""
    S = naive.mean_outer_product(rows)
    values, vectors = naive.eigenpairs(S)
    error = (len(rows) + 8) * unit * np.trace(S)
    k = len(reducer.components_)
    np.testing.assert_allclose(reducer.eigenvalues_, values[:k], rtol=0, atol=error)
    assert largest_angle(reducer.components_, vectors[:, :k]) <= angle_bound(S, k, error)
    np.testing.assert_allclose(reducer.total_, np.trace(S), rtol=0, atol=error)
