"""Solvers of the support vector machine behind a projection penalty: LIBSVM, and an interior-point method."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from mmpca_dist.errors import InputError
from mmpca_dist.models.projection_penalty.kernel.active_set import refined
from mmpca_dist.models.projection_penalty.kernel.margin_problem import MarginProblem, Point, Solved

TOLERANCES = (1e-3, 1e-5)
"""Tolerances of LIBSVM, on margins. A finer one would not help: its kernel values have 24 bits."""


def solve(problem: MarginProblem, solver: str, tol: float, max_iter: int) -> Solved:
    """Return a point with a relative duality gap of at most ``tol``, or else the best of those tried."""
    if solver == "clarabel":
        return _refined(problem, _by_clarabel(problem), tol)
    coarse, fine = TOLERANCES
    best = _refined(problem, _by_libsvm(problem, coarse, max_iter), tol)
    if best.gap <= tol:
        return best
    return min(best, _refined(problem, _by_libsvm(problem, fine, max_iter), tol), key=lambda solved: solved.gap)


def _refined(problem: MarginProblem, start: tuple[Point, int], tol: float) -> Solved:
    """Return what the active-set method makes of a point, with the steps of both."""
    solved = refined(problem, start[0], tol)
    return solved._replace(n_iter=start[1] + solved.n_iter)


def _by_libsvm(problem: MarginProblem, tol: float, max_iter: int) -> tuple[Point, int]:
    """Return the solution for a penalised u, which joins the kernel, and the number of steps."""
    matrix = problem.kernel + (problem.features / problem.ridge) @ problem.features.T
    machine = SVC(kernel="precomputed", C=problem.C, tol=tol, max_iter=max_iter, cache_size=500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the gap says more
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
    clarabel = _clarabel()
    n, r = problem.features.shape
    unit, roots = min(problem.C, 1.0), np.sqrt(problem.ridge)
    size = 1 / np.maximum(roots, 1.0)
    objective = sparse.block_diag([sparse.triu(unit * problem.kernel), unit * sparse.eye_array(r)], format="csc")
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


def _clarabel() -> Any:
    try:
        import clarabel
    except ImportError as error:
        raise InputError(
            "epsilon=0 and solver='clarabel' need Clarabel, which is not installed: pip install 'mmpca-dist[qp]'. Or "
            f"choose epsilon above 0, such as 1e-5 ({error})."
        ) from error
    return clarabel
