"""LOL, linear optimal low-rank projection, as a scikit-learn estimator."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.eigen.certificate import certify, ritz_pairs
from mmpca_dist.eigen.dense import Eigenpairs
from mmpca_dist.methods.base.reducer import BlockReducer
from mmpca_dist.methods.base.registry import FULL_RANK, Method
from mmpca_dist.methods.base.solution import Solution, certificate_of_means, rank_limit
from mmpca_dist.statistics.scatters import WeightedScatter, at_least_two, full_rank
from mmpca_dist.statistics.working_statistics import Statistics


class LOL(BlockReducer):
    """Linear optimal low-rank projection: differences of class means first, then directions of scatter within classes.

    Parameters that are not listed are as in ``MarginPCA``, and so are the other attributes.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        Orthonormal: means of the classes, by decreasing size, less that of the largest; then leading eigenvectors.
    eigenvalues_ : array of shape (K,)
        Variance within the classes along each component; not sorted.
    residuals_ : array of shape (K,)
        NaN: the components are no eigenvectors, so there is no equation for them to miss.
    certificate_ : dict
        Where a solver in passes was used, as in ``MarginPCA``, of the eigenvectors that follow the ``means``, which are
        exact; see ``certify`` in ``eigen.certificate``.

    References
    ----------
    Vogelstein et al. 2021, "Supervised dimensionality reduction for big data", Nature Communications 12.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mmpca_dist import LOL
    >>> X, y = load_digits(return_X_y=True)
    >>> LOL(n_components=12).fit(X, y).components_.shape
    (12, 64)
    """

    def _solve(self, statistics: Statistics) -> Solution:
        moments = statistics.moments
        present = at_least_two(moments.counts)
        shares = moments.counts[present] / moments.total
        by_size = present[np.argsort(-shares.round(12), kind="stable")]  # balanced classes are alike but for rounding
        differences = moments.means[by_size[1:]] - moments.means[by_size[0]]
        nothing = np.empty((0, moments.n_features)), np.empty(0)
        scatter = WeightedScatter(np.ones(len(moments.counts)), *nothing, moments.total, full_rank(moments))
        count = self._at_most(scatter.max_rank)
        pairs = ritz_pairs(statistics, scatter, count)
        between, kept = _orthonormalized(differences, count, np.full(len(differences), statistics.epsilon))
        # Directions between means are known far better than small variances, unless the means are far from zero.
        off = statistics.means_error / np.linalg.norm(differences[kept], axis=1)
        epsilon = max(statistics.epsilon, off.max(initial=0))
        # The eigenvector of a small eigenvalue is known less well than that of a large one.
        known = np.maximum(1.0, pairs.total / np.maximum(pairs.values, np.finfo(float).tiny))
        errors = epsilon * np.concatenate([np.ones(len(between)), known])
        basis, used = _orthonormalized(np.concatenate([between, pairs.vectors.T]), count, errors)
        with np.errstate(divide="ignore", invalid="ignore"):
            variances = np.einsum("ij,ij->i", basis @ scatter.dense(moments), basis)
            errors = statistics.epsilon * pairs.total / np.maximum(variances, 0)
        errors[: len(between)] = np.where(off > statistics.unit, off, 0.0)
        after = pairs.leading(max(used, default=-1) + 1 - len(between))
        certificate = certify(statistics, scatter, after) if len(after.values) else certificate_of_means(statistics)
        if certificate is not None:
            certificate = {**certificate, "means": len(between)}
        solved = Eigenpairs(basis.T, variances, np.full(len(basis), np.nan), errors, pairs.total)
        limit = rank_limit(min(statistics.n_features, scatter.max_rank))
        return Solution.of_pairs(statistics, solved, limit, certificate)


def _orthonormalized(
    rows: NDArray[np.float64], count: int, errors: NDArray[np.float64]
) -> tuple[NDArray[np.float64], list[int]]:
    """Orthonormalise up to ``count`` rows in order (Gram-Schmidt, twice); return also which of them add a direction.

    ``errors`` are relative errors of the rows.
    """
    basis, used = np.empty((0, rows.shape[1])), []
    for number, row in enumerate(rows):
        length = np.linalg.norm(row)
        for _ in range(2):
            row = row - (row @ basis.T) @ basis
        rest = np.linalg.norm(row)
        if len(basis) < count and length > 0 and rest > 10 * errors[number] * length:
            basis = np.concatenate([basis, row[None] / rest])
            used.append(number)
    return basis, used


METHOD = Method(
    "lol",
    "LOL",
    "classes",
    "mean differences, then scatter within classes",
    FULL_RANK,
    LOL,
    ordered=False,
    values="scatter within the classes along each component",
    shares="scatter within classes",
)
