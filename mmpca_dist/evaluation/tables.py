"""Tables of errors by split, method, number of components and classifier."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmpca_dist.evaluation.comparisons import (
    CorrectedTest,
    Interval,
    SignTest,
    Summary,
    corrected_t_test,
    nested_interval,
    overlap_of,
    row_variance_of,
    sign_test,
)
from mmpca_dist.finite import or_none
from mmpca_dist.statistics.drift import holm

REGRESSION = "linear regression"
"""The name in the place of a classifier where there are numbers to predict."""
RECONSTRUCTION = "reconstruction"
"""The name where rows have no labels."""
LEFT_OUT = "left-out columns"
"""The name, there, of what chooses a number of components."""
OF_VARIANCE = (REGRESSION, RECONSTRUCTION, LEFT_OUT)
"""Their errors are shares of a variance, and not counts."""
Key = tuple[str, float, str]
"""Method, number of components as asked for, classifier."""
Comparison = tuple[tuple[Any, ...], tuple[Any, ...]]
"""The models of a test: `Cell.models` of the method and of the reference."""

FIELDS = {
    "split": pa.int64(),
    "method": pa.string(),
    "n_components": pa.int64(),
    "used": pa.int64(),
    "classifier": pa.string(),
    "errors": pa.int64(),
    "rows": pa.int64(),
    "training": pa.int64(),
}

CELL_FIELDS = {
    "method": (pa.string(), "method"),
    "n_components": (pa.int64(), "n_components"),
    "used": (pa.int64(), "used"),
    "classifier": (pa.string(), "classifier"),
    "mean": (pa.float64(), "summary.mean"),
    "deviation": (pa.float64(), "summary.deviation"),
    "standard_error": (pa.float64(), "summary.standard_error"),
    "splits": (pa.int64(), "summary.count"),
    "wins": (pa.int64(), "test.wins"),
    "untied": (pa.int64(), "test.untied"),
    "p_value": (pa.float64(), "test.p_value"),
    "corrected_standard_error": (pa.float64(), "summary.corrected_standard_error"),
    "difference": (pa.float64(), "t_test.difference"),
    "difference_standard_error": (pa.float64(), "t_test.standard_error"),
    "t_p_value": (pa.float64(), "t_test.p_value"),
    "holm_p_value": (pa.float64(), "t_test.adjusted"),
    "tests": (pa.int64(), "t_test.tests"),
    "interval_low": (pa.float64(), "interval.low"),
    "interval_high": (pa.float64(), "interval.high"),
}
"""The type of each column of a table of cells, and the attribute of a `Cell` that it has."""


@dataclass(frozen=True)
class Cell:
    """A method's errors with so many components under one classifier, over the splits."""

    method: str
    n_components: float
    """As asked for, or the share asked for."""
    classifier: str
    summary: Summary
    """Summary of the errors in percent of the rows held out."""
    test: SignTest | None = None
    """Whether the method errs less than the reference with as many components under the same classifier, on counts of
    errors; None of the reference itself, and where no method is the reference."""
    t_test: CorrectedTest | None = None
    """Whether the method and the reference differ, beyond these splits; None where ``test`` is."""
    used: int = 0
    """The fewest components that the method gave in any split."""
    used_by_split: tuple[int, ...] = ()
    """As many as it gave in each split."""
    interval: Interval | None = None
    """Of the error of a model of all rows, by nested folds, where these are asked for."""

    @property
    def key(self) -> Key:
        """Method, number of components, classifier."""
        return self.method, self.n_components, self.classifier

    @property
    def models(self) -> tuple[str, str, tuple[int, ...]]:
        """The key of the fitted models: cells with equal keys repeat one another."""
        return self.method, self.classifier, self.used_by_split

    @property
    def differs(self) -> bool:
        """Whether the mean differs from the reference's, significantly after Holm's correction."""
        return self.t_test is not None and self.t_test.is_significant


class Counts(NamedTuple):
    """Counts for a method, a number of components and a classifier: arrays of shape (S,), in order of the splits."""

    used: NDArray[np.int64]
    """Components that the method gave."""
    errors: NDArray
    """Rows held out that are misclassified; of rows with weights, here and below, sums of these."""
    rows: NDArray
    """Rows held out."""
    training: NDArray

    @property
    def percent(self) -> NDArray[np.float64]:
        """The errors in percent of the rows held out."""
        return 100 * self.errors / self.rows


