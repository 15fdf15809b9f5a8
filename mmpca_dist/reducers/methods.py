"""The methods by their public names: the one registry that runs, reports and the command line choose from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mmpca_dist.reducers.base import MomentReducer
from mmpca_dist.reducers.margin import MarginPCA
from mmpca_dist.reducers.random import RandomProjection
from mmpca_dist.reducers.regressions import PLS, RidgeDirections
from mmpca_dist.reducers.selections import FisherScore, LassoSelection
from mmpca_dist.reducers.supervised import LOL, FisherDiscriminant, SupervisedPCA


@dataclass(frozen=True)
class Method:
    """A method: the estimator it is, and how that is set.

    Attributes
    ----------
    title : str
        Its name in reports.
    keeps, limit : str
        In words: what its components keep, and how many there are at most of n rows with d features.
    estimator : type of MomentReducer
    options : dict
        Parameters that make the estimator this method.
    settings : tuple of str
        Parameters it takes from a run's settings, beside those that all methods take.
    orthonormal, ordered : bool
        Whether its components are orthonormal, and whether they are eigenvectors by decreasing eigenvalue.
    values : str
        What stands in place of eigenvalues where there are none, in words.
    """

    title: str
    keeps: str
    limit: str
    estimator: type[MomentReducer]
    options: dict[str, Any] = field(default_factory=dict)
    settings: tuple[str, ...] = ()
    orthonormal: bool = True
    ordered: bool = True
    values: str = ""

    @property
    def needs_medians(self) -> bool:
        """Whether class moments do not suffice."""
        return self.estimator(**self.options)._needs_medians

    @property
    def needs_pairs(self) -> bool:
        """Whether nearest rows of other classes are needed."""
        return self.estimator(**self.options)._pair_search() is not None

    @property
    def scatters(self) -> frozenset[str]:
        """Which weighted class scatters it is made from; see ``solvers.passes``."""
        return self.estimator(**self.options)._scatters

    def reducer(self, n_components: int | None, settings: Any) -> MomentReducer:
        """Return the estimator, with what it takes from ``settings`` (a run's configuration)."""
        taken = {name: getattr(settings, name) for name in ("standardize", "precision", *self.settings)}
        return self.estimator(n_components=n_components, **self.options, **taken)


FULL_RANK, BETWEEN = "min(d, n - 1)", "classes - 1"


def _margin(variant: str, title: str, keeps: str, limit: str = FULL_RANK) -> Method:
    return Method(title, keeps, limit, MarginPCA, {"variant": variant}, ("pairing",))


METHODS: dict[str, Method] = {
    "pca": _margin("pca", "PCA", "differences of rows from the mean"),
    "m-pca0": _margin("m-pca0", "M-PCA0", "differences of all pairs of rows of different classes"),
    "m-pca1a": _margin("m-pca1a", "M-PCA1a", "differences of rows from the mean of the other classes"),
    "m-pca1b": _margin(
        "m-pca1b",
        "M-PCA1b",
        "differences of rows from the coordinate-wise median of the other classes",
        "min(d, n)",
    ),
    "m-pca2": Method(
        "M-PCA2",
        "differences of rows from the nearest row of the other classes (needs a search)",
        FULL_RANK,
        MarginPCA,
        {"variant": "m-pca2"},
        ("pairing", "search", "recall", "max_queries", "mutual"),
    ),
    "fisher": Method(
        "Fisher discriminant",
        "scatter between classes over scatter within",
        BETWEEN,
        FisherDiscriminant,
        settings=("shrinkage",),
        orthonormal=False,
    ),
    "hsic": Method("Supervised PCA (HSIC)", "dependence on the class (supervised PCA)", BETWEEN, SupervisedPCA),
    "lol": Method(
        "LOL",
        "mean differences, then scatter within classes",
        FULL_RANK,
        LOL,
        ordered=False,
        values="scatter within the classes along each component",
    ),
    "pls": Method(
        "PLS",
        "covariance with the classes, one direction after the other (partial least squares)",
        FULL_RANK,
        PLS,
        orthonormal=False,
        ordered=False,
        values="variance of the class indicators that each component explains",
    ),
    "ridge": Method(
        "Ridge",
        "coefficients of a ridge regression onto the classes",
        BETWEEN,
        RidgeDirections,
        settings=("alpha",),
        orthonormal=False,
        ordered=False,
        values="variance of the values fitted to the class indicators along each component",
    ),
    "lasso": Method(
        "Lasso",
        "single columns: those of the first point of the lasso's path with so many",
        "min(d, n - 1) for each class",
        LassoSelection,
        ordered=False,
        values="penalties below which the columns came in",
    ),
    "fisher-score": Method(
        "Fisher score",
        "single columns: those whose class means differ most for their spread",
        "d",
        FisherScore,
        ordered=False,
        values="scores of the columns",
    ),
    "random-projection": Method(
        "Random projection",
        "nothing in particular: random orthonormal directions, times sqrt(d / K)",
        "d",
        RandomProjection,
        settings=("seed",),
        ordered=False,
        values="variance of the rows along each component",
    ),
}
