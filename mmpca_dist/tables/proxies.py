"""Data sets that are made of others: the bases of what changes rows, labels or weights as they are read."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Self

from numpy.typing import NDArray

from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.facts import passed_on


class DatasetProxy(Dataset):
    """Base of data sets that read the rows of another one, ``_rows``, and have its facts but for some ``changes``."""

    _rows: Dataset
    _columns: Sequence[Dataset] = ()
    """What is read beside the rows."""

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

    def adjusted(self, adjustment: Any) -> Dataset:
        return self.on(self._rows.adjusted(adjustment))

    @property
    def addresses(self) -> list[str]:
        return list(dict.fromkeys(address for each in (self._rows, *self._columns) for address in each.addresses))

    stored = passed_on("_rows.stored")
    in_memory = passed_on("_rows.in_memory")
    named_columns = passed_on("_rows.named_columns")
    widening = passed_on("_rows.widening")
    missing_labels = passed_on("_rows.missing_labels")
    chunk_edges = passed_on("_rows.chunk_edges")
    n_bytes = passed_on("_rows.n_bytes")
    nnz = passed_on("_rows.nnz")
    read_rows = passed_on("_rows.read_rows")
    read_sparse = passed_on("_rows.read_sparse")
    read_labels = passed_on("_rows.read_labels")
    is_labelled = passed_on("_rows.is_labelled")
    read_weights = passed_on("_rows.read_weights")
    covariates = passed_on("_rows.covariates")
    read_covariates = passed_on("_rows.read_covariates")
    slice_edges = passed_on("_rows.slice_edges")
    targets = passed_on("_rows.targets")
    read_targets = passed_on("_rows.read_targets")
    read_values = passed_on("_rows.read_values")
    values_place = passed_on("_rows.values_place")
    beside = passed_on("_rows.beside")
    source_rows = passed_on("_rows.source_rows")
    describe_chunk = passed_on("_rows.describe_chunk")
    reading_bytes = passed_on("_rows.reading_bytes")
    sparse_bytes = passed_on("_rows.sparse_bytes")


class Relabelled(DatasetProxy):
    """Base of data sets that read the rows of another, and have labels of their own."""

    def __init__(self, rows: Dataset, **changes: Any) -> None:
        super().__init__(rows, **{"has_labels": True, **changes})

    missing_labels = None

    def read_values(self, start: int, stop: int) -> NDArray:
        return self.read_labels(start, stop)

    def fingerprint(self) -> str:
        return ""


class Unlabelled(DatasetProxy):
    """The rows of a data set without its labels."""

    def __init__(self, rows: Dataset) -> None:
        super().__init__(rows, has_labels=False)

    fingerprint = passed_on("_rows.fingerprint")


class LoadedRows(DatasetProxy):
    """Base of data sets that each process loads whole, as ``_rows``."""

    def __init__(self, rows: Dataset, **changes: Any) -> None:
        self.facts = replace(rows.facts, **changes)

    @property
    def stored(self) -> Dataset:
        return self
