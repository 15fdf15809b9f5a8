"""Eigenvectors of matrices in memory, by LAPACK; callers hold it to one thread, so that the bits do not vary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.errors import InputError


@dataclass(frozen=True)
class Eigenpairs:
    """Leading eigenpairs, largest first."""

    vectors: NDArray[np.float64]  # (d, K)
    values: NDArray[np.float64]  # (K,)
    residuals: NDArray[np.float64]  # (K,): ||S v - l v||: each value has an eigenvalue of S within its residual
    # (K,): scale of rounding errors over the eigenvalue: eps * trace / l, or more if class means are far from zero
    # (see `Statistics.epsilon`). It is no bound: errors 26 times as large were seen in single precision. At 1 a
    # component is pure rounding error.
    relative_errors: NDArray[np.float64]
    total: float  # sum of all eigenvalues

    def leading(self, count: int) -> Eigenpairs:
        """Return the first ``count`` of them."""
        leading = (self.vectors[:, :count], self.values[:count], self.residuals[:count], self.relative_errors[:count])
        return Eigenpairs(*leading, self.total)


def leading_eigenpairs(
    S: NDArray[np.float64], n_components: int, epsilon: float, total: float | None = None
) -> Eigenpairs:
    """Return the leading eigenpairs of a symmetric positive semidefinite matrix that stand above the rounding floor.

    The floor is ``epsilon`` times the trace: a scale of rounding errors, no bound on them.

    Parameters
    ----------
    S : array of shape (d, d)
    n_components : int
        Number of eigenpairs; fewer are returned if the others are rounding errors.
    epsilon : float
        Relative rounding error of the entries of ``S``.
    total : float, optional
        Sum of all eigenvalues, if ``S`` is only a part of the matrix.
    """
    d = len(S)
    n_components = min(n_components, d)
    subset = (d - n_components, d - 1)
    try:
        values, vectors = scipy.linalg.eigh(S, subset_by_index=subset, driver="evr", check_finite=False)
    except np.linalg.LinAlgError:  # of what is a multiple of the identity but for rounding
        values, vectors = (a[..., subset[0] :] for a in scipy.linalg.eigh(S, driver="evd", check_finite=False))
    values, vectors = values[::-1], vectors[:, ::-1]
    total = float(np.trace(S)) if total is None else total
    # Rounding of the pass, and of LAPACK, whose error grows with d.
    above = values > max(epsilon, 10 * d * np.finfo(np.float64).eps) * total
    values, vectors = values[above], np.ascontiguousarray(vectors[:, above])
    residuals = np.linalg.norm(S @ vectors - vectors * values, axis=0)
    return Eigenpairs(vectors, values, residuals, epsilon * total / values, total)


def leading_low_rank(A: NDArray[np.float64], n_components: int, epsilon: float) -> Eigenpairs:
    """Return the leading eigenpairs of A^T A from the few rows of A, shape (m, d).

    Values may over- or underflow, as those of weights of 1e300 do; vectors do not.
    """
    unit = np.ldexp(1.0, np.frexp(np.abs(A).max(initial=0.0))[1])
    if not 1e-100 < unit < 1e100:
        scaled = leading_low_rank(A / unit, n_components, epsilon)
        with np.errstate(over="ignore", under="ignore"):
            sizes = [size * unit * unit for size in (scaled.values, scaled.residuals, np.float64(scaled.total))]
        return Eigenpairs(scaled.vectors, sizes[0], sizes[1], scaled.relative_errors, float(sizes[2]))
    # With more rows than columns, the triangle of a QR decomposition has the same singular values and vectors.
    triangle = scipy.linalg.qr(A, mode="r", check_finite=False)[0][: A.shape[1]] if len(A) > A.shape[1] else A
    _, singular, rows = scipy.linalg.svd(triangle, full_matrices=False, check_finite=False)
    total = float(np.sum(singular**2))
    keep = singular > epsilon * np.sqrt(total) * np.sqrt(len(A))
    keep[n_components:] = False
    vectors, values = np.ascontiguousarray(rows[keep].T), singular[keep] ** 2
    residuals = np.linalg.norm(A.T @ (A @ vectors) - vectors * values, axis=0)
    return Eigenpairs(vectors, values, residuals, epsilon * np.sqrt(total / values), total)


def leading_generalized(
    A: NDArray[np.float64], W: NDArray[np.float64], n_components: int, epsilon: float
) -> Eigenpairs:
    """Return the leading eigenpairs of A^T A v = l W v with v^T W v = 1, W positive definite.

    Residuals are ||L^-1 (A^T A v - l W v)||, W = L L^T: those of the orthonormal problem behind it. Raises InputError
    where ``W`` is singular.
    """
    factor, failure = scipy.linalg.lapack.dpotrf(W, lower=True, clean=True)
    # A pivot that is zero up to rounding may come out positive.
    rounding = 10 * len(W) * np.finfo(np.float64).eps
    if failure or np.any(np.diagonal(factor) ** 2 <= rounding * np.diagonal(W)):
        raise InputError(
            "The scatter within the classes is singular, so Fisher's criterion is unbounded: set shrinkage above 0."
        )
    whitened = scipy.linalg.solve_triangular(factor, A.T, lower=True, check_finite=False).T
    leading = leading_low_rank(whitened, n_components, epsilon)
    vectors = scipy.linalg.solve_triangular(factor, leading.vectors, lower=True, trans="T", check_finite=False)
    missed = A.T @ (A @ vectors) - (W @ vectors) * leading.values
    missed = scipy.linalg.solve_triangular(factor, missed, lower=True, check_finite=False)
    residuals = np.linalg.norm(missed, axis=0)
    return Eigenpairs(vectors, leading.values, residuals, leading.relative_errors, leading.total)


def symmetric_eigenpairs(
    S: NDArray[np.float64], error: float, by_magnitude: bool = False, *,
    back: NDArray[np.float64] | None = None, off: float = 0.0,
) -> Eigenpairs:  # fmt: skip
    """Return the eigenpairs of S that are not zero, the largest first, or by magnitude.

    Entries of S have the rounding ``error``. With ``back`` it is the S = P^T A P of A v = l B v with P^T B P = I, and
    vectors become P v. Errors of A and of B (``off``) move l by v^T (dA - l dB) v, to first order. ``total`` is the sum
    of the eigenvalues; NaN where some are negative.
    """
    values, vectors = scipy.linalg.eigh(S, check_finite=False)
    residuals = np.linalg.norm(S @ vectors - vectors * values, axis=0)
    vectors = vectors if back is None else back @ vectors
    sizes = np.abs(values)
    rounding = 10 * len(S) * np.finfo(np.float64).eps * sizes.max(initial=0)
    errors = np.maximum((error + sizes * off) * np.sum(vectors**2, axis=0), rounding)
    order = np.argsort(-sizes if by_magnitude else -values, kind="stable")
    order = order[sizes[order] > errors[order]]
    total = float(values[order].sum()) if (values[order] > 0).all() else float("nan")
    return Eigenpairs(vectors[:, order], values[order], residuals[order], errors[order] / sizes[order], total)


TIED = 1e-6
"""Loadings of magnitudes that are no farther apart, relative to the largest, are equal but for rounding."""


def fix_signs(components: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return components, shape (K, d), each with its first loading of largest magnitude positive."""
    sizes = np.abs(components)
    largest = np.argmax(sizes >= (1 - TIED) * sizes.max(axis=1, initial=0, keepdims=True), axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    return components * np.where(signs == 0, 1, signs)[:, None]
