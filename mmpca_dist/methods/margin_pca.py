"""``MarginPCA``: PCA of the differences between classes.

Every variant is the PCA of difference rows, whose mean outer product is a weighted sum of class scatters G_c and of
outer products of differences D of class means m_c, or medians:

=========  ==================================  ===========  =========================  =============
variant    its difference rows                 w_c          b_c, on D_c = m_c - m      divided by
=========  ==================================  ===========  =========================  =============
pca        rows minus the overall mean         1            n_c                        n
m-pca0     all pairs of different classes      n - n_c      n n_c                      their number
m-pca1a    rows minus the mean of the others   1            n_c n^2 / (n - n_c)^2      n
m-pca1b    rows minus the median of the        1            n_c, on m_c - median       n
           others
=========  ==================================  ===========  =========================  =============

"Others" are the rows of all other classes (``one-vs-rest``), or each other class in turn (``one-vs-one``). M-PCA2 takes
the differences to nearest rows of other classes, which are searched for.

Source: Luo & Durrant 2017, section 3, for two classes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.eigen.certificate import certify, ritz_pairs
from mmpca_dist.eigen.dense import leading_eigenpairs
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.errors import InputError, did_you_mean
from mmpca_dist.methods.base.reducer import BlockReducer
from mmpca_dist.methods.base.registry import FULL_RANK, Method
from mmpca_dist.methods.base.shrinkage import Moments
from mmpca_dist.methods.base.solution import Solution
from mmpca_dist.methods.base.traits import Option, Traits
from mmpca_dist.neighbors.options import Search
from mmpca_dist.statistics.approximation import Approximation
from mmpca_dist.statistics.class_weights import ClassWeight
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.pair_scatter import PairScatter
from mmpca_dist.statistics.scatters import (
    ClassWeighting,
    WeightedScatter,
    all_pairs_scatter,
    at_least_two,
    full_rank,
    less_others,
    total_scatter,
)
from mmpca_dist.statistics.working_statistics import Statistics, SubspaceStatistics

PAIRED = "m-pca2"
FOLLOWING = 48
"""Eigenvalues after the last that the uncertainty of a subspace is judged by."""


class MarginPCA(BlockReducer):
    """Leading eigenvectors of the scatter of margin rows: differences that lead from one class to the others.

    Parameters
    ----------
    n_components : int or float, optional
        Number of components K, or the share of all eigenvalues that they are to hold, such as 0.95; by default all
        whose eigenvalue is not zero.
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
        Precision of the products of rows; their sums are double either way.
    solver : {"auto", "dense", "dual", "krylov", "arpack"}
        How eigenvectors are found: from d x d scatters; in the span of fewer rows than columns; or, for many columns,
        from passes that apply the scatters to a block of vectors and never form them. ``auto`` goes by the shape.
    class_weight : {None, "balanced"} or dict
        Weight of each class, by label; others count once. ``balanced`` lets classes count alike.
    missing : {"refuse", "mean"}
        Whether rows may lack values (NaN), for which the mean of the column stands.
    oversampling, passes, tolerance : int, int, float
        For solvers in passes: vectors beyond ``n_components``, passes over the rows at most, and the residual over
        eigenvalue at which they end before.

    Attributes
    ----------
    components_ : array of shape (K, n_features)
        Orthonormal; the loading of largest magnitude is positive.
    eigenvalues_ : array of shape (K,)
        Eigenvalues of the mean outer product of the difference rows, decreasing.
    total_, limit_reason_ : float, str
        Sum of all eigenvalues, NaN where it is not known; what bounds the number of components.
    explained_variance_, explained_variance_ratio_, singular_values_ : arrays of shape (K,)
        As of scikit-learn's PCA, for ``pca`` alone: other components do not diagonalise the total scatter.
    n_components_, n_samples_ : int, float
        K, and the sum of the weights of the rows.
    residuals_ : array of shape (K,)
        Norm of S v - l v.
    imprecise_ : bool array of shape (K,)
        Components within a hundredfold of the rounding floor.
    certificate_ : dict
        From solvers in passes: how many components are proved to be the leading ones, and bounds. For ``m-pca2``: the
        share of neighbours proved exact, the recall measured, what the search cost, and the standard errors from
        searching for some rows only.
    mean_, scale_ : array of shape (n_features,)
        Of the rows; ``scale_`` is None without ``standardize``.
    classes_ : array of shape (C,)
    moments_ : ClassMoments
        Moments of rows so far; ``partial_fit`` extends them. See ``fit`` for where they are not kept. ``m-pca1b`` has
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

    traits = Traits({
        "pairing": Option(
            example="one-vs-one",
            description="Whether a row is compared with the rows of all other classes together, or of each other class "
            "separately",
        ),
        "search": Option(
            example="approximate",
            description="Whether all nearest rows are found, proved, or most of them, measured, sooner",
        ),
        "recall": Option(
            gt=0,
            lt=1,
            values="a number between 0 and 1",
            example=0.95,
            description="Share of nearest rows that an approximate search aims at",
        ),
        "max_queries": Option(
            ge=2, example=100_000, description="Search for so many rows only, drawn with a fixed seed"
        ),
        "mutual": Option(example="once", description="How often a pair counts whose rows are each other's nearest"),
    })  # fmt: skip

    def __init__(
        self, n_components: float | None = None, variant: str = "m-pca0", *,
        pairing: Literal["one-vs-rest", "one-vs-one"] = "one-vs-rest",
        search: Literal["exact", "approximate"] = "exact", recall: float = 0.98, max_queries: int | None = None,
        mutual: Literal["twice", "once"] = "twice", scratch: str | None = None,
        standardize: bool = False, center: bool = False, precision: str = "single", solver: str = "auto",
        class_weight: ClassWeight = None, missing: str = "refuse",
        oversampling: int = 10, passes: int = 4, tolerance: float = 1e-4,
    ) -> None:  # fmt: skip
        super().__init__(
            n_components, standardize=standardize, center=center, precision=precision, solver=solver,
            class_weight=class_weight, missing=missing, oversampling=oversampling, passes=passes, tolerance=tolerance,
        )  # fmt: skip
        self.variant, self.pairing, self.mutual, self.scratch = variant, pairing, mutual, scratch
        self.search, self.recall, self.max_queries = search, recall, max_queries

    @classmethod
    def from_moments(  # type: ignore[override]
        cls,
        moments: Moments,
        variant: str = "m-pca0",
        n_components: float | None = None,
        *,
        medians: NDArray | None = None,
        **parameters: Any,
    ) -> Self:
        """Return the reducer that follows from stored class moments, with no look at the rows.

        Parameters
        ----------
        moments : ClassMoments or CellMoments
        medians : array of shape (C, d), optional
            For ``m-pca1b``: the medians of the rows not of each class.
        """
        reducer = cls(n_components=n_components, variant=variant, **parameters)
        return reducer.fit_moments(moments, {} if medians is None else {reducer.pairing: medians})

    def _solve(self, statistics: Statistics) -> Solution:
        if self.variant == PAIRED:
            return self._solve_pairs(statistics)
        if self.variant == "m-pca0" and isinstance(statistics, SubspaceStatistics) and statistics.weighted is not None:
            statistics = statistics.weighted
        scatter = margin_scatter(self.variant, statistics.moments, statistics.medians.get(self.pairing), self.pairing)
        bound = "min(n_features, n_samples)" if self.variant == "m-pca1b" else "min(n_features, n_samples - 1)"
        largest = min(statistics.n_features, statistics.moments.n_rows - (self.variant != "m-pca1b"))
        pairs = ritz_pairs(statistics, scatter, self._at_most(scatter.max_rank))
        certificate = certify(statistics, scatter, pairs)
        limit = f"the rank of its scatter, at most {bound} = {largest}"
        return Solution.of_pairs(statistics, pairs, limit, certificate)

    def _solve_pairs(self, statistics: Statistics) -> Solution:
        """Return the leading eigenvectors of the mean outer product of differences to the nearest row."""
        pairs = statistics.pairs.get(self._search())
        if pairs is None:
            raise InputError("m-pca2 needs the nearest rows of other classes: class moments do not suffice.")
        size = statistics.moments.n_features if pairs.basis is None else pairs.basis.shape[1]
        largest = min(size, statistics.n_features, pairs.n_pairs)
        count = self._at_most(largest)
        # More than asked for: the gaps behind the last tell how certain the subspace is.
        proved = {}
        if pairs.approximation is None:
            leading = leading_eigenpairs(pairs.mean_outer_product(), count + FOLLOWING, statistics.unit)
        else:
            statistics, scatter = _of_pairs(statistics, pairs, pairs.approximation)
            leading = ritz_pairs(statistics, scatter, count + FOLLOWING)
            proved = {"solver": certify(statistics, scatter, leading.leading(count))}
        solved, vectors = leading.leading(count), statistics.loadings(leading.vectors)
        spectrum = (vectors, leading.values, len(solved.values))
        errors = {"sampling_error": pairs.sampling_error(*spectrum), "recall_angle": pairs.recall_error(*spectrum)}
        limit = f"the rank of its scatter, at most min(n_features, pairs) = {largest}"
        return Solution.of_pairs(statistics, solved, limit, {**pairs.certificate, **errors, **proved})

    @property
    def serves_targets(self) -> bool:
        return self.variant == "pca"

    @property
    def needs_no_labels(self) -> bool:
        return self.variant == "pca"

    @property
    def _diagonal(self) -> bool:
        return self.variant == "pca"

    def needs(self) -> Needs:
        if self.variant == PAIRED:
            return Needs(scatters=frozenset(), searches=(self._search(),))
        return Needs(
            scatters=frozenset({ClassWeighting.OTHERS if self.variant == "m-pca0" else ClassWeighting.EQUAL}),
            own=self.variant in ("pca", "m-pca0"),
            medians=(self.pairing,) if self.variant == "m-pca1b" else (),
        )

    def _search(self) -> Search:
        """Return how nearest rows of other classes are searched for."""
        return Search(self.search, self.recall, self.max_queries, self.pairing, self.mutual)

    def check_parameters(self) -> None:
        if self.variant not in VARIANTS:
            raise InputError(
                f"Unknown variant {self.variant!r}; there are {', '.join(VARIANTS)}."
                f"{did_you_mean(str(self.variant), VARIANTS)}"
            )
        self._search()
        super().check_parameters()


