"""Generalized discriminant analysis: Fisher's discriminant in the space of a kernel."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.eigen.dense import fix_signs
from mmpca_dist.methods.base.traits import Option
from mmpca_dist.models.projection_penalty.kernel.kernel_functions import Array, Gamma, KernelName, KernelReducer

TIE = 1e-8
"""Criteria that differ by less are equal: errors of eigenvalues of the kernel, relative to the least one kept, are."""


class GeneralizedDiscriminantAnalysis(KernelReducer):
    """Directions in the space of a kernel that maximise the scatter between the classes over that of all rows.

    They solve B v = l T v, for scatters of the images of the rows less their mean. With ``shrinkage`` g above 0 T is
    B + (1 - g) W + g tr(W) / r I, W the scatter within the classes and r the rank of the images. Each v has unit length
    in that space, so a component is a projection in the units of the kernel. A projection penalty needs that: it
    compares ||v||^2 of these features with ||w||^2, so features a hundred times as long would count as penalised
    10,000 times less.

    Parameters
    ----------
    n_components : int, optional
        At most the number of classes less one, which is the default.
    kernel, gamma, degree, coef0
        As in ``KernelProjectionPenaltyClassifier``.
    shrinkage : float
        g, from 0 to 1. With 0, the default of the paper, as many rows as the rank of their images plus one are
        separated perfectly: every class is projected onto one point.
    tol : float
        Principal directions of the images with a variance of at most so much of the largest one, or of no more than
        rounding errors, are dropped.

    Attributes
    ----------
    dual_coef_ : array of shape (K, n_samples)
        The directions as combinations of the centred images of ``X_fit_``.
    eigenvalues_ : array of shape (K,)
        Scatter between the classes over that of all rows (shrunken), from 0 to 1, decreasing. Directions of equal
        criterion (such as 1) are orthogonal, the one of most variance first.
    X_fit_ : array of shape (n_samples, n_features)
        The rows, or with ``precomputed`` their kernel matrix.
    classes_ : array of shape (C,)

    References
    ----------
    Baudat & Anouar 2000, "Generalized discriminant analysis using a kernel approach", Neural Computation 12.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mmpca_dist import GeneralizedDiscriminantAnalysis
    >>> X, y = load_digits(return_X_y=True)
    >>> reducer = GeneralizedDiscriminantAnalysis(kernel="poly", degree=2).fit(X[:500], y[:500])
    >>> reducer.transform(X).shape
    (1797, 9)
    """

    traits = KernelReducer.traits.extended({"shrinkage": Option(ge=0, le=1)})
    _instead = "Put NystroemFeatures before FisherDiscriminant"

    def __init__(
        self, n_components: int | None = None, *, kernel: KernelName = "rbf", gamma: Gamma = "scale",
        degree: int = 3, coef0: float = 0.0,
        shrinkage: float = 0.0, tol: float = 1e-10,
    ) -> None:  # fmt: skip
        super().__init__(n_components, tol=tol, kernel=kernel, gamma=gamma, degree=degree, coef0=coef0)
        self.shrinkage = shrinkage

    def _matrices(self) -> int:
        return 9 if self.shrinkage else 6

    def _directions(self, coordinates: Array, combinations: Array, codes: NDArray[np.intp]) -> Array:
        Z, n_classes = coordinates, len(self.classes_)
        limit = min(n_classes - 1, Z.shape[1])
        count = self._refuse_more_than(
            limit, f"the {n_classes} classes less one, or the rank of the images, {Z.shape[1]}"
        )
        values, vectors = _discriminants(Z, codes, n_classes, self.shrinkage, limit)
        self.eigenvalues_ = values[:count]
        return (combinations @ vectors[:, :count]).T


def _discriminants(
    Z: Array, codes: NDArray[np.intp], n_classes: int, shrinkage: float, limit: int
) -> tuple[Array, Array]:
    """Return criteria (K,) and unit vectors (r, K) of centred rows Z (n, r) with orthogonal columns."""
    r = Z.shape[1]
    members = np.eye(n_classes)[codes] / np.sqrt(np.bincount(codes, minlength=n_classes))
    roots = members.T @ Z  # between = roots^T roots
    variances = np.einsum("ij,ij->j", Z, Z)
    if not shrinkage:
        # T is diagonal: with T^(-1/2) the problem is a singular value decomposition, and loses no digits to B^2
        _, values, turned = np.linalg.svd(roots / np.sqrt(variances), full_matrices=False)
        vectors = turned[:limit].T / np.sqrt(variances)[:, None]
        return _ordered(np.minimum(values[:limit] ** 2, 1.0), vectors, variances)
    between = roots.T @ roots
    within = np.diag(variances) - between
    ridge = max(float(np.trace(within)), 0.0) / r
    total = between + (1 - shrinkage) * within + shrinkage * ridge * np.eye(r)
    values, vectors = scipy.linalg.eigh(between, total, subset_by_index=[r - limit, r - 1])
    return _ordered(np.clip(values[::-1], 0.0, 1.0), vectors[:, ::-1], variances)


def _ordered(values: Array, vectors: Array, variances: Array) -> tuple[Array, Array]:
    """Return unit vectors; those of equal criterion turned to be orthogonal, by decreasing variance."""
    groups = np.split(np.arange(len(values)), np.flatnonzero(-np.diff(values) > TIE) + 1)
    turned = []
    for group in groups:
        basis = np.linalg.qr(vectors[:, group])[0]
        turned.append(basis @ np.linalg.eigh(basis.T @ (basis * variances[:, None]))[1][:, ::-1])
    return values, fix_signs(np.concatenate(turned, axis=1).T).T
