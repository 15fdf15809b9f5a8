"""Data sets that are made of others: the bases of what changes rows, labels or weights as they are read."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from operator import attrgetter
from typing import Any, Self

from numpy.typing import NDArray

from mmpca_dist.tables.dataset import Dataset, MissingLabels


def of_rows(name: str) -> Any:
    """Return an attribute or a method that is that of the rows which a proxy reads."""
    return property(attrgetter(f"_rows.{name}"))


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

    def adjusted(self, adjustment: Any) -> Dataset:
        return self.on(self._rows.adjusted(adjustment))

    stored = of_rows("stored")
    in_memory = of_rows("in_memory")
    named_columns = of_rows("named_columns")
    widening = of_rows("widening")
    missing_labels = of_rows("missing_labels")
    addresses = of_rows("addresses")
    chunk_edges = of_rows("chunk_edges")
    n_bytes = of_rows("n_bytes")
    nnz = of_rows("nnz")
    read_rows = of_rows("read_rows")
    read_sparse = of_rows("read_sparse")
    read_labels = of_rows("read_labels")
    is_labelled = of_rows("is_labelled")
    read_weights = of_rows("read_weights")
    covariates = of_rows("covariates")
    read_covariates = of_rows("read_covariates")
    slice_edges = of_rows("slice_edges")
    targets = of_rows("targets")
    read_targets = of_rows("read_targets")
    read_values = of_rows("read_values")
    values_place = of_rows("values_place")
    beside = of_rows("beside")
    source_rows = of_rows("source_rows")
    describe_chunk = of_rows("describe_chunk")
    reading_bytes = of_rows("reading_bytes")
    sparse_bytes = of_rows("sparse_bytes")


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