def margin_scatter(
    variant: str, moments: ClassMoments, medians: NDArray[np.float64] | None = None, pairing: str = "one-vs-rest"
) -> WeightedScatter:
    """Return the scatter of the difference rows of ``pca``, ``m-pca0``, ``m-pca1a`` or ``m-pca1b``.

    ``medians`` (C, d), for ``m-pca1b``, are the coordinate-wise ones of the rows not of each class (``one-vs-rest``) or
    of each class (``one-vs-one``). Raises InputError for fewer than two classes with rows, which ``pca`` does without,
    or medians that are missing.
    """
    if variant == "pca":
        return total_scatter(moments)
    if variant == "m-pca0":
        return all_pairs_scatter(moments)
    if variant == "m-pca1a":
        return _from_means(moments, pairing)
    if medians is None:
        raise InputError("m-pca1b needs the medians of the other classes in addition to the class moments.")
    return _from_medians(moments, medians, pairing)


def _from_means(moments: ClassMoments, pairing: str) -> WeightedScatter:
    """Return the scatter of rows minus the mean of the others."""
    present, counts, n = at_least_two(moments.counts), moments.counts, moments.total
    ones, rank = np.ones(len(counts)), full_rank(moments)
    if pairing == "one-vs-rest":
        return WeightedScatter(ones, less_others(moments), counts, n, rank)
    # As sum_c n_c D_c = 0, the sum over pairs of (n_a + n_b) (m_a - m_b) (m_a - m_b)^T is one over classes.
    times, weights = len(present) - 1, np.where(counts > 0, len(present) * counts + n, 0)
    return WeightedScatter(times * ones, moments.deviations, weights, n * times, rank)


