"""The support vector machine behind a projection penalty: its problem, and the certificate of a solution.

For labels y of -1 and +1, a centred kernel matrix K (n, n) and reduced features with orthonormal columns U (n, r),
minimise over b, u and beta

    sum_i max(0, 1 - y_i f_i) + 1 / (2 C) (beta^T K beta + sum_k ridge_k u_k^2),    f = K beta + U u + b.

Its dual has a = y beta between 0 and C, sum beta = 0, and U^T beta = ridge u: equality constraints where ridge is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.optimise.model_sweeps import relative_gaps

Array = NDArray[np.float64]


class Point(NamedTuple):
    """A dual point beta (n,), feasible up to rounding, with a primal one of the same w: u (r,) and b."""

    beta: Array
    u: Array
    b: float


class Solved(NamedTuple):
    """A point, its primal objective, its relative duality gap, and the steps that led there."""

    point: Point
    objective: float
    gap: float
    n_iter: int = 0


@dataclass(frozen=True)
class MarginProblem:
    """Scaled so that the mean of the diagonal of K is 1: solvers then see numbers near 1 in any units of the kernel."""

    kernel: Array
    features: Array
    ridge: Array
    y: Array
    C: float

    def margins(self, point: Point) -> Array:
        """Return y f of each row, shape (n,)."""
        return self.y * (self.kernel @ point.beta + self.features @ point.u + point.b)

    def certified(self, point: Point) -> Solved:
        """Return the point with beta clipped to its bounds and the best b, its primal objective, and its duality gap.

        The gap bounds how far the objective is above the least one, relative to it (see ``relative_gaps``). Constraints
        that hold up to rounding only count with their multipliers.
        """
        y, ridge = self.y, self.ridge
        beta = y * np.clip(y * point.beta, 0.0, self.C)
        images, reduced = self.kernel @ beta, self.features.T @ beta
        scores = images + self.features @ point.u
        b = _best_intercept(scores, y, point.b)
        squared = float(beta @ images)
        hinges = np.maximum(0.0, 1 - y * (scores + b)).sum()
        primal = float(hinges + (squared + ridge @ point.u**2) / (2 * self.C))
        free = ridge == 0
        penalised = (reduced[~free] ** 2 / ridge[~free]).sum()
        dual = (y @ beta - (squared + penalised) / 2) / self.C
        missed = (np.abs(point.u[free] * reduced[free]).sum() + abs(b * beta.sum())) / self.C
        objective, bound, at_zero = np.asarray([[primal], [dual - missed], [len(y)]], np.float64)
        return Solved(Point(beta, point.u, b), primal, float(relative_gaps(objective, bound, at_zero)[0]))


def _best_intercept(scores: Array, y: Array, b: float) -> float:
    """Return the intercept of least hinge loss that is nearest to b.

    The loss is piecewise linear with slopes that rise by 1 at each y_i - f_i, from minus the number of positive labels.
    """
    breaks, positive = np.sort(y - scores), int(np.count_nonzero(y > 0))
    return float(np.clip(b, breaks[positive - 1], breaks[positive]))
