"""Tables of errors by split, method, number of components and classifier."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.comparisons import (
    CorrectedTest,
    SignTest,
    Summary,
    corrected_t_test,
    holm,
    overlap_of,
    sign_test,
)

Key = tuple[str, int, str]
"""Method, number of components as asked for, classifier."""

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
    "method": pa.string(), "n_components": pa.int64(), "used": pa.int64(), "classifier": pa.string(),
    "mean": pa.float64(), "deviation": pa.float64(), "standard_error": pa.float64(), "splits": pa.int64(),
    "wins": pa.int64(), "untied": pa.int64(), "p_value": pa.float64(),
    "corrected_standard_error": pa.float64(), "difference": pa.float64(),
    "difference_standard_error": pa.float64(), "t_p_value": pa.float64(), "holm_p_value": pa.float64(),
    "tests": pa.int64(),
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A method's errors with so many components under one classifier, over the splits."""

    method: str
    n_components: int
    """As asked for."""
    classifier: str
    summary: Summary
    """Of the errors in percent of the rows held out."""
    test: SignTest | None = None
    """Whether the method errs less than the reference with as many components under the same classifier, on counts of
    errors in the splits that both have; None of the reference itself, and where it has no such split."""
    t_test: CorrectedTest | None = None
    """Whether the method and the reference differ, beyond these splits; None where ``test`` is."""
    used: int = 0
    """The fewest components that the method gave in any split."""
    used_by_split: tuple[int, ...] = ()
    """As many as it gave in each split: cells that agree in them, in method and in classifier are of the same
    models."""

    @property
    def key(self) -> Key:
        """Method, number of components, classifier."""
        return self.method, self.n_components, self.classifier

    @property
    def differs(self) -> bool:
        """Whether the mean differs from the reference's, significantly after Holm's correction."""
        return self.t_test is not None and self.t_test.is_significant


