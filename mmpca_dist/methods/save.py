"""Sliced average variance estimation as a scikit-learn estimator."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.eigen.dense import Eigenpairs
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.parameters import Option
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.methods.base.registry import FULL_RANK, Method
from mmpca_dist.methods.base.solution import Solution, rank_limit
from mmpca_dist.statistics.class_weights import ClassWeight
from mmpca_dist.statistics.coordinates import EPS, Statistics
from mmpca_dist.statistics.scatters import at_least_two, full_rank, total_scatter


class SAVE(MomentReducer):
    """Directions in which classes differ in mean or in spread: sliced average variance estimation.

    With S the covariance of all rows and C_c that of class c, both shrunk by (1 - g) C + g tr(S) / d I, they are
    v = S^(-1/2) u, u the leading eigenvectors of sum_c n_c / n (I - S^(-1/2) C_c S^(-1/2))^2. Classes of equal means
    that scatter differently have such directions, where Fisher's discriminants have none. ``standardize``, ``center``,
    ``precision`` and ``solver`` are as in ``MarginPCA``, and so are the other attributes.

    Parameters
    ----------
    n_components : int, optional
        At most the rank of the rows.
    shrinkage : float
        g, from 0 to 1. Above 0 (by default 0.001), constant columns and fewer rows than columns do no harm. Where a
        class has few rows for each column, raise it: covariances of few rows differ by chance.
    solver : {"auto", "dense", "dual"}
        As in ``MarginPCA``. The scatter of every class is needed: there is no solver in passes.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        v with v^T S v = 1; not orthonormal, so ``inverse_transform`` goes by the pseudo-inverse.
    eigenvalues_ : array of shape (K,)
        The mean over rows of |u^T (I - S^(-1/2) C_c S^(-1/2))|^2, c being the class of a row; decreasing.

    References
    ----------
    Cook & Weisberg 1991, "Sliced inverse regression for dimension reduction: comment", Journal of the American
    Statistical Association 86.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from mmpca_dist import SAVE
    >>> X, y = load_wine(return_X_y=True)
    >>> SAVE(3).fit(X, y).components_.shape
    (3, 13)
    """

    _options: ClassVar = {
        "shrinkage": Option(ge=0, le=1, example=0.01, description="Share of the identity in the covariances")
    }

    def __init__(
        self, n_components: int | None = None, *, shrinkage: float = 1e-3,
        standardize: bool = False, center: bool = False, precision: str = "single", solver: str = "auto",
        class_weight: ClassWeight = None, missing: str = "refuse",
    ) -> None:  # fmt: skip
        super().__init__(
            n_components, standardize=standardize, center=center, precision=precision, solver=solver,
            class_weight=class_weight, missing=missing,
        )  # fmt: skip
        self.shrinkage = shrinkage

    def _needs(self) -> Needs:
        return Needs(full_scatter=("save",))

    def _solve(self, statistics: Statistics) -> Solution:
        moments = statistics.moments
        if moments.pooled:
            raise InputError(
                f"save needs the scatter of every class, and those of {len(moments.classes)} classes of "
                f"{moments.n_features} columns are too large to be kept. Choose fewer columns, or leave save out."
            )
        present, rank = at_least_two(moments.counts), full_rank(moments)
        total = total_scatter(moments).dense(moments)
        root, error = _whitening(total, self.shrinkage, statistics)
        mean_square = np.zeros_like(total)
        for c in present:
            # The shrinkage of both covariances cancels in their difference.
            difference = total - moments.scatters[c] / moments.counts[c]
            difference = (1 - self.shrinkage) * (root.T @ difference @ root)
            mean_square += moments.counts[c] / moments.total * (difference @ difference)
        pairs = _eigenpairs(mean_square, error, len(present)).leading(self._at_most(rank))
        return Solution.of_pairs(pairs, statistics.loadings(root @ pairs.vectors), rank_limit(rank))


def _whitening(
    total: NDArray[np.float64], shrinkage: float, statistics: Statistics
) -> tuple[NDArray[np.float64], float]:
    """Return R with R^T S_g R = I for the shrunk covariance, and the scale of rounding errors of R^T S R.

    Errors are relative to the lengths of two columns, or to the trace where the coordinates are no columns.
    """
    shrunk = (1 - shrinkage) * total
    shrunk[np.diag_indices_from(shrunk)] += shrinkage * np.trace(total) / statistics.n_features
    sizes = np.diagonal(shrunk) if statistics.basis is None else np.full(len(shrunk), np.trace(shrunk))
    units = 1 / np.sqrt(np.maximum(sizes, np.finfo(np.float64).tiny))
    values, vectors = scipy.linalg.eigh(shrunk * units[:, None] * units, check_finite=False)
    if not values[0] > max(statistics.epsilon, 10 * len(values) * EPS) * values[-1]:
        raise InputError(
            "The covariance of the rows is singular up to rounding, so that rows cannot be whitened: raise shrinkage."
        )
    return units[:, None] * vectors / np.sqrt(values), statistics.epsilon * float(values[-1] / values[0])


def _eigenpairs(mean_square: NDArray[np.float64], error: float, n_classes: int) -> Eigenpairs:
    """Return the eigenpairs of a mean of squares of matrices with errors of a scale, above the squares of these."""
    values, vectors = scipy.linalg.eigh(mean_square, check_finite=False)
    total, rank = float(np.trace(mean_square)), len(values)
    kept = values > max(n_classes * rank * error**2, 10 * rank * EPS * total)
    values, vectors = values[kept][::-1], np.ascontiguousarray(vectors[:, kept][:, ::-1])
    residuals = np.linalg.norm(mean_square @ vectors - vectors * values, axis=0)
    return Eigenpairs(vectors, values, residuals, error / np.sqrt(values), total)


METHOD = Method(
    "save",
    "SAVE",
    "classes",
    "differences of class means and of class scatters, by the scatter of all rows",
    FULL_RANK,
    SAVE,
    settable=("shrinkage",),
    orthonormal=False,
    scale_free=True,
    shares="the squared differences between covariances of the classes and of all rows",
    residuals="in units of the scatter of all rows",
)
