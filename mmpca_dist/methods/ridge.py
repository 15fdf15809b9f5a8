"""Directions of ridge regressions onto the classes as a scikit-learn estimator."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.eigen.needs import Needs
from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.registry import BETWEEN_CLASSES, Method
from mmpca_dist.methods.base.solution import Solution, class_limit
from mmpca_dist.methods.base.target_reducer import TargetReducer
from mmpca_dist.methods.base.traits import Option
from mmpca_dist.statistics.class_weights import ClassWeight
from mmpca_dist.statistics.scatters import regression_of
from mmpca_dist.statistics.working_statistics import EPS, Statistics

TINY = float(np.finfo(np.float64).tiny)


class RidgeDirections(TargetReducer):
    """Directions of the coefficients of a ridge regression onto the classes, or onto numbers.

    For two classes the component is ``coef_`` of scikit-learn's ``Ridge(alpha)`` for labels -1 and +1, up to its sign.
    For several, with an indicator of each as target, the components are their coefficients W turned by an orthogonal V,
    the principal axes of what they fit: W V, with W = (X^T X + alpha I)^-1 X^T Y. They span what the coefficients span,
    the strongest come first, and fitted values along them are uncorrelated. Parameters that are not listed are as in
    ``MarginPCA``, and so are the other attributes.

    Parameters
    ----------
    n_components : int or float, optional
        At most the number of classes less one, or of continuous targets, which is the default.
    alpha : float
        The penalty alpha |w|^2 is added to the sum of squared errors, as in scikit-learn. 0 is least squares, where
        columns do not depend on each other.
    target : {"classes", "continuous"}
        What y holds: labels, or numbers of shape (n,) or (n, q).
    solver : {"auto", "dense", "dual"}
        As in ``MarginPCA``. The whole scatter is needed: there is no solver in passes.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        In the units of coefficients, not orthonormal, so ``inverse_transform`` goes by the pseudo-inverse.
    eigenvalues_ : array of shape (K,)
        Variance of the fitted values along each component, decreasing. ``total_`` is the variance of the targets.
    residuals_ : array of shape (K,)
        NaN: the components are no eigenvectors of a scatter.

    References
    ----------
    Hoerl & Kennard 1970, "Ridge regression", Technometrics 12.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from mmpca_dist import RidgeDirections
    >>> X, y = load_wine(return_X_y=True)
    >>> RidgeDirections(alpha=0.1).fit(X, y).components_.shape
    (2, 13)
    """

    traits = TargetReducer.traits.extended(
        {"alpha": Option(ge=0, example=0.1, description="Penalty on the squared coefficients, as in scikit-learn")},
        by_classes=True,
    )

    def __init__(
        self, n_components: float | None = None, *, alpha: float = 1.0, target: str = "classes",
        standardize: bool = False, center: bool = False, precision: str = "single", solver: str = "auto",
        class_weight: ClassWeight = None, missing: str = "refuse",
    ) -> None:  # fmt: skip
        super().__init__(
            n_components, target=target, standardize=standardize, center=center, precision=precision, solver=solver,
            class_weight=class_weight, missing=missing,
        )  # fmt: skip
        self.alpha = alpha

    def needs(self) -> Needs:
        return Needs(full_scatter=("ridge",))

    def _solve(self, statistics: Statistics) -> Solution:
        moments, problem = statistics.moments, regression_of(statistics.moments)
        n_classes = int(np.count_nonzero(moments.counts))
        most = n_classes - 1 if moments.targets is None else len(moments.targets.names)
        limit = class_limit(n_classes) if moments.targets is None else f"the number of targets, {most}"
        penalty, by_column = self.alpha / moments.total, statistics.basis is None
        coefficients, errors = _solved(problem.scatter, problem.cross, penalty, statistics.epsilon, by_column)
        values, turn = np.linalg.eigh(coefficients.T @ problem.scatter @ coefficients)
        values, turn = values[::-1], turn[:, ::-1]
        total = problem.target_squares
        kept = values > max(errors**2 * total, 10 * len(values) * EPS * values[0])
        kept[self._at_most(min(most, statistics.n_features)) :] = False
        components = statistics.loadings(coefficients @ turn[:, kept])
        relative = np.full(len(components), errors)
        return Solution.of_directions(components, values[kept], relative, total, limit)


def _solved(
    scatter: NDArray[np.float64], cross: NDArray[np.float64], ridge: float, epsilon: float, by_column: bool
) -> tuple[NDArray[np.float64], float]:
    """Return (S + ridge I)^-1 A, and the relative rounding error that errors ``epsilon`` in S cause.

    Errors are relative to the lengths of two columns (``by_column``), so that it is columns of equal length that must
    not depend on each other; or else to the trace. Raises InputError where the matrix to divide by is singular.
    """
    divisor = scatter.copy()
    divisor[np.diag_indices_from(divisor)] += ridge
    sizes = np.diagonal(divisor) if by_column else np.full(len(divisor), max(float(np.trace(divisor)), TINY))
    units = 1 / np.sqrt(np.maximum(sizes, TINY))
    divisor *= units[:, None] * units
    norm = float(np.abs(divisor).sum(axis=0).max(initial=0.0))
    factor, failed = scipy.linalg.lapack.dpotrf(divisor, lower=1)
    share = 0.0 if failed else norm * float(scipy.linalg.lapack.dpocon(factor, norm, uplo="L")[0])
    if not share > epsilon:
        raise InputError(
            "The scatter of the rows is singular up to rounding, so that coefficients are not determined: raise alpha."
        )
    solved = scipy.linalg.cho_solve((factor, True), cross * units[:, None], check_finite=False)
    return solved * units[:, None], epsilon / share


METHOD = Method(
    "ridge",
    "Ridge",
    "regressions",
    "coefficients of a ridge regression onto the classes",
    BETWEEN_CLASSES,
    RidgeDirections,
    settable=("alpha",),
    orthonormal=False,
    ordered=False,
    values="variance of the fitted values along each component",
    shares="variance of the class indicators, or of the numbers to predict, explained",
)
