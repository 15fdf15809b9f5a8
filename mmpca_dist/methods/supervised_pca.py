"""Supervised PCA by the Hilbert-Schmidt independence criterion as a scikit-learn estimator."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.eigen.dense import leading_low_rank
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.errors import InputError, did_you_mean
from mmpca_dist.methods.base.registry import BETWEEN_CLASSES, Method
from mmpca_dist.methods.base.solution import Solution, certificate_of_means, class_limit
from mmpca_dist.methods.base.target_reducer import TargetReducer
from mmpca_dist.statistics.class_weights import ClassWeight
from mmpca_dist.statistics.scatters import at_least_two, least_shared, less_others, others
from mmpca_dist.statistics.working_statistics import Statistics


class SupervisedPCA(TargetReducer):
    """Directions whose projection depends most on the target, by the Hilbert-Schmidt independence criterion.

    They are the leading eigenvectors of X^T H L H X. For classes that is A^T K A with rows A_c = n_c (m_c - m) and a
    kernel K on the classes; for q continuous targets L = Y Y^T. Parameters that are not listed are as in ``MarginPCA``,
    and so are the other attributes.

    Parameters
    ----------
    n_components : int or float, optional
        At most the number of classes less one, or of continuous targets, which is the default.
    target : {"classes", "continuous"}
        What y holds: labels, or numbers of shape (n,) or (n, q).
    kernel : {"delta", "linear"} or array of shape (C, C), optional
        Similarity of the classes: 1 for equal ones (the default), the product of numeric labels, or any positive
        semidefinite matrix in the order of the sorted classes. That of continuous targets is their inner product,
        "linear", and no other.
    precision : {"single", "double"}
        As in ``MarginPCA``. No matter for continuous targets, whose few products are always double.
    solver : {"auto", "dense", "dual", "krylov", "arpack"}
        As in ``MarginPCA``; of many columns, one pass takes the class means, which are all that is needed for classes.
        For continuous targets there is no solver in passes.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        Orthonormal.
    eigenvalues_ : array of shape (K,)
        Eigenvalues of X^T H L H X, which grows with n^2.
    classes_ : array of shape (C,)
        Only of classes.
    moments_ : ClassMoments
        Moments of all rows so far, which ``partial_fit`` extends.

    References
    ----------
    STAT 841, supervised PCA.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mmpca_dist import SupervisedPCA
    >>> X, y = load_digits(return_X_y=True)
    >>> SupervisedPCA(n_components=2).fit_transform(X, y).shape
    (1797, 2)

    >>> from sklearn.datasets import load_diabetes
    >>> X, progression = load_diabetes(return_X_y=True)
    >>> SupervisedPCA(target="continuous").fit(X, progression).components_.shape
    (1, 10)
    """

    traits = TargetReducer.traits.extended(by_classes=True)

    def __init__(
        self, n_components: float | None = None, *, target: str = "classes", kernel: str | NDArray | None = None,
        standardize: bool = False, center: bool = False, precision: str = "single", solver: str = "auto",
        class_weight: ClassWeight = None, missing: str = "refuse",
    ) -> None:  # fmt: skip
        super().__init__(
            n_components, target=target, standardize=standardize, center=center, precision=precision, solver=solver,
            class_weight=class_weight, missing=missing,
        )  # fmt: skip
        self.kernel = kernel

    def needs(self) -> Needs:
        return Needs(full_scatter=("hsic",)) if self._continuous else Needs(scatters=frozenset())

    def _solve(self, statistics: Statistics) -> Solution:
        moments = statistics.moments
        if moments.targets is not None:
            A = moments.targets.cross.T
            pairs = leading_low_rank(
                A, self._at_most(len(A)), least_shared(moments) / float(scipy.linalg.norm(A.ravel()))
            )
            return Solution.of_pairs(statistics, pairs, f"the number of targets, {len(A)}")
        present = at_least_two(moments.counts)
        factors = moments.counts * others(moments.counts / moments.total)
        A = less_others(moments) * factors[:, None]
        if self.kernel is not None and not (isinstance(self.kernel, str) and self.kernel == "delta"):
            root = _kernel_root(self.kernel, moments.classes)
            A, factors = root @ A, root * factors
        off = statistics.means_error * float(scipy.linalg.norm(factors.ravel()))
        size = float(scipy.linalg.norm(A.ravel()))
        count = self._at_most(min(len(present) - 1, moments.n_features))
        pairs = leading_low_rank(A, count, max(statistics.unit, off / size) if size > 0 else statistics.unit)
        return Solution.of_pairs(statistics, pairs, class_limit(len(present)), certificate_of_means(statistics))

    def check_parameters(self) -> None:
        super().check_parameters()
        left_out = self.kernel is None or (isinstance(self.kernel, str) and self.kernel == "linear")
        if self._continuous and not left_out:
            raise InputError("kernel must be left out, or 'linear', where the target is continuous.")


def _kernel_root(kernel: str | NDArray, classes: NDArray) -> NDArray[np.float64]:
    """Return R with R^T R = K; that of "delta" is the identity."""
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


METHOD = Method(
    "hsic",
    "Supervised PCA (HSIC)",
    "classes",
    "dependence on the class (supervised PCA)",
    BETWEEN_CLASSES,
    SupervisedPCA,
)
