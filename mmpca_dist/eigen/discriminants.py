"""Fisher's discriminants, and bounds on them if the scatter within classes is known in a basis only.

With W the mean scatter within the classes and Q the basis, Q^T W Q and W Q are known. As W is positive semidefinite, it
is no smaller than its Nystroem approximation W Q (Q^T W Q)^+ Q^T W. A smaller divisor makes Fisher's criterion larger:
with that approximation in place of W its eigenvalues are upper bounds. The class means lie in the basis, so the
eigenvalues in the basis are exactly what the components reach: lower bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.eigen.dense import Eigenpairs, leading_generalized
from mmpca_dist.errors import NoComponentsError
from mmpca_dist.statistics.working_statistics import EPS, Statistics, SubspaceStatistics


@dataclass(frozen=True)
class _Problem:
    """A^T A v = l W_g v, W_g = (1 - g) W + ridge I, for factors A, shape (C, r)."""

    factor: NDArray[np.float64]
    shrinkage: float
    ridge: float

    def divisor(self, scatter: NDArray[np.float64]) -> NDArray[np.float64]:
        divisor = (1 - self.shrinkage) * scatter
        divisor[np.diag_indices_from(divisor)] += self.ridge
        return divisor

    def solve(self, scatter: NDArray[np.float64], n_components: int, epsilon: float = EPS) -> Eigenpairs:
        return leading_generalized(self.factor, self.divisor(scatter), n_components, epsilon)

    def values(self, scatter: NDArray[np.float64], count: int) -> NDArray[np.float64]:
        """Return the leading eigenvalues, shape (count,); zeros where there are no more."""
        values = self.solve(scatter, count).values
        return np.pad(values, (0, count - len(values)))


def discriminants(
    statistics: Statistics, factor: NDArray[np.float64], n_components: int, shrinkage: float
) -> tuple[Eigenpairs, dict[str, Any] | None]:
    """Return the leading solutions of B v = l W_g v, W_g = (1 - g) W + g tr(W) / d I, and what is proved of them.

    Parameters
    ----------
    factor : array of shape (C, r)
        Rows A in working coordinates with B = A^T A.
    shrinkage : float
        g.

    Returns
    -------
    Eigenpairs
        Residuals are ||L^-1 (B v - l W_g v)||, W_g = L L^T, or an upper bound; NaN where nothing is proved.
    dict or None
        None where the scatter is known as a whole. Otherwise ``solver``, ``passes``, ``count`` of components;
        ``criterion``: share of the largest sum of Fisher's criterion over so many directions that they are proved to
        reach, at least; ``estimate``: the same, about, if what is outside the basis were spread evenly over all
        directions, which it cannot be with fewer rows than columns;
        ``angle``: bound, in degrees, on the largest angle to the exact directions, in units of the spread within
        classes. None where nothing is proved.

    Raises
    ------
    InputError
        Where the rows of each class are all equal, or W_g is singular.
    """
    moments = statistics.moments
    inside = moments.scatter(np.ones(len(moments.counts))) / moments.total
    trace, share = float(np.trace(inside)), 1.0
    if isinstance(statistics, SubspaceStatistics):
        share = 1 / statistics.class_weights[0, 0] / moments.total
        trace = share * statistics.approximation.trace
    if not trace > 0:
        raise NoComponentsError("The rows of each class are all equal, so there is no scatter to divide by.")
    problem = _Problem(factor, shrinkage, shrinkage * trace / statistics.n_features)
    # Also of the factor: little of it may be left next to the rounding of means.
    off, size = statistics.means_error, float(np.linalg.norm(factor))
    epsilon = max(statistics.epsilon, off / size) if size > 0 else statistics.epsilon
    pairs = problem.solve(inside, n_components, epsilon)
    approximation = statistics.approximation
    if approximation is None:
        return pairs, None
    proved: dict[str, Any] = {"criterion": None, "estimate": None, "angle": None}
    residuals = np.full(len(pairs.values), np.nan)
    if len(pairs.values) and problem.ridge > 10 * len(inside) * EPS * trace:
        outside = share * approximation.outside
        residuals, proved = _proved(statistics, inside, trace, outside, problem, pairs, epsilon + 8 * EPS)
    method = {"solver": approximation.solver, "passes": approximation.passes, "count": len(pairs.values)}
    return replace(pairs, residuals=residuals), {**method, **proved}


def _proved(
    statistics: Statistics, inside: NDArray[np.float64], trace: float, outside: NDArray[np.float64],
    problem: _Problem, pairs: Eigenpairs, epsilon: float,
) -> tuple[NDArray[np.float64], dict[str, Any]]:  # fmt: skip
    """Return bounds on residuals, and the shares and the angle that are proved.

    The scatter within classes has a ``trace``, is ``inside`` (r, r) in the basis, and moves that ``outside`` (s, r). An
    orthonormal basis U of K directions reaches tr(U^T M U) = sum p_i l_i, 0 <= p_i <= 1 and sum p_i = K. The squared
    sines of its angles to the K leading eigenvectors add up to what p_1 ... p_K lack of K, and every unit that is
    lacking costs at least l_K - l_(K+1).
    """
    r, s, count = *outside.shape[::-1], len(pairs.values)
    least = _least(inside, outside, statistics.epsilon * trace)
    wider = replace(problem, factor=np.pad(problem.factor, ((0, 0), (0, s))))
    lower = scipy.linalg.cholesky(wider.divisor(least), lower=True, check_finite=False)
    V, A = pairs.vectors, problem.factor
    missed = np.concatenate([
        A.T @ (A @ V) - problem.divisor(inside) @ V * pairs.values,
        -(1 - problem.shrinkage) * (outside @ V) * pairs.values,
    ])  # fmt: skip
    residuals = np.linalg.norm(scipy.linalg.solve_triangular(lower, missed, lower=True), axis=0)
    reached, upper = float(pairs.values.sum()), wider.values(least, count + 1)
    estimate = None
    if statistics.moments.n_rows - np.count_nonzero(statistics.moments.counts) >= statistics.n_features:
        lacking = max(trace - float(np.trace(least)), 0.0) / max(statistics.n_features - r, 1)
        least[np.arange(r, r + s), np.arange(r, r + s)] += lacking
        estimate = reached / max(reached, float(wider.values(least, count).sum()))
    *leading, following = upper
    best = sum(leading) * (1 + epsilon)
    lost, gap = best - reached, float(pairs.values[-1]) - following
    angle = float(np.degrees(np.arcsin(np.sqrt(lost / gap)))) if 0 <= lost < gap else None
    return residuals, {"criterion": min(float(reached / best), 1.0), "estimate": estimate, "angle": angle}


def _least(inside: NDArray[np.float64], outside: NDArray[np.float64], floor: float) -> NDArray[np.float64]:
    """Return the Nystroem approximation in the basis and outside of it, shape (r + s, r + s).

    Without eigenvectors below ``floor``, that of rounding, it is the approximation from fewer vectors: no larger.
    """
    values, turn = scipy.linalg.eigh(inside, check_finite=False)
    kept = values > max(floor, 10 * len(values) * EPS * values[-1])
    values, turn = values[kept], turn[:, kept]
    root = np.concatenate([turn * np.sqrt(values), (outside @ turn) / np.sqrt(values)])
    return root @ root.T