@dataclass(frozen=True, eq=False)
class ErrorTable:
    """Errors on the rows held out: of every method, number of components and classifier in every split."""

    lines: Sequence[Mapping[str, Any]]
    """One for each of them, split by split, with the keys of `FIELDS`.

    Where errors are counted by class, ``errors_by_class`` and ``rows_by_class`` are lists with an entry for each class,
    and of few classes ``confused`` has one for each pair of the own class and the one that rows are taken for.
    """

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]], n_rows: int) -> ErrorTable:
        """Return the table of the records of splits.

        A record has ``split``, ``rows`` (how many are held out) and ``errors``, a list of dicts with ``method``,
        ``n_components``, ``used``, ``classifier`` and ``errors``. It may have ``training``, how many rows train; else
        all others of the ``n_rows`` of the data set do. Where errors are counted by class, entries of ``errors`` have
        ``errors_by_class``, and the record has ``rows_by_class``.
        """
        lines = []
        for record in records:
            training = record.get("training", n_rows - record["rows"])
            of_split = {"split": record["split"], "rows": record["rows"], "training": training}
            of_split |= {name: record[name] for name in ("rows_by_class",) if name in record}
            lines += [{**entry, **of_split} for entry in record["errors"]]
        return cls(lines)

    def to_arrow(self) -> pa.Table:
        """Return the table for Parquet and CSV, in the same order."""
        sums = {name: pa.float64() for line in self.lines for name, value in line.items() if isinstance(value, float)}
        return pa.Table.from_pylist(list(self.lines), schema=pa.schema(list((FIELDS | sums).items())))

    @cached_property
    def by_key(self) -> dict[Key, list[Mapping[str, Any]]]:
        """The lines by method, number of components and classifier."""
        grouped: dict[Key, list[Mapping[str, Any]]] = {}
        for line in self.lines:
            grouped.setdefault((line["method"], line["n_components"], line["classifier"]), []).append(line)
        return grouped

    @cached_property
    def counts(self) -> dict[Key, Counts]:
        """The counts by method, number of components and classifier."""
        return {
            key: Counts(*(np.array([line[name] for line in lines]) for name in Counts._fields))
            for key, lines in self.by_key.items()
        }

    @property
    def has_classes(self) -> bool:
        """Whether errors are counted by class."""
        return "errors_by_class" in self.lines[0]

    def by_class(self, key: Key) -> tuple[list[Any], list[float]]:
        """Return the rows of each class that are held out in all splits together, and their mean error in percent.

        It is a mean over the splits that have rows of the class, and NaN where none has.
        """
        names, lines = ("errors_by_class", "rows_by_class"), self.by_key[key]
        errors, rows = (np.array([line[name] for line in lines]) for name in names)
        splits = np.count_nonzero(rows, axis=0)
        total = np.divide(100 * errors, rows, out=np.zeros(rows.shape), where=rows > 0).sum(axis=0)
        means = np.divide(total, splits, out=np.full(total.shape, math.nan), where=splits > 0)
        return rows.sum(axis=0).tolist(), means.tolist()

    def confusions(self, key: Key) -> NDArray[np.float64] | None:
        """Return the shares of the rows of each class that are taken for each, shape (C, C), of all splits together.

        None where mistakes are not counted by pairs of classes; NaN of classes without rows.
        """
        lines = self.by_key[key]
        if "confused" not in lines[0]:
            return None
        rows = np.sum([line["rows_by_class"] for line in lines], axis=0, dtype=float)
        counts = np.sum([line["confused"] for line in lines], axis=0, dtype=float).reshape(len(rows), len(rows))
        counts[np.diag_indices(len(rows))] = rows - counts.sum(axis=1)
        return counts / np.where(rows > 0, rows, np.nan)[:, None]

    def cells(self, reference: str = "pca", untested: Collection[str] = ()) -> list[Cell]:
        """Return means, deviations and tests over splits, by method, number of components and classifier.

        Holm's correction is for all tests of the table; one that repeats another, as both methods gave the same numbers
        of components, counts once. With no method of the name ``reference`` there are no tests, nor any of methods that
        are ``untested``.
        """
        methods = list(dict.fromkeys(method for method, _, _ in self.counts))
        keys = sorted(self.counts, key=lambda key: (methods.index(key[0]), key[1]))
        cells = {key: self._cell(key, key[0] if key[0] in untested else reference) for key in keys}
        adjusted = holm_by_models(p_values(cells, reference))
        for key, cell in cells.items():
            if cell.t_test is not None:
                p_value = adjusted.get((cell.models, cells[reference, *key[1:]].models))
                cells[key] = replace(cell, t_test=replace(cell.t_test, adjusted=p_value, tests=len(adjusted)))
        return list(cells.values())

    def sign_test(self, key: Key, other: Key) -> SignTest:
        """Test whether one key errs less than another."""
        return sign_test(self.counts[key].errors, self.counts[other].errors)

    def t_test(self, key: Key, other: Key) -> CorrectedTest:
        """Test whether two keys differ."""
        own = self.counts[key]
        return corrected_t_test(
            own.errors, self.counts[other].errors, own.rows, own.training, of_counts=key[2] not in OF_VARIANCE
        )

    def _cell(self, key: Key, reference: str) -> Cell:
        own, other = self.counts[key], (reference, *key[1:])
        sizes = own.rows, own.training
        variance = math.inf if key[2] in OF_VARIANCE else row_variance_of(own.errors, *sizes)
        summary = Summary.of(own.percent, overlap_of(*sizes), variance)
        used = own.used.tolist()
        cell = Cell(*key, summary, used=min(used), used_by_split=tuple(used))
        lines = self.by_key[key]
        if "inner_errors" in lines[0]:
            inner, effective = ([line[name] for line in lines] for name in ("inner_errors", "effective_rows"))
            cell = replace(cell, interval=nested_interval(own.errors, inner, *sizes, effective))
        if key[0] == reference or other not in self.counts:
            return cell
        return replace(cell, test=self.sign_test(key, other), t_test=self.t_test(key, other))


