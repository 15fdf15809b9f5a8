"""A choice of columns: their names or numbers, in a list or in a file, and the rows of a table in these alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from mmpca_dist.errors import InputError, did_you_mean, some_names
from mmpca_dist.settings import setting_name
from mmpca_dist.stores import storage
from mmpca_dist.tables.dataset import Dataset, overlaps, unit_edges
from mmpca_dist.tables.proxies import DatasetProxy

Columns = str | Sequence[str | int]
"""Names or numbers of columns, or the address of a file with one of them a line."""


def listed(columns: Columns) -> list[str | int]:
    """Return a choice of columns as a list; read its file where it names one."""
    if not isinstance(columns, str):
        return list(columns)
    file = storage.normalize(columns)
    if not storage.exists(file):
        raise InputError(
            f"{setting_name('columns')} is {columns!r}, and there is no such file. Name a file with a column a line, "
            "or list the columns."
        )
    try:
        lines = storage.read_bytes(file).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not text, with a column a line: {error}.") from error
    return [line.strip() for line in lines if line.strip()]


def positions_of(columns: Sequence[str | int], names: Sequence[str] | None, n_features: int, uri: str) -> list[int]:
    """Return the numbers of the chosen columns, in the order of the choice; ``names`` are those of all columns.

    Raises InputError where there is no such column, or one is chosen twice, or none.
    """
    setting, numbers = setting_name("columns"), {name: i for i, name in enumerate(names or ())}
    positions = []
    for column in columns:
        number = numbers.get(str(column)) if isinstance(column, str) else column
        if number is None and names is None and str(column).isdecimal():
            number = int(column)
        if number is None and names is None:
            raise InputError(f"{setting} names {column!r}, and the columns of {uri} have no names: give their numbers.")
        if number is None:
            hint = did_you_mean(str(column), numbers) or f" They are {some_names(list(numbers))}."
            raise InputError(f"{setting} names {column!r}, which is no feature of {uri}.{hint}")
        if not 0 <= number < n_features:
            raise InputError(f"{setting} has column {column}; those of {uri} are numbered 0 to {n_features - 1}.")
        positions.append(number)
    if not positions:
        raise InputError(f"{setting} chooses no column of {uri}. Name some, or leave it out for all.")
    number, times = Counter(positions).most_common(1)[0]
    if times > 1:
        name = repr(names[number]) if names else number
        raise InputError(f"{setting} has column {name} {times} times: leave out all but one.")
    return positions


def with_columns(dataset: Dataset, columns: Columns | None) -> Dataset:
    """Return the rows of a data set in the chosen columns alone; all where none are chosen.

    Readers of named columns read no others, and have chosen by themselves.
    """
    if columns is None or dataset.named_columns:
        return dataset
    names, width = dataset.feature_names, dataset.n_features
    return ChosenColumns(dataset, positions_of(listed(columns), names, width, dataset.uri))


class ChosenColumns(DatasetProxy):
    """The rows of a data set in some of its columns, in any order; sparse rows stay sparse.

    Rows are read whole, a reading unit at a time.
    """

    in_memory = False  # rows are new ones

    def __init__(self, rows: Dataset, positions: Sequence[int]) -> None:
        names = rows.feature_names
        super().__init__(
            rows, n_features=len(positions), image_shape=None,
            feature_names=None if names is None else [names[i] for i in positions],
        )  # fmt: skip
        self._positions = np.asarray(positions)
        self._edges = unit_edges(rows.chunk_edges, rows.row_bytes) if rows.n_rows else rows.chunk_edges
        self._most = int(np.diff(self._edges).max(initial=0))

    def fingerprint(self) -> str:
        return storage.digest("columns", self._rows.fingerprint(), self._positions.tolist())

    @property
    def nnz(self) -> int:
        return min(self._rows.nnz, self.n_rows * self.n_features)

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        out = np.empty((stop - start, self.n_features), self.dtype) if out is None else out
        for _, first, last in overlaps(self._edges, start, stop):
            rows = self._rows.read_rows(first, last)
            np.take(rows, self._positions, axis=1, out=out[first - start : last - start], mode="clip")
        return out

    def read_sparse(self, start: int, stop: int) -> csr_array:
        if not self.sparse:
            return csr_array(self.read_rows(start, stop))
        pieces = [
            self._rows.read_sparse(first, last)[:, self._positions]
            for _, first, last in overlaps(self._edges, start, stop)
        ]
        return vstack(pieces, format="csr").sorted_indices()

    def reading_bytes(self, n_rows: int) -> int:
        return n_rows * self.row_bytes + self._rows.reading_bytes(min(n_rows, self._most))

    def sparse_bytes(self, n_rows: int) -> int:
        if not self.sparse:
            return self.reading_bytes(n_rows) + 2 * n_rows * self.row_bytes
        return self._rows.sparse_bytes(n_rows) + 2 * self._rows.sparse_bytes(min(n_rows, self._most))
