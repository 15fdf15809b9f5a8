"""Some of the rows of a data set, without those that have no weight or no label; a label that says there is none."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.settings import setting_name
from mmpca_dist.stores import storage
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.facts import passed_on
from mmpca_dist.tables.proxies import DatasetProxy

Keep = Callable[[int, int], NDArray[np.bool_]]
"""Tells which of the rows from one number to another are taken."""


def _taken(name: str) -> Any:
    """Return a method that reads the stretch of the source which holds some rows, and takes these from it."""

    def read(self: SelectedRows, start: int, stop: int) -> Any:
        begin, end, places = self._within(start, stop)
        values = getattr(self._rows, name)(begin, end)
        return None if values is None else values[places]

    return read


class SelectedRows(DatasetProxy):
    """The rows of a data set that ``keep`` tells, in their order; they are numbered anew.

    Chunks stay as they are, less what is left out, so that each is read once.
    """

    def __init__(self, rows: Dataset, keep: Keep, reason: str = "all have weight zero") -> None:
        edges = rows.chunk_edges.tolist()
        sizes = np.asarray([np.count_nonzero(keep(start, stop)) for start, stop in itertools.pairwise(edges)])
        filled = np.flatnonzero(sizes)
        if not len(filled):
            raise InputError(f"No row of {rows.uri} is left: {reason}.")
        super().__init__(rows, n_rows=int(sizes.sum()))
        self._keep = keep
        self.chunk_edges = np.append(0, np.cumsum(sizes[filled]))
        self._starts, self._stops = np.asarray(edges)[filled], np.asarray(edges)[filled + 1]
        self._most = float(np.max((self._stops - self._starts) / sizes[filled]))

    fingerprint = passed_on("_rows.fingerprint")

    def _within(self, start: int, stop: int) -> tuple[int, int, NDArray[np.intp]]:
        """Return the stretch of the source that holds these rows, and their places in it."""
        edges = self.chunk_edges
        first, last = np.searchsorted(edges, start, side="right") - 1, np.searchsorted(edges, stop) - 1
        begin, end = int(self._starts[first]), int(self._stops[last])
        skipped = start - int(edges[first])
        return begin, end, np.flatnonzero(self._keep(begin, end))[skipped : skipped + stop - start]

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        begin, end, places = self._within(start, stop)
        return np.take(self._rows.read_rows(begin, end), places, axis=0, out=out, mode="clip")

    read_labels = _taken("read_labels")
    is_labelled = _taken("is_labelled")
    read_sparse = _taken("read_sparse")
    read_values = _taken("read_values")
    read_weights = _taken("read_weights")
    read_covariates = _taken("read_covariates")
    read_targets = _taken("read_targets")
    source_rows = _taken("source_rows")

    def beside(self, column: Dataset) -> Dataset:
        return SelectedRows(self._rows.beside(column), self._keep)

    def read_column(self, start: int, stop: int) -> Any:
        begin, end, places = self._within(start, stop)
        return self._rows.read_column(begin, end).take(places)

    def describe_chunk(self, row: int) -> str:
        begin, _, places = self._within(row, row + 1)
        return self._rows.describe_chunk(begin + int(places[0]))

    def reading_bytes(self, n_rows: int) -> int:
        return self._rows.reading_bytes(int(np.ceil(n_rows * self._most))) + n_rows * self.row_bytes

    def sparse_bytes(self, n_rows: int) -> int:
        return 2 * self._rows.sparse_bytes(int(np.ceil(n_rows * self._most)))


class LabelsWithout(DatasetProxy):
    """The rows of a data set; those whose label is ``value`` have none, which ``refuses`` tells to be an error."""

    def __init__(self, rows: Dataset, value: str | int, refuses: bool) -> None:
        super().__init__(rows)
        self._value, self._refuses, missing = value, refuses, rows.missing_labels
        is_none = missing is not None and self._is_value(np.asarray([missing.fill]))[0]
        self.missing_labels = None if is_none else missing

    def _is_value(self, labels: NDArray) -> NDArray[np.bool_]:
        if labels.dtype.kind == "U":
            return np.asarray(labels == str(self._value))
        is_number = isinstance(self._value, int) or self._value.removeprefix("-").isdecimal()
        return np.asarray(labels == int(self._value)) if is_number else np.zeros(len(labels), bool)

    def read_labels(self, start: int, stop: int) -> NDArray:
        labels = self._rows.read_labels(start, stop)
        if self._refuses and (absent := self._is_value(labels)).any():
            raise InputError(
                f"Row {start + int(np.argmax(absent))} of {self.uri} has the label {self._value!r}, which "
                f"unlabelled_value says is none. {setting_name('unlabelled', 'skip')} leaves out such rows."
            )
        return labels

    def is_labelled(self, start: int, stop: int) -> NDArray[np.bool_]:
        labelled = self._rows.is_labelled(start, stop)
        labelled[labelled] = ~self._is_value(self._rows.read_labels(start, stop)[labelled])
        return labelled

    def fingerprint(self) -> str:
        return storage.digest("without", self._rows.fingerprint(), str(self._value))
