"""Rows with missing values: widened by indicators for passes, or with values in their place for whatever reads rows."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mmpca_dist.passes.array_sums import ArraySums
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.passes.units import read_units
from mmpca_dist.statistics.widening import Adjustment, Widening
from mmpca_dist.tables.dataset import Dataset, DatasetProxy, Span
from mmpca_dist.tables.readers.memory import rows_in_memory

INDICATOR = "{} is missing"
"""What an indicator is called."""


class _Floating(DatasetProxy):
    """Base of rows in floating point that are made of others as they are read."""

    def __init__(self, rows: Any, **changes: Any) -> None:
        dtype = rows.dtype if rows.dtype.kind == "f" else np.dtype(np.float64)
        super().__init__(rows, dtype=dtype, **changes)

    @property
    def in_memory(self) -> bool:
        return False  # rows are new ones

    def fingerprint(self) -> str:
        return self._rows.fingerprint()

    def read_sparse(self, start: int, stop: int) -> csr_array:
        return csr_array(self.read_rows(start, stop))

    def reading_bytes(self, n_rows: int) -> int:
        return self._rows.reading_bytes(n_rows) + 2 * n_rows * self.row_bytes


class AlreadyWidened(DatasetProxy):
    """Rows that are widened as they are: those of a data set that was read whole."""

    def __init__(self, rows: Dataset, widening: Widening) -> None:
        super().__init__(rows)
        self._widening = widening

    @property
    def widening(self) -> Widening:
        return self._widening

    def fingerprint(self) -> str:
        return self._rows.fingerprint()

    def adjusted(self, adjustment: Adjustment) -> Dataset:
        return rows_in_memory(
            adjustment.rows(self.read_rows(0, self.n_rows)), self.read_labels(0, self.n_rows), self.uri
        )


class WidenedRows(_Floating):
    """The rows of a data set with missing values, filled with fixed values, and indicators of gaps."""

    def __init__(self, rows: Any, widening: Widening) -> None:
        names = rows.feature_names
        if names is not None:
            names = [*names, *(INDICATOR.format(names[j]) for j in widening.gaps)]
        super().__init__(rows, n_features=widening.width, feature_names=names, image_shape=None)
        self._widening = widening

    @property
    def widening(self) -> Widening:
        return self._widening

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        out = np.empty((stop - start, self.n_features), self.dtype) if out is None else out
        return self._widening.rows(self._rows.read_rows(start, stop), out)

    def adjusted(self, adjustment: Adjustment) -> Dataset:
        """Return the rows of the columns alone, with the means of the columns in the place of missing values."""
        return FilledRows(self._rows, adjustment.widening.gaps, adjustment.means)


class FilledRows(_Floating):
    """The rows of a data set with a value by column in the place of missing ones."""

    def __init__(self, rows: Any, gaps: NDArray[np.intp], values: NDArray[np.float64]) -> None:
        super().__init__(rows)
        self._gaps, self._values = gaps, values

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        out = np.empty((stop - start, self.n_features), self.dtype) if out is None else out
        out[...] = self._rows.read_rows(start, stop)
        some = out[:, self._gaps]
        out[:, self._gaps] = np.where(np.isnan(some), self._values, some)
        return out


def filled_rows(rows: Dataset, values: NDArray[np.float64]) -> Dataset:
    """Return rows, of which widened ones lose what stands beside their columns, with values for missing ones, (d,)."""
    rows = rows._rows if isinstance(rows, WidenedRows) else rows
    return rows if rows.sparse or rows.dtype.kind != "f" else FilledRows(rows, np.arange(rows.n_features), values)


@storable
@dataclass(frozen=True)
class _Gaps(ArraySums):
    """By column: how many values are missing, and the sum of the others; shape (d,)."""

    missing: NDArray[np.int64]
    sums: NDArray[np.float64]


@dataclass(frozen=True)
class _CountGaps:
    dataset: Dataset

    def __call__(self, span: Span) -> _Gaps:
        gaps = _Gaps(np.zeros(self.dataset.n_features, np.int64), np.zeros(self.dataset.n_features))
        for _, X in read_units(self.dataset, span):
            bad = np.isnan(X)
            gaps = gaps + _Gaps(bad.sum(axis=0), np.where(bad, 0, X).sum(axis=0, dtype=np.float64))
        return gaps


def look_at_gaps(dataset: Any, spans: list[Span], tasks: Tasks) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return how many values each column lacks, and the mean of the others, from a pass; 0 of a column without any."""
    if dataset.dtype.kind != "f" or dataset.sparse:
        return np.zeros(dataset.n_features, np.int64), np.zeros(dataset.n_features)
    gaps = tasks.run(_CountGaps(dataset), spans, operator.add, "gaps")
    return gaps.missing, gaps.sums / np.maximum(dataset.n_rows - gaps.missing, 1)


def widened(dataset: Any, missing: NDArray[np.int64], means: NDArray[np.float64]) -> Any:
    """Return the rows with indicators of the columns that lack values, filled with ``means``."""
    gaps = np.flatnonzero(missing)
    names = None if dataset.feature_names is None else tuple(dataset.feature_names[j] for j in gaps)
    return widened_as(dataset, Widening(dataset.n_features, gaps, means[gaps], names))


def widened_as(dataset: Any, widening: Widening | None) -> Any:
    """Return the rows widened as others are; those of columns without gaps as they are."""
    return dataset if widening is None or not len(widening.gaps) else WidenedRows(dataset, widening)


@dataclass(frozen=True)
class _SumColumns:
    dataset: Dataset

    def __call__(self, span: Span) -> NDArray[np.float64]:
        total = np.zeros(self.dataset.n_features)
        for start, X in read_units(self.dataset, span):
            weights = self.dataset.read_weights(start, start + len(X))
            total += X.sum(axis=0, dtype=np.float64) if weights is None else weights @ X.astype(np.float64)
        return total


def adjustment_from_pass(rows: Rows) -> Adjustment:
    """Return the map of widened rows from a pass for their mean."""
    total = rows.pass_over(_SumColumns(rows.dataset), np.add, "means")
    return Adjustment.of_mean(rows.dataset.widening, total / rows.census.counts.sum())


def adjusted_rows(rows: Rows, adjustment: Adjustment | None = None) -> Rows:
    """Return rows of the columns alone, with means in the place of missing values; others as they are."""
    if rows.dataset.widening is None:
        return rows
    adjustment = adjustment_from_pass(rows) if adjustment is None else adjustment
    return replace(rows, dataset=rows.dataset.adjusted(adjustment))
