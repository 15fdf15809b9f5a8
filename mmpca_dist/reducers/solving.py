"""From statistics to components: one function a method."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.errors import InputError, did_you_mean
from mmpca_dist.scatters import MarginScatter, margin_scatter
from mmpca_dist.solvers.dense import Eigenpairs, fix_signs, leading_eigenpairs, leading_low_rank
from mmpca_dist.solvers.discriminants import discriminants
from mmpca_dist.solvers.ritz import certify, ritz_pairs
from mmpca_dist.statistics.cross import CrossMoments
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.pairs import PairScatter
from mmpca_dist.statistics.working import Statistics

DEFAULT_SHRINKAGE = 1e-3
FOLLOWING = 48
"""Eigenvalues after the last that the uncertainty of a subspace is judged by."""

IMPRECISE = 1e-2
"""Components whose relative rounding error exceeds this are marked."""


@dataclass(frozen=True)
class Solution:
    """Components of one method, the strongest first.

    Attributes
    ----------
    components : array of shape (K, d)
    eigenvalues, residuals, relative_errors : arrays of shape (K,)
        As in ``Eigenpairs``, or, for Fisher's problem, ``discriminants``; residuals are NaN where components are no
        eigenvectors (LOL).
    total : float
        Sum of all eigenvalues.
    limit : str
        What bounds the number of components, in words.
    certificate : dict or None
        What is proved of components from a solver in passes, and measured of the search behind them (M-PCA2).
    """

    components: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    residuals: NDArray[np.float64]
    relative_errors: NDArray[np.float64]
    total: float
    limit: str
    certificate: dict[str, Any] | None = None


def _solution(statistics: Statistics, pairs: Eigenpairs, limit: str) -> Solution:
    components = fix_signs(statistics.loadings(pairs.vectors))
    return Solution(components, pairs.values, pairs.residuals, pairs.relative_errors, pairs.total, limit)


def solve_margin(
    statistics: Statistics, n_components: int | None, *, variant: str, pairing: str = "one-vs-rest"
) -> Solution:
    """Leading eigenvectors of a margin scatter.

    Source: Luo & Durrant 2017, section 3.
    """
    if variant == "m-pca0" and statistics.weighted is not None:
        statistics = statistics.weighted
    scatter = margin_scatter(variant, statistics.moments, statistics.medians, pairing)
    wanted = scatter.max_rank if n_components is None else min(n_components, scatter.max_rank)
    bound = "min(n_features, n_samples)" if variant == "m-pca1b" else "min(n_features, n_samples - 1)"
    most = min(statistics.n_features, statistics.moments.n_rows - (variant != "m-pca1b"))
    limit = f"the rank of its scatter, at most {bound} = {most}"
    pairs = ritz_pairs(statistics, scatter, wanted)
    return replace(_solution(statistics, pairs, limit), certificate=certify(statistics, scatter, pairs))


def solve_pairs(statistics: Statistics, n_components: int | None) -> Solution:
    """Leading eigenvectors of the mean outer product of differences to the nearest row of another class.

    Source: Luo & Durrant 2017, section 3, M-PCA2.
    """
    pairs = statistics.pairs
    if pairs is None:
        raise InputError("m-pca2 needs the nearest rows of other classes: class moments do not suffice.")
    size = statistics.moments.n_features if pairs.basis is None else pairs.basis.shape[1]
    most = min(size, statistics.n_features, int(np.ceil(pairs.weight)))
    wanted = most if n_components is None else min(n_components, most)
    # More than wanted: the gaps behind the last tell how certain the subspace is.
    proved = {}
    if pairs.basis is None:
        found = leading_eigenpairs(pairs.mean_outer_product(), wanted + FOLLOWING, statistics.unit)
    else:
        statistics, scatter = _of_pairs(statistics, pairs)
        found = ritz_pairs(statistics, scatter, wanted + FOLLOWING)
        proved = {"solver": certify(statistics, scatter, found.leading(wanted))}
    limit = f"the rank of its scatter, at most min(n_features, pairs) = {most}"
    solution = _solution(statistics, found.leading(wanted), limit)
    spectrum = (statistics.loadings(found.vectors), found.values, len(solution.eigenvalues))
    errors = {"sampling_error": pairs.sampling_error(*spectrum), "recall_angle": pairs.recall_error(*spectrum)}
    return replace(solution, certificate={**pairs.certificate, **errors, **proved})


def _of_pairs(statistics: Statistics, pairs: PairScatter) -> tuple[Statistics, MarginScatter]:
    """Return statistics in the basis of the pairs, and their scatter as one of a single class without offsets."""
    assert pairs.basis is not None  # noqa: S101  (only such pairs come here)
    r, given = pairs.basis.shape[1], statistics.moments
    moments = ClassMoments(
        given.classes,
        given.counts,
        np.zeros((len(given.counts), r)),
        pairs.scatter[None],
        np.ones((1, len(given.counts))),
    )
    scatter = MarginScatter(np.ones(len(given.counts)), np.empty((0, r)), np.empty(0), pairs.weight, r)
    nowhere = np.zeros(statistics.n_features)  # differences of rows have the mean of none
    found = replace(statistics, moments=moments, mean=nowhere, basis=pairs.basis, approximation=pairs.approximation)
    return found, scatter


def solve_fisher(statistics: Statistics, n_components: int | None, *, shrinkage: float = DEFAULT_SHRINKAGE) -> Solution:
    """Fisher's discriminant directions: B v = l W_g v, W_g = (1 - g) W / n + g tr(W) / (n d) I.

    Source: STAT 841, Fisher discriminant analysis.
    """
    moments, n = statistics.moments, statistics.moments.n_rows
    present = at_least_two(moments.counts)
    between = moments.deviations[present] * np.sqrt(moments.counts[present] / n)[:, None]
    most = min(len(present) - 1, moments.n_features)
    wanted = most if n_components is None else min(n_components, most)
    pairs, certificate = discriminants(statistics, between, wanted, shrinkage)
    limit = f"the number of classes less one, {len(present) - 1}"
    return replace(_solution(statistics, pairs, limit), certificate=certificate)


def solve_hsic(statistics: Statistics, n_components: int | None, *, kernel: str | NDArray = "delta") -> Solution:
    """Supervised PCA: leading eigenvectors of A^T K A, rows A_c = n_c (m_c - m), K a kernel on the classes.

    Source: STAT 841, supervised PCA by the Hilbert-Schmidt independence criterion.
    """
    moments = statistics.moments
    present = at_least_two(moments.counts)
    A = moments.deviations * moments.counts[:, None]
    root = _kernel_root(kernel, moments.classes)
    A = root @ A
    most = min(len(present) - 1, moments.n_features)
    wanted = most if n_components is None else min(n_components, most)
    off = statistics.means_error * float(np.linalg.norm(root * moments.counts))
    size = float(np.linalg.norm(A))
    pairs = leading_low_rank(A, wanted, max(statistics.unit, off / size) if size > 0 else statistics.unit)
    limit = f"the number of classes less one, {len(present) - 1}"
    return replace(_solution(statistics, pairs, limit), certificate=_by_means(statistics))


def _by_means(statistics: Statistics) -> dict[str, Any] | None:
    """Return the certificate of components that class means determine; None where there were no passes to doubt."""
    known = statistics.approximation
    return None if known is None else {"solver": known.solver, "passes": known.passes, "exact": True}


def solve_targets(cross: CrossMoments, n_components: int | None, *, standardize: bool = False) -> Solution:
    """Supervised PCA for continuous targets Y, linear kernel: leading eigenvectors of X^T H Y Y^T H X, at most q.

    Source: STAT 841, supervised PCA by the Hilbert-Schmidt independence criterion, in its form for L = Phi Phi^T.
    """
    scale = cross.scale if standardize else np.ones(len(cross.mean))
    A = (cross.scatter / scale[:, None]).T
    # A sum of products is good to a few units in the last place of |x| |y|, which it may be far smaller than.
    spread = np.sqrt(np.sum(cross.squares / scale**2)) * np.sqrt(np.sum(cross.target_squares))
    # Means are known to eps of themselves.
    far = np.linalg.norm(cross.mean / scale) * np.sqrt(np.sum(cross.target_squares))
    target_far = np.linalg.norm(cross.target_mean) * np.sqrt(np.sum(cross.squares / scale**2))
    eps, size = float(np.finfo(np.float64).eps), float(np.linalg.norm(A))
    floor = max(10 * eps * spread, eps * np.sqrt(cross.n_rows) * (far + target_far))
    if not size > floor:
        raise InputError("The targets vary with none of the columns: what they share is zero up to rounding.")
    q = len(A)
    pairs = leading_low_rank(A, q if n_components is None else n_components, floor / size)
    limit = f"the number of targets, {q}"
    return Solution(
        fix_signs(np.ascontiguousarray(pairs.vectors.T)), pairs.values, pairs.residuals, pairs.relative_errors,
        pairs.total, limit,
    )  # fmt: skip


def _kernel_root(kernel: str | NDArray, classes: NDArray) -> NDArray[np.float64]:
    """Return R with R^T R = K."""
    if isinstance(kernel, str) and kernel == "delta":
        return np.eye(len(classes))
    if isinstance(kernel, str) and kernel == "linear":
        if classes.dtype.kind not in "iufb":
            raise InputError("kernel='linear' needs classes that are numbers.")
        return classes.astype(np.float64)[None]
    if isinstance(kernel, str):
        raise InputError(
            f"Unknown kernel {kernel!r}; give 'delta', 'linear' or a matrix.{did_you_mean(kernel, ['delta', 'linear'])}"
        )
    K = np.asarray(kernel, dtype=np.float64)
    if K.shape != (len(classes), len(classes)) or not np.allclose(K, K.T):
        raise InputError(f"kernel has shape {K.shape}; it must be symmetric, {len(classes)} x {len(classes)}.")
    values, vectors = scipy.linalg.eigh(K)
    if values[0] < -1e-10 * max(abs(values[-1]), 1e-300):
        raise InputError(f"kernel is not positive semidefinite: its smallest eigenvalue is {values[0]:.3g}.")
    return np.sqrt(np.maximum(values, 0))[:, None] * vectors.T


def solve_lol(statistics: Statistics, n_components: int | None) -> Solution:
    """Mean differences to the largest class, then leading eigenvectors of the scatter within the classes.

    Orthonormalised in that order; ``eigenvalues`` are the within-class variances along the components, which are no
    eigenvectors, so they have no residuals. The certificate is that of the eigenvectors, which follow on ``means``
    directions that are exact.

    Source: Vogelstein et al. 2021, "Supervised dimensionality reduction for big data".
    """
    moments = statistics.moments
    present = at_least_two(moments.counts)
    by_size = present[np.argsort(-moments.counts[present], kind="stable")]
    differences = moments.means[by_size[1:]] - moments.means[by_size[0]]
    scatter = MarginScatter(
        np.ones(len(moments.counts)), np.empty((0, moments.n_features)), np.empty(0), moments.n_rows,
        min(moments.n_features, moments.n_rows - 1),
    )  # fmt: skip
    wanted = scatter.max_rank if n_components is None else min(n_components, scatter.max_rank)
    pairs = ritz_pairs(statistics, scatter, wanted)
    between, kept = _orthonormalized(differences, wanted, statistics.epsilon)
    basis, taken = _orthonormalized(np.concatenate([between, pairs.vectors.T]), wanted, statistics.epsilon)
    with np.errstate(divide="ignore"):
        variances = np.einsum("ij,ij->i", basis @ scatter.dense(moments), basis)
        errors = statistics.epsilon * pairs.total / np.maximum(variances, 0)
    # Directions between means are known far better than small variances, unless the means are far from zero.
    off = statistics.means_error / np.linalg.norm(differences[kept], axis=1)
    errors[: len(between)] = np.where(off > statistics.unit, off, 0.0)
    most = min(statistics.n_features, scatter.max_rank)
    limit = f"the rank of its rows, at most min(n_features, n_samples - 1) = {most}"
    found = Eigenpairs(basis.T, variances, np.full(len(basis), np.nan), errors, pairs.total)
    after = pairs.leading(max(taken, default=-1) + 1 - len(between))
    certificate = certify(statistics, scatter, after) if len(after.values) else _by_means(statistics)
    if certificate is not None:
        certificate = {**certificate, "means": len(between)}
    return replace(_solution(statistics, found, limit), certificate=certificate)


def _orthonormalized(rows: NDArray[np.float64], wanted: int, epsilon: float) -> tuple[NDArray[np.float64], list[int]]:
    """Orthonormalise rows in order (Gram-Schmidt, twice), leaving out those that add no direction; return which not."""
    basis, taken = np.empty((0, rows.shape[1])), []
    for number, row in enumerate(rows):
        length = np.linalg.norm(row)
        for _ in range(2):
            row = row - (row @ basis.T) @ basis
        rest = np.linalg.norm(row)
        if len(basis) < wanted and length > 0 and rest > 10 * epsilon * length:
            basis = np.concatenate([basis, row[None] / rest])
            taken.append(number)
    return basis, taken


def at_least_two(counts: NDArray) -> NDArray[np.intp]:
    """Return the positions of the classes with rows.

    Raises
    ------
    InputError
        For fewer than two.
    """
    present = np.flatnonzero(counts)
    if len(present) < 2:
        raise InputError(f"There is only {len(present)} class with rows: there must be at least two.")
    return present
