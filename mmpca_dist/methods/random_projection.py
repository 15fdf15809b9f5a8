"""Random projection as a scikit-learn estimator."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.eigen.dense import fix_signs
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.methods.base.registry import Method
from mmpca_dist.methods.base.solution import Solution
from mmpca_dist.methods.base.traits import Option, Traits
from mmpca_dist.statistics.class_weights import ClassWeight
from mmpca_dist.statistics.scatters import total_scatter
from mmpca_dist.statistics.working_statistics import Statistics


class RandomProjection(MomentReducer):
    """Random orthonormal directions, which see nothing of the rows but how many columns they have.

    ``transform`` multiplies by sqrt(n_features / K), so that squared distances are kept on average. Parameters that are
    not listed are as in ``MarginPCA``, and so are the other attributes.

    Parameters
    ----------
    n_components : int or float, optional
        By default as many as columns, which only turns the rows.
    seed : int
        The same seed gives the same directions for the same number of columns; those for a smaller K are the first
        ones for a larger K, up to rounding.
    solver : {"auto", "dense", "dual", "krylov", "arpack"}
        How the rows are summed up, for their mean and variances; no matter for the components.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        Orthonormal: without the factor sqrt(n_features / K), which ``transform`` applies.
    eigenvalues_ : array of shape (K,)
        Variance of the rows along each component; NaN where no scatter was formed.
    residuals_ : array of shape (K,)
        NaN: the components are no eigenvectors.

    References
    ----------
    STAT 841, random projection; Dasgupta & Gupta 2003, "An elementary proof of a theorem of Johnson and Lindenstrauss",
    Random Structures & Algorithms 22.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mmpca_dist import RandomProjection
    >>> X, y = load_digits(return_X_y=True)
    >>> RandomProjection(n_components=8).fit(X, y).components_.shape
    (8, 64)
    """

    traits = Traits({"seed": Option(ge=0, example=1, description="Seed of the directions")}, ignores_labels=True)

    def __init__(
        self, n_components: float | None = None, *, seed: int = 0,
        standardize: bool = False, center: bool = False, precision: str = "single", solver: str = "auto",
        class_weight: ClassWeight = None, missing: str = "refuse",
    ) -> None:  # fmt: skip
        super().__init__(
            n_components, standardize=standardize, center=center, precision=precision, solver=solver,
            class_weight=class_weight, missing=missing,
        )  # fmt: skip
        self.seed = seed

    def needs(self) -> Needs:
        return Needs(scatters=frozenset())

    def _solve(self, statistics: Statistics) -> Solution:
        d = statistics.n_features
        components = random_directions(self._at_most(d), d, self.seed)
        values, total = _variances(statistics, components)
        return Solution.of_directions(
            components, values, np.zeros(len(components)), total, f"the number of columns, {d}"
        )

    @property
    def gain_(self) -> float:  # type: ignore[override]
        return float(np.sqrt(self.components_.shape[1] / len(self.components_)))


def random_directions(n_components: int, n_features: int, seed: int) -> NDArray[np.float64]:
    """Return random orthonormal rows, shape (K, d): Gaussian rows, orthonormalised in order."""
    rows = np.random.default_rng(seed).standard_normal((n_components, n_features))
    basis, _ = np.linalg.qr(rows.T)
    return fix_signs(np.ascontiguousarray(basis.T))


def _variances(statistics: Statistics, components: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return the variance of the rows along components, and in all, where a scatter is known as a whole."""
    if statistics.approximation is not None:
        return np.full(len(components), np.nan), float("nan")
    scatter = total_scatter(statistics.moments).dense(statistics.moments)
    along = statistics.coordinates(components.T)
    return np.einsum("ij,ij->j", along, scatter @ along), float(np.trace(scatter))


METHOD = Method(
    "random-projection",
    "Random projection",
    "baselines",
    "nothing in particular: random orthonormal directions, times sqrt(d / K)",
    "d",
    RandomProjection,
    settable=("seed",),
    ordered=False,
    values="variance of the rows along each component",
    shares="variance",
)
