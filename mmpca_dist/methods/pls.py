"""Partial least squares onto the classes, or onto numbers, as a scikit-learn estimator."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mmpca_dist.eigen.needs import Needs
from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.registry import FULL_RANK, Method
from mmpca_dist.methods.base.solution import Solution, rank_limit
from mmpca_dist.methods.base.target_reducer import TargetReducer
from mmpca_dist.methods.base.traits import Option
from mmpca_dist.statistics.class_weights import ClassWeight
from mmpca_dist.statistics.scatters import regression_of
from mmpca_dist.statistics.working_statistics import EPS, Statistics


class PLS(TargetReducer):
    """Directions of largest covariance with the target, one after the other: partial least squares.

    The components are ``x_rotations_`` of scikit-learn's ``PLSRegression(scale=False)`` for an indicator of each class,
    up to their signs. For two classes one column of -1 and +1 is used; two indicators give the same components.
    Parameters that are not listed are as in ``MarginPCA``, and so are the other attributes.

    Parameters
    ----------
    n_components : int or float, optional
        By default all there are.
    orthogonal : int
        So many directions of the rows that tell nothing of the target are removed first (OPLS): what is said of
        variance and covariance is then of the rows without them. ``transform`` takes rows as they are.
    target : {"classes", "continuous"}
        What y holds: labels, or numbers of shape (n,) or (n, q).
    precision : {"single", "double"}
        As in ``MarginPCA``. No matter for continuous targets, whose products are always double.
    center : bool
        Subtract the mean in ``transform``, which then returns the scores X R; else V^T x, as the other methods.
    solver : {"auto", "dense", "dual"}
        As in ``MarginPCA``. The whole scatter is needed: there is no solver in passes.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        Rows of R^T; not orthonormal, so ``inverse_transform`` goes by the pseudo-inverse. The loading of largest
        magnitude is positive.
    eigenvalues_ : array of shape (K,)
        Variance of the targets that each component explains; not sorted. ``total_`` is all of it.
    vip_ : array of shape (n_features,)
        Importance of each column in the projection: its mean square over columns is 1.
    residuals_ : array of shape (K,)
        NaN: the components are no eigenvectors.
    classes_ : array of shape (C,)
        Only of classes.
    moments_ : ClassMoments
        Moments of all rows so far, which ``partial_fit`` extends.

    References
    ----------
    Dayal & MacGregor 1997, "Improved PLS algorithms", Journal of Chemometrics 11, the second kernel
    algorithm. Wold, Johansson & Cocchi 1993, "PLS: partial least squares projections to latent structures". Trygg &
    Wold 2002, "Orthogonal projections to latent structures (O-PLS)", Journal of Chemometrics 16.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mmpca_dist import PLS
    >>> X, y = load_digits(return_X_y=True)
    >>> PLS(n_components=12).fit(X, y).components_.shape
    (12, 64)

    >>> from sklearn.datasets import load_diabetes
    >>> X, progression = load_diabetes(return_X_y=True)
    >>> PLS(n_components=3, target="continuous").fit(X, progression).components_.shape
    (3, 10)
    """

    traits = TargetReducer.traits.extended(
        {
            "orthogonal": Option(
                ge=0, example=2, description="Directions that tell nothing of the target to remove first"
            )
        }
    )

    def __init__(
        self, n_components: float | None = None, *, orthogonal: int = 0, target: str = "classes",
        standardize: bool = False, center: bool = False, precision: str = "single", solver: str = "auto",
        class_weight: ClassWeight = None, missing: str = "refuse",
    ) -> None:  # fmt: skip
        super().__init__(
            n_components, target=target, standardize=standardize, center=center, precision=precision, solver=solver,
            class_weight=class_weight, missing=missing,
        )  # fmt: skip
        self.orthogonal = orthogonal

    def needs(self) -> Needs:
        return Needs(full_scatter=("pls",))

    @property
    def vip_(self) -> NDArray[np.float64]:
        """Importance of each column, shape (n_features,): root of d sum_k s_k w_jk^2 / sum_k s_k, s_k explained."""
        check_is_fitted(self, "components_")
        if self.orthogonal:
            raise InputError("vip_ is for orthogonal=0: directions that were removed explain columns, too.")
        # Weights are orthonormal, and rotations a triangular map of them.
        weights = scipy.linalg.qr(self.components_.T, mode="economic")[0]
        return np.sqrt(len(weights) * (weights**2 @ self.eigenvalues_) / self.eigenvalues_.sum())

    def _solve(self, statistics: Statistics) -> Solution:
        moments, problem = statistics.moments, regression_of(statistics.moments)
        total, largest = problem.target_squares, min(statistics.n_features, moments.n_rows - 1)
        scatter, removed = without_orthogonal(problem.scatter, problem.cross, self.orthogonal, statistics.epsilon)
        products = (scatter, problem.cross, total)
        rotations, explained, errors = kernel_pls(*products, self._at_most(largest), statistics.epsilon)
        for weights, loadings in reversed(removed):
            rotations = rotations - np.outer(weights, loadings @ rotations)
        return Solution.of_directions(statistics.loadings(rotations), explained, errors, total, rank_limit(largest))


def without_orthogonal(
    scatter: NDArray[np.float64], cross: NDArray[np.float64], count: int, epsilon: float
) -> tuple[NDArray[np.float64], list[tuple[NDArray[np.float64], NDArray[np.float64]]]]:
    """Remove directions of the rows X that are orthogonal to the targets Y from X^T X, shape (d, d).

    Returns what is left, and the weights w and loadings p, shape (d,), of each direction: X (I - w p^T) is left of X.
    Each has the largest covariance with what X^T Y spans, among those orthogonal to it; fewer than asked for where
    others are rounding errors. Source: Trygg & Wold 2002, section 2.
    """
    removed: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    epsilon = max(epsilon, 10 * len(scatter) * EPS)
    left, values, _ = scipy.linalg.svd(cross, full_matrices=False)
    span = left[:, values > epsilon * values[0]]  # of one target its weights alone
    floor = epsilon * float(np.trace(scatter))
    for _ in range(count):
        beside = scatter @ span
        for _ in range(2):  # the second time takes out what rounding left of the first
            beside -= span @ (span.T @ beside)
        if not np.linalg.norm(beside) > floor:
            break
        weights = _leading_direction(beside)
        image = scatter @ weights
        if not (square := float(weights @ image)) > floor:
            break
        removed.append((weights, image / square))
        scatter = scatter - np.outer(image, image) / square
    return scatter, removed


def kernel_pls(
    scatter: NDArray[np.float64], cross: NDArray[np.float64], target_squares: float, n_components: int, epsilon: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Solve partial least squares from X^T X and X^T Y alone.

    Parameters
    ----------
    scatter : array of shape (d, d)
        X^T X of centred rows.
    cross : array of shape (d, q)
        X^T Y with centred targets.
    target_squares : float
        Trace of Y^T Y.
    epsilon : float
        Relative rounding error of the products: of their entry i, j over the lengths of columns i and j.

    Returns
    -------
    rotations : array of shape (d, K)
        R = W (P^T W)^-1, with weights W of length one and loadings P: the scores are X R. Fewer than asked for where
        the others are rounding errors.
    explained : array of shape (K,)
        Sum of squares of the targets that each score explains.
    relative_errors : array of shape (K,)
        What rounding of the products may be, over what the component comes from. At 1 nothing of it is known.
    """
    d = len(scatter)
    total, epsilon = float(np.trace(scatter)), max(epsilon, 10 * d * EPS)
    loadings, rotations = np.empty((0, d)), np.empty((0, d))
    explained: list[float] = []
    errors: list[float] = []
    cross = cross.copy()
    noise = epsilon * np.sqrt(total * target_squares)
    while len(rotations) < min(n_components, d):
        size = float(np.linalg.norm(cross))
        if not size > noise:
            break
        rotation = _leading_direction(cross)
        for _ in range(2):  # the second time takes out what rounding left of the first
            rotation = rotation - (loadings @ rotation) @ rotations
        image = scatter @ rotation
        square, length = float(rotation @ image), float(np.linalg.norm(rotation))
        floor = epsilon * total * length**2
        if not square > floor:
            break
        slopes = cross.T @ rotation / square
        cross -= np.outer(image, slopes)
        loadings = np.concatenate([loadings, image[None] / square])
        rotations = np.concatenate([rotations, rotation[None]])
        explained.append(square * float(slopes @ slopes))
        errors.append(max(noise / size, floor / square))
        noise += epsilon * total * length * float(np.linalg.norm(slopes))
    return rotations.T, np.asarray(explained), np.asarray(errors)


def _leading_direction(cross: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the leading left singular vector, shape (d,): that of the largest covariance with the targets."""
    if cross.shape[1] == 1:
        return cross[:, 0] / np.linalg.norm(cross)
    left, _, _ = scipy.linalg.svd(cross, full_matrices=False, check_finite=False)
    return np.ascontiguousarray(left[:, 0])


METHOD = Method(
    "pls",
    "PLS",
    "regressions",
    "covariance with the classes, one direction after the other (partial least squares)",
    FULL_RANK,
    PLS,
    orthonormal=False,
    ordered=False,
    values="variance of the targets that each component explains",
    shares="variance of the class indicators, or of the numbers to predict, explained",
    settable=("orthogonal",),
)
