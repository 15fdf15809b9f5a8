"""The support vector machine behind a projection penalty: its problem, certificates, and solvers.

For labels y of -1 and +1, a centred kernel matrix K (n, n) and reduced features with orthonormal columns U (n, r),
minimise over b, u and beta

    sum_i max(0, 1 - y_i f_i) + 1 / (2 C) (beta^T K beta + sum_k ridge_k u_k^2),    f = K beta + U u + b.

Its dual has a = y beta between 0 and C, sum beta = 0, and U^T beta = ridge u: equality constraints where ridge is 0.

LIBSVM, or an interior-point method, finds a solution, and an active-set method in double precision refines it: LIBSVM
stores kernel values as 32-bit floats. With a projection penalty they have a part 1 / epsilon times the rest, so the
rest keeps few digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy import sparse

from mmpca_dist.blas import alone
from mmpca_dist.errors import InputError, instead_of
from mmpca_dist.optimise.model_sweeps import relative_gaps

Array = NDArray[np.float64]
TOLERANCES = (1e-3, 1e-5)
"""Tolerances of LIBSVM, on margins. A finer one would not help: its kernel values have 24 bits."""
PROXIMAL = 1e-10
"""Added to the diagonal of a system, whose kernel has ones there: equal rows make it singular. Steps repeat, so the
solution stays the same."""
LEAST_RIDGE = 1e-12
"""The same for u and b, where no larger ridge is there; of unknowns beta in units of min(C, 1)."""
AT_BOUND = 1e-7
"""Multipliers this near to a bound, relatively, start there: interior points only come near."""
VIOLATED = 1e-10
"""Margins beyond 1 by less are on it."""


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
        # The hinge loss is linear between y_i - f_i; at each, its slope rises by 1 from minus the count of positive y.
        breaks, positive = np.sort(y - scores), int(np.count_nonzero(y > 0))
        b = float(np.clip(point.b, breaks[positive - 1], breaks[positive]))
        squared = float(beta @ images)
        hinges = np.maximum(0.0, 1 - y * (scores + b)).sum()
        primal = float(hinges + (squared + ridge @ point.u**2) / (2 * self.C))
        free = ridge == 0
        penalised = (reduced[~free] ** 2 / ridge[~free]).sum()
        dual = (y @ beta - (squared + penalised) / 2) / self.C
        missed = (np.abs(point.u[free] * reduced[free]).sum() + abs(b * beta.sum())) / self.C
        objective, bound, at_zero = np.asarray([[primal], [dual - missed], [len(y)]], np.float64)
        return Solved(Point(beta, point.u, b), primal, float(relative_gaps(objective, bound, at_zero)[0]))


def solve(problem: MarginProblem, solver: str, tol: float, max_iter: int) -> Solved:
    """Return a point with a relative duality gap of at most ``tol``, or else the best of those tried."""
    if solver == "clarabel":
        return refined(problem, _by_clarabel(problem), tol)
    coarse, fine = TOLERANCES
    best = refined(problem, _by_libsvm(problem, coarse, max_iter), tol)
    if best.gap <= tol:
        return best
    return min(best, refined(problem, _by_libsvm(problem, fine, max_iter), tol), key=lambda solved: solved.gap)


def _by_libsvm(problem: MarginProblem, tol: float, max_iter: int) -> tuple[Point, int]:
    """Return the solution for a penalised u, which joins the kernel, and the number of steps."""
    matrix = problem.kernel + (problem.features / problem.ridge) @ problem.features.T
    from sklearn.svm import SVC  # slow to import

    machine = SVC(kernel="precomputed", C=problem.C, tol=tol, max_iter=max_iter, cache_size=500, random_state=0)
    with alone():  # the gap says more than a warning
        machine.fit(matrix, problem.y)
    beta = np.zeros(len(problem.y))
    beta[machine.support_] = machine.dual_coef_[0]
    u = (problem.features.T @ beta) / problem.ridge
    return Point(beta, u, float(machine.intercept_[0])), max(int(machine.n_iter_[0]), 1)


def _by_clarabel(problem: MarginProblem) -> tuple[Point, int]:
    """Return the solution of the dual, and the number of steps; multipliers of its equality constraints are u and b.

    Variables are beta over min(C, 1), and s = U^T beta / sqrt(ridge) where there is a ridge: so no entry grows as it
    tends to 0.
    """
    absent = (
        "epsilon=0 and solver='clarabel' need Clarabel, which is not installed: pip install 'mmpca-dist[qp]'. Or "
        "choose epsilon above 0, such as 1e-5 ({reason})."
    )
    with instead_of(ImportError, InputError, absent):
        import clarabel
    n, r = problem.features.shape
    unit, roots = min(problem.C, 1.0), np.sqrt(problem.ridge)
    size = 1 / np.maximum(roots, 1.0)
    upper = sparse.triu(sparse.coo_array(unit * problem.kernel))
    objective = sparse.block_diag([upper, unit * sparse.eye_array(r)], format="csc")
    linear = np.concatenate([-problem.y, np.zeros(r)])
    signs = sparse.diags_array(problem.y)
    constraints = sparse.block_array(
        [
            [sparse.csc_array(np.ones((1, n))), sparse.csc_array((1, r))],
            [sparse.csc_array((problem.features * size).T), sparse.diags_array(-roots * size)],
            [-signs, None],
            [signs, None],
        ],
        format="csc",
    )
    bounds = np.concatenate([np.zeros(1 + r + n), np.full(n, problem.C / unit)])
    cones = [clarabel.ZeroConeT(1 + r), clarabel.NonnegativeConeT(2 * n)]
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    solution = clarabel.DefaultSolver(objective, linear, constraints, bounds, cones, settings).solve()
    beta, multipliers = unit * np.asarray(solution.x)[:n], np.asarray(solution.z)[: 1 + r]
    if not (np.isfinite(beta).all() and np.isfinite(multipliers).all()):
        beta, multipliers = np.zeros(n), np.zeros(1 + r)
    return Point(beta, multipliers[1:] * size, float(multipliers[0])), max(int(solution.iterations), 1)


def refined(problem: MarginProblem, start: tuple[Point, int], tol: float) -> Solved:
    """Return a better point of the problem, never a worse one; its steps come on top of those to the start.

    Rows whose multiplier is at a bound stay there, and the others move to the margin, as far as none of them meets a
    bound; there it stays. On the margin, the rows at a bound on the wrong side of it are freed. The dual objective
    never falls, so that few steps lead from a point near the solution to it.
    """
    best = problem.certified(start[0])
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
    return best._replace(n_iter=start[1] + n_iter)


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
