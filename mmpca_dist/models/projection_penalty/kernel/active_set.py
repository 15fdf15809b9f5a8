"""An active-set method in double precision that refines a solution of LIBSVM or of an interior-point method.

LIBSVM stores kernel values as 32-bit floats. With a projection penalty they have a part 1 / epsilon times the rest, so
the rest keeps few digits.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.models.projection_penalty.kernel.margin_problem import Array, MarginProblem, Point, Solved

PROXIMAL = 1e-10
"""Added to the diagonal of a system, whose kernel has ones there: equal rows make it singular. Steps repeat, so the
solution stays the same."""
LEAST_RIDGE = 1e-12
"""The same for u and b, where no larger ridge is there; of unknowns beta in units of min(C, 1)."""
AT_BOUND = 1e-7
"""Multipliers this near to a bound, relatively, start there: interior points only come near."""
VIOLATED = 1e-10
"""Margins beyond 1 by less are on it."""


def refined(problem: MarginProblem, start: Point, tol: float) -> Solved:
    """Return a better point of the problem, never a worse one.

    Rows whose multiplier is at a bound stay there, and the others move to the margin, as far as none of them meets a
    bound; there it stays. On the margin, the rows at a bound on the wrong side of it are freed. The dual objective
    never falls, so that few steps lead from a point near the solution to it.
    """
    best = problem.certified(start)
    point, sets = _snapped(problem, best.point)
    freed_many, n_iter = True, 0
    while best.gap > tol and n_iter < 10 * len(problem.y) + 100:
        n_iter += 1
        point, share = _moved(problem, point, sets)
        if not np.isfinite(point.beta).all():
            break
        if share < 1:
            freed_many = freed_many and share > 0
            continue
        certified, before = problem.certified(point), best.gap
        best = certified if certified.gap < before else best
        excess = sets * (problem.margins(point) - 1)
        worst = float(excess.max(initial=0.0))
        if worst <= VIOLATED:
            if certified.gap < 0.99 * before:  # large multipliers take several steps, as PROXIMAL shortens them
                continue
            break
        sets[excess >= (worst / 4 if freed_many else worst)] = 0
        freed_many = True
    return best._replace(n_iter=n_iter)


def _snapped(problem: MarginProblem, point: Point) -> tuple[Point, NDArray[np.int8]]:
    """Return the point with multipliers near a bound moved there, and for each row -1 at 0, 1 at C, and 0 between."""
    a = problem.y * point.beta
    sets = np.zeros(len(a), np.int8)
    sets[a <= AT_BOUND * a.max(initial=0.0)] = -1
    sets[problem.C - a <= AT_BOUND * problem.C] = 1
    beta = np.where(sets > 0, problem.y * problem.C, np.where(sets < 0, 0.0, point.beta))
    penalised = problem.ridge > 0
    u = point.u.copy()
    u[penalised] = (problem.features[:, penalised].T @ beta) / problem.ridge[penalised]
    return Point(beta, u, point.b), sets


def _moved(problem: MarginProblem, point: Point, sets: NDArray[np.int8]) -> tuple[Point, float]:
    """Return the point moved towards the margin, and the share of the way; update the sets of rows that met a bound."""
    y, free = problem.y, np.flatnonzero(sets == 0)
    change, u_change, b_change = _newton(problem, point, free)
    a, moves = y[free] * point.beta[free], y[free] * change
    room = np.where(moves < 0, a, problem.C - a)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(moves != 0, np.maximum(room, 0.0) / np.abs(moves), np.inf)
    share = min(1.0, float(ratios.min(initial=np.inf)))
    beta = point.beta.copy()
    beta[free] += share * change
    met = ratios <= share if share < 1 else np.zeros(len(free), bool)
    sets[free[met]] = np.where(moves[met] < 0, -1, 1)
    beta[free[met]] = np.where(moves[met] < 0, 0.0, y[free[met]] * problem.C)
    return Point(beta, point.u + share * u_change, point.b + share * b_change), share


def _newton(problem: MarginProblem, point: Point, free: NDArray[np.intp]) -> tuple[Array, Array, float]:
    """Return the changes of beta of the free rows, of u and of b that put these rows on the margin."""
    # In these units entries stay near 1 where C is tiny.
    unit = min(problem.C, 1.0)
    n, r, ridge = len(free), len(problem.ridge), problem.ridge / unit
    size = 1 / np.sqrt(np.maximum(ridge, 1.0))
    features = problem.features * size
    system = np.zeros((n + r + 1, n + r + 1))
    system[:n, :n] = unit * problem.kernel[np.ix_(free, free)]
    system[n:-1, :n] = features[free].T
    system[-1, :n] = 1.0
    system[np.diag_indices(n + r + 1)] += np.concatenate(
        [np.full(n, unit * PROXIMAL), -np.maximum(ridge * size**2, LEAST_RIDGE), [-LEAST_RIDGE]]
    )
    scores = problem.kernel @ point.beta + problem.features @ point.u + point.b
    rest = np.concatenate(
        [
            (problem.y - scores)[free],
            size * (ridge * point.u - problem.features.T @ point.beta / unit),
            [-point.beta.sum() / unit],
        ]
    )
    factors, pivots, _ = scipy.linalg.lapack.dsytrf(system, lower=1)
    solved = scipy.linalg.lapack.dsytrs(factors, pivots, rest, lower=1)[0]
    return unit * solved[:n], size * solved[n:-1], float(solved[-1])
