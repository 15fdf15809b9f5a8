"""From statistics to the components of regressions onto the classes: one function a method.

Targets are the labels -1 and +1 of two classes, and an indicator (1 for its rows, else 0) of each of several. Of rows
less their mean, X^T Y then has the column n_c (m_c - m) for class c, and X^T X is the scatter of PCA.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.errors import InputError
from mmpca_dist.reducers.solving import Solution
from mmpca_dist.scatters import margin_scatter
from mmpca_dist.solvers.dense import fix_signs
from mmpca_dist.solvers.kernel_pls import kernel_pls
from mmpca_dist.statistics.cross import CrossMoments
from mmpca_dist.statistics.working import Statistics

DEFAULT_ALPHA = 1.0
EPS, TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)


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


def solve_pls_targets(cross: CrossMoments, n_components: int | None, *, standardize: bool = False) -> Solution:
    """Partial least squares onto continuous targets; values are the variance of the targets that components explain.

    Source: Dayal & MacGregor 1997, "Improved PLS algorithms".
    """
    assert cross.rows is not None  # noqa: S101  (asked for)
    n, d, scale = cross.n_rows, len(cross.mean), cross.scale if standardize else np.ones(len(cross.mean))
    most, total = min(d, n - 1), float(cross.target_squares.sum()) / n
    found = kernel_pls(
        cross.rows / (n * scale[:, None] * scale), cross.scatter / (n * scale[:, None]), total,
        most if n_components is None else min(n_components, most), EPS,
    )  # fmt: skip
    if not len(found.explained):
        raise InputError("The targets vary with none of the columns: what they share is zero up to rounding.")
    limit = f"the rank of its rows, at most min(n_features, n_samples - 1) = {most}"
    components = fix_signs(np.ascontiguousarray(found.vectors.T))
    return Solution(components, found.explained, _unknown(components), found.relative_errors, total, limit)


def solve_ridge(statistics: Statistics, n_components: int | None, *, alpha: float) -> Solution:
    """Ridge regression onto the classes: principal directions of its coefficients by the variance of what they fit.

    With coefficients W = (X^T X + alpha I)^-1 X^T Y these are W V, V the eigenvectors of W^T X^T X W: one target keeps
    its coefficients as they are, several are turned so that fitted values are uncorrelated.

    Raises
    ------
    InputError
        Where the matrix to divide by is singular.
    """
    problem, n = class_regression(statistics, "ridge"), statistics.moments.n_rows
    most = min(int(np.count_nonzero(statistics.moments.counts)) - 1, statistics.n_features)
    with single_blas_thread():
        coefficients, errors = _solved(
            problem.scatter, problem.cross, alpha / n, statistics.epsilon, statistics.basis is None
        )
        values, turn = np.linalg.eigh(coefficients.T @ problem.scatter @ coefficients)
    values, turn = values[::-1], turn[:, ::-1]
    total = float(np.trace(problem.targets))
    kept = values > max(errors, 10 * len(values) * EPS) ** 2 * total
    kept[most if n_components is None else min(n_components, most) :] = False
    components = fix_signs(statistics.loadings(coefficients @ turn[:, kept]))
    limit = f"the number of classes less one, {np.count_nonzero(statistics.moments.counts) - 1}"
    relative = np.full(len(components), errors)
    return Solution(components, values[kept], _unknown(components), relative, total, limit)


def _solved(
    scatter: NDArray[np.float64], cross: NDArray[np.float64], ridge: float, epsilon: float, by_column: bool
) -> tuple[NDArray[np.float64], float]:
    """Return (S + ridge I)^-1 A, and the relative rounding error that errors ``epsilon`` in S cause.

    Errors are relative to the lengths of two columns (``by_column``), so that it is columns of equal length that must
    not depend on each other; or else to the trace.
    """
    divisor = scatter.copy()
    divisor[np.diag_indices_from(divisor)] += ridge
    sizes = np.diagonal(divisor) if by_column else np.full(len(divisor), max(float(np.trace(divisor)), TINY))
    units = 1 / np.sqrt(np.maximum(sizes, TINY))
    divisor *= units[:, None] * units
    norm = float(np.abs(divisor).sum(axis=0).max(initial=0.0))
    factor, failed = scipy.linalg.lapack.dpotrf(divisor, lower=1)
    share = 0.0 if failed else norm * float(scipy.linalg.lapack.dpocon(factor, norm, uplo="L")[0])
    if not share > epsilon:
        raise InputError(
            "The scatter of the rows is singular up to rounding, so that coefficients are not determined: raise alpha."
        )
    found = scipy.linalg.cho_solve((factor, True), cross * units[:, None], check_finite=False)
    return found * units[:, None], epsilon / share


def _unknown(components: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the residuals of components that are no eigenvectors."""
    return np.full(len(components), np.nan)
