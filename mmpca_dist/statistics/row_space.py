"""Statistics of rows fewer than their columns, read into memory and solved in the space they span; rows for sweeps."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.passes.centred_rows import Array, RowUnits
from mmpca_dist.passes.rows import Rows, collect_rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.passes.sweeps import Sweeper
from mmpca_dist.statistics.adjustment import Adjustment, CrossSums
from mmpca_dist.statistics.chunk_adder import ChunkAdder
from mmpca_dist.statistics.class_weights import weights_of
from mmpca_dist.statistics.column_units import EPS, standard_deviations
from mmpca_dist.statistics.medians import by_pairing, median_sets, weighted_median
from mmpca_dist.statistics.precision import provisional_centre, refuse_vanished
from mmpca_dist.statistics.scatters import ClassWeighting
from mmpca_dist.statistics.target_sums import TargetSums
from mmpca_dist.statistics.working_statistics import ColumnSums, RowSpaceStatistics, Statistics, without_noise
from mmpca_dist.tables.batch import Batch, dense
from mmpca_dist.tables.readers.memory import given, rows_in_memory, weighted, with_targets
from mmpca_dist.tables.roles import LABEL
from mmpca_dist.tables.spans import make_spans

LEFT_OUTSIDE = 1e-13
"""Share of a mean that is left outside of the span of its rows, at most, where it lies in it."""


def row_space_statistics(
    rows: Rows,
    *,
    pairings: Sequence[str] = (),
    standardize: bool = False,
    columns: bool = False,
    weightings: Collection[ClassWeighting] = (),
) -> RowSpaceStatistics:
    """Return statistics for any method, from one pass that reads all rows into memory; options are as in `Needs`."""
    dataset, census = rows.dataset, rows.census
    rank = min(dataset.n_columns, dataset.n_rows + len(pairings) * len(census.classes))
    return wide_statistics(
        _in_memory(rows), census.classes, pairings=pairings, standardize=standardize, columns=columns,
        weights=weights_of(census, rank, weightings),
    )  # fmt: skip


def wide_statistics(
    batch: Batch,
    classes: NDArray,
    *,
    pairings: Sequence[str] = (),
    standardize: bool = False,
    columns: bool = False,
    weights: NDArray[np.float64] | None = None,
) -> RowSpaceStatistics:
    """Return statistics of few rows of many columns, in double precision.

    Parameters
    ----------
    batch : Batch
        All rows: finite, dense, and widened if those of its table are.
    pairings : sequence of {"one-vs-rest", "one-vs-one"}
        Pairings of classes whose medians are needed.
    columns : bool
        Whether means and sums of squares of every column are wanted.
    weights : array of shape (k, C), optional
        Keep k weighted sums of the class scatters in place of every one.
    """
    X, codes, widening, adjustment = np.asarray(batch.X, np.float64), batch.codes(classes), batch.table.widening, None
    if widening is not None:
        adjustment, Y = Adjustment.of_sums(widening, CrossSums.of(batch, classes)), X[:, widening.y]
        X = adjustment.fitted_rows(X)
    rows = X - X[0]  # a constant column has no rounding errors
    offset = np.average(rows, axis=0, weights=batch.weight)
    mean = X[0] + offset
    rows -= offset
    refuse_vanished(rows, 0.0, "double")
    scale = None
    if standardize:
        total = len(X) if batch.weight is None else batch.weight.sum()
        scale = standard_deviations(_squares(rows, batch.weight) / total, mean)
        rows /= scale
    sets, extra = median_sets(len(classes), *pairings), np.empty((0, X.shape[1]))
    if sets is not None:
        own = np.ones(len(X)) if batch.weight is None else batch.weight
        extra = np.stack([weighted_median(rows[each], own[each]) for each in (member[codes] for member in sets)])
    with single_blas_thread():
        basis, triangle = scipy.linalg.qr(np.concatenate([rows, extra]).T, mode="economic", check_finite=False)
        basis[~(rows.any(axis=0) | extra.any(axis=0))] = 0  # of constant columns it has rounding errors
        coordinates = np.ascontiguousarray(triangle.T)
        adder = ChunkAdder(len(classes), basis.shape[1], np.dtype(np.float64), "double", weights)
        adder.add(Batch.of_arrays(coordinates[: len(X)], weight=batch.weight), codes)
        moments = adder.moments().over(np.arange(len(classes)), weights)
        if widening is not None and widening.targets:
            targets = TargetSums.of(widening.targets, coordinates[: len(X)], Y, batch.weight)
            moments = replace(moments, targets=targets)
    return RowSpaceStatistics(
        moments=without_noise(replace(moments, classes=classes), EPS, mixed=True),
        medians=by_pairing(coordinates[len(X) :] if pairings else None, pairings),
        mean=mean,
        scale=scale,
        precision="double",
        basis=basis,
        columns=column_sums(X, codes, len(classes), batch.weight) if columns else None,
        adjustment=adjustment,
    )


def column_sums(
    X: NDArray[np.float64], codes: NDArray[np.intp], n_classes: int, row_weights: NDArray[np.float64] | None = None
) -> ColumnSums:
    """Return the sums of rows in memory; a column that is constant in a class has no squares at all."""
    means, squares = np.zeros((n_classes, X.shape[1])), np.zeros((n_classes, X.shape[1]))
    for label in np.unique(codes):
        rows, weights = X[codes == label], None if row_weights is None else row_weights[codes == label]
        centre = provisional_centre(rows)
        rows -= centre
        offset = np.average(rows, axis=0, weights=weights)
        rows -= offset
        means[label], squares[label] = centre + offset, _squares(rows, weights)
    return ColumnSums(means, squares)


def _squares(rows: NDArray[np.float64], weights: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Return the weighted sums of squares of the columns."""
    return np.asarray(np.einsum("ij,ij->j", rows, rows if weights is None else rows * weights[:, None]))


