"""Kernels of scikit-learn by name, or functions; and what the estimators of this package share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.linalg
from dask.utils import format_bytes
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.errors import InputError, did_you_mean, some_names
from mmpca_dist.methods.base.traits import Option, Traits, check_number, check_options
from mmpca_dist.tables.foreign import ForeignTable, as_table, check_rows, labels_of
from mmpca_dist.tables.labels import label_array, normalize_labels
from mmpca_dist.tables.memory_limits import allowed_bytes

Array = NDArray[np.float64]
KernelName = str | Callable[[Any, Any], Any]
Gamma = float | Literal["scale", "auto"]
KERNELS = {
    "linear": (),
    "poly": ("gamma", "degree", "coef0"),
    "rbf": ("gamma",),
    "laplacian": ("gamma",),
    "cosine": (),
    "precomputed": (),
}
"""Positive semidefinite kernels of scikit-learn, with their parameters."""
MOVABLE = ("linear", "rbf", "laplacian")
"""Kernels that are the same for rows less a constant row, once they are centred."""

LARGEST = 1e6
"""Kernel values that are larger in units of centred images bring a warning: the others lose more than six digits."""
ROUNDING = 8 * np.finfo(np.float64).eps
"""Errors of eigenvalues of a centred kernel matrix, in units of its order times the largest kernel value: up to 2.5 eps
in 3,000 random tables with a mean of a million spreads."""
INDEFINITE = 1e-6
"""Eigenvalues of kernel functions may be so far below 0, as a share of their sum: values may be of single precision."""


@dataclass(frozen=True)
class Kernel:
    """A kernel with its parameters, between rows less ``shift``.

    Subtracting the mean first keeps digits that differences of large numbers would lose.
    """

    function: str | Callable[[Any, Any], Any]
    parameters: dict[str, float] = field(default_factory=dict)
    shift: Array | None = None

    def __call__(self, X: Any, Y: Any) -> Array:
        """Return the kernel matrix of rows X (n, d) and Y (m, d), shape (n, m)."""
        from sklearn.metrics.pairwise import pairwise_kernels  # slow to import

        X, Y = self._moved(X), self._moved(Y)
        with single_blas_thread():
            if callable(self.function):
                return self._called(X, Y)
            values = pairwise_kernels(X, Y, metric=self.function, **self.parameters)
            return np.asarray(values.toarray() if issparse(values) else values, np.float64)

    def _moved(self, X: Any) -> Any:
        X = X.astype(np.float64, copy=False)
        if self.shift is None:
            return X
        return (X.toarray() if issparse(X) else X) - self.shift

    def _called(self, X: Any, Y: Any) -> Array:
        values, shape = np.asarray(self.function(X, Y)), (X.shape[0], Y.shape[0])  # type: ignore[operator]
        if values.shape != shape or values.dtype.kind not in "fiub" or not np.isfinite(values).all():
            raise InputError(
                f"The kernel function returned {values.dtype} values of shape {values.shape} for {shape[0]} and "
                f"{shape[1]} rows: it must return finite numbers of shape {shape}."
            )
        return values.astype(np.float64)


class KernelEstimator(BaseEstimator):
    """Base of the estimators of this package: the parameters of the kernel, and the check of rows."""

    traits = Traits({"degree": Option(ge=1), "coef0": Option(ge=0)})

    def __init__(self, *, kernel: KernelName, gamma: Gamma, degree: int, coef0: float) -> None:
        self.kernel, self.gamma, self.degree, self.coef0 = kernel, gamma, degree, coef0

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to labelled rows.

        Parameters
        ----------
        X : array, scipy.sparse matrix or data frame of shape (n_samples, n_features)
            In memory.
        y : array-like of shape (n_samples,)
            Labels of at least two classes.

        Raises
        ------
        InputError
            (a ValueError) For parameters out of their bounds, rows that are not finite or not in memory, more rows than
            the memory holds kernel matrices of, fewer than two classes, rows whose images are all equal, a kernel that
            is not positive semidefinite, more components than there are, a reduction that does not fit the rows, and
            where Clarabel is needed and not installed.

        Warns
        -----
        ConvergenceWarning
            Where a gap stays above ``tol``.
        UserWarning
            Where rounding errors of the kernel count.
        """
        self._check_options()
        labels = labels_of(y, X)
        labels = labels if labels is None else label_array(labels, "y")
        rows, labels = check_rows(self, _in_memory(X), labels, reset=True, ensure_min_samples=2)
        self._check_size(*rows.shape)
        check_classification_targets(labels)
        classes, codes = np.unique(normalize_labels(labels, "y"), return_inverse=True)
        if len(classes) < 2:
            raise InputError(f"y has one class, {classes[0]!r}: {type(self).__name__} needs rows of at least two.")
        self.X_fit_, self.classes_ = rows.astype(np.float64, copy=False), classes
        self._kernel = self._make_kernel(self.X_fit_)
        self._fit_rows(X, y, codes)
        return self

    def _fit_rows(self, X: Any, y: Any, codes: NDArray[np.intp]) -> None:
        """Fit to rows with codes of classes, whose kernel is kept."""
        raise NotImplementedError

    def _centred_kernel(self, rows: NDArray | csr_array) -> tuple[Array, float]:
        """Return the kernel matrix (n, n) of centred images, and the rounding errors of its eigenvalues."""
        from sklearn.preprocessing import KernelCenterer  # slow to import

        matrix = self._kernel(rows, rows)
        largest = float(np.abs(np.diagonal(matrix)).max())
        rounding = ROUNDING * len(matrix) * largest
        self._centerer = KernelCenterer().fit(matrix)
        centred = self._centerer.transform(matrix, copy=self.kernel == "precomputed")
        if callable(self.kernel) or self.kernel == "precomputed":
            _refuse_indefinite(centred, rounding)
        size = float(np.trace(centred)) / len(centred)
        if largest > LARGEST * max(size, 0.0):
            warnings.warn(
                f"{type(self).__name__}: kernel values reach {largest:.3g}, and images less their mean have the mean "
                f"squared length {size:.3g}, so rounding errors count. Subtract the means of the columns first, as "
                "StandardScaler does.",
                stacklevel=4,
            )
        return centred, rounding

    def _new_rows(self, X: Any) -> Any:
        return check_rows(self, _in_memory(X), reset=False)

    def _check_size(self, n: int, d: int) -> None:
        """Refuse what is no kernel matrix, and rows whose kernel matrices exceed the memory."""
        if self.kernel == "precomputed" and n != d:
            raise InputError(
                f"X has shape ({n}, {d}): kernel='precomputed' takes the kernel matrix of all pairs of rows, which is "
                "square."
            )
        needed, allowed = 8 * self._matrices() * n**2, allowed_bytes()
        if needed > allowed:
            raise InputError(
                f"The {n:,} rows of X take kernel matrices of {format_bytes(needed)}, and {format_bytes(allowed)} are "
                f"allowed, half of this computer's memory. {self._instead}, or fit to fewer rows."
            )

    _instead: ClassVar[str]
    """The method for more rows than the memory holds kernel matrices of."""

    def _matrices(self) -> int:
        """Return how many n x n matrices of doubles a fit holds at once; all are measured."""
        raise NotImplementedError

    def _check_options(self) -> None:
        """Refuse parameters out of their bounds."""
        check_options(self)
        if not callable(self.kernel) and (not isinstance(self.kernel, str) or self.kernel not in KERNELS):
            raise InputError(
                f"kernel={self.kernel!r} must be one of {some_names(list(KERNELS))}, or a function of two matrices of "
                f"rows that returns the kernel matrix.{did_you_mean(str(self.kernel), KERNELS)}"
            )
        if not (isinstance(self.gamma, str) and self.gamma in ("scale", "auto")):
            check_number("gamma", self.gamma, {"gt": 0}, integral=False)

    def _make_kernel(self, X: Any) -> Kernel:
        if callable(self.kernel):
            return Kernel(self.kernel)
        values = {"gamma": self._gamma(X), "degree": self.degree, "coef0": self.coef0}
        parameters = {name: float(values[name]) for name in KERNELS[self.kernel]}
        shift = np.mean(X, axis=0) if self.kernel in MOVABLE and not issparse(X) else None
        return Kernel(self.kernel, parameters, shift)

    def _gamma(self, X: Any) -> float:
        """Return gamma as ``SVC`` does: 1 / (d variance of all entries), or 1 / d."""
        if self.gamma == "auto":
            return 1 / X.shape[1]
        if self.gamma != "scale":
            return float(self.gamma)
        variance = (X.multiply(X)).mean() - X.mean() ** 2 if issparse(X) else X.var()
        return 1 / (X.shape[1] * float(variance)) if variance > 0 else 1.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.target_tags.required = True
        return tags


