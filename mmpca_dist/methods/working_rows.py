"""The rows that a fit by sweeps works on, and the coordinates it works in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from mmpca_dist.statistics.centred_rows import Array, RowUnits
from mmpca_dist.statistics.coordinates import SpanStatistics, Statistics
from mmpca_dist.statistics.gather import rows_in_span
from mmpca_dist.statistics.sweeps import Sweeper


@dataclass(frozen=True)
class WorkingRows:
    """The coordinates that sweeps work in: the columns, or those in the span of few rows and of their mean.

    Attributes
    ----------
    centre : array of shape (r,)
        Mean of the rows, which is subtracted from them, in working coordinates and (standardised) units.
    origin : array of shape (r,)
        What has yet to be subtracted from rows as they are read, in their units.
    scale : array of shape (d,) or None
        Standard deviations that rows have yet to be divided by.
    basis : array of shape (d, r) or None
    mean : array of shape (d,)
        ``centre`` in the columns.
    keeps_sparse : bool
        Whether CSR rows are read as they are: where solvers in passes do so. Else their bits are those of dense rows.
    """

    sweeper: Sweeper
    centre: Array
    origin: Array
    scale: Array | None
    basis: Array | None
    mean: Array
    keeps_sparse: bool = False

    @classmethod
    def of(cls, statistics: Statistics, sweeper: Sweeper, *, targets: bool, by_column: bool = False) -> Self:
        """Return rows in the coordinates of their statistics, or, ``by_column``, in any case in the columns."""
        mean = statistics.mean if statistics.scale is None else statistics.mean / statistics.scale
        if by_column or not isinstance(statistics, SpanStatistics):
            sparse = sweeper.rows.dataset.sparse and statistics.approximation is not None
            return cls(sweeper, mean, statistics.mean, statistics.scale, None, mean, sparse)
        inside = statistics.basis.T @ mean
        outside = mean - statistics.basis @ inside
        length = float(np.linalg.norm(outside))
        basis = np.column_stack([statistics.basis, outside / length if length > 0 else outside])
        rows = rows_in_span(statistics, sweeper.rows, extra=1, targets=targets)
        centre = np.append(inside, length)
        return cls(replace(sweeper, rows=rows), centre, np.zeros_like(centre), None, basis, mean)

    @property
    def n_features(self) -> int:
        return len(self.mean)

    def units(self) -> RowUnits:
        """Return what brings rows as they are read to working units."""
        return RowUnits(self.origin, self.scale)

    def in_columns(self, vectors: Array) -> Array:
        """Return vectors in working coordinates, shape (..., r), in the columns, shape (..., d)."""
        return vectors if self.basis is None else vectors @ self.basis.T

    def coordinates(self, vectors: Array) -> Array:
        """Return vectors in the columns, shape (..., d), in working coordinates, shape (..., r)."""
        return vectors if self.basis is None else vectors @ self.basis