def _in_memory(rows: Rows) -> Batch:
    """Return all rows, dense and in double precision, from a pass."""
    rows.begins("rows", rows.dataset.n_bytes)
    batch = collect_rows(rows.dataset, rows.spans, rows)
    return replace(batch, X=dense(batch.X).astype(np.float64, copy=False))


def in_row_space(statistics: RowSpaceStatistics, rows: Rows) -> Rows:
    """Return few rows, in memory, in the working coordinates of their statistics and one more, which is zero."""
    batch = _in_memory(rows)
    X = batch.X - statistics.mean
    if statistics.scale is not None:
        X /= statistics.scale
    with single_blas_thread():
        coordinates = np.hstack([X @ statistics.basis, np.zeros((len(X), 1))])
    within, has_targets = rows_in_memory(coordinates, uri=rows.dataset.uri), bool(rows.dataset.targets)
    within = with_targets(within, batch.targets) if has_targets else given(within, LABEL, batch.label, "y")
    within = within if batch.weight is None else weighted(within, batch.weight)
    scheduler = rows.scheduler if isinstance(rows.scheduler, Threads) else Threads()
    return replace(rows, dataset=within, spans=make_spans(within), scheduler=scheduler, checkpoint=None)


@dataclass(frozen=True)
class WorkingRows:
    """The coordinates that sweeps work in: the columns, or those in the span of few rows and of their mean."""

    statistics: Statistics  # of the rows
    sweeper: Sweeper
    # (r,): mean of the rows, which is subtracted from them, in working coordinates and (standardised) units
    centre: Array
    origin: Array  # (r,): what has yet to be subtracted from rows as they are read, in their units
    scale: Array | None  # (d,): standard deviations that rows have yet to be divided by
    basis: Array | None  # (d, r)
    mean: Array  # (d,): ``centre`` in the columns
    is_uncentred: bool = False  # whether the mean stays in the rows

    @classmethod
    def of(cls, statistics: Statistics, sweeper: Sweeper, *, by_column: bool = False) -> Self:
        """Return rows in the coordinates of their statistics, or, ``by_column``, in any case in the columns."""
        centre, basis, mean = coordinates_of(statistics, by_column=by_column)
        if basis is None:
            sparse = sweeper.rows.dataset.sparse and statistics.approximation is not None
            sweeper = replace(sweeper, keeps_sparse=sparse)
            return cls(statistics, sweeper, centre, statistics.mean, statistics.scale, None, mean)
        assert isinstance(statistics, RowSpaceStatistics)  # noqa: S101  (others have no basis of their rows)
        sweeper = replace(sweeper, rows=in_row_space(statistics, sweeper.rows))
        return cls(statistics, sweeper, centre, np.zeros_like(centre), None, basis, mean)

    @property
    def n_features(self) -> int:
        return len(self.mean)

    @property
    def width(self) -> int:
        """The number of working coordinates."""
        return len(self.centre)

    def units(self) -> RowUnits:
        """Return what brings rows as they are read to working units."""
        return RowUnits(self.origin - self.centre if self.is_uncentred else self.origin, self.scale)

    def uncentred(self) -> Self:
        """Return the same rows with their mean left in them, unless they are standardised."""
        return self if self.statistics.scale is not None else replace(self, is_uncentred=True)

    def in_columns(self, vectors: Array) -> Array:
        """Return vectors in working coordinates, shape (..., r), in the columns, shape (..., d)."""
        return vectors if self.basis is None else vectors @ self.basis.T

    def coordinates(self, vectors: Array) -> Array:
        """Return vectors in the columns, shape (..., d), in working coordinates, shape (..., r)."""
        return vectors if self.basis is None else vectors @ self.basis


def coordinates_of(statistics: Statistics, *, by_column: bool = False) -> tuple[Array, Array | None, Array]:
    """Return the mean of the rows in working coordinates, their basis, and the mean in (standardised) columns.

    The basis (d, r) is that of few rows and of their mean, which lies outside of their span; None for the columns.
    """
    mean = statistics.mean if statistics.scale is None else statistics.mean / statistics.scale
    if by_column or not isinstance(statistics, RowSpaceStatistics):
        return mean, None, mean
    inside = statistics.basis.T @ mean
    outside = mean - statistics.basis @ inside
    outside -= statistics.basis @ (statistics.basis.T @ outside)
    length = float(np.linalg.norm(outside))
    if length <= LEFT_OUTSIDE * np.linalg.norm(mean):  # the rest of a mean in the span is no direction
        length, outside = 0.0, np.zeros_like(outside)
    basis = np.column_stack([statistics.basis, outside / length if length > 0 else outside])
    return np.append(inside, length), basis, mean
