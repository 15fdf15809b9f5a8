"""Some of the rows of a data set, without those that have no weight or no label; a label that says there is none."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack

from mmpca_dist.errors import InputError
from mmpca_dist.settings import setting_name
from mmpca_dist.stores import storage
from mmpca_dist.tables.dataset import Dataset, reading_edges
from mmpca_dist.tables.facts import passed_on
from mmpca_dist.tables.proxies import DatasetProxy

Keep = Callable[[int, int], NDArray[np.bool_]]
"""Tells which of the rows from one number to another are taken."""


def _taken(name: str) -> Any:
    """Return a method that reads the stretches of the source which hold some rows, and takes these from them."""

    def read(self: SelectedRows, start: int, stop: int) -> Any:
        taken = []
        for begin, end, places in self._stretches(start, stop):
            values = getattr(self._rows, name)(begin, end)
            if values is None:
                return None
            taken.append(values[places])
        return vstack(taken, format="csr") if issparse(taken[0]) else np.concatenate(taken)

    return read


class SelectedRows(DatasetProxy):
    """The rows of a data set that ``keep`` tells, in their order; they are numbered anew.

    Chunks stay as they are, less what is left out; a chunk of which no row is taken is not read. At most a reading unit
    of the source is read at once, however few rows are taken of it.
    """

    def __init__(self, rows: Dataset, keep: Keep, reason: str = "all have weight zero") -> None:
        edges = rows.chunk_edges
        sizes = np.asarray([np.count_nonzero(keep(*chunk)) for chunk in itertools.pairwise(edges.tolist())])
        filled = np.flatnonzero(sizes)
        if not len(filled):
            raise InputError(f"No row of {rows.uri} is left: {reason}.")
        n_rows = int(sizes.sum())
        super().__init__(rows, n_rows=n_rows, rows_read=rows.rows_read * rows.n_rows / n_rows)
        self._keep = keep
        self.chunk_edges = np.append(0, np.cumsum(sizes[filled]))
        self._starts, self._stops = edges[filled], edges[filled + 1]
        units = reading_edges(rows)
        is_next = np.diff(np.searchsorted(units, self._starts, side="right")) > 0
        self._cuts = 1 + np.flatnonzero(is_next | (self._starts[1:] > self._stops[:-1]))
        self._most = int(np.diff(units).max())

    fingerprint = passed_on("_rows.fingerprint")

    def _stretches(self, start: int, stop: int) -> Iterator[tuple[int, int, NDArray[np.intp]]]:
        """Yield the stretches of the source that are read for some rows, and the places of these in each."""
        first = int(np.searchsorted(self.chunk_edges, start, side="right")) - 1
        last = max(int(np.searchsorted(self.chunk_edges, stop)), first + 1)
        cuts = self._cuts[(self._cuts > first) & (self._cuts < last)].tolist()
        for chunk, after in itertools.pairwise([first, *cuts, last]):
            begin, end, before = int(self._starts[chunk]), int(self._stops[after - 1]), int(self.chunk_edges[chunk])
            yield begin, end, np.flatnonzero(self._keep(begin, end))[max(start - before, 0) : stop - before]

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        out, done = np.empty((stop - start, self.n_features), self.dtype) if out is None else out, 0
        for begin, end, places in self._stretches(start, stop):
            rows = self._rows.read_rows(begin, end)
            np.take(rows, places, axis=0, out=out[done : done + len(places)], mode="clip")
            done += len(places)
        return out

    read_labels = _taken("read_labels")
    is_labelled = _taken("is_labelled")
    read_sparse = _taken("read_sparse")
    read_values = _taken("read_values")
    read_weights = _taken("read_weights")
    read_covariates = _taken("read_covariates")
    read_targets = _taken("read_targets")
    source_rows = _taken("source_rows")

    def beside(self, column: Dataset) -> Dataset:
        return SelectedRows(self._rows.beside(column.with_gaps()), self._keep)

    def read_column(self, start: int, stop: int) -> Any:
        columns = ([self._rows.read_column(begin, end).take(at)] for begin, end, at in self._stretches(start, stop))
        return pa.concat_tables(pa.table(column, [""]) for column in columns).column(0)

    def describe_chunk(self, row: int) -> str:
        ((begin, _, places),) = self._stretches(row, row + 1)
        return self._rows.describe_chunk(begin + int(places[0]))

    def reading_bytes(self, n_rows: int) -> int:
        return self._rows.reading_bytes(self._most) + n_rows * self.row_bytes

    def sparse_bytes(self, n_rows: int) -> int:
        return self._rows.sparse_bytes(self._most) + 2 * self._rows.sparse_bytes(n_rows)


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
