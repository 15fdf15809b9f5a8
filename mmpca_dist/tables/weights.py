"""Weights of rows: how often each row counts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores import storage
from mmpca_dist.tables.dataset import Dataset, value_units
from mmpca_dist.tables.labels import distinct_labels, encode
from mmpca_dist.tables.proxies import DatasetProxy
from mmpca_dist.tables.readers.beside import column_in_memory
from mmpca_dist.tables.selected_rows import SelectedRows


class WeightedRows(DatasetProxy):
    """The rows of a data set, whose weights are the values of a column."""

    def __init__(self, rows: Dataset, column: Dataset, digest: str = "") -> None:
        super().__init__(rows)
        self._columns, self._digest = [column], digest

    def fingerprint(self) -> str:
        return self._digest and storage.digest("weighted", self._rows.fingerprint(), self._digest)

    def read_weights(self, start: int, stop: int) -> NDArray[np.float64]:
        weights, others = column_weights(self._columns[0], start, stop), self._rows.read_weights(start, stop)
        return weights if others is None else weights * others


def column_weights(column: Dataset, start: int, stop: int) -> NDArray[np.float64]:
    """Return the values of a column as weights of rows ``start`` to ``stop``; see `as_weights`."""
    values = column.read_values(start, stop)
    return as_weights(values, stop - start, column.values_place, lambda row: column.source_row(start + row))


def as_weights(weights: Any, n_rows: int, where: str, number: Callable[[int], int] = int) -> NDArray[np.float64]:
    """Return the weights of rows as doubles, shape (n,); a number weighs all rows alike.

    Raises InputError for weights that are not numbers, of another number than the rows, negative, or not finite; they
    are in ``where``, and ``number`` tells that of a row, for messages.
    """
    weights = np.asarray(weights)
    if weights.dtype.kind not in "fiub":
        raise InputError(f"Weights in {where} have type {weights.dtype}; they must be numbers.")
    if weights.ndim == 0:
        weights = np.broadcast_to(weights, n_rows)
    if weights.shape != (n_rows,):
        raise InputError(f"Weights in {where} have shape {weights.shape}; there must be one for each of {n_rows} rows.")
    weights = weights.astype(np.float64)
    if n_rows and not (weights.min() >= 0 and weights.max() < np.inf):
        bad = int(np.argmin((weights >= 0) & np.isfinite(weights)))
        raise InputError(
            f"The weight of row {number(bad)} in {where} is {weights[bad]}. A weight says how often a row "
            "counts: it must be 0 or a positive number."
        )
    return weights


class WeightedByName(DatasetProxy):
    """The rows of a data set, whose weights are multiplied by factors of their labels, or of names in a column."""

    def __init__(
        self, rows: Dataset, names: NDArray, factors: NDArray[np.float64], *columns: Dataset, digest: str = ""
    ) -> None:
        super().__init__(rows)
        self._names, self._factors, self._columns, self._digest = names, factors, columns, digest

    def fingerprint(self) -> str:
        return self._digest and storage.digest("balanced", self._rows.fingerprint(), self._digest)

    def read_weights(self, start: int, stop: int) -> NDArray[np.float64]:
        (column,) = self._columns or [self._rows]
        codes = encode(column.read_labels(start, stop), self._names, column.values_place)
        weights = self._rows.read_weights(start, stop)
        return self._factors[codes] if weights is None else self._factors[codes] * weights


def _count(rows: Dataset, start: int, stop: int) -> NDArray[np.bool_]:
    weights = rows.read_weights(start, stop)
    assert weights is not None  # noqa: S101  (they are asked for of rows that have some)
    return weights > 0


def without_zeros(rows: Dataset) -> Dataset:
    """Return rows that have weights without those of weight zero."""
    return SelectedRows(rows, partial(_count, rows))


def weighted(rows: Dataset, weights: NDArray[np.float64]) -> Dataset:
    """Return the rows with weights that are in memory, shape (n,), without the rows of weight zero."""
    both = WeightedRows(rows, column_in_memory(weights, "sample_weight"))
    return both if weights.all() else without_zeros(both)


def weighted_by(rows: Dataset, column: Dataset) -> Dataset:
    """Return the rows with a column of weights, without the rows of weight zero.

    The column is read once, and what it holds is part of the fingerprint.
    """
    digest, all_count = hashlib.sha256(), True
    for start, stop in value_units(column):
        weights = column_weights(column, start, stop)
        digest.update(weights.tobytes())
        all_count = all_count and bool(weights.all())
    both = WeightedRows(rows, column, digest.hexdigest())
    return both if all_count else without_zeros(both)


def with_weighed_levels(rows: Any) -> Any:
    """Return weighted rows whose text has the levels of those that count, rare by weight; text is read once more."""
    return rows.over(rows.stored.with_levels_of(rows)) if rows.stored.levels else rows


def balanced_by(rows: Dataset, column: Dataset) -> Dataset:
    """Return the rows with weights by which all names in a column count alike; the column is read once.

    The sum of all weights stays as it is.
    """
    digest, totals = hashlib.sha256(), dict[Any, float]()
    for start, stop in value_units(column):
        labels, weights = column.read_labels(start, stop), rows.read_weights(start, stop)
        names, codes = np.unique(labels, return_inverse=True)
        digest.update(labels.dtype.str.encode() + labels.tobytes())
        for name, total in zip(names.tolist(), np.bincount(codes, weights).tolist(), strict=True):
            totals[name] = totals.get(name, 0.0) + total
        if len(totals) > LIMITS.max_groups:
            raise InputError(
                f"{column.values_place} has more than {LIMITS.max_groups} names: which are to count alike?"
            )
    names = distinct_labels(sorted(totals))
    counts = np.asarray([totals[name] for name in sorted(totals)])
    return WeightedByName(rows, names, counts.sum() / (len(counts) * counts), column, digest=digest.hexdigest())