def p_values(cells: Mapping[Key, Cell], reference: str) -> dict[Comparison, float]:
    """Return the p-values of the t-tests of cells against the reference, one for each pair of models."""
    return {
        (cell.models, cells[reference, *key[1:]].models): cell.t_test.p_value
        for key, cell in cells.items()
        if cell.t_test is not None and cell.t_test.p_value is not None
    }


def holm_by_models(p_values: Mapping[Comparison, float]) -> dict[Comparison, float]:
    """Return p-values after Holm's correction for all of them."""
    return dict(zip(p_values, holm(list(p_values.values())), strict=True))


def cells_table(cells: Iterable[Cell]) -> pa.Table:
    """Return cells for Parquet and CSV: one row each, in percent, null for what is unknown.

    ``wins``, ``untied`` and ``p_value`` are those of the sign test. ``difference`` and what follows are of the
    corrected t-test: the difference from the reference, its standard error, its two-sided p-value, that after Holm's
    correction, and for how many tests. ``interval_low`` and ``interval_high`` are of nested folds.
    """
    lines = [{name: _value(cell, attribute) for name, (_, attribute) in CELL_FIELDS.items()} for cell in cells]
    types = {name: of_type for name, (of_type, _) in CELL_FIELDS.items()}
    if any(isinstance(line["n_components"], float) for line in lines):  # shares
        types["n_components"] = pa.float64()
    return pa.Table.from_pylist(lines, schema=pa.schema(list(types.items())))


def classes_table(table: ErrorTable, cells: Iterable[Cell], classes: Sequence[str]) -> pa.Table:
    """Return errors by class for Parquet and CSV, as of `ErrorTable.by_class`: one row for each cell and class."""
    lines = [
        {"method": cell.method, "n_components": cell.n_components, "used": cell.used, "classifier": cell.classifier,
         "class": name, "rows": rows, "mean": or_none(mean)}
        for cell in cells
        for name, rows, mean in zip(classes, *table.by_class(cell.key), strict=True)
    ]  # fmt: skip
    return pa.Table.from_pylist(lines)


def _value(cell: Cell, attribute: str) -> Any:
    """Return a value of a cell, or of its summary or a test; None where there is no test, and of what is unknown."""
    part, _, name = attribute.rpartition(".")
    value = getattr(getattr(cell, part) if part else cell, name, None)
    return or_none(value) if isinstance(value, float) else value
