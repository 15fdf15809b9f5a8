"""The rows that a fit by sweeps works on, and the coordinates it works in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from mmpca_dist.passes.centred_rows import Array, RowUnits
from mmpca_dist.passes.sweeps import Sweeper
from mmpca_dist.statistics.row_space import in_row_space
from mmpca_dist.statistics.working_statistics import RowSpaceStatistics, Statistics

ROUNDING = 1e-13
"""Share of a mean that is left outside of the span of its rows, at most, where it lies in it."""


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
    if length <= ROUNDING * np.linalg.norm(mean):  # the rest of a mean in the span is no direction
        length, outside = 0.0, np.zeros_like(outside)
    basis = np.column_stack([statistics.basis, outside / length if length > 0 else outside])
    return np.append(inside, length), basis, mean
