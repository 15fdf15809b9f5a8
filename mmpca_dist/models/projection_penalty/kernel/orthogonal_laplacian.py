"""Orthogonal Laplacianfaces: orthogonal directions that keep rows of a class together."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.eigen.dense import fix_signs
from mmpca_dist.methods.base.traits import Option
from mmpca_dist.models.projection_penalty.kernel.kernel_functions import Array, Gamma, KernelName, KernelReducer

TIE = 1e-9
"""Ratios that differ by no more than this share of the average ratio are equal."""
ROUNDING = 1e-14
"""Ratios, which lie between 0 and 2, that differ by no more are equal, too: rounding may make those of 0 negative."""


class OrthogonalLaplacianProjection(KernelReducer):
    """Orthogonal directions along which rows of the same class lie close together (orthogonal Laplacianfaces).

    Rows of a class are neighbours, with weights S_ij = 1. D has the sums of S on its diagonal, and L = D - S. For
    rows in their principal coordinates Z, every a_k minimises a^T Z^T L Z a / a^T Z^T D Z a among the directions
    orthogonal to those before it. With another kernel than ``linear`` the coordinates are those of kernel PCA.

    Parameters
    ----------
    n_components : int, optional
        At most the rank of the images; by default the number of classes less one.
    kernel, gamma, degree, coef0
        As in ``KernelProjectionPenaltyClassifier``, but ``linear`` by default.
    variance_share : float
        The share of the variance that the principal coordinates keep; with 1 they drop only the null space.
    tol : float
        Principal directions with a variance of at most so much of the largest one, or of no more than rounding errors,
        are the null space.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        With ``kernel="linear"`` only: orthonormal directions in the columns.
    dual_coef_ : array of shape (K, n_samples)
        The directions, of unit length, as combinations of the centred images of ``X_fit_``.
    eigenvalues_ : array of shape (K,)
        a^T Z^T L Z a / a^T Z^T D Z a of each, increasing.
    X_fit_ : array of shape (n_samples, n_features)
    classes_ : array of shape (C,)

    Notes
    -----
    With fewer rows than columns, about as many directions as classes less one have the criterion 0. Any orthonormal
    basis of them solves the problem; here the directions of most variance come first.

    References
    ----------
    Cai, He, Han & Zhang 2006, "Orthogonal Laplacianfaces for face recognition", IEEE Transactions on Image Processing
    15(11).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from mmpca_dist import OrthogonalLaplacianProjection
    >>> X, y = load_wine(return_X_y=True)
    >>> OrthogonalLaplacianProjection().fit(X, y).components_.shape
    (2, 13)
    """

    traits = KernelReducer.traits.extended({"variance_share": Option(gt=0, le=1)})
    _instead = "Put NystroemFeatures before a reduction without a kernel, such as FisherDiscriminant"

    def __init__(
        self, n_components: int | None = None, *, kernel: KernelName = "linear", gamma: Gamma = "scale",
        degree: int = 3, coef0: float = 0.0, variance_share: float = 1.0, tol: float = 1e-10,
    ) -> None:  # fmt: skip
        super().__init__(n_components, tol=tol, kernel=kernel, gamma=gamma, degree=degree, coef0=coef0)
        self.variance_share = variance_share

    def _matrices(self) -> int:
        return 14

    def _directions(self, coordinates: Array, combinations: Array, codes: NDArray[np.intp]) -> Array:
        sums, share = np.cumsum(np.einsum("ij,ij->j", coordinates, coordinates)), self.variance_share
        kept = len(sums) if share >= 1 else int(np.searchsorted(sums, share * sums[-1])) + 1
        Z = coordinates[:, :kept]
        count = min(len(self.classes_) - 1, kept) if self.n_components is None else kept
        count = self._refuse_more_than(count, f"the principal coordinates that are kept, {kept}")
        graph = (codes[:, None] == codes).astype(np.float64)
        sums = graph.sum(axis=1)
        spread, apart = Z.T @ (sums[:, None] * Z), Z.T @ ((np.diag(sums) - graph) @ Z)
        self.eigenvalues_, vectors = orthogonal_minimisers(apart, spread, Z.T @ Z, count)
        dual = (combinations[:, :kept] @ vectors).T
        self.__dict__.pop("components_", None)  # those of an earlier fit
        if self.kernel == "linear":
            rows = self.X_fit_ if self._kernel.shift is None else self.X_fit_ - self._kernel.shift
            self.components_ = np.asarray((rows.T @ dual.T).T)
        return dual


def orthogonal_minimisers(L: Array, D: Array, variance: Array, count: int) -> tuple[Array, Array]:
    """Return ratios a^T L a / a^T D a (K,) and orthonormal a (r, K), each least among those orthogonal to the former.

    The next minimiser comes from a basis of the complement of those before it. The paper inverts matrices, which
    rounding makes singular. Minimisers of equal ratio are ordered by ``variance``, largest first.
    """
    r = len(L)
    ratios, vectors = [], np.zeros((r, 0))
    scale = float(np.trace(L) / np.trace(D))
    while vectors.shape[1] < count:
        # the last columns of a full Q are orthogonal to the vectors
        basis = scipy.linalg.qr(vectors)[0][:, vectors.shape[1] :] if vectors.shape[1] else np.eye(r)
        values, minimisers = scipy.linalg.eigh(basis.T @ L @ basis, basis.T @ D @ basis)
        tied = int(np.count_nonzero(values <= values[0] + max(TIE * scale, TIE * values[0], ROUNDING)))
        least = scipy.linalg.orth(basis @ minimisers[:, :tied])
        order = np.linalg.eigh(least.T @ variance @ least)[1][:, ::-1]
        block = (least @ order)[:, : count - vectors.shape[1]]
        ratios += [float(a @ L @ a / (a @ D @ a)) for a in block.T]
        vectors = np.column_stack([vectors, block])
    return np.maximum(np.asarray(ratios), 0.0), fix_signs(vectors.T).T