@dataclass(frozen=True, eq=False)
class ErrorTable:
    """Errors on the rows held out, one row for each split, method, number of components and classifier: columns."""

    split: NDArray[np.int64]
    method: NDArray[np.str_]
    n_components: NDArray[np.int64]
    """As asked for."""
    used: NDArray[np.int64]
    """Components that the method gave."""
    classifier: NDArray[np.str_]
    errors: NDArray[np.int64]
    """Rows held out that are misclassified."""
    rows: NDArray[np.int64]
    """Rows held out."""
    training: NDArray[np.int64]
    """Rows that train."""

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]], n_rows: int) -> ErrorTable:
        """Return the table of the records of splits.

        A record has ``split``, ``rows`` (how many are held out) and ``errors``, a list of dicts with ``method``,
        ``n_components``, ``used``, ``classifier`` and ``errors``. Of the ``n_rows`` of the data set, all that are not
        held out train. Raises InputError where a split holds out no rows or all of them, or has two counts of errors
        for one method, number and classifier.

        Examples
        --------
        >>> from mmpca_dist.evaluation.tables import ErrorTable
        >>> one = {"method": "pca", "n_components": 2, "used": 2, "classifier": "lda", "errors": 3}
        >>> ErrorTable.of([{"split": 0, "rows": 12, "errors": [one]}], 60).cells()[0].summary.mean
        25.0
        """
        lines = []
        for record in records:
            if record["rows"] < 1:
                raise InputError(f"Split {record['split']} holds out no rows; errors are shares of the rows held out.")
            if record["rows"] >= n_rows:
                raise InputError(f"Split {record['split']} holds out all {n_rows} rows; none is left to train on.")
            of_split = {"split": record["split"], "rows": record["rows"], "training": n_rows - record["rows"]}
            lines += [{**entry, **of_split} for entry in record["errors"]]
        columns: dict[str, Any] = {
            name: np.asarray([line[name] for line in lines], np.str_ if kind == pa.string() else np.int64)
            for name, kind in FIELDS.items()
        }
        table = cls(**columns)
        _ = table.positions  # refuses what is there twice
        return table

    def __len__(self) -> int:
        return len(self.split)

    def to_arrow(self) -> pa.Table:
        """Return the table for Parquet and CSV, in the same order."""
        return pa.table({name: pa.array(getattr(self, name).tolist(), kind) for name, kind in FIELDS.items()})

    @property
    def methods(self) -> list[str]:
        """The methods, by their first rows."""
        return list(dict.fromkeys(self.method.tolist()))

    @property
    def classifiers(self) -> list[str]:
        """The classifiers, by their first rows."""
        return list(dict.fromkeys(self.classifier.tolist()))

    @property
    def sizes(self) -> list[int]:
        """The numbers of components that were asked for, ascending."""
        return np.unique(self.n_components).tolist()

    @property
    def splits(self) -> list[int]:
        """The splits, ascending."""
        return np.unique(self.split).tolist()

    @cached_property
    def positions(self) -> dict[Key, dict[int, int]]:
        """The row of the table for each key and split. Raises InputError where there are two."""
        positions: dict[Key, dict[int, int]] = {}
        keys = zip(self.method.tolist(), self.n_components.tolist(), self.classifier.tolist(), strict=True)
        for row, (key, split) in enumerate(zip(keys, self.split.tolist(), strict=True)):
            if split in positions.setdefault(key, {}):
                method, size, classifier = key
                raise InputError(
                    f"Split {split} has two counts of errors for {method} with {size} components under {classifier}; "
                    "there must be one."
                )
            positions[key][split] = row
        return positions

    def cells(self, reference: str = "pca") -> list[Cell]:
        """Return means, deviations and tests over splits, by method, number of components and classifier.

        Holm's correction is for all tests of the table; one that repeats another, as both methods gave the same numbers
        of components, counts once. With no method of the name ``reference`` there are no tests.
        """
        keys = [(m, size, c) for m in self.methods for size in self.sizes for c in self.classifiers]
        cells = [self._cell(key, reference) for key in keys if key in self.positions]
        p_values = self.p_values(cells, reference)
        adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))
        for i, cell in enumerate(cells):
            if cell.t_test is not None:
                p_value = adjusted.get(self._comparison(cell.key, reference))
                cells[i] = replace(cell, t_test=replace(cell.t_test, adjusted=p_value, tests=len(adjusted)))
        return cells

    def paired(self, key: Key, other: Key) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the table's rows of two keys in the splits that both have, in the order of the splits."""
        both = [self.positions.get(key, {}), self.positions.get(other, {})]
        shared = sorted(both[0].keys() & both[1].keys())
        first, second = (np.array([rows[split] for split in shared], np.int64) for rows in both)
        return first, second

    def sign_test(self, key: Key, other: Key) -> SignTest | None:
        """Test whether one key errs less than another, on the splits that both have; None where there is no such."""
        rows, reference = self.paired(key, other)
        return sign_test(self.errors[rows], self.errors[reference]) if len(rows) else None

    def t_test(self, key: Key, other: Key) -> CorrectedTest | None:
        """Test whether two keys differ, on the splits that both have; None where there is no such."""
        rows, reference = self.paired(key, other)
        if not len(rows):
            return None
        return corrected_t_test(self.errors[rows], self.errors[reference], self.rows[rows], self.training[rows])

    def percent(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the errors of rows of the table, in percent of the rows held out."""
        return 100 * self.errors[rows] / self.rows[rows]

    def _cell(self, key: Key, reference: str) -> Cell:
        positions, other = self.positions[key], (reference, *key[1:])
        at = np.array([positions[split] for split in sorted(positions)])
        summary = Summary.of(self.percent(at), overlap_of(self.rows[at], self.training[at]))
        used = self.used[at].tolist()
        tests = (None, None) if key[0] == reference else (self.sign_test(key, other), self.t_test(key, other))
        return Cell(*key, summary, *tests, used=min(used), used_by_split=tuple(used))

    def p_values(self, cells: Iterable[Cell], reference: str) -> dict[tuple[Any, ...], float]:
        """Return the p-values of the t-tests of cells, one for each test that does not repeat another."""
        return {
            self._comparison(cell.key, reference): cell.t_test.p_value
            for cell in cells
            if cell.t_test is not None and cell.t_test.p_value is not None
        }

    def _comparison(self, key: Key, reference: str) -> tuple[Any, ...]:
        """Return what tells whether two tests are of the same models."""
        used = (tuple(self.used[rows].tolist()) for rows in self.paired(key, (reference, *key[1:])))
        return key[0], key[2], *used


def cells_table(cells: Iterable[Cell]) -> pa.Table:
    """Return cells for Parquet and CSV: one row each, in percent, null for what is unknown.

    ``wins``, ``untied`` and ``p_value`` are those of the sign test. ``difference`` and what follows are of the
    corrected t-test: the difference from the reference, its standard error, its two-sided p-value, that after Holm's
    correction, and for how many tests.
    """
    return pa.Table.from_pylist([_cell_line(cell) for cell in cells], schema=pa.schema(list(CELL_FIELDS.items())))


def _cell_line(cell: Cell) -> dict[str, Any]:
    summary, test, t_test = cell.summary, cell.test, cell.t_test
    line: dict[str, Any] = {
        "method": cell.method,
        "n_components": cell.n_components,
        "used": cell.used,
        "classifier": cell.classifier,
        "mean": summary.mean,
        "deviation": summary.deviation,
        "standard_error": summary.standard_error,
        "splits": summary.count,
        "corrected_standard_error": summary.corrected_standard_error,
    }
    if test is not None:
        line |= {"wins": test.wins, "untied": test.untied, "p_value": test.p_value}
    if t_test is not None:
        line |= {
            "difference": t_test.difference,
            "difference_standard_error": t_test.standard_error,
            "t_p_value": t_test.p_value,
            "holm_p_value": t_test.adjusted,
            "tests": t_test.tests,
        }
    unknown = [name for name, value in line.items() if isinstance(value, float) and not math.isfinite(value)]
    return line | dict.fromkeys(unknown)
