"""The maximum margin criterion as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg

from mmpca_dist.eigen.dense import Eigenpairs
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.methods.base.registry import BETWEEN_CLASSES, Method
from mmpca_dist.methods.base.solution import Solution
from mmpca_dist.methods.base.traits import Fitted, Traits
from mmpca_dist.statistics.scatters import at_least_two
from mmpca_dist.statistics.working_statistics import EPS, Statistics


class MaximumMarginCriterion(MomentReducer):
    """Directions in which class means differ by more than the rows of a class: leading eigenvectors of S_b - S_w.

    S_b is the scatter of the class means and S_w the mean scatter within the classes, both divided by the number of
    rows. The sum of the eigenvalues of the components is the criterion. It is largest with all components whose
    eigenvalue is positive, so that these are returned; if there is none, the one nearest to zero is. Parameters that
    are not listed are as in ``MarginPCA``, and so are the other attributes.

    Parameters
    ----------
    n_components : int or float, optional
        At most the number of classes less one: S_b has no higher rank, and S_w lowers every eigenvalue.
    solver : {"auto", "dense", "dual"}
        As in ``MarginPCA``. The whole scatter is needed: there is no solver in passes.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        Orthonormal.
    eigenvalues_ : array of shape (K,)
        Eigenvalues of S_b - S_w, decreasing. ``total_``, the sum of positive ones, is the criterion's maximum.
    n_negative_, negative_sum_ : int, float
        How many eigenvalues of S_b - S_w are negative, and their sum.

    References
    ----------
    Li, Jiang & Zhang 2006, "Efficient and robust feature extraction by maximum margin criterion", IEEE Transactions on
    Neural Networks 17, section II.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mmpca_dist import MaximumMarginCriterion
    >>> X, y = load_iris(return_X_y=True)
    >>> MaximumMarginCriterion().fit(X, y).eigenvalues_.round(2)
    array([3.64])
    """

    traits = Traits(stored=("n_negative_", "negative_sum_"), by_classes=True)

    def needs(self) -> Needs:
        return Needs(full_scatter=("mmc",))

    def _solve(self, statistics: Statistics) -> Solution:
        pairs, count, below = criterion_eigenpairs(statistics)
        self.n_negative_, self.negative_sum_ = count, below
        positive = int(np.sum(pairs.values > 0))
        limit = f"the number of directions in which the criterion is positive, {positive}"
        if not positive:
            limit = "a single direction, as the criterion is positive in none"
        return Solution.of_pairs(statistics, pairs.leading(self._at_most(len(pairs.values))), limit)

    def fitted(self) -> Fitted:
        remark = (
            f"S_b - S_w is negative in {self.n_negative_} directions, with a sum of {self.negative_sum_:.3g} against "
            f"{self.total_:.3g} of the positive ones."
        )
        if self.eigenvalues_[0] < 0:
            remark = (
                "classes scatter more than their means differ, in every direction: the criterion is negative, and the "
                "component is the least bad one."
            )
        return replace(super().fitted(), remarks=[remark] * bool(self.n_negative_))


def criterion_eigenpairs(statistics: Statistics) -> tuple[Eigenpairs, int, float]:
    """Return the positive eigenpairs of S_b - S_w, or the largest one; and the number and the sum of negative ones.

    Eigenvalues below the rounding floor, a scale of errors in the trace of S_b + S_w, count as zero.
    """
    moments = statistics.moments
    at_least_two(moments.counts)
    shares = moments.counts / moments.total
    between = moments.deviations * np.sqrt(shares)[:, None]
    within = moments.scatter(np.ones(len(shares))) / moments.total
    size = float(np.sum(between**2) + np.trace(within))
    criterion = between.T @ between - within
    values, vectors = scipy.linalg.eigh(criterion, check_finite=False)
    values, vectors = values[::-1], vectors[:, ::-1]
    floor = max(statistics.epsilon, 10 * len(values) * EPS) * size
    negative = values[values < -floor]
    kept = max(int(np.sum(values > floor)), int(len(negative) > 0))
    if kept == 1 and values[0] <= floor:  # none is positive: the first one that is not zero
        first = int(np.argmax(values < -floor))
        values, vectors = values[first:], vectors[:, first:]
    values, vectors = values[:kept], np.ascontiguousarray(vectors[:, :kept])
    residuals = np.linalg.norm(criterion @ vectors - vectors * values, axis=0)
    errors = statistics.epsilon * size / np.abs(values)
    total = float(values[values > 0].sum())
    return Eigenpairs(vectors, values, residuals, errors, total), len(negative), float(negative.sum())


METHOD = Method(
    "mmc",
    "Maximum margin criterion",
    "classes",
    "differences between class means, less the scatter within the classes",
    BETWEEN_CLASSES,
    MaximumMarginCriterion,
    values="eigenvalues of the scatter between classes less that within them",
    shares="the positive part of the scatter between classes less that within them",
)
