"""Data sets that are made of others: the bases of what changes rows, labels or weights as they are read."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mmpca_dist.tables.dataset import Dataset, MissingLabels


class DatasetProxy(Dataset):
    """Base of data sets that read the rows of another one, ``_rows``, and have its facts but for some ``changes``."""

    _rows: Dataset

    def __init__(self, rows: Dataset, **changes: Any) -> None:
        self._rows, self._changes = rows, changes
        self.facts = replace(rows.facts, **changes)

    def on(self, rows: Dataset) -> Self:
        """Return the same of other rows."""
        same = copy(self)
        DatasetProxy.__init__(same, rows, **self._changes)
        return same

    def over(self, rows: Dataset) -> Dataset:
        return self.on(self._rows.over(rows))

    @property
    def stored(self) -> Dataset:
        return self._rows.stored

    @property
    def in_memory(self) -> bool:
        return self._rows.in_memory

    @property
    def named_columns(self) -> bool:
        return self._rows.named_columns

    @property
    def widening(self) -> Any:
        return self._rows.widening

    def adjusted(self, adjustment: Any) -> Dataset:
        return self.on(self._rows.adjusted(adjustment))

    @property
    def missing_labels(self) -> MissingLabels | None:
        return self._rows.missing_labels

    @property
    def addresses(self) -> list[str]:
        return self._rows.addresses

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return self._rows.chunk_edges

    @property
    def n_bytes(self) -> int:
        return self._rows.n_bytes

    @property
    def nnz(self) -> int:
        return self._rows.nnz

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        return self._rows.read_rows(start, stop, out)

    def read_sparse(self, start: int, stop: int) -> csr_array:
        return self._rows.read_sparse(start, stop)

    def read_labels(self, start: int, stop: int) -> NDArray:
        return self._rows.read_labels(start, stop)

    def is_labelled(self, start: int, stop: int) -> NDArray[np.bool_]:
        return self._rows.is_labelled(start, stop)

    def read_weights(self, start: int, stop: int) -> NDArray[np.float64] | None:
        return self._rows.read_weights(start, stop)

    @property
    def covariates(self) -> tuple[Any, ...]:
        return self._rows.covariates

    def read_covariates(self, start: int, stop: int) -> NDArray[np.float64] | None:
        return self._rows.read_covariates(start, stop)

    @property
    def slice_edges(self) -> tuple[float, ...]:
        return self._rows.slice_edges

    @property
    def targets(self) -> tuple[str, ...]:
        return self._rows.targets

    def read_targets(self, start: int, stop: int) -> NDArray[np.float64]:
        return self._rows.read_targets(start, stop)

    def read_values(self, start: int, stop: int) -> NDArray:
        return self._rows.read_values(start, stop)

    @property
    def values_place(self) -> str:
        return self._rows.values_place

    def beside(self, column: Dataset) -> Dataset:
        return self._rows.beside(column)

    def source_rows(self, start: int, stop: int) -> NDArray[np.int64]:
        return self._rows.source_rows(start, stop)

    def describe_chunk(self, row: int) -> str:
        return self._rows.describe_chunk(row)

    def reading_bytes(self, n_rows: int) -> int:
        return self._rows.reading_bytes(n_rows)

    def sparse_bytes(self, n_rows: int) -> int:
        return self._rows.sparse_bytes(n_rows)


class Relabelled(DatasetProxy):
    """Base of data sets that read the rows of another, and have labels of their own."""

    def __init__(self, rows: Dataset, **changes: Any) -> None:
        super().__init__(rows, **{"has_labels": True, **changes})

    @property
    def missing_labels(self) -> MissingLabels | None:
        return None

    def read_values(self, start: int, stop: int) -> NDArray:
        return self.read_labels(start, stop)

    def fingerprint(self) -> str:
        return ""


class Unlabelled(DatasetProxy):
    """The rows of a data set without its labels."""

    def __init__(self, rows: Dataset) -> None:
        super().__init__(rows, has_labels=False)

    def fingerprint(self) -> str:
        return self._rows.fingerprint()


class LoadedRows(DatasetProxy):
    """Base of data sets that each process loads whole, as ``_rows``."""

    def __init__(self, rows: Dataset, **changes: Any) -> None:
        self.facts = replace(rows.facts, **changes)

    @property
    def stored(self) -> Dataset:
        return self
