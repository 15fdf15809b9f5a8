"""Rows with labels or targets from memory; with numbers to predict for classes, or classes that slice such numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.stores import storage
from mmpca_dist.tables.dataset import Dataset, value_units
from mmpca_dist.tables.labels import label_array, normalize_labels
from mmpca_dist.tables.proxies import DatasetProxy, Relabelled

SAMPLE = 1 << 20
"""Values of a column, about, that its quantiles are taken of; more are sampled evenly."""


class GivenLabels(Relabelled):
    """The rows of a data set with labels (n,), or targets (n, q), that are in memory."""

    def __init__(self, rows: Dataset, y: Any) -> None:
        super().__init__(rows)
        self._y = label_array(y, "y")
        if len(self._y) != rows.n_rows:
            raise InputError(f"{rows.uri} has {rows.n_rows} rows and y {len(self._y)} labels; there must be one a row.")

    def read_labels(self, start: int, stop: int) -> NDArray:
        return normalize_labels(self._y[start:stop], "y")

    def read_targets(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return the targets of rows ``start`` to ``stop``."""
        return as_targets(self._y[start:stop], "y")


def as_targets(y: Any, where: str) -> NDArray[np.float64]:
    """Return targets as doubles of shape (n, q); raise InputError for others than numbers, one row of them a row."""
    y = np.asarray(y)
    if y.dtype.kind not in "fiub":
        raise InputError(f"Targets in {where} have type {y.dtype}; continuous targets must be numbers.")
    if y.ndim not in (1, 2) or (y.ndim == 2 and y.shape[1] == 0):
        raise InputError(f"Targets in {where} have shape {y.shape}; they must have shape (n,) or (n, q).")
    return np.asarray(y.reshape(len(y), -1), dtype=np.float64)


class TargetRows(DatasetProxy):
    """The rows of a data set with the values of columns, or with targets of their own, as rows of a single class."""

    missing_labels = None

    def __init__(self, rows: Dataset, names: Sequence[str], columns: Sequence[Dataset] = ()) -> None:
        super().__init__(rows, has_labels=True)
        self.targets, self._columns = tuple(names), tuple(columns)

    def fingerprint(self) -> str:
        own = self._rows.fingerprint()
        return own and storage.digest("targets", own, *self.targets, *(c.fingerprint() for c in self._columns))

    def read_labels(self, start: int, stop: int) -> NDArray:
        return np.zeros(stop - start, np.int64)

    def read_targets(self, start: int, stop: int) -> NDArray[np.float64]:
        if not self._columns:
            return self._rows.read_targets(start, stop)
        return np.concatenate([_finite(column, start, stop) for column in self._columns], axis=1)


class SlicedRows(Relabelled):
    """The rows of a data set in classes by their numbers in a column: 1 up to the first of the ``edges``, and so on."""

    def __init__(self, rows: Dataset, edges: NDArray[np.float64]) -> None:
        super().__init__(rows)
        self.edges, self.slice_edges = edges, tuple(edges.tolist())

    def fingerprint(self) -> str:
        own = self._rows.fingerprint()
        return own and storage.digest("slices", own, self.edges.tolist())

    def read_labels(self, start: int, stop: int) -> NDArray:
        return np.searchsorted(self.edges, _finite(self._rows, start, stop)[:, 0]) + 1

    def read_values(self, start: int, stop: int) -> NDArray:
        return self._rows.read_values(start, stop)


def _finite(column: Dataset, start: int, stop: int) -> NDArray[np.float64]:
    """Return the values of a column, shape (n, 1); raise InputError for what is no finite number."""
    values = as_targets(column.read_values(start, stop), column.values_place)
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(bad):
        raise InputError(
            f"Row {column.source_row(start + int(bad[0]))} has the target {values[bad[0], 0]} in "
            f"{column.values_place}. Give it a finite number. "
            "dataset.unlabelled: skip leaves out only rows whose first target is missing."
        )
    return values


def sliced(rows: Dataset, n_slices: int) -> SlicedRows:
    """Return rows in classes by weighted quantiles of their numbers; fewer classes than asked for where many tie."""
    step, parts = -(-rows.n_rows // SAMPLE), []
    for start, stop in value_units(rows):
        some, counted = slice(-start % step, None, step), rows.read_weights(start, stop)
        part = _finite(rows, start, stop)[some, 0]
        parts.append((part, np.ones(len(part)) if counted is None else counted[some]))
    values, weights = map(np.concatenate, zip(*parts, strict=True))
    shares = np.arange(1, n_slices) / n_slices
    below = values[values < values.max()]
    if not len(below):
        raise InputError(f"dataset.target: all values in {rows.values_place} are {values[0]:g}: nothing to predict.")
    edges = np.quantile(values, shares, method="inverted_cdf", weights=weights)
    edges = np.unique(np.minimum(edges, below.max()))
    return SlicedRows(rows, edges)