class KernelReducer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelEstimator):
    """Base of the reductions in the space of a kernel: projections of centred images of rows onto directions.

    A subclass finds the directions as combinations of the centred images of the rows of ``fit``.
    """

    traits = KernelEstimator.traits.extended({"n_components": Option(ge=1), "tol": Option(ge=0, lt=1)})

    def __init__(self, n_components: int | None, *, tol: float, **of_the_kernel: Any) -> None:
        super().__init__(**of_the_kernel)
        self.n_components, self.tol = n_components, tol

    def _directions(self, coordinates: Array, combinations: Array, codes: NDArray[np.intp]) -> Array:
        """Return the directions as combinations (K, n) of the centred images, given `principal_images`."""
        raise NotImplementedError

    def _fit_rows(self, X: Any, y: Any, codes: NDArray[np.intp]) -> None:
        with single_blas_thread():
            images = principal_images(*self._centred_kernel(self.X_fit_), self.tol)
            self.dual_coef_ = self._directions(*images, codes)

    def transform(self, X: Any) -> Array:
        """Project the images of rows, less the mean image of the rows of ``fit``, onto the directions.

        Parameters
        ----------
        X : array, scipy.sparse matrix or data frame of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_components)
        """
        check_is_fitted(self, "dual_coef_")
        matrix = self._kernel(self._new_rows(X), self.X_fit_)
        return self._centerer.transform(matrix) @ self.dual_coef_.T

    def _refuse_more_than(self, count: int, reason: str) -> int:
        """Return how many components to keep of ``count``."""
        if self.n_components is None:
            return count
        if self.n_components > count:
            raise InputError(
                f"n_components={self.n_components} is more than the {count} components that there are: {reason}."
            )
        return int(self.n_components)

    @property
    def _n_features_out(self) -> int:
        return len(self.dual_coef_)


