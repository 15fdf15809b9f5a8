"""Covariates of rows: columns of numbers or categories whose influence is to be removed, as centred numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError, some_names
from mmpca_dist.limits import LIMITS
from mmpca_dist.tables.column import Column, Known
from mmpca_dist.tables.labels import distinct_labels
from mmpca_dist.tables.plain_arrays import plain
from mmpca_dist.tables.values import Place, SeenRows, names, numbers

BY_NAME = "by name"
"""In the place of covariates: those of the table that the rows are in."""


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
    def of(cls, name: str, rows: SeenRows, column: Column) -> Covariate:
        """Look at a column once."""
        counts, total, squares, numeric = Counter[Any](), 0.0, 0.0, False
        for known, place, _ in rows.values(column):
            kind = known[0].dtype.kind
            if kind in "mM":
                raise InputError(
                    f"{column.place} holds dates; a covariate holds numbers or names. Turn dates into numbers, such as "
                    "days since one of them."
                )
            numeric = kind in "iuf"
            if numeric:
                values = numbers(known, place, "covariate")
                total, squares = total + float(values.sum()), squares + float(values @ values)
                continue
            found, times = np.unique(names(known, place), return_counts=True)
            counts.update(dict(zip(found.tolist(), times.tolist(), strict=True)))
            if len(counts) > LIMITS.max_levels:
                raise InputError(f"The covariate {name!r} has more than {LIMITS.max_levels:,} categories.")
        n = rows.n_rows
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

    def encoded(self, known: Known, place: Place) -> NDArray[np.float64]:
        """Return the numbers of rows, shape (n, k)."""
        if self.levels is None:
            return (numbers(known, place, "covariate")[:, None] - self.centre) / self.scale
        levels = names(known, place)
        unknown = ~np.isin(levels, self.levels)
        if unknown.any():
            position = int(np.argmax(unknown))
            raise InputError(
                f"Row {place.row(position)} (from 0) has {self.name} {levels[position]!s} in {place.where}, which no "
                "row had that the model was fitted to: what it adds is unknown. Leave such rows out, or fit again with "
                "rows that have it."
            )
        return (levels[:, None] == self.levels) - self.centre


def given_covariates(values: Any, n_rows: int, counting: NDArray[np.bool_] | None = None) -> dict[str, NDArray]:
    """Return covariates in memory, of shape (n,) or (n, q), or a data frame or a dict of columns, by name.

    ``counting`` tells which of the rows that they are given for are among the ``n_rows``.
    """
    columns = {}
    for name, given in _by_name(values).items():
        columns[name] = taken = given[counting] if counting is not None and len(counting) == len(given) else given
        if len(taken) != n_rows:
            raise InputError(
                f"The covariate {name!r} has {len(taken)} values; there must be one for each of {n_rows} rows."
            )
    return columns


def columns_beside(table: Any, covariates: Sequence[Covariate]) -> Any:
    """Return the columns of a table that a model's covariates name, in their order, as a table.

    Raises InputError where one is not there.
    """
    columns = getattr(table, "columns", ())
    stored = {str(name): name for name in columns if np.ndim(name) == 0}
    stored = {f"obs/{name}": own for name, own in stored.items()} | stored  # as Zarr groups of AnnData name them
    lacking = [each.name for each in covariates if each.name not in stored]
    if lacking:
        raise InputError(
            f"The model was fitted with the covariates {some_names([each.name for each in covariates])}, and X has no "
            f"column {lacking[0]!r}. Give those of the rows as covariates=..., or say covariates=None to project the "
            "rows as they are."
        )
    return table[[stored[each.name] for each in covariates]]


def _by_name(values: Any) -> dict[str, NDArray]:
    values = plain(values, "covariates")
    columns = list(values) if isinstance(values, Mapping) else getattr(values, "columns", ())
    if len(columns):
        return {str(name): np.asarray(plain(values[name], str(name))) for name in columns}
    array = np.asarray(values)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or not array.shape[1]:
        raise InputError(f"covariates have shape {array.shape}; they must have shape (n,) or (n, q).")
    return {f"covariate {j}": column for j, column in enumerate(array.T)}
