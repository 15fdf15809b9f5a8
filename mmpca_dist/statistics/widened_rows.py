"""Widened rows, which passes for moments read, and adjusted ones, for whatever reads the rows themselves."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mmpca_dist.passes.array_sums import ArraySums
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.passes.units import read_codes, read_units
from mmpca_dist.statistics.adjustment import Adjustment, CrossSums
from mmpca_dist.statistics.widening import Widening
from mmpca_dist.tables.dataset import Dataset, Span
from mmpca_dist.tables.proxies import DatasetProxy
from mmpca_dist.tables.readers.memory import rows_in_memory

INDICATOR = "{} is missing"
"""What an indicator is called."""


class _Floating(DatasetProxy):
    """Base of rows in floating point that are made of others as they are read."""

    def __init__(self, rows: Any, **changes: Any) -> None:
        super().__init__(rows, **{"dtype": np.result_type(rows.dtype, np.float32), **changes})

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
    """The rows of a data set with fixed values in the place of missing ones, indicators of gaps, and covariates."""

    def __init__(self, rows: Any, widening: Widening) -> None:
        names = rows.feature_names
        if names is not None:
            beside = [*widening.covariates, *widening.targets]
            names = [*names, *(INDICATOR.format(names[j]) for j in widening.gaps), *beside]
        double = {"dtype": np.dtype(np.float64)} if widening.covariates or widening.targets else {}
        super().__init__(rows, n_features=widening.width, feature_names=names, image_shape=None, **double)
        self._widening = widening

    @property
    def widening(self) -> Widening:
        return self._widening

    @property
    def narrow(self) -> Dataset:
        return self._rows

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        out = np.empty((stop - start, self.n_features), self.dtype) if out is None else out
        beside = self._widening.beside(self._rows, start, stop)
        return self._widening.rows(self._rows.read_rows(start, stop), beside, out)

    def read_sparse(self, start: int, stop: int) -> csr_array:
        if not self.sparse:
            return super().read_sparse(start, stop)
        both = self._rows.read_sparse(start, stop), csr_array(self._widening.beside(self._rows, start, stop))
        return csr_array(scipy.sparse.hstack(both, "csr"))

    @property
    def nnz(self) -> int:
        return self._rows.nnz + self.n_rows * self._n_beside

    @property
    def _n_beside(self) -> int:
        return len(self._widening.covariates) + len(self._widening.targets)

    def sparse_bytes(self, n_rows: int) -> int:
        return self._rows.sparse_bytes(n_rows) + 32 * n_rows * self._n_beside

    def adjusted(self, adjustment: Adjustment) -> Dataset:
        return AdjustedRows(self._rows, adjustment.widening.gaps, adjustment.means, adjustment)


class AdjustedRows(_Floating):
    """The rows of a data set with a value by column in the place of missing ones, less what covariates explain."""

    def __init__(
        self, rows: Any, gaps: NDArray[np.intp], values: NDArray[np.float64], adjustment: Adjustment | None = None
    ) -> None:
        removes = adjustment is not None and len(adjustment.slopes) > 0
        super().__init__(rows, sparse=False, **({"dtype": np.dtype(np.float64)} if removes else {}))
        self._gaps, self._values, self._adjustment = gaps, values, adjustment

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        out = np.empty((stop - start, self.n_features), self.dtype) if out is None else out
        out[...] = self._rows.read_rows(start, stop)
        some = out[:, self._gaps]
        out[:, self._gaps] = np.where(np.isnan(some), self._values, some)
        if self._adjustment is not None:
            out[...] = self._adjustment.without(out, self._rows.read_covariates(start, stop))
        return out


def filled_rows(rows: Dataset, values: NDArray[np.float64], adjustment: Adjustment | None = None) -> Dataset:
    """Return rows, of which widened ones lose what stands beside their columns, with values for missing ones, (d,).

    Sparse rows lack none, and keep what covariates explain.
    """
    rows = rows.narrow
    if rows.sparse:
        return rows
    gaps = np.zeros(0, np.intp) if rows.dtype.kind != "f" else np.arange(rows.n_features)
    return AdjustedRows(rows, gaps, values[gaps], adjustment)


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
            values = np.ascontiguousarray(np.where(bad, 0, X))  # sums of rows in another order have other bits
            gaps = gaps + _Gaps(bad.sum(axis=0), values.sum(axis=0, dtype=np.float64))
        return gaps


def look_at_gaps(dataset: Any, spans: list[Span], tasks: Tasks) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return how many values each column lacks, and the mean of the others, from a pass; 0 of a column without any."""
    if dataset.dtype.kind != "f" or dataset.sparse:
        return np.zeros(dataset.n_features, np.int64), np.zeros(dataset.n_features)
    gaps = tasks.run(_CountGaps(dataset), spans, operator.add, "gaps")
    return gaps.missing, gaps.sums / np.maximum(dataset.n_rows - gaps.missing, 1)


def widened(dataset: Any, missing: NDArray | None = None, means: NDArray | None = None) -> Any:
    """Return rows with covariates, targets, and indicators of the columns that lack values, filled with ``means``."""
    missing, means = (np.zeros(dataset.n_features) if values is None else values for values in (missing, means))
    gaps = np.flatnonzero(missing)
    names = None if dataset.feature_names is None else tuple(dataset.feature_names[j] for j in gaps)
    covariates = tuple(name for covariate in dataset.covariates for name in covariate.names)
    fills = means[gaps].astype(np.result_type(dataset.dtype, np.float32)).astype(np.float64)  # as rows hold them
    rounding = float(np.finfo(dataset.dtype if dataset.dtype.kind == "f" else np.float64).eps)
    return widened_as(dataset, Widening(dataset.n_features, gaps, fills, covariates, names, dataset.targets, rounding))


def widened_as(dataset: Any, widening: Widening | None) -> Any:
    """Return the rows widened as others are; where nothing stands beside their columns, as they are."""
    return dataset if widening is None or widening.width == widening.n_columns else WidenedRows(dataset, widening)


def with_targets(rows: Rows) -> Rows:
    """Return rows of which passes for moments read the numbers to predict, too, where they have any."""
    none, targets = np.zeros(0), rows.dataset.targets
    widening = Widening(rows.dataset.n_features, none.astype(np.intp), none, targets=targets)
    return replace(rows, dataset=widened_as(rows.dataset, widening)) if targets else rows


@dataclass(frozen=True)
class _SumProducts:
    dataset: Dataset
    classes: NDArray

    def __call__(self, span: Span) -> CrossSums:
        parts = []
        for start, X in read_units(self.dataset, span, sparse=self.dataset.sparse):
            stop = start + X.shape[0]
            codes = read_codes(self.dataset, self.classes, start, stop)
            weights = self.dataset.read_weights(start, stop)
            parts.append(CrossSums.of(X, codes, len(self.classes), weights, self.dataset.widening))
        return functools.reduce(operator.add, parts)


def adjustment_from_pass(rows: Rows) -> Adjustment:
    """Return the map of widened rows from a pass for their means and products with covariates."""
    sums = rows.pass_over(_SumProducts(rows.dataset, rows.census.classes), operator.add, "means")
    return Adjustment.of_sums(rows.dataset.widening, sums)


def adjusted_rows(rows: Rows, adjustment: Adjustment | None = None) -> Rows:
    """Return rows of the columns alone, with means in the place of missing values; others as they are."""
    if rows.dataset.widening is None:
        return rows
    adjustment = adjustment_from_pass(rows) if adjustment is None else adjustment
    return replace(rows, dataset=rows.dataset.adjusted(adjustment))
