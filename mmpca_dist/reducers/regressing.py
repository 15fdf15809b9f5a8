"""From statistics to the components of regressions onto the classes: one function a method.

Targets are the labels -1 and +1 of two classes, and an indicator (1 for its rows, else 0) of each of several. Of rows
less their mean, X^T Y then has the column n_c (m_c - m) for class c, and X^T X is the scatter of PCA.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.reducers.solving import Solution
from mmpca_dist.scatters import margin_scatter
from mmpca_dist.solvers.dense import fix_signs
from mmpca_dist.solvers.kernel_pls import kernel_pls
from mmpca_dist.statistics.working import Statistics


@dataclass(frozen=True)
class Regression:
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


def class_regression(statistics: Statistics, method: str) -> Regression:
    """Return the regression onto the classes that have rows.

    Raises
    ------
    InputError
        For fewer than two such classes, or where no scatter was formed.
    """
    refuse_passes(statistics, method)
    moments = statistics.moments
    scatter = margin_scatter("pca", moments).dense(moments)
    present = np.flatnonzero(moments.counts)
    shares = moments.counts[present] / moments.n_rows
    cross, targets = (moments.deviations[present] * shares[:, None]).T, np.diag(shares) - np.outer(shares, shares)
    if len(present) == 2:  # y = +1 for the second class, -1 for the first: twice its indicator, less one
        cross, targets = 2 * cross[:, 1:], 4 * targets[1:, 1:]
    return Regression(scatter, cross, targets)


def refuse_passes(statistics: Statistics, method: str) -> None:
    if statistics.approximation is not None:
        raise InputError(f"{method} needs the whole scatter, and these statistics know the leading part of it only.")


def solve_pls(statistics: Statistics, n_components: int | None) -> Solution:
    """Partial least squares onto the classes; values are the variance of the targets that each component explains.

    Source: Dayal & MacGregor 1997, "Improved PLS algorithms".
    """
    problem = class_regression(statistics, "pls")
    most = min(statistics.n_features, statistics.moments.n_rows - 1)
    total = float(np.trace(problem.targets))
    wanted = most if n_components is None else min(n_components, most)
    found = kernel_pls(problem.scatter, problem.cross, total, wanted, statistics.epsilon)
    limit = f"the rank of its rows, at most min(n_features, n_samples - 1) = {most}"
    components = fix_signs(statistics.loadings(found.vectors))
    return Solution(components, found.explained, _unknown(components), found.relative_errors, total, limit)


def _unknown(components: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the residuals of components that are no eigenvectors."""
    return np.full(len(components), np.nan)
