"""A choice of columns: their names or numbers, in a list or in a file, and the rows of a table in these alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import vstack

from mmpca_dist.errors import InputError, did_you_mean, instead_of, some_names
from mmpca_dist.faults import Setting
from mmpca_dist.stores import storage
from mmpca_dist.tables.column import Column
from mmpca_dist.tables.source import Source
from mmpca_dist.tables.spans import overlaps, unit_edges

Columns = str | Sequence[str | int]
"""Names or numbers of columns, or the address of a file with one of them a line."""


def listed(columns: Columns) -> list[str | int]:
    """Return a choice of columns as a list; read its file where it names one."""
    if not isinstance(columns, str):
        return list(columns)
    file = storage.normalize(columns)
    if not storage.exists(file):
        raise InputError(
            f"{{setting}} is {columns!r}, and there is no such file. Name a file with a column a line, or list the "
            "columns.",
            setting=Setting("columns"),
        )
    with instead_of(UnicodeDecodeError, InputError, f"{file} is not text, with a column a line: {{reason}}."):
        lines = storage.read_bytes(file).decode("utf-8-sig").splitlines()
    return [line.strip() for line in lines if line.strip()]


def positions_of(columns: Sequence[str | int], names: Sequence[str] | None, n_features: int, uri: str) -> list[int]:
    """Return the numbers of the chosen columns, in the order of the choice; ``names`` are those of all columns.

    Raises InputError where there is no such column, or one is chosen twice, or none.
    """
    numbers = {name: i for i, name in enumerate(names or ())}
    refused = partial(InputError, setting=Setting("columns"))
    positions = []
    for column in columns:
        number = numbers.get(str(column)) if isinstance(column, str) else column
        if number is None and names is None and str(column).isdecimal():
            number = int(column)
        if number is None and names is None:
            raise refused(f"{{setting}} names {column!r}, and the columns of {uri} have no names: give their numbers.")
        if number is None:
            hint = did_you_mean(str(column), numbers) or f" They are {some_names(list(numbers))}."
            raise refused(f"{{setting}} names {column!r}, which is no feature of {uri}.{hint}")
        if not 0 <= number < n_features:
            raise refused(f"{{setting}} has column {column}; those of {uri} are numbered 0 to {n_features - 1}.")
        positions.append(number)
    if not positions:
        raise refused(f"{{setting}} chooses no column of {uri}. Name some, or leave it out for all.")
    number, times = Counter(positions).most_common(1)[0]
    if times > 1:
        name = repr(names[number]) if names else number
        raise refused(f"{{setting}} has column {name} {times} times: leave out all but one.")
    return positions


def with_columns(source: Source, columns: Columns | None) -> Source:
    """Return a source with the chosen columns alone, which readers of named columns have chosen themselves."""
    if columns is None or source.named_columns:
        return source
    names, width = source.feature_names, source.n_features
    return SomeColumns(source, positions_of(listed(columns), names, width, source.uri))


class SomeColumns(Source):
    """The rows of a source in some of its columns, in any order; sparse rows stay sparse.

    Rows are read whole, a reading unit at a time.
    """

    in_memory = False  # rows are new ones

    def __init__(self, rows: Source, positions: Sequence[int]) -> None:
        names = rows.feature_names
        self.facts = replace(
            rows.facts, n_features=len(positions), image_shape=None,
            feature_names=None if names is None else [names[i] for i in positions],
        )  # fmt: skip
        self._rows, self._positions = rows, np.asarray(positions)
        self._units = unit_edges(rows.chunk_edges, rows.row_bytes) if rows.n_rows else rows.chunk_edges
        self.features, self.label, self.note = rows.features, rows.label, rows.note

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return self._rows.chunk_edges

    def column(self, name: str | None, setting: Setting | str) -> Column:
        return self._rows.column(name, setting)

    def describe_chunk(self, row: int) -> str:
        return self._rows.describe_chunk(row)

    @property
    def beside_names(self) -> Sequence[str]:  # type: ignore[override]
        return self._rows.beside_names

    @property
    def addresses(self) -> Sequence[str]:
        return self._rows.addresses

    def fingerprint(self) -> str:
        return storage.digest("columns", self._rows.fingerprint(), self._positions.tolist())

    @property
    def n_bytes(self) -> int:
        return self._rows.n_bytes

    @property
    def nnz(self) -> int:
        return min(self._rows.nnz, self.n_rows * self.n_features)

    def read(self, start: int, stop: int, out: NDArray | None = None) -> Any:
        units = list(overlaps(self._units, start, stop))
        if self.sparse:
            pieces = [self._rows.read(first, last)[:, self._positions] for _, first, last in units]
            return vstack(pieces, format="csr").sorted_indices()
        out = np.empty((stop - start, self.n_features), self.dtype) if out is None else out
        for _, first, last in units:
            rows = self._rows.read(first, last)
            np.take(rows, self._positions, axis=1, out=out[first - start : last - start], mode="clip")
        return out
