"""Erasure of a concept: the least change of rows after which their covariance with the classes is zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from mmpca_dist.eigen.dense import Eigenpairs, fix_signs, leading_low_rank
from mmpca_dist.eigen.discriminants import discriminants
from mmpca_dist.methods.base.registry import BETWEEN_CLASSES, Method
from mmpca_dist.methods.base.shrinkage import chosen_shrinkage
from mmpca_dist.methods.base.solution import Solution, class_limit
from mmpca_dist.methods.fisher_discriminant import FisherDiscriminant
from mmpca_dist.statistics.scatters import at_least_two
from mmpca_dist.statistics.working_statistics import EPS, Statistics


class ConceptEraser(OneToOneFeatureMixin, FisherDiscriminant):
    """Rows without what a linear model could tell their classes by: x -> m + P (x - m), as LEACE has it.

    P = I - B (V^T B)^-1 V^T, B spanning the differences of class means, V = S^+ B, S the covariance of the rows. Rows
    keep all columns, in their own units. Parameters and attributes that are not listed are as in ``MarginPCA``.

    Parameters
    ----------
    n_components : int or float, optional
        Has no effect: all differences of class means are erased.
    shrinkage : float or "auto"
        g of ``FisherDiscriminant``. The covariance with the classes is zero for any g; with 0 rows change least.
    standardize, center : bool
        Whether g is of standardised columns; whether erased rows are less the mean m.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        Directions V that are erased, at most the number of classes less one; with ``standardize`` of standardised rows.
    taken_ : array of shape (K, n_features)
        T, with which x becomes x - (V (x - m)) T: what a row loses for each direction.
    eigenvalues_ : array of shape (K,)
        Squared correlations of each direction with the classes, by the shrunk S.
    certificate_ : dict
        ``covariance``: the norm of the covariance of columns and indicators of the classes, ``before`` and ``after``,
        from the moments of the rows; ``solver``: as in ``FisherDiscriminant``, or None.

    Notes
    -----
    No linear model with a convex loss does better than a constant on the erased rows of the fit. Other models may; so
    may any on new rows, which keep what the sample did not show. Sparse rows come out dense; see ``operator``.

    References
    ----------
    Belrose et al. 2023, LEACE: Perfect linear concept erasure in closed form, theorem 4.3.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from mmpca_dist import ConceptEraser
    >>> X, y = load_wine(return_X_y=True)
    >>> eraser = ConceptEraser(precision="double").fit(X, y)
    >>> eraser.transform(X).shape
    (178, 13)
    >>> eraser.certificate_["covariance"]["after"] < 1e-14 * eraser.certificate_["covariance"]["before"]
    True
    """

    traits = FisherDiscriminant.traits.extended(nested=False, stored=("taken_",))
    taken_: NDArray[np.float64]
    keeps_all = True

    @property
    def unevaluable_reason(self) -> str | None:
        return "classifiers find nothing in the rows that the eraser saw: leave it out; a run has a probe"

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[1]

    def _solve(self, statistics: Statistics) -> Solution:
        moments, n = statistics.moments, statistics.moments.total
        present = at_least_two(moments.counts)
        shares = moments.counts[present] / n
        between = moments.deviations[present] * np.sqrt(shares)[:, None]
        count = min(len(present) - 1, moments.n_features)
        shrinkage = chosen_shrinkage(self.shrinkage, statistics, self.needs().shrinkages)
        if shrinkage:
            pairs, solver = discriminants(statistics, between, count, shrinkage)
        else:
            pairs, solver = _unshrunk(statistics, between, count), None
        V, values = pairs.vectors, pairs.values / (1 + pairs.values) if shrinkage else pairs.values
        components, columns = fix_signs(statistics.loadings(V)), statistics.loadings(between.T)
        means = np.linalg.qr(between @ V)[0].T @ columns  # spans the differences of means that stand above rounding
        taken = np.linalg.solve(means @ components.T, means)
        before = columns * np.sqrt(shares)[:, None]
        after = before - (before @ components.T) @ taken
        scale = 1 if statistics.scale is None else statistics.scale
        self.taken_ = np.asarray(taken * scale, np.float64)
        norms = {name: float(np.linalg.norm(one * scale)) for name, one in (("before", before), ("after", after))}
        return Solution(
            components, values, np.full(len(values), np.nan), pairs.relative_errors, float(values.sum()),
            class_limit(len(present)), {"covariance": norms, "solver": solver},
        )  # fmt: skip

    def projection(self, dtype: Any = np.float64) -> tuple[NDArray, NDArray | None, NDArray | None]:
        """Return V, shape (n_features, K), and the mean: the coordinates (x - mean) V times T are what rows lose."""
        return super().projection(dtype)[0], self.mean_, None

    def whole_map(self) -> tuple[NDArray, NDArray, NDArray]:
        """Return A, shape (n_features, n_features), mean and offset, by which x becomes (x - mean) A - offset."""
        V, offset = self.projection()[0], 0 * self.mean_ if self.center else -self.mean_
        return np.eye(len(V)) - V @ self.taken_, self.mean_, offset

    def _less(self, Z: NDArray, numbers: NDArray[np.float64]) -> NDArray:
        return Z - self.adjustment_.explained(numbers, self.whole_map()[0]).astype(Z.dtype)

    def _project(self, X: Any) -> NDArray:
        Z, rows = super()._project(X), X.toarray() if issparse(X) else X
        rows = np.where(np.isnan(rows), self.mean_, rows) - (self.mean_ if self.center else 0)
        return rows.astype(Z.dtype) - Z @ self.taken_.astype(Z.dtype)

    def operator(self, X: Any) -> LinearOperator:
        """Return erased sparse rows of shape (n, n_features) as an operator: ``transform`` makes them dense."""
        check_is_fitted(self, "components_")
        V, taken = self.projection()[0], self.taken_
        rest = self.mean_ @ V @ taken - (self.mean_ if self.center else 0)
        times = lambda A: X @ A - X @ (V @ (taken @ A)) + rest @ A  # noqa: E731
        back = lambda u: X.T @ u - taken.T @ (V.T @ (X.T @ u)) + rest * u.sum()  # noqa: E731
        return LinearOperator(X.shape, times, rmatvec=back, matmat=times, dtype=np.dtype(np.float64))

    def inverse_transform(self, Z: Any) -> Any:
        """Return erased rows as they are: what was erased is not in them."""
        check_is_fitted(self, "components_")
        return Z + self.mean_ if self.center else Z


def _unshrunk(statistics: Statistics, between: NDArray[np.float64], count: int) -> Eigenpairs:
    """Return the leading solutions of B v = l S v, S the covariance, by its pseudo-inverse; of columns of one scale."""
    moments = statistics.moments
    S = moments.scatter(np.ones(len(moments.counts))) / moments.total + between.T @ between
    sizes = np.sqrt(np.diagonal(S)) if statistics.basis is None else np.ones(len(S))  # coordinates in it are mixed
    sizes = np.where(sizes > 0, sizes, 1.0)
    values, vectors = scipy.linalg.eigh(S / sizes / sizes[:, None], check_finite=False)
    kept = values > max(statistics.epsilon, 10 * len(S) * EPS) * max(values.sum(), 0.0)
    root = vectors[:, kept] / np.sqrt(values[kept]) / sizes[:, None]
    pairs = leading_low_rank(between @ root, count, statistics.epsilon)
    return Eigenpairs(root @ pairs.vectors, pairs.values, pairs.residuals, pairs.relative_errors, pairs.total)


METHOD = Method(
    "erase", "Concept erasure", "classes", "all but what linear models tell the classes by: rows keep their columns",
    BETWEEN_CLASSES, ConceptEraser, settable=("shrinkage",), orthonormal=False, scale_free=True, reduces=False,
    blocks=lambda n_components, n_classes, n_features: -(-n_features // n_components),
    values="squared correlations with the classes", sections=("components",),
)  # fmt: skip
