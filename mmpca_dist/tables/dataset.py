"""Tables, row readers, and spans: the units of work of a pass."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from bisect import bisect, bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mmpca_dist.errors import AccessError, InputError, MmpcaError
from mmpca_dist.limits import LIMITS
from mmpca_dist.tables.facts import Facts, as_arrow, passed_on

MIN_UNITS, GRAIN_BYTES = 8, 1 << 20
"""Rows in memory and sparse rows can be cut anywhere; their chunks are of this size."""
MAX_UNITS_PER_SPAN, MIN_SPANS = 16, 32
"""A span, the work of one task, holds up to 16 units (1 GiB of rows), as long as there are 32 spans."""
MOST_STRETCHES = 4
"""Stretches of rows without labels that are kept; messages name one less where there are more."""


@dataclass(frozen=True)
class Span:
    """Consecutive reading units that one task works through; ``edges`` are the row numbers that bound them."""

    index: int
    edges: tuple[int, ...]

    @property
    def start(self) -> int:
        return self.edges[0]

    @property
    def stop(self) -> int:
        return self.edges[-1]

    @property
    def units(self) -> list[tuple[int, int]]:
        return list(itertools.pairwise(self.edges))


@dataclass(frozen=True)
class MissingLabels:
    """Rows whose chunks of labels are not stored: how many, the first stretches (start, stop), and their label."""

    n_rows: int
    stretches: tuple[tuple[int, int], ...]
    fill: Any


class Table:
    """What a table is: its facts, columns and labels, and what reading it costs."""

    facts: Facts
    uri: str = passed_on("facts.uri")
    n_rows: int = passed_on("facts.n_rows")
    n_features: int = passed_on("facts.n_features")
    dtype: np.dtype = passed_on("facts.dtype")
    feature_names: list[str] | None = passed_on("facts.feature_names")
    image_shape: tuple[int, int] | None = passed_on("facts.image_shape")
    has_labels: bool = passed_on("facts.has_labels")
    sparse: bool = passed_on("facts.sparse")
    kind: str = passed_on("facts.kind")
    read_overhead: float = passed_on("facts.read_overhead")
    resident_bytes: int = passed_on("facts.resident_bytes")
    row_operations: int = passed_on("facts.row_operations")
    rows_read: float = passed_on("facts.rows_read")
    heavy_columns: Sequence[tuple[int, float]] = ()
    """The few columns that hold nearly all of the scatter, with their shares, where the table records them."""
    named_columns: bool = False
    """Whether rows are read from named columns, rather than from an array whose names are stored apart."""
    missing_labels: MissingLabels | None = None
    """The rows whose labels are not stored, but read as fill values."""
    covariates: tuple[Any, ...] = ()
    """What the covariates of the rows are, see ``tables.covariates``."""
    targets: tuple[str, ...] = ()
    """What the numbers to predict are called, of rows that have these in the place of classes."""
    slice_edges: tuple[float, ...] = ()
    """Where slices of a number end that are the classes; none of other classes."""
    widening: Any = None
    """What stands beside the columns of widened rows, see ``statistics.widening``; None of others."""

    @property
    def in_memory(self) -> bool:
        """Whether dense rows are in memory, so that ``read_rows`` needs no buffer."""
        return self.kind == "memory" and not self.sparse

    @property
    def n_columns(self) -> int:
        """Columns of the table, and of models; widened rows have more."""
        return self.n_features if self.widening is None else self.widening.n_columns

    @property
    def narrow(self) -> Any:
        """The rows that widened ones are made of; others themselves."""
        return self

    def over(self, rows: Dataset) -> Dataset:
        """Return the table of other rows: those that a task holds of a Dask array."""
        return rows

    def fingerprint(self) -> str:
        """Identify the content without reading rows: metadata, object names, sizes, etags or times.

        Empty for rows that nothing identifies, such as those of a Dask array.
        """
        return ""

    @property
    def addresses(self) -> list[str]:
        """Files that hold rows and labels, or folders of them; none where nothing is stored."""
        return []

    @property
    def row_bytes(self) -> int:
        """Bytes of a dense row."""
        return self.n_features * self.dtype.itemsize

    @property
    def n_bytes(self) -> int:
        """Bytes that a pass over all rows reads."""
        return self.n_rows * self.row_bytes

    @property
    def nnz(self) -> int:
        """Number of stored values: all values of dense rows."""
        return self.n_rows * self.n_features

    def reading_bytes(self, n_rows: int) -> int:
        """Return the bytes held while ``n_rows`` dense rows are read, the rows included."""
        return int(n_rows * self.row_bytes * (1 + self.read_overhead))

    def sparse_bytes(self, n_rows: int) -> int:
        """Return the most bytes held while ``read_sparse`` reads ``n_rows`` rows, the rows included."""
        return self.reading_bytes(n_rows) + 2 * n_rows * self.row_bytes

    def share_bytes(self, n_rows: int) -> int:
        """Return the bytes read for ``n_rows`` rows, on average."""
        return self.n_bytes * n_rows // max(self.n_rows, 1)


class Dataset(Table, ABC):
    """A table whose rows are read piece by piece, with labels unless they are only to be transformed.

    Instances are sent to workers, so they hold addresses and metadata, never open files, rows or credentials.
    """

    features: str | None = None
    """The array or column that the rows are read from, where there may be several."""
    label: str | None = None
    """The array, column or file that the labels are read from."""
    note: str | None = None
    """What a user must know of the rows."""
    levels: Sequence[Any] = ()
    """What becomes of columns of text, see ``tables.levels``."""
    columns: Sequence[str] = ()
    """The stored columns that the features are made of, where they have names."""
    missing_chunks: str | None = None
    """Whether chunks that are not stored are refused, or read as fill values (``fill``); None refuses those of rows."""
    _skips_unlabelled = False
    """Whether rows may have no label, as they are left out."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Identify the content, see ``Table.fingerprint``."""

    @property
    @abstractmethod
    def chunk_edges(self) -> NDArray[np.int64]:
        """Row numbers where chunks begin, and the number of rows at the end; strictly increasing."""

    @abstractmethod
    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        """Return rows ``start`` to ``stop`` as a C-ordered ``(stop - start, n_features)`` array.

        ``out``, of that shape and of the type of the rows, may be filled and returned.
        """

    @abstractmethod
    def read_labels(self, start: int, stop: int) -> NDArray:
        """Return the labels of rows ``start`` to ``stop``, shape ``(stop - start,)``."""

    @property
    def stored(self) -> Dataset:
        """The table as it was opened, before row maps."""
        return self

    def _labelled_by(self, name: str) -> Any:
        """Return the same rows with another column as their labels, each of which must be there."""
        same = copy(self)
        same.label, same.facts, same._skips_unlabelled = name, replace(self.facts, has_labels=True), False
        return same

    def read_sparse(self, start: int, stop: int) -> csr_array:
        """Return rows ``start`` to ``stop`` in CSR form."""
        return csr_array(self.read_rows(start, stop))

    def with_gaps(self) -> Any:
        """Return the same rows, of which those without a label are to be left out."""
        same = copy(self)
        same._skips_unlabelled = True
        return same

    def with_label(self, name: str, setting: str) -> Dataset | None:
        """Return the same rows with another column as their labels; None where it must be opened for itself."""
        return None

    def is_labelled(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return which of rows ``start`` to ``stop`` have a label, of data sets that may lack some."""
        return np.ones(stop - start, bool)

    def read_weights(self, start: int, stop: int) -> NDArray[np.float64] | None:
        """Return the weights of rows ``start`` to ``stop``, shape ``(stop - start,)``; None where all count once."""
        return None

    def read_covariates(self, start: int, stop: int) -> NDArray[np.float64] | None:
        """Return the covariates of rows ``start`` to ``stop``, shape ``(stop - start, q)``; None without any."""
        return None

    def read_targets(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return the numbers to predict of rows ``start`` to ``stop``, shape ``(stop - start, t)``."""
        return np.empty((stop - start, 0))

    def read_values(self, start: int, stop: int) -> NDArray:
        """Return what rows ``start`` to ``stop`` have in the place of labels as it is stored, such as times.

        The shape is ``(stop - start,)``.
        """
        return self.read_labels(start, stop)

    @property
    def beside_names(self) -> list[str]:
        """The columns of the stored table that are neither features nor labels."""
        return []

    def read_column(self, start: int, stop: int) -> pa.Array | pa.ChunkedArray:
        """Return what rows ``start`` to ``stop`` have in the place of labels, as stored; values may be missing."""
        return as_arrow(self.read_values(start, stop), self.is_labelled(start, stop))

    def source_rows(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the numbers of rows ``start`` to ``stop`` in what the user gave, from 0, shape (stop - start,)."""
        return np.arange(start, stop)

    def source_row(self, row: int) -> int:
        """Return the number of a row in what the user gave, for messages."""
        return int(self.source_rows(row, row + 1)[0])

    @property
    def values_place(self) -> str:
        """Where such values are stored, for messages."""
        return self.uri

    def adjusted(self, adjustment: Any) -> Dataset:
        """Return widened rows after the map that their moments tell; others as they are."""
        return self

    def beside(self, column: Dataset) -> Dataset:
        """Return a column of the stored table without the rows that this data set leaves out."""
        return column

    @property
    def before_noise(self) -> Dataset | None:
        """The same rows before noise was added to them, where they can be read."""
        return None

    def chunk_of(self, row: int) -> tuple[int, int, int]:
        """Return the number of the chunk that holds a row, its first row, and the row after its last."""
        edges = self.chunk_edges
        number = int(np.searchsorted(edges, row, side="right")) - 1
        return number, int(edges[number]), int(edges[number + 1])

    @property
    def layout(self) -> str:
        """How rows are stored, in words: chunks, and where it is known their codec."""
        return f"chunks of up to {np.diff(self.chunk_edges).max(initial=0):,} rows ({len(self.chunk_edges) - 1:,})"

    def describe_chunk(self, row: int) -> str:
        """Say where a row is stored, for messages."""
        _, start, stop = self.chunk_of(row)
        return f"rows {start} to {stop - 1} of {self.uri}"


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Turn any error of a store or codec, which raise many types for damaged data, into one sentence."""
    try:
        yield
    except (MmpcaError, MemoryError):
        raise
    except Exception as error:
        raise AccessError(
            f"Cannot read {what}: {str(error).rstrip('.') or type(error).__name__}. The data are damaged or out of "
            "reach: restore them from their source."
        ) from error


def overlaps(edges: Sequence[int] | NDArray[np.int64], start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Yield the number of each chunk that holds some of rows ``start`` to ``stop``, and the first and last of these."""
    for number in range(bisect(edges, start) - 1, min(bisect_left(edges, stop), len(edges) - 1)):
        first, last = max(start, int(edges[number])), min(stop, int(edges[number + 1]))
        if first < last:
            yield number, first, last


def chunk_edges(n_rows: int, chunk_rows: int) -> NDArray[np.int64]:
    """Return the edges of a regular grid of ``chunk_rows`` rows a chunk."""
    return np.append(np.arange(0, n_rows, chunk_rows, dtype=np.int64), n_rows)


def cut_edges(edges: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return edges of which no two are more than ``most`` rows apart: chunks that are larger are cut."""
    pieces = (range(first, last, most) for first, last in itertools.pairwise(edges.tolist()))
    return np.asarray([*itertools.chain.from_iterable(pieces), edges[-1]], np.int64)


def grain_edges(n_rows: int, row_bytes: int) -> NDArray[np.int64]:
    """Return the edges of the grid for rows that can be cut anywhere; ``row_bytes`` are those of a dense row."""
    return chunk_edges(n_rows, min(default_chunk_rows(row_bytes), max(1, GRAIN_BYTES // row_bytes)))


def not_finite(dataset: Dataset, row: int, column: int, value: float) -> str:
    """Return the message for a value that is not finite."""
    name = f" ({dataset.feature_names[column]!r})" if dataset.feature_names else ""
    found, remedy = f"Found {value} in row {dataset.source_row(row)}", "Rows must be finite: fill or drop such values."
    widening = dataset.widening
    if widening is not None and column >= widening.y.start:
        target = widening.targets[column - widening.y.start]
        return f"{found} of the target ({target!r}). Fill it, or drop such rows."
    if widening is not None and np.isnan(value):
        remedy = "This column had no gaps in the rows before: fill it, or fit to all rows anew."
    return f"{found}, column {column}{name}, in {dataset.describe_chunk(row)}. {remedy}"


def default_chunk_rows(row_bytes: int) -> int:
    """Return how many rows of ``row_bytes`` make a unit, for data without chunks."""
    return max(1, LIMITS.unit_bytes // row_bytes)


def unit_edges(edges: NDArray[np.int64], row_bytes: int) -> NDArray[np.int64]:
    """Group consecutive chunks into reading units of up to ``LIMITS.unit_bytes``, at least one chunk each.

    Units are about equal, so that tasks end together. There are at least eight, if units then have 8 MiB or more.
    """
    first, n_rows, limit = int(edges[0]), int(edges[-1] - edges[0]), default_chunk_rows(row_bytes)
    fewest = len(_fill_units(edges, limit, [first + n_rows])) - 1
    n_units = max(fewest, min(MIN_UNITS, n_rows * row_bytes // LIMITS.smallest_unit_bytes), 1)
    return np.asarray(_fill_units(edges, limit, [first + n_rows * i // n_units for i in range(1, n_units + 1)]))


def reading_edges(dataset: Dataset, more: int = 0) -> NDArray[np.int64]:
    """Return the row edges of reading units, with ``more`` bytes for each row than those that are read for it."""
    return unit_edges(dataset.chunk_edges, int(dataset.row_bytes * dataset.rows_read) + more)


def value_units(column: Dataset) -> Iterator[tuple[int, int]]:
    """Yield the first row, and the row after the last, of the units in which a value of each row is read."""
    yield from itertools.pairwise(unit_edges(column.chunk_edges, 8).tolist())


def _fill_units(edges: NDArray[np.int64], limit: int, targets: list[int]) -> list[int]:
    """Return edges near the ``targets``, at most ``limit`` rows or one chunk apart."""
    kept = [int(edges[0])]
    ahead = itertools.chain(targets, itertools.repeat(targets[-1]))
    while kept[-1] < edges[-1]:
        target = next(edge for edge in ahead if edge > kept[-1])
        after = int(np.searchsorted(edges, target))
        nearest = after if 2 * (edges[after] - target) <= edges[after] - edges[after - 1] else after - 1
        within = int(np.searchsorted(edges, kept[-1] + limit, side="right")) - 1
        following = int(np.searchsorted(edges, kept[-1], side="right"))
        kept.append(int(edges[max(min(nearest, within), following)]))
    return kept


def make_spans(dataset: Dataset) -> list[Span]:
    """Cut a data set into spans, which depend on its chunk grid alone, never on the workers."""
    if dataset.n_rows == 0:
        raise InputError(f"{dataset.uri} has no rows.")
    return spans_of(reading_edges(dataset))


def spans_of(edges: NDArray[np.int64]) -> list[Span]:
    """Group reading units, given by their row edges, into spans."""
    rows, n_units = edges.tolist(), len(edges) - 1
    size = min(max(n_units // MIN_SPANS, 1), MAX_UNITS_PER_SPAN)
    return [Span(i, tuple(rows[at : at + size + 1])) for i, at in enumerate(range(0, n_units, size))]
