"""Covariates of rows: columns of numbers or categories whose influence is to be removed, as centred numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError, some_names
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores import storage
from mmpca_dist.tables.dataset import Dataset, value_units
from mmpca_dist.tables.labels import distinct_labels
from mmpca_dist.tables.proxies import DatasetProxy
from mmpca_dist.tables.readers.beside import column_in_memory


@dataclass(frozen=True)
class Covariate:
    """How a column becomes numbers: less a centre, which keeps digits, and over a scale.

    Attributes
    ----------
    name : str
    levels : array or None
        Sorted names of categories, each of which has an indicator, so that none is the one that others differ from:
        what a category adds that no training row has is taken as the average. None of numbers.
    centre : array of shape (k,)
    scale : float
    """

    name: str
    levels: NDArray | None
    centre: NDArray[np.float64]
    scale: float = 1.0

    @classmethod
    def of(cls, name: str, column: Dataset, digest: Any) -> Covariate:
        """Look at a column once; what it holds enters the digest."""
        counts, total, squares = dict[Any, int](), 0.0, 0.0
        kind = column.read_values(0, 1).dtype.kind
        if kind in "mM":
            raise InputError(
                f"{column.values_place} holds dates; a covariate holds numbers or names. Turn dates into numbers, such "
                "as days since one of them."
            )
        numeric = kind in "iuf"
        for start, stop in value_units(column):
            if numeric:
                values = _numbers(column, start, stop)
                total, squares = total + float(values.sum()), squares + float(values @ values)
            else:
                values = column.read_labels(start, stop)
                names, times = np.unique(values, return_counts=True)
                for level, count in zip(names.tolist(), times.tolist(), strict=True):
                    counts[level] = counts.get(level, 0) + count
                if len(counts) > LIMITS.max_levels:
                    raise InputError(f"The covariate {name!r} has more than {LIMITS.max_levels:,} categories.")
            digest.update(values.dtype.str.encode() + values.tobytes())
        n = column.n_rows
        if numeric:
            mean = total / n
            return cls(name, None, np.asarray([mean]), float(np.sqrt(max(squares / n - mean**2, 0.0))) or 1.0)
        alone = sum(count == 1 for count in counts.values())
        if 2 * alone > n:
            raise InputError(
                f"The covariate {name!r} is an identifier: {alone:,} of {n:,} rows have a category of their own, of "
                "which nothing would be left. Leave it out."
            )
        levels = sorted(counts)
        return cls(name, distinct_labels(levels), np.asarray([counts[level] / n for level in levels]))

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        levels = None if self.levels is None else [self.levels.dtype.str, self.levels.tolist()]
        return {"name": self.name, "levels": levels, "centre": self.centre.tolist(), "scale": self.scale}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Covariate:
        """Return what ``to_json`` made plain."""
        levels = None if record["levels"] is None else np.asarray(record["levels"][1], record["levels"][0])
        return cls(record["name"], levels, np.asarray(record["centre"]), record["scale"])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its numbers."""
        return (self.name,) if self.levels is None else tuple(f"{self.name}={level}" for level in self.levels)

    def encoded(self, column: Dataset, start: int, stop: int) -> NDArray[np.float64]:
        """Return the numbers of rows ``start`` to ``stop``, shape (n, k)."""
        if self.levels is None:
            return (_numbers(column, start, stop)[:, None] - self.centre) / self.scale
        names = column.read_labels(start, stop)
        unknown = ~np.isin(names, self.levels)
        if unknown.any():
            row = int(np.argmax(unknown))
            raise InputError(
                f"Row {column.source_row(start + row)} (from 0) has {self.name} {names[row]!s} in "
                f"{column.values_place}, which no row had that the model was fitted to: what it adds is unknown. Leave "
                "such rows out, or fit again with rows that have it."
            )
        return (names[:, None] == self.levels) - self.centre


def _numbers(column: Dataset, start: int, stop: int) -> NDArray[np.float64]:
    values = column.read_values(start, stop)
    if values.dtype.kind not in "iufb":
        raise InputError(f"{column.values_place} has type {values.dtype}; a covariate holds numbers or names.")
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise InputError(
            f"Row {column.source_row(start + row)} has the covariate {values[row]} in {column.values_place}. "
            "Leave the row out, or give it a number."
        )
    return values


class CovariateRows(DatasetProxy):
    """The rows of a data set with covariates from columns beside it."""

    def __init__(
        self, rows: Any, covariates: Sequence[Covariate], columns: Sequence[Dataset], digest: str = ""
    ) -> None:
        super().__init__(rows)
        self.covariates, self._columns, self._digest = tuple(covariates), tuple(columns), digest
        in_memory = all(column.in_memory for column in columns)
        self._encoded = self._read(0, rows.n_rows) if in_memory else None  # once, rather than unit by unit

    def fingerprint(self) -> str:
        return self._digest and storage.digest("covariates", self._rows.fingerprint(), self._digest)

    def read_covariates(self, start: int, stop: int) -> NDArray[np.float64]:
        return self._read(start, stop) if self._encoded is None else self._encoded[start:stop]

    def _read(self, start: int, stop: int) -> NDArray[np.float64]:
        pairs = zip(self.covariates, self._columns, strict=True)
        return np.concatenate([covariate.encoded(column, start, stop) for covariate, column in pairs], axis=1)


def with_covariates(rows: Any, columns: Mapping[str, Dataset]) -> CovariateRows:
    """Return the rows with covariates by name, after a look at their columns."""
    digest = hashlib.sha256()
    covariates = [Covariate.of(name, column, digest) for name, column in columns.items()]
    return CovariateRows(rows, covariates, list(columns.values()), digest.hexdigest())


def given_covariates(
    rows: Any, values: Any, known: Sequence[Covariate] | None = None, counting: NDArray[np.bool_] | None = None
) -> CovariateRows:
    """Return rows with covariates in memory, shape (n,) or (n, q), or a data frame.

    ``known`` are those of a fit. ``counting`` tells which rows the covariates are given for are among ``rows``.
    """
    columns = {}
    for name, given in _by_name(values).items():
        taken = given[counting] if counting is not None and len(counting) == len(given) else given
        columns[name] = column = column_in_memory(taken, name)
        if column.n_rows != rows.n_rows:
            raise InputError(
                f"The covariate {name!r} has {column.n_rows} values; there must be one for each of {rows.n_rows} rows."
            )
    if known is None:
        return with_covariates(rows, columns)
    names = [covariate.name for covariate in known]
    if list(columns) != names:
        raise InputError(f"The covariates are {some_names(list(columns))}; those of the fit were {some_names(names)}.")
    return CovariateRows(rows, known, list(columns.values()))


def _by_name(values: Any) -> dict[str, NDArray]:
    if hasattr(values, "columns") and len(values.columns):
        return {str(name): np.asarray(values[name]) for name in values.columns}
    array = np.asarray(values)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or not array.shape[1]:
        raise InputError(f"covariates have shape {array.shape}; they must have shape (n,) or (n, q).")
    return {f"covariate {j}": column for j, column in enumerate(array.T)}
