"""Neighbours checked without any room for rounding."""

import naive
import numpy as np

from mmpca_dist.neighbors.kernels import NO_ROW, Best
from mmpca_dist.neighbors.search import queries_of, search_queries


def assert_found(found, X, y, pairing="one-vs-rest", rows=None):
    """Row numbers and distances are those of the twin, to the bit, which are returned."""
    expected = naive.nearest_opposite(X, y, pairing, rows)
    for array, each in zip(found.arrays(), (np.arange(len(X)) if rows is None else rows, *expected), strict=True):
        np.testing.assert_array_equal(array, each)
    return expected


def assert_found_without_room(found, expected, distances, pairing="one-vs-rest"):
    """Go through the segments again with the true distances as what is known, but of higher rows.

    Every neighbour is then a tie with what is known: no bound has any room but its slack for rounding.
    """
    layout = found.layout
    asked = queries_of(layout, 0, layout.n_segments, None)
    exact = found.tables.joined("squared")[0]
    none, bounds = np.empty((len(exact), 0), np.int32), np.full(len(exact), np.inf)
    known = Best(exact.copy(), np.full(exact.shape, NO_ROW - 1), np.full(exact.shape, -1), bounds, none)
    again, work = search_queries(asked, layout, one_vs_one=pairing == "one-vs-one", best=known)
    assert work.proved == len(exact)
    np.testing.assert_array_equal(np.where(np.isfinite(exact), again.rows, -1), expected[asked.rows])
    np.testing.assert_array_equal(np.sqrt(again.squared), distances[asked.rows])
