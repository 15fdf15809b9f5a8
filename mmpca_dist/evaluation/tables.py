"""Tables of errors: one row for each split, method, number of components and classifier; their cells over splits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.comparing import SignTest, Summary, sign_test

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
}


@dataclass(frozen=True)
class Cell:
    """A method's errors with so many components under one classifier, over the splits.

    Attributes
    ----------
    method : str
    n_components : int
        As asked for.
    classifier : str
    summary : Summary
        Of the errors in percent of the rows held out.
    test : SignTest or None
        Whether the method errs less than the reference with as many components under the same classifier, on counts
        of errors in the splits that both have; None of the reference itself, and where it has no such split.
    used : int
        The fewest components that the method gave in any split.
    given : tuple of int
        As many as it gave in each split: cells that agree in them, in method and in classifier are of the same models.
    """

    method: str
    n_components: int
    classifier: str
    summary: Summary
    test: SignTest | None = None
    used: int = 0
    given: tuple[int, ...] = ()

    @property
    def key(self) -> Key:
        """Method, number of components, classifier."""
        return self.method, self.n_components, self.classifier


@dataclass(frozen=True, eq=False)
class ErrorTable:
    """Errors on the rows held out, one row for each split, method, number of components and classifier.

    Attributes
    ----------
    split : int array of shape (m,)
    method : str array of shape (m,)
    n_components, used : int arrays of shape (m,)
        Components as asked for, and as many as the method gave.
    classifier : str array of shape (m,)
    errors, rows : int arrays of shape (m,)
        Rows misclassified, and rows held out.
    """

    split: NDArray[np.int64]
    method: NDArray[np.str_]
    n_components: NDArray[np.int64]
    used: NDArray[np.int64]
    classifier: NDArray[np.str_]
    errors: NDArray[np.int64]
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]]) -> ErrorTable:
        """Return the table of the records of splits.

        Parameters
        ----------
        records : iterable of dict
            For each split ``split``, ``rows`` (how many are held out) and ``errors``, a list of dicts with ``method``,
            ``n_components``, ``used``, ``classifier`` and ``errors``.

        Raises
        ------
        InputError
            Where a split holds out no rows, or has two counts of errors for one method, number and classifier.

        Examples
        --------
        >>> from mmpca_dist.evaluation.tables import ErrorTable
        >>> one = {"method": "pca", "n_components": 2, "used": 2, "classifier": "lda", "errors": 3}
        >>> ErrorTable.of([{"split": 0, "rows": 12, "errors": [one]}]).cells()[0].summary.mean
        25.0
        """
        lines = []
        for record in records:
            if record["rows"] < 1:
                raise InputError(f"Split {record['split']} holds out no rows; errors are shares of the rows held out.")
            lines += [{**entry, "split": record["split"], "rows": record["rows"]} for entry in record["errors"]]
        return cls._from_columns({name: [line[name] for line in lines] for name in FIELDS})

    @classmethod
    def from_arrow(cls, table: pa.Table) -> ErrorTable:
        """Return the table that ``to_arrow`` gave."""
        return cls._from_columns({name: table.column(name).to_pylist() for name in FIELDS})

    @classmethod
    def _from_columns(cls, columns: Mapping[str, list[Any]]) -> ErrorTable:
        arrays: dict[str, Any] = {
            name: np.asarray(columns[name], dtype=np.str_ if kind == pa.string() else np.int64)
            for name, kind in FIELDS.items()
        }
        made = cls(**arrays)
        _ = made.positions  # refuses what is there twice
        return made

    def __len__(self) -> int:
        return len(self.split)

    def to_arrow(self) -> pa.Table:
        """Return the table for Parquet and CSV, in the same order."""
        return pa.table({name: pa.array(getattr(self, name).tolist(), kind) for name, kind in FIELDS.items()})

    @property
    def methods(self) -> list[str]:
        """The methods, by their first rows."""
        return _in_order(self.method)

    @property
    def classifiers(self) -> list[str]:
        """The classifiers, by their first rows."""
        return _in_order(self.classifier)

    @property
    def sizes(self) -> list[int]:
        """The numbers of components that were asked for, ascending."""
        return [int(size) for size in np.unique(self.n_components)]

    @property
    def splits(self) -> list[int]:
        """The splits, ascending."""
        return [int(split) for split in np.unique(self.split)]

    @cached_property
    def positions(self) -> dict[Key, dict[int, int]]:
        """The row of the table for each key and split.

        Raises
        ------
        InputError
            Where there are two.
        """
        found: dict[Key, dict[int, int]] = {}
        keys = zip(self.method.tolist(), self.n_components.tolist(), self.classifier.tolist(), strict=True)
        for row, (key, split) in enumerate(zip(keys, self.split.tolist(), strict=True)):
            if split in found.setdefault(key, {}):
                method, size, classifier = key
                raise InputError(
                    f"Split {split} has two counts of errors for {method} with {size} components under {classifier}; "
                    "there must be one."
                )
            found[key][split] = row
        return found

    def cells(self, reference: str = "pca") -> list[Cell]:
        """Return means, deviations and sign tests over splits, by method, number of components and classifier.

        Parameters
        ----------
        reference : str
            The method that the others are tested against; with none of that name there are no tests.
        """
        keys = [(m, size, c) for m in self.methods for size in self.sizes for c in self.classifiers]
        return [self._cell(key, reference) for key in keys if key in self.positions]

    def paired(self, key: Key, other: Key) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the table's rows of two keys in the splits that both have, in the order of the splits."""
        one, two = self.positions.get(key, {}), self.positions.get(other, {})
        shared = sorted(one.keys() & two.keys())
        return (
            np.array([one[split] for split in shared], np.int64),
            np.array([two[split] for split in shared], np.int64),
        )

    def sign_test(self, key: Key, other: Key) -> SignTest | None:
        """Test whether one key errs less than another, on the splits that both have; None where there is no such."""
        one, two = self.paired(key, other)
        return sign_test(self.errors[one], self.errors[two]) if len(one) else None

    def percent(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the errors of rows of the table, in percent of the rows held out."""
        return 100 * self.errors[rows] / self.rows[rows]

    def _cell(self, key: Key, reference: str) -> Cell:
        own = self.positions[key]
        at = np.array([own[split] for split in sorted(own)])
        test = None if key[0] == reference else self.sign_test(key, (reference, *key[1:]))
        given = tuple(self.used[at].tolist())
        return Cell(*key, summary=Summary.of(self.percent(at)), test=test, used=min(given), given=given)


def cells_table(cells: Iterable[Cell]) -> pa.Table:
    """Return cells for Parquet and CSV: one row each, means and deviations in percent, null for what is unknown."""
    fields = {
        "method": pa.string(), "n_components": pa.int64(), "used": pa.int64(), "classifier": pa.string(),
        "mean": pa.float64(), "deviation": pa.float64(), "standard_error": pa.float64(), "splits": pa.int64(),
        "wins": pa.int64(), "untied": pa.int64(), "p_value": pa.float64(),
    }  # fmt: skip
    lines = [
        {
            "method": cell.method,
            "n_components": cell.n_components,
            "used": cell.used,
            "classifier": cell.classifier,
            "mean": cell.summary.mean,
            "deviation": _known(cell.summary.deviation),
            "standard_error": _known(cell.summary.standard_error),
            "splits": cell.summary.count,
            "wins": cell.test.wins if cell.test else None,
            "untied": cell.test.untied if cell.test else None,
            "p_value": cell.test.p_value if cell.test else None,
        }
        for cell in cells
    ]
    return pa.Table.from_pylist(lines, schema=pa.schema(list(fields.items())))


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _in_order(names: NDArray[np.str_]) -> list[str]:
    return list(dict.fromkeys(names.tolist()))
