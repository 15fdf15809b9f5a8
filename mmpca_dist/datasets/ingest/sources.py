"""Sources of ingest beside text: data sets, NumPy files and CSR matrices."""

from __future__ import annotations

import itertools
import math
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.dataset import Dataset, check_table, unit_edges
from mmpca_dist.datasets.ingest.group_writer import CHUNK_BYTES, LABELS, Block, encode_block
from mmpca_dist.datasets.labels import check_label_type, distinct_labels, refuse_made_up
from mmpca_dist.datasets.memory_limits import refuse_larger
from mmpca_dist.datasets.readers.csr import SparseRows, check_index_type, check_row_ends, most_stored, value_type
from mmpca_dist.datasets.readers.named_columns import ColumnRows
from mmpca_dist.datasets.readers.npy import NpyHeader
from mmpca_dist.datasets.readers.npz import csr_shape, npz_members
from mmpca_dist.datasets.stores import storage
from mmpca_dist.errors import InputError

BAND_BYTES = 256 << 20
"""Rows of an array stored column by column are gathered in bands of this size; each takes a reading of the file."""

PIECE_BYTES = 1 << 20
"""Members of a zip file are read through a second buffer, of this size."""


class DatasetRows:
    """What ``open_dataset`` opens, in its reading units; ``sparse=False`` makes CSR rows dense.

    ``keep`` are other columns of names, as the labels of data sets.
    """

    def __init__(self, dataset: Dataset, sparse: bool | None = None, keep: Mapping[str, Dataset] | None = None) -> None:
        self._dataset, self._keep = dataset, keep or {}
        self.notes: list[str] = []
        self.uri, self.n_features, self.dtype = dataset.uri, dataset.n_features, dataset.dtype
        self.feature_names, self.image_shape = dataset.feature_names, dataset.image_shape
        self.n_rows: int | None = dataset.n_rows
        self.total = dataset.n_rows
        self.labels = f"column {dataset.label!r}" if isinstance(dataset, ColumnRows) else None
        self.sparse = dataset.sparse and sparse is not False
        self.nnz = dataset.nnz if self.sparse else None

    def blocks(self) -> Iterator[Block]:
        """Yield all rows."""
        if not self.total:
            return
        if self.sparse:
            edges = _cut(np.asarray([0, self.total]), CHUNK_BYTES // max(self._dataset.share_bytes(1), 1)).tolist()
        else:
            units = unit_edges(self._dataset.chunk_edges, self._dataset.row_bytes)
            edges = _cut(units, BAND_BYTES // self._dataset.row_bytes).tolist()
        # Columns of which chunks are not stored; "" is the labels.
        gappy: dict[str, Any] = {
            name: column
            for name, column in {"": self._dataset, **self._keep}.items()
            if getattr(column, "missing_label_rows", 0)
        }
        filled = dict.fromkeys(gappy, 0)
        buffer = np.empty((0 if self.sparse else max(np.diff(edges)), self.n_features), self.dtype)
        for start, stop in itertools.pairwise(edges):
            try:
                if self.sparse:
                    rows = self._dataset.read_sparse(start, stop)
                else:
                    rows = self._dataset.read_rows(start, stop, buffer[: stop - start])
                labels = self._dataset.read_labels(start, stop)
                kept = {name: column.read_labels(start, stop) for name, column in self._keep.items()}
            except InputError:
                raise
            except Exception as error:  # whatever a store or codec raises for damaged data
                raise InputError(
                    f"Cannot read {self._dataset.describe_chunk(start)}: "
                    f"{str(error).rstrip('.') or type(error).__name__}. It is damaged or out of reach: restore it "
                    "from its source."
                ) from error
            codes = {LABELS: encode_block(labels, self.uri)}
            codes.update((name, encode_block(names, f"{name!r} of {self.uri}")) for name, names in kept.items())
            for name, column in gappy.items():
                filled[name] += int(np.count_nonzero((kept[name] if name else labels) == column.label_fill))
            yield Block(rows, codes, stop)
        for name, column in gappy.items():
            refuse_made_up(column, filled[name])

    def label_values(self, values: list[Any]) -> NDArray:
        """Return the distinct labels as they are."""
        return distinct_labels(values)

    def where(self, row: int) -> str:
        """Say where a row is."""
        return f"row {row}"


def _cut(edges: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Cut reading units of more than so many rows. Where one chunk is that large, each piece reads it again."""
    pieces = [np.arange(start, stop, max(most, 1)) for start, stop in itertools.pairwise(edges)]
    return np.append(np.concatenate(pieces), edges[-1]).astype(np.int64)


class CsrStream(SparseRows):
    """A CSR matrix in an ``.npz`` file, and its labels, in ``.npy`` streams that are read from front to back.

    Where rows end is read at once; the rest comes piece by piece, each of them once.
    """

    def __init__(self, open_member: Callable[[str], NpyStream], names: list[str], label: str, uri: str) -> None:
        self.uri = uri
        form = open_member("format") if "format" in names else None
        shape = open_member("shape")
        size = csr_shape(shape.read_all(), None if form is None else form.read_all(), uri)
        self._data, self._indices, self._labels = (open_member(name) for name in ("data", "indices", label))
        check_table(uri, size, self._data.dtype, _length(self._labels), sparse=True)
        check_label_type(self._labels.dtype, 1, self._labels.where)
        check_index_type(self._indices.dtype, uri)
        ends = open_member("indptr").read_all()
        check_row_ends(ends, size[0], _length(self._data), _length(self._indices), uri)
        self._ends = ends.astype(np.int64)
        self.n_rows, self.n_features = size
        self.dtype = value_type(self._data.dtype)
        self.resident_bytes = self._ends.nbytes

    @property
    def nnz(self) -> int:
        return int(self._ends[-1])

    @property
    def n_bytes(self) -> int:
        return self.nnz * (self._data.dtype.itemsize + self._indices.dtype.itemsize) + self._ends.nbytes

    def _stored(self, start: int, stop: int) -> tuple[NDArray, NDArray, NDArray]:
        ends = self._ends[start : stop + 1] - self._ends[start]
        return self._data.read(int(ends[-1])), self._indices.read(int(ends[-1])), ends

    def _most_stored(self, n_rows: int) -> int:
        return most_stored(self._ends, n_rows)

    def read_labels(self, start: int, stop: int) -> NDArray:
        return self._labels.read(stop - start)


def _length(stream: NpyStream) -> int:
    return stream.shape[0] if stream.shape else 0


class NumpyRows:
    """Rows and labels in two ``.npy`` streams, as in an ``.npz`` file, read side by side."""

    feature_names: list[str] | None = None
    image_shape: tuple[int, int] | None = None
    labels: str | None = None
    sparse = False
    nnz: int | None = None

    def __init__(self, rows: NpyStream, labels: NpyStream, uri: str) -> None:
        self._rows, self._labels, self.uri = rows, labels, uri
        self.notes: list[str] = []
        check_table(uri, rows.shape, rows.dtype, labels.shape[0] if labels.shape else 0)
        self.n_rows: int | None = rows.shape[0]
        self.n_features, self.dtype, self.total = rows.shape[1], rows.dtype, rows.shape[0]
        self._step = max(1, CHUNK_BYTES // (self.n_features * self.dtype.itemsize))
        check_label_type(labels.dtype, min(self._step, self.total), labels.where)

    def blocks(self) -> Iterator[Block]:
        """Yield all rows."""
        for start in range(0, self.total, self._step):
            stop = min(start + self._step, self.total)
            labels = self._labels.read(stop - start)
            codes = {LABELS: encode_block(labels, self._labels.where)}
            yield Block(self._rows.read(stop - start), codes, stop)

    label_values = DatasetRows.label_values
    where = DatasetRows.where


class NpyStream:
    """An array in ``.npy`` form that is read from front to back."""

    def __init__(self, stream: Any, where: str, n_bytes: int | None) -> None:
        self._stream, self.where = stream, where
        header = NpyHeader.read(stream, where)
        header.refuse_longer_than(n_bytes, where)
        self.shape, self._by_column, self.dtype = header.shape, header.by_column, header.dtype
        self._data_start = header.offset
        self._row = self._band_start = 0
        self._band = np.empty((self.shape[1] if self._by_column else 0, 0), self.dtype)

    def read(self, n_rows: int) -> NDArray:
        """Return the next rows."""
        if not self._by_column:
            return self._fill(np.empty((n_rows, *self.shape[1:]), self.dtype))
        found = np.empty((n_rows, self.shape[1]), self.dtype)
        done = 0
        while done < n_rows:
            if self._row == self._band_start + self._band.shape[1]:
                self._next_band()
            within = self._row - self._band_start
            rows = self._band[:, within : within + n_rows - done].T
            found[done : done + len(rows)] = rows
            done += len(rows)
            self._row += len(rows)
        return found

    def read_all(self) -> NDArray:
        """Return the whole array, of any shape."""
        refuse_larger(math.prod(self.shape) * self.dtype.itemsize, self.where)
        return self._fill(np.empty(self.shape, self.dtype))

    def _next_band(self) -> None:
        """Read a band of rows of an array stored column by column: one reading of the stream for every band."""
        n_rows, n_columns = self.shape
        size = min(n_rows - self._row, max(BAND_BYTES // (n_columns * self.dtype.itemsize), 1))
        self._band, self._band_start = np.empty((n_columns, size), self.dtype), self._row
        for column in range(n_columns):
            self._stream.seek(self._data_start + (column * n_rows + self._row) * self.dtype.itemsize)
            self._fill(self._band[column])

    def _fill(self, found: NDArray) -> NDArray:
        target = found.reshape(-1).view(np.uint8).data
        done = 0
        try:
            while done < len(target):
                read = self._stream.readinto(target[done : done + PIECE_BYTES])
                if not read:
                    raise EOFError("it ends early")
                done += read
        except (EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
            raise InputError(f"{self.where} is damaged or cut short: {error}. Copy it again.") from error
        return found


def open_file(uri: str, stack: ExitStack) -> Any:
    """Open a file for reading, until the stack is left."""
    fs, path = storage.filesystem(uri)
    with storage.explained(uri):
        return stack.enter_context(fs.open(path, "rb"))


def open_npy(uri: str, stack: ExitStack) -> NpyStream:
    """Open a ``.npy`` file as a stream, until the stack is left."""
    fs, path = storage.filesystem(uri)
    with storage.explained(uri):
        return NpyStream(open_file(uri, stack), uri, fs.size(path))


def open_npz(
    uri: str, features: str, label: str, stack: ExitStack, sparse: bool | None = None
) -> NumpyRows | DatasetRows:
    """Open the rows and labels of an ``.npz`` file, dense or CSR, as streams."""

    def archive() -> zipfile.ZipFile:
        try:
            return stack.enter_context(zipfile.ZipFile(open_file(uri, stack)))
        except (zipfile.BadZipFile, OSError) as error:
            raise InputError(f"{uri} is not a readable .npz file: {error}.") from error

    def member(name: str) -> NpyStream:
        # Each array has the file to itself: reading two members in turn would undo an object store's read-ahead.
        where, whole = f"{name!r} of {uri}", archive()
        try:
            info = whole.getinfo(f"{name}.npy")
            return NpyStream(stack.enter_context(whole.open(info)), where, info.file_size)
        except (KeyError, RuntimeError, zipfile.BadZipFile) as error:  # such as a member that is encrypted
            raise InputError(f"{where} is not readable: {str(error).rstrip('.')}.") from error

    names = sorted(member.removesuffix(".npy") for member in archive().namelist())
    wanted = npz_members(names, features, label, True, uri)
    if features in wanted:
        return NumpyRows(member(features), member(label), uri)
    return DatasetRows(CsrStream(member, names, label, uri), sparse)