def _from_medians(moments: ClassMoments, medians: NDArray[np.float64], pairing: str) -> WeightedScatter:
    """Return the scatter of rows minus the median of the others.

    The medians lie outside the span of the centred rows: the rank can be one more than that of the other variants.
    """
    present, counts, n = at_least_two(moments.counts), moments.counts, moments.total
    ones, rank = np.ones(len(counts)), min(moments.n_features, moments.n_rows)
    if pairing == "one-vs-rest":
        return WeightedScatter(ones, moments.means - medians, counts, n, rank)
    pairs = [(a, b) for a in present for b in present if a != b]
    offsets = np.stack([moments.means[a] - medians[b] for a, b in pairs])
    others = len(present) - 1
    return WeightedScatter(others * ones, offsets, counts[[a for a, _ in pairs]], n * others, rank)


def _of_pairs(
    statistics: Statistics, pairs: PairScatter, approximation: Approximation
) -> tuple[SubspaceStatistics, WeightedScatter]:
    """Return statistics in the basis of the pairs, and their scatter as one of a single class without offsets."""
    assert pairs.basis is not None  # noqa: S101  (only such pairs come here)
    r, classes = pairs.basis.shape[1], statistics.moments
    n_classes = len(classes.counts)
    moments = replace(
        classes, means=np.zeros((n_classes, r)), scatters=pairs.scatter[None], weights=np.ones((1, n_classes))
    )
    scatter = WeightedScatter(np.ones(n_classes), np.empty((0, r)), np.empty(0), pairs.weight, r)
    nowhere = np.zeros(statistics.n_features)  # differences of rows have the mean of none
    of_pairs = SubspaceStatistics(
        moments=moments,
        medians={},
        mean=nowhere,
        scale=statistics.scale,
        precision=statistics.precision,
        basis=pairs.basis,
        approximation=approximation,
    )
    return of_pairs, scatter


def _variant(name: str, title: str, keeps: str, limit: str = FULL_RANK, **more: Any) -> Method:
    return Method(name, title, "margins", keeps, limit, MarginPCA, {"variant": name}, **more)


METHODS = (
    _variant("pca", "PCA", "differences of rows from the mean", reference=True),
    _variant("m-pca0", "M-PCA0", "differences of all pairs of rows of different classes"),
    _variant("m-pca1a", "M-PCA1a", "differences of rows from the mean of the other classes", settable=("pairing",)),
    _variant(
        "m-pca1b",
        "M-PCA1b",
        "differences of rows from the coordinate-wise median of the other classes",
        "min(d, n)",
        settable=("pairing",),
    ),
    _variant(
        "m-pca2",
        "M-PCA2",
        "differences of rows from the nearest row of the other classes (needs a search)",
        settable=("pairing", "search", "recall", "max_queries", "mutual"),
    ),
)
VARIANTS = tuple(method.name for method in METHODS)
