"""Widened rows, which passes for moments read, and adjusted ones, for whatever reads the rows themselves."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import OnRows
from mmpca_dist.passes.tree_reduction import Tasks, added
from mmpca_dist.passes.units import read_batches
from mmpca_dist.statistics.adjustment import Adjustment, CrossSums
from mmpca_dist.statistics.widening import Widening
from mmpca_dist.tables.batch import Batch, dense
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.facts import Facts
from mmpca_dist.tables.readers.memory import source_in_memory
from mmpca_dist.tables.spans import Span


@dataclass(frozen=True)
class Widened:
    """The form of rows that are widened as they are stored: those of a data set that was read whole."""

    widens: Widening
    reads: ClassVar[tuple[str, ...]] = ()

    @property
    def filled(self) -> int:
        return self.widens.width

    def facts(self, facts: Facts) -> Facts:
        return facts

    def matrix(self, batch: Batch, out: NDArray | None = None) -> Any:
        return batch.X


@dataclass(frozen=True)
class Adjusted:
    """The form of rows with a value by column in the place of missing ones, less what covariates explain."""

    gaps: NDArray[np.intp]
    values: NDArray[np.float64]
    adjustment: Adjustment | None = None
    widens: ClassVar[None] = None
    reads: ClassVar[tuple[str, ...]] = ("covariates",)

    @property
    def _removes(self) -> bool:
        return self.adjustment is not None and len(self.adjustment.slopes) > 0

    def facts(self, facts: Facts) -> Facts:
        kind = np.float64 if self._removes else np.result_type(facts.dtype, np.float32)
        return replace(facts, sparse=False, dtype=np.dtype(kind))

    def matrix(self, batch: Batch, out: NDArray | None = None) -> NDArray:
        X = dense(batch.X)
        if out is None:
            out = np.empty(X.shape, np.float64 if self._removes else np.result_type(X.dtype, np.float32))
        out[...] = X
        some = out[:, self.gaps]
        out[:, self.gaps] = np.where(np.isnan(some), self.values, some)
        if self.adjustment is not None:
            out[...] = self.adjustment.without(out, batch.roles.get("covariates"))
        return out


def adjusted(rows: Dataset, adjustment: Adjustment) -> Dataset:
    """Return widened rows after the map that their moments tell; others as they are."""
    if rows.form is None and isinstance(rows.source, Dataset):
        return rows.over_rows(adjusted(rows.source, adjustment))
    if isinstance(rows.form, Widened):
        X = source_in_memory(adjustment.rows(rows.read_rows(0, rows.n_rows)), rows.uri)
        return replace(rows, source=X, base=X.facts, form=None)
    if isinstance(rows.form, Widening):
        return replace(rows, form=Adjusted(adjustment.widening.gaps, adjustment.means, adjustment))
    return rows


def filled_rows(rows: Dataset, values: NDArray[np.float64], adjustment: Adjustment | None = None) -> Dataset:
    """Return the feature columns of rows, with gaps filled by ``values``, shape (d,), and covariates removed.

    Sparse rows lack none, and keep what covariates explain.
    """
    rows = rows.unwidened
    if rows.sparse:
        return rows
    gaps = np.zeros(0, np.intp) if rows.dtype.kind != "f" else np.arange(rows.n_features)
    return replace(rows, form=Adjusted(gaps, values[gaps], adjustment))


def _count_gaps(dataset: Dataset, span: Span) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return, by column, how many values are missing in a span, and the sum of the others; shape (d,)."""
    gaps = np.zeros(dataset.n_features, np.int64), np.zeros(dataset.n_features)
    for batch in read_batches(dataset, span, ()):
        bad = np.isnan(batch.X)
        values = np.ascontiguousarray(np.where(bad, 0, batch.X))  # sums of rows in another order have other bits
        gaps = added(gaps, (bad.sum(axis=0), values.sum(axis=0, dtype=np.float64)))
    return gaps


def look_at_gaps(dataset: Dataset, spans: list[Span], tasks: Tasks) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return how many values each column lacks, and the mean of the others, from a pass; 0 of a column without any."""
    if dataset.dtype.kind != "f" or dataset.sparse:
        return np.zeros(dataset.n_features, np.int64), np.zeros(dataset.n_features)
    missing, sums = tasks.run(OnRows(dataset, _count_gaps), spans, added, "gaps")
    return missing, sums / np.maximum(dataset.n_rows - missing, 1)


def widened(dataset: Dataset, missing: NDArray | None = None, means: NDArray | None = None) -> Dataset:
    """Return rows with covariates, targets, and indicators of the columns that lack values, filled with ``means``."""
    missing, means = (np.zeros(dataset.n_features) if values is None else values for values in (missing, means))
    gaps = np.flatnonzero(missing)
    names = None if dataset.feature_names is None else tuple(dataset.feature_names[j] for j in gaps)
    covariates = tuple(name for covariate in dataset.covariates for name in covariate.names)
    fills = means[gaps].astype(np.result_type(dataset.dtype, np.float32)).astype(np.float64)  # as rows hold them
    rounding = float(np.finfo(dataset.dtype if dataset.dtype.kind == "f" else np.float64).eps)
    return widened_as(dataset, Widening(dataset.n_features, gaps, fills, covariates, names, dataset.targets, rounding))


def widened_as(dataset: Dataset, widening: Widening | None) -> Dataset:
    """Return the rows widened as others are; where nothing stands beside their columns, as they are."""
    return dataset if widening is None or widening.width == widening.n_columns else replace(dataset, form=widening)


def widened_by_targets(rows: Rows) -> Rows:
    """Return rows of which passes for moments read the numbers to predict, too, where they have any."""
    none, targets = np.zeros(0), rows.dataset.targets
    widening = Widening(rows.dataset.n_features, none.astype(np.intp), none, targets=targets)
    return replace(rows, dataset=widened_as(rows.dataset, widening)) if targets else rows


def _sum_products(dataset: Dataset, span: Span, *, classes: NDArray) -> CrossSums:
    batches = read_batches(dataset, span, ("label", "weight"), sparse=dataset.sparse)
    return functools.reduce(operator.add, (CrossSums.of(batch, classes) for batch in batches))


def adjustment_from_pass(rows: Rows) -> Adjustment | None:
    """Return the map of widened rows from a pass for their means and products with covariates; None of others."""
    if rows.dataset.widening is None:
        return None
    sums = rows.pass_over(partial(_sum_products, classes=rows.census.classes), operator.add, "means")
    return Adjustment.of_sums(rows.dataset.widening, sums)


def adjusted_rows(rows: Rows, adjustment: Adjustment | None) -> Rows:
    """Return rows of the columns alone, with means in the place of missing values; others as they are."""
    return rows if adjustment is None else replace(rows, dataset=adjusted(rows.dataset, adjustment))
