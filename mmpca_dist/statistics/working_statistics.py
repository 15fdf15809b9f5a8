"""The statistics from which every method is solved, in coordinates of few dimensions.

The coordinates of tall data are the columns. Rows that are fewer than their columns are expressed in an orthonormal
basis of their span, and of the medians, which lie outside it. Every scatter maps that space into itself, so the problem
shrinks from d x d to at most (n + C) x (n + C), and no d x d matrix is ever made.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.blas import combinations, products
from mmpca_dist.errors import InputError
from mmpca_dist.passes.serialization import storable
from mmpca_dist.statistics.adjustment import Adjustment, lost_columns, make_constant
from mmpca_dist.statistics.approximation import Approximation
from mmpca_dist.statistics.class_weights import ClassWeight, class_factors
from mmpca_dist.statistics.column_units import ROUNDING, standard_deviations, weighted_mean
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.pair_scatter import PairScatter
from mmpca_dist.statistics.precision import refuse_vanished, work_type
from mmpca_dist.statistics.widening import effective_precision

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True)
class _WorkingStatistics(ABC):
    """Class moments and medians in working coordinates, and the way back to the columns.

    A row x has working coordinates ``((x - origin) / scale) @ basis``.
    """

    moments: ClassMoments  # in r working coordinates
    # by pairing, (C, r), in working coordinates: medians of the other classes together (one-vs-rest), or of each class
    medians: Mapping[str, NDArray[np.float64]]
    mean: NDArray[np.float64]  # (d,): mean of the rows in their own units
    # (d,): standard deviations that the columns are divided by, where the methods work on standardised rows
    scale: NDArray[np.float64] | None
    precision: str  # "single" or "double": that of the products behind the moments
    # scatters of nearest rows of different classes, by how these were searched for
    pairs: Mapping[Any, PairScatter] = field(default_factory=dict)
    # fits by sweeps, by need and number of components as asked for
    fits: Mapping[tuple[Any, int], Any] = field(default_factory=dict)
    shrinkages: Mapping[Any, float] = field(default_factory=dict)  # those that rows held out choose, by scatter
    adjustment: Adjustment | None = None  # how widened rows come to the columns; None of rows that are not widened
    subtracted: float = 0.0  # squares of what it subtracts, in working units: their rounding errors are in the scatters

    @abstractmethod
    def column_squares(self, class_weights: NDArray) -> NDArray[np.float64]:
        """Return the weighted sum over classes of the columns' squared deviations from class means, in own units."""

    @abstractmethod
    def loadings(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return vectors in working coordinates, shape (r, K), in the columns, shape (K, d)."""

    @abstractmethod
    def coordinates(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return vectors in the columns, shape (d, K), in working coordinates, shape (r, K)."""

    @property
    @abstractmethod
    def _varies(self) -> NDArray[np.bool_]:
        """Whether each column varies, shape (d,)."""

    @abstractmethod
    def _column_means(self) -> NDArray[np.float64]:
        """Return the class means by column in their own units, shape (C, d)."""

    def within_trace(self) -> float:
        """Return the trace of the scatter within classes."""
        return self.moments.trace(np.ones(len(self.moments.counts)))

    @property
    def unweighted(self) -> Self:
        """The same statistics without ``class_weight``, if it can be undone."""
        return self

    @property
    def n_features(self) -> int:
        return len(self.mean)

    @property
    def unit(self) -> float:
        """Relative rounding error of a product of the pass."""
        return float(np.finfo(work_type(self.precision)).eps)

    @property
    def means_error(self) -> float:
        """Scale of the rounding error of class means, a length in working units; zero for rows less their mean.

        A mean is stored as a double, with an error of eps |mean| however little the rows vary; that of a column that
        does not vary at all is exact.
        """
        mean = self.mean if self.scale is None else self.mean / self.scale
        return EPS * float(np.linalg.norm(mean[self._varies]))

    @functools.cached_property
    def epsilon(self) -> float:
        """Scale of the rounding errors of scatters, of products or of differences of means, relative to their trace.

        The latter are off by eps |mean| sqrt(trace). It is no bound: errors several times as large are common.
        """
        counts, deviations = self.moments.counts, self.moments.deviations
        between = float(counts @ np.sum(deviations**2, axis=1))
        squares = self.within_trace() + between
        if not squares > 0:
            return self.unit
        of_products = self.unit * (1 + self.subtracted / squares)
        return max(of_products, self.means_error / np.sqrt(squares / self.moments.total))

    def column_totals(self) -> NDArray[np.float64]:
        """Return the sum of squares of each column about its mean, in its own units, shape (d,)."""
        counts = self.moments.counts
        return self.column_squares(np.ones(len(counts))) + counts @ self.column_deviations() ** 2

    def column_variances(self) -> NDArray[np.float64]:
        """Return the variance of each column in its own units, shape (d,); rounding errors are set to 0."""
        variances = self.column_totals() / self.moments.total
        return np.where(variances > (ROUNDING * self.mean) ** 2, variances, 0.0)

    def column_deviations(self) -> NDArray[np.float64]:
        """Return class means less the mean of all rows, (C, d), in the columns' units; rounding errors are set to 0."""
        means, counts = self._column_means(), self.moments.counts
        mean = weighted_mean(means, counts)
        deviations = np.where((counts > 0)[:, None], means - mean, 0.0)
        return np.where(np.abs(deviations) > ROUNDING * np.abs(mean), deviations, 0.0)


@dataclass(frozen=True, kw_only=True)
class ColumnStatistics(_WorkingStatistics):
    """Statistics whose working coordinates are the (scaled) columns: of no fewer rows than columns."""

    in_columns: ClassMoments  # moments of the rows in their own units
    unadjusted: ClassMoments  # the same without weights of classes, of rows as they are widened
    class_weight: ClassWeight = None
    cells: Any = None  # `CellMoments` of classes and groups, whose classes have the moments above
    basis: ClassVar[None] = None
    approximation: ClassVar[None] = None
    knows_columns: ClassVar[bool] = True

    @property
    def unweighted(self) -> Self:
        if self.class_weight is None:
            return self
        in_columns = self.adjusted(self.unadjusted)
        if self.adjustment is not None:
            # A column may vary in classes without weight alone. The total of pooled scatters is not known.
            squares = in_columns.counts @ in_columns.deviations**2 if in_columns.pooled else in_columns.column_squares()
            lost = lost_columns(squares / in_columns.total, in_columns.mean, self.adjustment, self.unit)
            make_constant(in_columns, lost & ~self.in_columns.varies)
        moments = in_columns if self.scale is None else in_columns.scaled(1 / self.scale)
        return replace(self, moments=moments, in_columns=in_columns, class_weight=None)

    def with_medians(self, medians: Mapping[str, NDArray[np.float64]]) -> Self:
        """Return the same statistics with medians by pairing, (C, d) each, in the columns' own units."""
        scale = 1.0 if self.scale is None else self.scale
        return replace(self, medians={pairing: rows / scale for pairing, rows in medians.items()})

    def adjusted(self, others: ClassMoments) -> ClassMoments:
        """Return the moments of other rows that are widened alike, as these are adjusted."""
        return others if self.adjustment is None else self.adjustment.moments(others)

    @property
    def unmergeable_reason(self) -> str | None:
        """The reason why no more rows can be merged in; None if they can."""
        weights = self.unadjusted.weights
        if weights is None or np.all(weights == 1):
            return None
        return "the scatters of many classes were pooled for the class counts or weights of just these rows"

    def column_squares(self, class_weights: NDArray) -> NDArray[np.float64]:
        return np.diagonal(self.in_columns.scatter(class_weights))

    def loadings(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(self._varies, vectors.T, 0.0)  # times a large constant, rounding errors would count

    def coordinates(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        return columns

    @property
    def _varies(self) -> NDArray[np.bool_]:
        return self.in_columns.varies

    def _column_means(self) -> NDArray[np.float64]:
        return self.in_columns.means


@storable
@dataclass(frozen=True)
class ColumnSums:
    """Sums of d columns in their own units, by C classes."""

    means: NDArray[np.float64]  # (C, d)
    squares: NDArray[np.float64]  # (C, d): sums of squared deviations from the class means


@dataclass(frozen=True, kw_only=True)
class _BasisStatistics(_WorkingStatistics):
    """Statistics whose working coordinates are those in a basis."""

    basis: NDArray  # (d, r): orthonormal columns
    columns: ColumnSums | None = None  # sums of every column by class, for methods that look at one column at a time

    @property
    def knows_columns(self) -> bool:
        """Whether mean and variance of every column are known by class."""
        return self.columns is not None

    def column_squares(self, class_weights: NDArray) -> NDArray[np.float64]:
        return np.asarray(class_weights @ self._known_columns().squares)

    def loadings(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        rows = np.empty((vectors.shape[1], len(self.basis)))
        combinations(self.basis, vectors, out=rows.T)
        return rows

    def coordinates(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        return products(self.basis, columns)

    @property
    def _varies(self) -> NDArray[np.bool_]:
        return np.asarray(self.basis.any(axis=1))

    def _column_means(self) -> NDArray[np.float64]:
        return self._known_columns().means

    def _known_columns(self) -> ColumnSums:
        if self.columns is None:
            raise InputError("These statistics hold no means and variances of single columns. Take them anew.")
        return self.columns


@storable
@dataclass(frozen=True, kw_only=True)
class RowSpaceStatistics(_BasisStatistics):
    """Statistics of rows fewer than their columns. The basis spans all rows and medians, so nothing is lost."""

    approximation: ClassVar[None] = None
    unmergeable_reason: ClassVar[str] = (
        "there were fewer rows than columns, and what is kept of them lives in the space they span"
    )

    @property
    def means_error(self) -> float:
        """Zero: the coordinates are of rows less their mean."""
        return 0.0


@storable
@dataclass(frozen=True, kw_only=True)
class SubspaceStatistics(_BasisStatistics):
    """Statistics from passes that apply scatters to vectors. The basis holds only the leading part of a scatter."""

    approximation: Approximation  # what is known of the scatter beyond the basis
    # the statistics for M-PCA0, whose class weights, and so its basis, differ from those of other methods
    weighted: SubspaceStatistics | None = None
    unmergeable_reason: ClassVar[str] = "its scatters were applied to vectors, pass by pass, and never formed"

    def within_trace(self) -> float:
        moments, trace = self.moments, self.approximation.trace
        return sum(trace / float(weights @ moments.counts / moments.total) for weights in self.class_weights)

    @property
    def class_weights(self) -> NDArray[np.float64]:
        """Class weights of the scatter that passes applied, shape (1, C); of none, (0, C)."""
        assert self.moments.weights is not None  # noqa: S101  (passes apply sums over classes)
        return self.moments.weights


Statistics = ColumnStatistics | RowSpaceStatistics | SubspaceStatistics
"""The statistics that every method is solved from."""


def without_noise(moments: ClassMoments, unit: float, mixed: bool = False) -> ClassMoments:
    """Return moments with equal class means in columns where these differ by rounding errors ``unit`` alone.

    Errors are relative to the spread of the column, or of all, of which the coordinates are ``mixed``.
    """
    deviations, squares = moments.deviations[moments.counts > 0], np.maximum(moments.column_squares(), 0)
    spread = np.sqrt((squares.sum() if mixed else squares) / moments.total)
    equal = np.abs(deviations).max(axis=0) <= unit * spread
    return replace(moments, means=np.where(equal, moments.mean, moments.means)) if equal.any() else moments


def tall_statistics(
    moments: ClassMoments,
    medians: Mapping[str, NDArray[np.float64]] | None = None,
    *,
    precision: str,
    standardize: bool = False,
    class_weight: ClassWeight = None,
) -> ColumnStatistics:
    """Return statistics whose working coordinates are the columns."""
    unadjusted, precision = moments, effective_precision(precision, moments.widening)
    if class_weight is not None:
        moments = moments.reweighted(class_factors(class_weight, moments.classes, moments.counts))
    adjustment, subtracted = None, np.zeros(1)
    if moments.widening is not None:
        adjustment = Adjustment.of(moments)
        moments, unit = adjustment.moments(moments), float(np.finfo(work_type(precision)).eps)
        lost = lost_columns(moments.column_squares() / moments.total, moments.mean, adjustment, unit)
        make_constant(moments, lost)
        subtracted = np.where(lost, 0, adjustment.taken * moments.total)
    moments = without_noise(moments, float(np.finfo(work_type(precision)).eps))
    in_columns, mean, medians, scale = moments, moments.mean, medians or {}, None
    refuse_vanished(
        in_columns.deviations, in_columns.trace(np.ones(len(in_columns.counts))) / in_columns.total, precision
    )
    if standardize:
        scale = standard_deviations(in_columns.column_squares() / in_columns.total, mean)
        moments, medians = in_columns.scaled(1 / scale), {pairing: rows / scale for pairing, rows in medians.items()}
    return ColumnStatistics(
        moments=moments, medians=medians, mean=mean, scale=scale, precision=precision, in_columns=in_columns,
        unadjusted=unadjusted, class_weight=class_weight, adjustment=adjustment,
        subtracted=float(np.sum(subtracted if scale is None else subtracted / scale**2)),
    )  # fmt: skip
