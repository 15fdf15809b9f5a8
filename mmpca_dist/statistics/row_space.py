"""Statistics of rows that are fewer than their columns: all are read into memory, and solved in the space they span."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.passes.rows import Rows, collect_rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.statistics.adjustment import Adjustment, CrossSums
from mmpca_dist.statistics.chunk_adder import ChunkAdder
from mmpca_dist.statistics.class_weights import weights_of
from mmpca_dist.statistics.column_units import standard_deviations
from mmpca_dist.statistics.medians import by_pairing, median_sets
from mmpca_dist.statistics.precision import provisional_centre, refuse_vanished
from mmpca_dist.statistics.scatters import ClassWeighting
from mmpca_dist.statistics.target_sums import TargetSums
from mmpca_dist.statistics.working_statistics import ColumnSums, RowSpaceStatistics
from mmpca_dist.tables.batch import Batch, dense
from mmpca_dist.tables.readers.memory import given, rows_in_memory, with_targets
from mmpca_dist.tables.roles import LABEL
from mmpca_dist.tables.spans import make_spans


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
    mean = np.average(X, axis=0, weights=batch.weight)
    rows = X - mean
    refuse_vanished(rows, 0.0, "double")
    scale = None
    if standardize:
        total = len(X) if batch.weight is None else batch.weight.sum()
        scale = standard_deviations(_squares(rows, batch.weight) / total, mean)
        rows /= scale
    sets, extra = median_sets(len(classes), *pairings), np.empty((0, X.shape[1]))
    if sets is not None:
        extra = np.stack([np.median(rows[member[codes]], axis=0) for member in sets])
    with single_blas_thread():
        basis, triangle = scipy.linalg.qr(np.concatenate([rows, extra]).T, mode="economic", check_finite=False)
        coordinates = np.ascontiguousarray(triangle.T)
        adder = ChunkAdder(len(classes), basis.shape[1], np.dtype(np.float64), "double", weights)
        adder.add(Batch.of_arrays(coordinates[: len(X)], weight=batch.weight), codes)
        moments = adder.moments().over(np.arange(len(classes)), weights)
        if widening is not None and widening.targets:
            targets = TargetSums.of(widening.targets, coordinates[: len(X)], Y, batch.weight)
            moments = replace(moments, targets=targets)
    return RowSpaceStatistics(
        moments=replace(moments, classes=classes),
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
    scheduler = rows.scheduler if isinstance(rows.scheduler, Threads) else Threads()
    return replace(rows, dataset=within, spans=make_spans(within), scheduler=scheduler, checkpoint=None)
