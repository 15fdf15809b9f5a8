"""LOL, linear optimal low-rank projection, as a scikit-learn estimator."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.methods.base import MomentReducer
from mmpca_dist.methods.solution import Solution, certificate_of_means, solution_of
from mmpca_dist.methods.specification import FULL_RANK, Method
from mmpca_dist.solvers.dense import Eigenpairs
from mmpca_dist.solvers.ritz import certify, ritz_pairs
from mmpca_dist.statistics.coordinates import Statistics
from mmpca_dist.statistics.scatters import WeightedScatter, at_least_two, full_rank


class LOL(MomentReducer):
    """Linear optimal low-rank projection: differences of class means first, then directions of scatter within classes.

    Parameters
    ----------
    n_components : int, optional
    standardize, center, precision, solver, oversampling, passes, tolerance
        As in ``MarginPCA``.

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
        exact; see ``solvers.ritz``.
    mean_, classes_, moments_, n_features_in_, imprecise_
        As in ``MarginPCA``.

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

    def __init__(
        self,
        n_components: int | None = None,
        *,
        standardize: bool = False,
        center: bool = False,
        precision: str = "single",
        solver: str = "auto",
        oversampling: int = 10,
        passes: int = 4,
        tolerance: float = 1e-4,
    ) -> None:
        self.n_components = n_components
        self.standardize = standardize
        self.center = center
        self.precision = precision
        self.solver = solver
        self.oversampling = oversampling
        self.passes = passes
        self.tolerance = tolerance

    def _solve(self, statistics: Statistics, n_components: int | None) -> Solution:
        return solve_lol(statistics, n_components)


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
    scatter = WeightedScatter(
        np.ones(len(moments.counts)), np.empty((0, moments.n_features)), np.empty(0), moments.n_rows, full_rank(moments)
    )
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
    certificate = certify(statistics, scatter, after) if len(after.values) else certificate_of_means(statistics)
    if certificate is not None:
        certificate = {**certificate, "means": len(between)}
    return solution_of(statistics, found, limit, certificate)


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
