"""Regression problems onto the classes, from class moments.

Targets are the labels -1 and +1 of two classes, and an indicator (1 for its rows, else 0) of each of several. Of rows
less their mean, X^T Y then has the column n_c (m_c - m) for class c, and X^T X is the scatter of PCA.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.statistics.coordinates import Statistics
from mmpca_dist.statistics.scatters import total_scatter


@dataclass(frozen=True)
class ClassRegression:
    """What a regression onto the classes is made from, all of it divided by the number of rows.

    Attributes
    ----------
    scatter : array of shape (r, r)
        X^T X in working coordinates.
    cross : array of shape (r, q)
        X^T Y.
    targets : array of shape (q, q)
        Y^T Y.
    """

    scatter: NDArray[np.float64]
    cross: NDArray[np.float64]
    targets: NDArray[np.float64]


def class_regression(statistics: Statistics) -> ClassRegression:
    """Return the regression onto the classes that have rows.

    Raises
    ------
    InputError
        For fewer than two such classes.
    """
    moments = statistics.moments
    scatter = total_scatter(moments).dense(moments)
    present = np.flatnonzero(moments.counts)
    shares = moments.counts[present] / moments.n_rows
    cross, targets = (moments.deviations[present] * shares[:, None]).T, np.diag(shares) - np.outer(shares, shares)
    if len(present) == 2:  # y = +1 for the second class, -1 for the first: twice its indicator, less one
        cross, targets = 2 * cross[:, 1:], 4 * targets[1:, 1:]
    return ClassRegression(scatter, cross, targets)
