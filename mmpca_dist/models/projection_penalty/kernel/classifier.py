"""A support vector machine with a kernel that penalises its distance from a reduced space, as an estimator."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.swept_reducer import ClassifiesByScores
from mmpca_dist.methods.base.traits import Option, check_choice
from mmpca_dist.models.projection_penalty.kernel.generalized_discriminant import GeneralizedDiscriminantAnalysis
from mmpca_dist.models.projection_penalty.kernel.kernel_functions import Array, Gamma, KernelEstimator, KernelName
from mmpca_dist.models.projection_penalty.kernel.margin_solvers import MarginProblem, Solved, solve
from mmpca_dist.models.projection_penalty.reduction import is_fitted, is_transformer
from mmpca_dist.tables.foreign import labels_of

SOLVERS = ("auto", "libsvm", "clarabel")


class KernelProjectionPenaltyClassifier(ClassifiesByScores, KernelEstimator):
    """A support vector machine that a reduction guides, but does not confine: the kernel form of projection penalties.

    For labels of -1 and +1 it minimises over w, v and b

        sum_i max(0, 1 - y_i f(x_i)) + alpha (||w||^2 + epsilon ||v||^2),    f(x) = <w, phi(x)> + v^T z(x) + b,

    with phi(x) the image of a row in the space of the kernel, and z(x) its K reduced features. For z(x) = P phi(x) the
    model is w + P^T v, and the penalty is on its part outside the space of the reduction. More than two classes have a
    machine each, against the rest. n rows take memory for up to six matrices of n x n doubles, eleven with Clarabel.

    Parameters
    ----------
    reduction : array of shape (K, n_features), transformer or None
        An array has rows in the input columns: z(x) = P x. A transformer that is fitted is used as it is, and gets the
        rows as they are given. A clone of one that is not is fitted to them and their labels. By default a
        ``GeneralizedDiscriminantAnalysis`` with the same kernel. To keep a fitted one where this estimator is cloned,
        as in a grid search, wrap it in ``sklearn.frozen.FrozenEstimator``.
    alpha : float
        Weight of the penalty: ``SVC`` has C = 1 / (2 alpha).
    epsilon : float
        Share of the penalty that v bears, by default that of the paper's faces, 1e-5: nearly none, and v stays
        determined where the reduced features separate the classes. With 0, v bears none. It is relative to the units of
        z: for features ten times as long, 100 times as much penalises as much.
    kernel : {"rbf", "linear", "poly", "laplacian", "cosine", "precomputed"} or callable
        By name as in scikit-learn's ``pairwise_kernels``, or a function that returns the kernel matrix (n, m) of rows
        (n, d) and (m, d), as in ``SVC``. It must be positive semidefinite. With ``precomputed`` X is the kernel matrix:
        of all pairs of rows in ``fit``, later of new rows and those of ``fit``.
    gamma : float, "scale" or "auto"
        Parameter of rbf, poly and laplacian, as in ``SVC``.
    degree, coef0 : int, float
        Parameters of poly: (gamma x^T y + coef0)^degree.
    solver : {"auto", "libsvm", "clarabel"}
        ``auto`` is LIBSVM, and Clarabel for ``epsilon=0``, which LIBSVM cannot solve. Clarabel is installed by ``pip
        install 'mmpca-dist[qp]'``; it takes 5 s for 1,500 rows, and its time grows with their cube. An active-set
        method in double precision refines what either returns.
    tol : float
        A machine is solved when its gap (``gaps_``) is at most so large.
    max_iter : int
        Steps of LIBSVM at most; -1 for any number. The active-set method goes on from where they end.

    Attributes
    ----------
    dual_coef_ : array of shape (m, n_samples)
        Coefficients of the rows of ``X_fit_`` in w, for one machine (two classes: the second is positive), or one for
        each class.
    weights_ : array of shape (m, K)
        v. Columns of z that are constant, or depend on others, get the least weights.
    intercept_ : array of shape (m,)
    objective_, gaps_ : arrays of shape (m,)
        The sums above, and by how much they may lie above their minima, relative to themselves or to a thousandth of
        the objective at zero, whichever is more: proved by a point of the dual problem, in double precision.
    n_iter_ : int
        Steps of the solver and of the refinement, of the machine that took most.
    reduction_ : array or fitted transformer
    X_fit_ : array of shape (n_samples, n_features)
        The rows, or with ``precomputed`` their kernel matrix.
    classes_ : array of shape (C,)

    References
    ----------
    Zhang & Schneider 2010, "Projection Penalties: Dimension Reduction without Loss", ICML, sections 2.3 to 2.5.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mmpca_dist import GeneralizedDiscriminantAnalysis, KernelProjectionPenaltyClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> reduction = GeneralizedDiscriminantAnalysis(kernel="poly", degree=2)
    >>> model = KernelProjectionPenaltyClassifier(reduction, kernel="poly", degree=2).fit(X[:300], y[:300])
    >>> model.weights_.shape, bool((model.gaps_ <= 1e-6).all())
    ((10, 9), True)
    >>> round(model.score(X[300:], y[300:]), 2)
    0.89
    """

    traits = KernelEstimator.traits.extended(
        {"alpha": Option(gt=0), "tol": Option(gt=0), "epsilon": Option(ge=0), "max_iter": Option(ge=-1)}
    )
    _instead = "Put NystroemFeatures before ProjectionPenaltyClassifier"

    def __init__(
        self, reduction: Any = None, *, alpha: float = 1.0, epsilon: float = 1e-5,
        kernel: KernelName = "rbf", gamma: Gamma = "scale",
        degree: int = 3, coef0: float = 0.0,
        solver: Literal["auto", "libsvm", "clarabel"] = "auto", tol: float = 1e-6, max_iter: int = 50_000,
    ) -> None:  # fmt: skip
        super().__init__(kernel=kernel, gamma=gamma, degree=degree, coef0=coef0)
        self.reduction, self.alpha, self.epsilon = reduction, alpha, epsilon
        self.solver, self.tol, self.max_iter = solver, tol, max_iter

    def _fit_rows(self, X: Any, y: Any, codes: NDArray[np.intp]) -> None:
        self.reduction_ = self._fitted_reduction(X, labels_of(y, X))
        with single_blas_thread():
            self._fit_machines(self._centred_kernel(self.X_fit_)[0], self._reduced(X, self.X_fit_), codes)

    @property
    def _own_solver(self) -> str:
        return self.solver if self.solver != "auto" else "libsvm" if self.epsilon > 0 else "clarabel"

    def _matrices(self) -> int:
        return 11 if self._own_solver == "clarabel" else 6

    def _fit_machines(self, centred: Array, Z: Array, codes: NDArray[np.intp]) -> None:
        size = float(np.trace(centred)) / len(centred)
        size = size if size > 0 else 1.0
        centred /= size
        mean, basis, lengths, loadings = _orthogonal(Z)
        ridge = size * self.epsilon / lengths**2
        positive = range(len(self.classes_)) if len(self.classes_) > 2 else (1,)
        machines = []
        for code in positive:
            signs = np.where(codes == code, 1.0, -1.0)
            problem = MarginProblem(centred, basis, ridge, signs, size / (2 * self.alpha))
            solved = solve(problem, self._own_solver, self.tol, self.max_iter)
            if solved.gap > self.tol:
                self._warn_of_gap(code, solved)
            machines.append(solved)
        self.dual_coef_ = np.stack([machine.point.beta for machine in machines]) / size
        self.weights_ = np.stack([loadings @ machine.point.u for machine in machines])
        self.objective_ = np.asarray([machine.objective for machine in machines])
        self.gaps_ = np.asarray([machine.gap for machine in machines])
        self.n_iter_ = max(machine.n_iter for machine in machines)
        self._level = self._shift_level()
        means = self._centerer.K_fit_rows_ @ self.dual_coef_.T + mean @ self.weights_.T + self._level
        self.intercept_ = np.asarray([machine.point.b for machine in machines]) - means

    def _shift_level(self) -> Array:
        """Return <w, phi(mean)> of a linear kernel, whose rows are moved by their mean, shape (m,)."""
        shift = self._kernel.shift
        if self.kernel != "linear" or shift is None:
            return np.zeros(len(self.dual_coef_))
        return self.dual_coef_ @ ((self.X_fit_ - shift) @ shift)

    def _check_options(self) -> None:
        super()._check_options()
        check_choice("solver", self.solver, SOLVERS)
        if self.solver == "libsvm" and self.epsilon == 0:
            raise InputError(
                "solver='libsvm' cannot solve for epsilon=0, whose dual has an equality constraint for each reduced "
                "feature: leave solver out, or choose epsilon above 0, such as 1e-5."
            )

    def _fitted_reduction(self, X: Any, y: Any) -> Any:
        """Return the reduction as an array of float64, or a fitted transformer."""
        reduction = self.reduction
        if reduction is None:
            names = ("kernel", "gamma", "degree", "coef0")
            reduction = GeneralizedDiscriminantAnalysis(**{name: getattr(self, name) for name in names})
        if is_transformer(reduction):
            return reduction if is_fitted(reduction) else clone(reduction).fit(X, y)
        try:
            array = np.asarray(reduction, np.float64)
        except (TypeError, ValueError):
            array = np.empty(0)
        if array.ndim != 2 or array.shape[1] != self.n_features_in_ or not np.isfinite(array).all() or not len(array):
            what = f"an array of shape {array.shape}" if array.size else repr(reduction)
            raise InputError(
                f"reduction is {what}: it must be a transformer, or a finite array of shape (K, "
                f"{self.n_features_in_}), with a row for each reduced feature and a column for each column of X."
            )
        return array

    def _reduced(self, X: Any, rows: NDArray | csr_array) -> Array:
        """Return the reduced features of the rows that X has, shape (n, K)."""
        if isinstance(self.reduction_, np.ndarray):
            return np.asarray(rows @ self.reduction_.T, np.float64)
        Z = self.reduction_.transform(X)
        Z = np.asarray(Z.toarray() if issparse(Z) else Z)
        if Z.ndim != 2 or len(Z) != rows.shape[0] or Z.dtype.kind not in "fiub" or not np.isfinite(Z).all():
            raise InputError(
                f"The reduction {type(self.reduction_).__name__} returns {Z.dtype} values of shape {Z.shape} for "
                f"{rows.shape[0]} rows: it must return finite numbers of shape ({rows.shape[0]}, K)."
            )
        return Z.astype(np.float64)

    def _warn_of_gap(self, code: int, solved: Solved) -> None:
        instead = "raise alpha or max_iter" + (", or set solver='clarabel'" if self._own_solver == "libsvm" else "")
        warnings.warn(
            f"{type(self).__name__}: its objective for class {self.classes_[code].item()!r} is proved to be within "
            f"{solved.gap:.2g} of the minimum, relative to it, but not within the tolerance of {self.tol:g}: put "
            f"the columns on one scale, {instead}.",
            ConvergenceWarning,
            stacklevel=5,
        )

    def decision_parts(self, X: Any) -> tuple[Array, Array]:
        """Return the two parts of the decision values: <w, phi(x)>, which is penalised, and v^T z(x).

        Parameters
        ----------
        X : array, scipy.sparse matrix or data frame of shape (n_samples, n_features)

        Returns
        -------
        tuple of two arrays of shape (n_samples,), or (n_samples, C) for more than two classes
            With ``intercept_`` they sum to ``decision_function``.
        """
        outside, inside = self._parts(X)
        return (outside[:, 0], inside[:, 0]) if len(self.dual_coef_) == 1 else (outside, inside)

    def _parts(self, X: Any) -> tuple[Array, Array]:
        check_is_fitted(self, "dual_coef_")
        rows = self._new_rows(X)
        outside = self._kernel(rows, self.X_fit_) @ self.dual_coef_.T + self._level
        return outside, self._reduced(X, rows) @ self.weights_.T

    def _outputs(self, X: Any) -> Array:
        outside, inside = self._parts(X)
        return outside + inside + self.intercept_


def _orthogonal(Z: Array) -> tuple[Array, Array, Array, Array]:
    """Return the mean, basis and lengths of Z - mean = basis diag(lengths) rotation^T, without directions of rounding.

    Behind these, what turns weights of the basis into weights of Z, shape (K, r).
    """
    mean = Z.mean(axis=0)
    basis, lengths, rotation = np.linalg.svd(Z - mean, full_matrices=False)
    room = max(Z.shape) * np.finfo(np.float64).eps
    # The second bound is what subtracting the mean may leave of columns that are constant.
    kept = (lengths > room * lengths.max(initial=0.0)) & (lengths > room * np.abs(Z).max(initial=0.0))
    return mean, basis[:, kept], lengths[kept], rotation[kept].T / lengths[kept]
