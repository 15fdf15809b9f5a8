"""Values of a column: where they are, for messages, and their check as numbers, names or times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.faults import Col, Fault, Setting
from mmpca_dist.tables.column import Column, Known
from mmpca_dist.tables.labels import normalize_labels


class SeenRows(Protocol):
    """A data set as looks at columns, and messages, see it."""

    @property
    def n_rows(self) -> int: ...
    @property
    def feature_names(self) -> list[str] | None: ...
    @property
    def widening(self) -> Any: ...
    def values(self, column: Column, *roles: str) -> Iterator[tuple[Known, Place, Any]]: ...
    def source_row(self, row: int) -> int: ...
    def describe_chunk(self, row: int) -> str: ...


@dataclass(frozen=True)
class Place:
    """Where values are, for messages: address of the table, their column, and the numbers of the rows there."""

    uri: str
    where: str
    rows: NDArray[np.int64]

    def row(self, position: int) -> int:
        """Return the number of a row in what the user gave, by its position among the values."""
        return int(self.rows[position])

    def no_value(self, there: NDArray[np.bool_], what: str = "value") -> InputError:
        """Return the error for the first row that has no value, or whatever the column holds."""
        row = self.row(int(np.argmin(there)))
        text = f"Row {row} has no {what} in {self.where}. Give it one, or leave the row out."
        if what != "label":
            return InputError(text)
        return InputError(f"{text} {{skip}} leaves out such rows.", skip=SKIP)


def names(known: Known, place: Place, what: str = "value") -> NDArray:
    """Return names, or whole numbers, of rows, shape (n,); refuse a row that has none of ``what`` they are."""
    values, there = known
    if not there.all():
        raise place.no_value(there, what)
    return normalize_labels(values, place.where)


SKIP = Setting("unlabelled", "skip")
REMEDY = {
    "weight": "A weight says how often a row counts: it must be 0 or a positive number.",
    "target": "Give it a finite number. {skip} leaves out only rows whose first target is missing.",
}


def numbers(
    known: Known, place: Place, what: str, *, positive: bool = False, finite: bool = True
) -> NDArray[np.float64]:
    """Return numbers of rows as doubles, shape (n,) or (n, q).

    Raises InputError for values that are not numbers, or not ``finite``, missing, or, of ``positive`` ones, below 0;
    ``what`` they are, such as "weight".
    """
    values, there = known
    if values.dtype.kind not in "fiub":
        raise InputError(f"The {what}s in {place.where} have type {values.dtype}; they must be numbers.")
    values = values.astype(np.float64)
    if not finite:
        return values
    good = np.isfinite(values) & (values >= 0) if positive else np.isfinite(values)
    good = there & (good if good.ndim == 1 else good.all(axis=1))
    if not good.all():
        position = int(np.argmin(good))
        if not there[position] and np.isfinite(values[position]).all():
            raise place.no_value(there, what)
        value = values[position][~np.isfinite(values[position])][0] if values.ndim > 1 else values[position]
        remedy = REMEDY.get(what, "Give it a finite number, or leave the row out.")
        text = f"Row {place.row(position)} has the {what} {value} in {place.where}. {remedy}"
        raise InputError(Fault(text, {"skip": SKIP}))
    return values


def given_weights(weights: Any, n_rows: int) -> NDArray[np.float64]:
    """Return the weights of rows (n,), or of all rows alike, that an estimator is given; raise as `numbers`."""
    name, weights = "sample_weight", np.asarray(weights)
    weights = np.broadcast_to(weights, n_rows) if weights.ndim == 0 else weights
    if weights.shape != (n_rows,):
        raise InputError(
            f"The weights in {name} have shape {weights.shape}; there must be one for each of {n_rows} rows."
        )
    return numbers((weights, np.ones(n_rows, bool)), Place(name, name, np.arange(n_rows)), "weight", positive=True)


def not_finite(dataset: SeenRows, row: int, column: int, value: float) -> Fault:
    """Return the fault of a value that is not finite."""
    at = Col(column, dataset.feature_names[column] if dataset.feature_names else None)
    found, remedy = f"Found {value} in row {dataset.source_row(row)}", "Rows must be finite: fill or drop such values."
    widening = dataset.widening
    if widening is not None and column >= widening.y.start:
        target = widening.targets[column - widening.y.start]
        return Fault(f"{found} of the target ({target!r}). Fill it, or drop such rows.")
    if widening is not None and np.isnan(value):
        remedy = "This column had no gaps in the rows before: fill it, or fit to all rows anew."
    return Fault(f"{found}, column {{column}}, in {dataset.describe_chunk(row)}. {remedy}", {"column": at})
