"""``MarginPCA``: PCA of the differences between classes."""

from __future__ import annotations

from typing import Any, Self

from numpy.typing import NDArray

from mmpca_dist.errors import InputError, did_you_mean
from mmpca_dist.neighbors.options import PairSearch, Search
from mmpca_dist.reducers.base import MomentReducer
from mmpca_dist.reducers.solving import Solution, solve_margin, solve_pairs
from mmpca_dist.scatters import SCATTERS
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.working import Statistics

PAIRED = "m-pca2"
VARIANTS = (*SCATTERS, PAIRED)


class MarginPCA(MomentReducer):
    """Leading eigenvectors of the scatter of margin rows: differences that lead from one class to the others.

    Parameters
    ----------
    n_components : int, optional
        Number of components K; by default all whose eigenvalue is not zero.
    variant : {"m-pca0", "m-pca1a", "m-pca1b", "m-pca2", "pca"}
        Which differences: all pairs of rows of different classes (exact, at the price of PCA); rows minus the mean
        of the other classes; rows minus their coordinate-wise median; rows minus the nearest row of the other
        classes, which needs a search; or plain PCA.
    pairing : {"one-vs-rest", "one-vs-one"}
        Whether a class faces all others together or one after the other. No matter for ``m-pca0`` and ``pca``, or
        with two classes.
    search : {"exact", "approximate"}
        For ``m-pca2``, how nearest rows are found.
    recall : float
        What an approximate search aims at; ``certificate_`` has what was reached.
    max_queries : int, optional
        Search for so many rows only, drawn with a fixed seed; ``certificate_`` has the standard errors it causes.
    mutual : {"twice", "once"}
        How often a pair counts whose rows are each other's nearest.
    scratch : str, optional
        Folder (path or fsspec URL) for data that does not fit in memory, or that workers of a cluster share; by
        default a temporary folder of this machine.
    standardize : bool
        Divide columns by their standard deviation first; constant columns are left alone.
    center : bool
        Subtract the mean in ``transform``. The paper does not.
    precision : {"single", "double"}
        Of the products of rows; their sums are double either way.
    solver : {"auto", "dense", "dual", "krylov", "subspace", "nystroem"}
        How eigenvectors are found: from d x d scatters; in the span of fewer rows than columns; or, for many columns,
        from passes that apply the scatters to a block of vectors and never form them. ``auto`` goes by the shape.
    oversampling, passes, tolerance : int, int, float
        For solvers in passes: vectors beyond ``n_components``, passes over the rows at most, and the residual over
        eigenvalue at which they end before.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        Orthonormal; the loading of largest magnitude is positive.
    eigenvalues_ : array of shape (K,)
        Of the mean outer product of the difference rows, decreasing.
    residuals_ : array of shape (K,)
        Norm of S v - l v.
    imprecise_ : bool array of shape (K,)
        Components within a hundredfold of the rounding floor.
    certificate_ : dict
        Of solvers in passes: how many components are proved to be the leading ones, and bounds. For ``m-pca2``: the
        share of neighbours proved exact, the recall measured, what the search cost, and the standard errors from
        searching for some rows only.
    mean_ : array of shape (n_features,)
    classes_ : array of shape (C,)
    moments_ : ClassMoments
        Of all rows so far, which ``partial_fit`` extends; see ``fit`` for where they are not kept. ``m-pca1b`` has
        neither: the median of two sets of rows does not follow from their medians.
    n_features_in_ : int

    References
    ----------
    Luo & Durrant 2017, "Maximum Margin Principal Components", section 3.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mmpca_dist import MarginPCA
    >>> X, y = load_iris(return_X_y=True)
    >>> MarginPCA(n_components=2, variant="m-pca1a").fit(X, y).transform(X).shape
    (150, 2)
    """

    def __init__(
        self,
        n_components: int | None = None,
        variant: str = "m-pca0",
        *,
        pairing: str = "one-vs-rest",
        standardize: bool = False,
        center: bool = False,
        precision: str = "single",
        solver: str = "auto",
        oversampling: int = 10,
        passes: int = 4,
        tolerance: float = 1e-4,
        search: str = "exact",
        recall: float = 0.98,
        max_queries: int | None = None,
        mutual: str = "twice",
        scratch: str | None = None,
    ) -> None:
        self.n_components = n_components
        self.variant = variant
        self.pairing = pairing
        self.standardize = standardize
        self.center = center
        self.precision = precision
        self.solver = solver
        self.oversampling = oversampling
        self.passes = passes
        self.tolerance = tolerance
        self.search = search
        self.recall = recall
        self.max_queries = max_queries
        self.mutual = mutual
        self.scratch = scratch

    @classmethod
    def from_moments(
        cls,
        moments: ClassMoments,
        variant: str = "m-pca0",
        n_components: int | None = None,
        *,
        medians: NDArray | None = None,
        **parameters: Any,
    ) -> Self:
        """Return the reducer that follows from stored class moments, with no look at the rows.

        Parameters
        ----------
        moments : ClassMoments
        medians : array of shape (C, d), optional
            For ``m-pca1b``: the medians of the rows not of each class.
        """
        return cls._from_moments(moments, medians, n_components=n_components, variant=variant, **parameters)

    def _solve(self, statistics: Statistics, n_components: int | None) -> Solution:
        if self.variant == PAIRED:
            return solve_pairs(statistics, n_components)
        return solve_margin(statistics, n_components, variant=self.variant, pairing=self.pairing)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.variant not in VARIANTS:
            raise InputError(
                f"Unknown variant {self.variant!r}; there are {', '.join(VARIANTS)}."
                f"{did_you_mean(str(self.variant), VARIANTS)}"
            )
        self._pair_search()

    def _pair_search(self) -> PairSearch | None:
        if self.variant != PAIRED:
            return None
        return PairSearch(Search(self.search, self.recall, self.max_queries, self.pairing), self.mutual)

    @property
    def _scratch(self) -> str | None:  # type: ignore[override]
        return self.scratch

    @property
    def _needs_medians(self) -> bool:  # type: ignore[override]
        return self.variant == "m-pca1b"

    @property
    def _scatters(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset({{PAIRED: "pairs", "m-pca0": "weighted"}.get(self.variant, "plain")})