def principal_images(centred: Array, rounding: float, tol: float) -> tuple[Array, Array]:
    """Return the coordinates (n, r) of the rows of a centred kernel matrix (n, n) along directions of kernel PCA.

    Beside them are the directions, of unit length, as combinations (n, r) of the centred images. Those whose eigenvalue
    is at most ``tol`` times the largest, or the rounding error, are dropped. Raises InputError where all images are
    equal.
    """
    values, vectors = np.linalg.eigh(centred)
    values, vectors = values[::-1], vectors[:, ::-1]
    if not values[0] > rounding:
        raise InputError("All rows have the same image under the kernel: there is no direction to find.")
    kept = values > max(tol * values[0], rounding)
    roots = np.sqrt(values[kept])
    return vectors[:, kept] * roots, vectors[:, kept] / roots


def _refuse_indefinite(centred: Array, rounding: float) -> None:
    """Refuse a centred kernel matrix that is not symmetric, or has an eigenvalue below 0, beyond rounding."""
    room = INDEFINITE * max(float(np.trace(centred)), 0.0) + rounding
    if np.abs(centred - centred.T).max() > room:
        raise InputError("The kernel is not symmetric: k(x, y) and k(y, x) differ. Use a kernel that is.")
    shifted = centred + np.diag(np.full(len(centred), room))
    try:
        scipy.linalg.cholesky(shifted, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError as error:
        least = scipy.linalg.eigvalsh(centred, subset_by_index=[0, 0])[0]
        raise InputError(
            f"The kernel is not positive semidefinite: its matrix for these rows, centred, has the eigenvalue "
            f"{least:.3g}. Use a kernel that is."
        ) from error


def _in_memory(X: Any) -> Any:
    table = as_table(X)
    if isinstance(table, ForeignTable) and table.lazy:
        raise InputError(
            "X is read piece by piece, and kernel methods need all rows in memory: pass X.compute() of a Dask "
            "collection, or rows that read_rows of a Dataset returns."
        )
    return table
