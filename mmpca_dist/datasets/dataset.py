"""Tables, row readers, and spans: the units of work of a pass."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mmpca_dist.datasets.memory_limits import refuse_absurd, refuse_larger
from mmpca_dist.errors import AccessError, InputError, MmpcaError
from mmpca_dist.limits import LIMITS

FEWEST_UNITS = 8

GRAIN_BYTES = 1 << 20
"""Rows that may be cut anywhere, in memory or sparse, pass for chunks of this size."""

MAX_UNITS_PER_SPAN = 16
MIN_SPANS = 32
"""A span, the work of one task, holds up to 16 units (1 GiB of rows), as long as there are 32 spans."""


@dataclass(frozen=True)
class Span:
    """Consecutive reading units that one task works through.

    ``edges`` are the row numbers where its units begin, and the row where the last one ends.
    """

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
        return list(zip(self.edges[:-1], self.edges[1:], strict=True))


@dataclass(frozen=True)
class Finding:
    """Something wrong with the data, found by a task.

    It comes back as a value, because an exception on a worker would be logged as a crash with a traceback.
    """

    row: int
    message: str
    kind: type[InputError] = InputError


class Table(ABC):
    """What a table is: its name, its size, its columns, and what identifies its content."""

    uri: str
    n_rows: int
    n_features: int
    dtype: np.dtype
    feature_names: list[str] | None = None
    named_columns = False
    """Whether the rows are read from a table with named columns, rather than from an array that has names beside it."""
    image_shape: tuple[int, int] | None = None
    heavy_columns: Sequence[tuple[int, float]] = ()
    """The few columns that hold nearly all of the scatter, with their shares, where the table tells."""
    has_labels = True
    """False only for rows that are to be transformed; labels are then never asked for."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Identify the content without reading rows: metadata, object names, sizes, etags or times."""

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
        """Number of values that are stored: of dense rows, all."""
        return self.n_rows * self.n_features


class RowReader(Protocol):
    """How rows are read: the least that work on rows needs, and all that a new format must bring."""

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        """Row numbers where chunks begin, and the number of rows at the end; strictly increasing."""

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        """Return rows ``start`` to ``stop`` as a C-ordered ``(stop - start, n_features)`` array.

        ``out``, of that shape and of the type of the rows, may be filled and returned.
        """

    def read_labels(self, start: int, stop: int) -> NDArray:
        """Return the labels of rows ``start`` to ``stop``, shape ``(stop - start,)``."""


class Dataset(Table, RowReader):
    """A table whose rows are read piece by piece, labelled unless they are only to be transformed.

    Instances are sent to workers, so they hold addresses and metadata, never open files, rows or credentials.
    """

    features: str | None = None
    """The array or column that the rows are read from, where there may be several."""
    missing_chunks = "refuse"
    """Whether chunks that are not stored are refused, or read as fill values (``fill``)."""
    sparse = False
    """Whether rows are stored in CSR form, so that ``read_sparse`` is the way to read them."""
    in_memory = False
    """Whether dense rows are there to be looked at, so that ``read_rows`` needs no buffer to fill."""
    kind = "local"
    """How fast it is read: ``local``, ``remote``, ``synthetic`` or ``memory``."""
    read_overhead = 1.0
    """Copies of a unit held while it is read, beside the caller's buffer."""
    resident_bytes = 0
    """What each process holds of the data as long as it is in use."""

    @property
    @abstractmethod
    def chunk_edges(self) -> NDArray[np.int64]: ...

    @abstractmethod
    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray: ...

    @abstractmethod
    def read_labels(self, start: int, stop: int) -> NDArray: ...

    def read_sparse(self, start: int, stop: int) -> csr_array:
        """Return rows ``start`` to ``stop`` in CSR form."""
        return csr_array(self.read_rows(start, stop))

    @property
    def addresses(self) -> list[str]:
        """Where the objects are that hold rows and labels: files, or folders of them; none where nothing is stored."""
        return []

    @property
    def before_noise(self) -> Dataset | None:
        """The same rows before noise was added to them, where these are known."""
        return None

    def chunk_of(self, row: int) -> tuple[int, int, int]:
        """Return the number of the chunk that holds a row, its first row, and the row after its last."""
        edges = self.chunk_edges
        number = int(np.searchsorted(edges, row, side="right")) - 1
        return number, int(edges[number]), int(edges[number + 1])

    def describe_chunk(self, row: int) -> str:
        """Say in the words of the store where a row is."""
        _, start, stop = self.chunk_of(row)
        return f"rows {start} to {stop - 1} of {self.uri}"

    def reading_bytes(self, n_rows: int) -> int:
        """Return what is held while a unit of so many dense rows is read, the rows included."""
        return int(n_rows * self.row_bytes * (1 + self.read_overhead))

    def sparse_bytes(self, n_rows: int) -> int:
        """Return the most that is held while so many rows are read by ``read_sparse``, those rows included."""
        return self.reading_bytes(n_rows) + 2 * n_rows * self.row_bytes

    def share_bytes(self, n_rows: int) -> int:
        """Return the bytes that reading so many of the rows takes, on average."""
        return self.n_bytes * n_rows // max(self.n_rows, 1)


