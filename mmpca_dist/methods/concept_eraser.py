"""Erasure of a concept: the least change of rows after which their covariance with the classes is zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from mmpca_dist.eigen.dense import Eigenpairs, fix_signs, leading_low_rank
from mmpca_dist.eigen.discriminants import discriminants
from mmpca_dist.methods.base.registry import BETWEEN_CLASSES, Method
from mmpca_dist.methods.base.solution import Solution, class_limit
from mmpca_dist.methods.base.transform import output_type, projected
from mmpca_dist.methods.fisher_discriminant import FisherDiscriminant
from mmpca_dist.statistics.scatters import at_least_two
from mmpca_dist.statistics.working_statistics import EPS, Statistics


class ConceptEraser(FisherDiscriminant):
    """Rows without what a linear model could tell their classes by: x -> m + P (x - m), as LEACE has it.

    P = I - B (V^T B)^-1 V^T, B spanning the differences of class means and V = S^+ B, S the covariance of the rows.
    Rows keep all columns, in their own units, and their mean; the map has rank C - 1 at most and is applied as such.
    Parameters that are not listed are as in ``MarginPCA``, and so are the other attributes.

    Parameters
    ----------
    n_components : int, optional
        Has no effect: all differences of class means are erased.
    shrinkage : float
        Share g of the identity in the scatter within classes, from 0 to 1, as ``FisherDiscriminant`` has it. The
        covariance with the classes is zero after erasing for any g; with 0 the change of the rows is the least.
    standardize : bool
        Whether the identity is that of standardised columns.
    center : bool
        Whether the mean of the rows is subtracted from erased rows.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        Directions V that are erased; with ``standardize`` of standardised columns.
    taken_ : array of shape (K, n_features)
        T, with which x becomes x - (V (x - m)) T: what a row loses for each direction.
    eigenvalues_ : array of shape (K,)
        Squared correlations of the rows along each direction with the classes, with S as it is shrunk.
    certificate_ : dict
        ``covariance``: the norm of the covariance of the columns with indicators of the classes, ``before`` and
        ``after`` erasing, from the moments of the rows; ``solver``: as in ``FisherDiscriminant``, or None.

    Notes
    -----
    Where the covariance is zero, no linear model with a convex loss does better than a constant on the rows of the fit.
    Other models may: classes of equal means and other shapes are told apart by their shapes. New rows keep what the
    sample did not show: see the probe in the report of a run. Sparse rows come out dense; see ``operator``.

    References
    ----------
    Belrose et al. 2023, LEACE: Perfect linear concept erasure in closed form, theorem 4.3.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from mmpca_dist import ConceptEraser
    >>> X, y = load_wine(return_X_y=True)
    >>> eraser = ConceptEraser(precision="double").fit(X, y)
    >>> eraser.transform(X).shape, len(eraser.components_)
    ((178, 13), 2)
    >>> {name: f"{value:.0e}" for name, value in eraser.certificate_["covariance"].items()}
    {'before': '6e+01', 'after': '2e-14'}
    """

    traits = FisherDiscriminant.traits.extended(nested=False, stored=("taken_",))
    taken_: NDArray[np.float64]

    @property
    def unevaluable_reason(self) -> str | None:
        return (
            "nothing is left for classifiers in rows that they and the eraser saw, so that their errors say nothing. "
            "Leave erase out here; a run tells how right a probe is of rows that neither saw"
        )

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[1]

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the columns, which erased rows keep, shape (n_features,)."""
        check_is_fitted(self)
        return np.asarray(_check_feature_names_in(self, input_features), dtype=object)

    def _at_most(self, limit: int) -> int:
        return limit

    def _solve(self, statistics: Statistics) -> Solution:
        moments, n = statistics.moments, statistics.moments.total
        present = at_least_two(moments.counts)
        deviations, shares = moments.deviations[present], moments.counts[present] / n
        between = deviations * np.sqrt(shares)[:, None]
        count = min(len(present) - 1, moments.n_features)
        if self.shrinkage:
            pairs, solver = discriminants(statistics, between, count, self.shrinkage)
            values = pairs.values / (1 + pairs.values)
        else:
            pairs, solver = _unshrunk(statistics, between, count), None
            values = pairs.values
        V = pairs.vectors
        means = np.linalg.qr(between @ V)[0].T @ between  # spans the differences of means that stand above rounding
        taken = statistics.loadings(np.linalg.solve(means @ V, means).T)
        loadings = statistics.loadings(V)
        components = fix_signs(loadings)
        taken *= np.sign(np.vecdot(components, loadings))[:, None]
        before = statistics.loadings((deviations * shares[:, None]).T)
        after = before - (before @ components.T) @ taken
        scale = 1 if statistics.scale is None else statistics.scale
        self.taken_ = taken * scale
        norms = {name: float(np.linalg.norm(one * scale)) for name, one in (("before", before), ("after", after))}
        return Solution(
            components, values, np.full(len(values), np.nan), pairs.relative_errors, float(values.sum()),
            class_limit(len(present)), {"covariance": norms, "solver": solver},
        )  # fmt: skip

    def _refuse_too_few(self, solution: Solution, statistics: Statistics) -> None:
        solution.refuse_too_few(None, type(self).__name__, statistics)

    def steps(self, dtype: Any) -> dict[str, Any]:
        """Return V (n_features, K), the mean and T (K, n_features) by which x becomes x - ((x - mean) V) T."""
        V = self.components_ if self.scale_ is None else self.components_ / self.scale_
        return {"matrix": V.T.astype(dtype), "mean": self.mean_, "taken": self.taken_.astype(dtype)}

    def projection(self, dtype: Any = np.float64) -> tuple[NDArray, NDArray | None, NDArray | None]:
        V, mean, taken = self.steps(np.float64).values()
        return (np.eye(len(V)) - V @ taken).astype(dtype), mean, None if self.center else -mean

    def _project(self, X: Any) -> NDArray:
        dtype = output_type(X.dtype)
        V, mean, taken = self.steps(np.float64 if issparse(X) else dtype).values()
        rows = X.toarray() if issparse(X) else X
        if rows.dtype.kind == "f" and np.isnan(rows).any():
            X = rows = np.where(np.isnan(rows), mean.astype(rows.dtype), rows)
        erased = rows - projected(X, V, mean, dtype) @ taken
        return (erased - mean if self.center else erased).astype(dtype, copy=False)

    def operator(self, X: Any) -> LinearOperator:
        """Return erased sparse rows of shape (n, n_features) as an operator: ``transform`` makes them dense."""
        check_is_fitted(self, "components_")
        V, mean, taken = self.steps(np.float64).values()
        rest = mean @ V @ taken - (mean if self.center else 0)
        return LinearOperator(
            X.shape, dtype=np.dtype(np.float64),
            matvec=lambda v: X @ v - X @ (V @ (taken @ v)) + rest @ v,
            matmat=lambda A: X @ A - X @ (V @ (taken @ A)) + rest @ A,
            rmatvec=lambda u: X.T @ u - taken.T @ (V.T @ (X.T @ u)) + rest * u.sum(),
        )  # fmt: skip

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
    "erase",
    "Concept erasure",
    "classes",
    "all but what linear models tell the classes by: rows keep their columns",
    BETWEEN_CLASSES,
    ConceptEraser,
    settable=("shrinkage",),
    orthonormal=False,
    scale_free=True,
    values="squared correlations with the classes",
    blocks=lambda n_components, n_classes, n_features: -(-n_features // n_components),
    reduces=False,
    rebuilds="erased rows as they are",
    sections=("components",),
)