@contextmanager
def reading_labels(where: str, start: int, stop: int) -> Iterator[None]:
    """Turn whatever a store or codec raises for damaged labels into one sentence."""
    try:
        yield
    except MmpcaError:
        raise
    except Exception as error:
        raise AccessError(
            f"Cannot read the labels of rows {start} to {stop - 1} of {where}: "
            f"{str(error).rstrip('.') or type(error).__name__}. They are damaged or out of reach: restore them from "
            "their source."
        ) from error


def check_table(
    where: str, shape: tuple[int, ...], dtype: np.dtype, n_labels: int | None, *, sparse: bool = False
) -> None:
    """Refuse what is not a table of numbers with one label a row, or with none at all."""
    if len(shape) != 2:
        raise InputError(f"The rows of {where} have shape {shape}; they must have shape (n, d).")
    if shape[1] == 0:
        raise InputError(f"The rows of {where} have no columns.")
    if dtype.kind not in "fiub":
        raise InputError(f"The rows of {where} have type {dtype}; features must be numbers.")
    refuse_absurd(where, shape, dtype.itemsize, sparse=sparse)
    if not sparse:
        refuse_larger(shape[1] * dtype.itemsize, f"A row of {where}", "Take fewer columns")
    if n_labels is not None and shape[0] != n_labels:
        raise InputError(f"{where} has {shape[0]} rows and {n_labels} labels; there must be one label a row.")


def chunk_edges(n_rows: int, chunk_rows: int) -> NDArray[np.int64]:
    """Return the edges of a regular grid of ``chunk_rows`` rows a chunk."""
    return np.append(np.arange(0, n_rows, chunk_rows, dtype=np.int64), n_rows)


def grain_edges(n_rows: int, row_bytes: int) -> NDArray[np.int64]:
    """Return the edges of the grid for rows that may be cut anywhere; ``row_bytes`` are those of a dense row."""
    return chunk_edges(n_rows, min(default_chunk_rows(row_bytes), max(1, GRAIN_BYTES // row_bytes)))


def not_finite(dataset: Dataset, row: int, column: int, value: float) -> str:
    """Return the message for a value that is no finite number."""
    name = f" ({dataset.feature_names[column]!r})" if dataset.feature_names else ""
    return (
        f"Found {value} in row {row}, column {column}{name}, in {dataset.describe_chunk(row)}. Rows must be finite: "
        "fill or drop such values."
    )


def default_chunk_rows(row_bytes: int) -> int:
    """Return how many rows of ``row_bytes`` make a unit, for data that has no chunks of its own."""
    return max(1, LIMITS.unit_bytes // row_bytes)


def unit_edges(edges: NDArray[np.int64], row_bytes: int) -> NDArray[np.int64]:
    """Group consecutive chunks into reading units of up to ``LIMITS.unit_bytes``, at least one chunk each.

    They are made about equal, and at least eight as long as these have 8 MiB: tasks that end together.
    """
    first, n_rows, limit = int(edges[0]), int(edges[-1] - edges[0]), default_chunk_rows(row_bytes)
    fewest = len(_fill_units(edges, limit, [first + n_rows])) - 1
    pieces = max(fewest, min(FEWEST_UNITS, n_rows * row_bytes // LIMITS.smallest_unit_bytes), 1)
    return np.asarray(_fill_units(edges, limit, [first + n_rows * i // pieces for i in range(1, pieces + 1)]))


def _fill_units(edges: NDArray[np.int64], limit: int, wanted: list[int]) -> list[int]:
    """Return edges near the ``wanted`` ones, at most ``limit`` rows or one chunk apart."""
    kept = [int(edges[0])]
    ahead = itertools.chain(wanted, itertools.repeat(wanted[-1]))
    while kept[-1] < edges[-1]:
        target = next(edge for edge in ahead if edge > kept[-1])
        after = int(np.searchsorted(edges, target))
        nearest = after if 2 * (edges[after] - target) <= edges[after] - edges[after - 1] else after - 1
        within = int(np.searchsorted(edges, kept[-1] + limit, side="right")) - 1
        following = int(np.searchsorted(edges, kept[-1], side="right"))
        kept.append(int(edges[max(min(nearest, within), following)]))
    return kept


def make_spans(dataset: Dataset) -> list[Span]:
    """Cut a data set into spans, from its chunk grid and fixed constants only (never from the workers)."""
    if dataset.n_rows == 0:
        raise InputError(f"{dataset.uri} has no rows.")
    return spans_of(unit_edges(dataset.chunk_edges, dataset.row_bytes))


def spans_of(edges: NDArray[np.int64]) -> list[Span]:
    """Group reading units, given by their row edges, into spans."""
    n_units = len(edges) - 1
    per_span = min(max(n_units // MIN_SPANS, 1), MAX_UNITS_PER_SPAN)
    starts = range(0, n_units, per_span)
    return [Span(i, tuple(int(e) for e in edges[s : min(s + per_span, n_units) + 1])) for i, s in enumerate(starts)]
