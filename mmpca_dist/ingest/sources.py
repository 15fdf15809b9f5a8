"""Sources of ingest: which columns are taken, and the rows of data sets, NumPy files and CSR matrices."""

from __future__ import annotations

import itertools
import math
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.ingest.csv import CSV_SUFFIXES, CsvRows
from mmpca_dist.ingest.libsvm import LIBSVM_SUFFIXES, LibsvmRows
from mmpca_dist.ingest.row_source import LABELS, Block, RowSource, encode_block
from mmpca_dist.limits import LIMITS
from mmpca_dist.settings import settings_named
from mmpca_dist.stores import storage
from mmpca_dist.tables.dataset import Dataset, fill, readable, unit_edges
from mmpca_dist.tables.facts import Facts
from mmpca_dist.tables.labels import check_label_type, notes_on_missing_labels, refuse_made_up
from mmpca_dist.tables.memory_limits import check_table, refuse_larger
from mmpca_dist.tables.readers.csr import SparseRows, check_index_type, check_row_ends, most_stored, value_type
from mmpca_dist.tables.readers.formats import open_column, open_dataset, stem_of
from mmpca_dist.tables.readers.memory import csr_shape, npz_members
from mmpca_dist.tables.readers.named_columns import ColumnRows
from mmpca_dist.tables.readers.npy import NpyHeader

PIECE_BYTES = 1 << 20
"""Members of a zip file are read through a second buffer, of this size."""


@dataclass(frozen=True)
class Selection:
    """Which columns of a table are features, labels or neither, and the type of the rows; as for ``ingest``."""

    features: str | None = None
    label: str | int | None = None
    drop: Sequence[str] = ()
    keep: Sequence[str] = ()
    unlabelled: bool = False
    dtype: str | None = None
    missing_chunks: str = "refuse"

    @property
    def label_name(self) -> str | None:
        """The name of the label, for formats whose columns have no numbers."""
        return None if self.label is None else str(self.label)

    @property
    def columns(self) -> list[str]:
        """The columns of names that are written along with the rows."""
        return [*([] if self.unlabelled else [LABELS]), *self.keep]

    def check(self) -> None:
        """Raise an ``InputError`` for options that no source can honour."""
        if self.dtype not in (None, "float32", "float64"):
            raise InputError(f"dtype is {self.dtype!r}; rows can be converted to 'float32' or 'float64'.")
        for name in self.keep:
            if name in self.drop:
                raise InputError(f"--keep and --drop both name {name!r}: leave out one.")
            if not name or name in ("X", LABELS) or "/" in name or name.startswith((".", "__", "zarr.")):
                raise InputError(f"--keep names {name!r}, which cannot be an array next to X and y: rename it first.")

    def csv(self, uri: str) -> CsvRows:
        """Open CSV."""
        dtype = np.dtype(self.dtype or "float32")
        return CsvRows(uri, self.label, dtype, self.drop, self.keep, labelled=not self.unlabelled)

    def dataset(self, uri: str, drop: Sequence[str] = ()) -> Dataset:
        """Open a data set without the columns of the selection that are dropped, nor those in ``drop``."""
        return open_dataset(
            uri,
            features=self.features,
            label=self.label_name,
            drop=[*self.drop, *drop],
            beside=dict.fromkeys(self.keep, "--keep"),
            missing_chunks=self.missing_chunks,
        )

    def open(self, uri: str, sparse: bool | None, stack: ExitStack) -> RowSource:
        """Open a source of any format; ``stack`` closes its files.

        Raises
        ------
        InputError
            Where the format cannot honour an option, or it is no such file.
        """
        stem = stem_of(uri)
        self._refuse_options(uri, stem)
        if stem.endswith(CSV_SUFFIXES):
            return self.csv(uri)
        if stem.endswith(LIBSVM_SUFFIXES):
            return LibsvmRows(uri, np.dtype(self.dtype or "float32"), sparse)
        name = self.label_name
        if uri.endswith(".npz"):
            return open_npz(uri, self.features or "X", name or "y", stack, sparse)
        if uri.endswith(".npy") and name is not None and not storage.is_local(uri):
            rows, labels = (open_npy(file, stack) for file in (uri, storage.normalize(name)))
            return NumpyRows(rows, labels, uri)
        with settings_named():
            dataset = self.dataset(uri)
            if dataset.label in self.keep:
                raise InputError(f"--keep names {dataset.label!r}, which is the label of {uri}.")
            keep = {name: open_column(dataset, name, setting="--keep") for name in self.keep}
            return DatasetRows(dataset, sparse, keep)

    def _refuse_options(self, uri: str, stem: str) -> None:
        """Refuse options that the format of a source cannot honour."""
        is_csv, is_libsvm = stem.endswith(CSV_SUFFIXES), stem.endswith(LIBSVM_SUFFIXES)
        if self.unlabelled and self.label is not None:
            raise InputError(
                f"--label names {self.label!r}, and --unlabelled says that there are no labels: leave out one."
            )
        if self.unlabelled and not is_csv:
            raise InputError(
                f"--unlabelled is for CSV, which {uri} is not: rows of Zarr, Parquet and NumPy without labels are "
                "projected as they are."
            )
        for option, columns in (("drop", self.drop), ("keep", self.keep)):
            if columns and (is_libsvm or stem.endswith((".npz", ".npy"))):
                others = "CSV and Parquet" if option == "drop" else "CSV, Parquet and Zarr"
                raise InputError(
                    f"{option}={list(columns)} cannot be honoured: {uri} has no columns with names; those of {others} "
                    "have."
                )
        if self.features is not None and (is_csv or is_libsvm):
            raise InputError(
                f"features={self.features!r} cannot be honoured: every column of {uri} but the label is a feature."
            )
        if self.label is not None and is_libsvm:
            raise InputError(f"label={self.label!r} cannot be honoured: each line of {uri} begins with its label.")


class DatasetRows(RowSource):
    """What ``open_dataset`` opens, in its reading units; ``sparse=False`` makes CSR rows dense.

    ``keep`` are other columns of names, as the labels of data sets.
    """

    def __init__(self, dataset: Dataset, sparse: bool | None = None, keep: Mapping[str, Dataset] | None = None) -> None:
        self._dataset = dataset
        self._columns: dict[str, Dataset] = {LABELS: dataset, **(keep or {})}
        self.uri, self.n_features, self.dtype = dataset.uri, dataset.n_features, dataset.dtype
        self.feature_names, self.image_shape = dataset.feature_names, dataset.image_shape
        self.n_rows = self.total = dataset.n_rows
        self.labels = f"column {dataset.label!r}" if isinstance(dataset, ColumnRows) else None
        self.sparse = dataset.sparse and sparse is not False
        self.nnz = dataset.nnz if self.sparse else None
        self.notes = [
            note
            for name, column in self._columns.items()
            for note in notes_on_missing_labels(column, "class" if name == LABELS else "name")
        ]

    def blocks(self) -> Iterator[Block]:
        if not self.total:
            return
        edges = self._edges()
        buffer = np.empty((0 if self.sparse else max(np.diff(edges)), self.n_features), self.dtype)
        # Rows that have the fill value, of columns of which chunks are not stored.
        missing = {name: column.missing_labels for name, column in self._columns.items()}
        filled = {name: (lacking.fill, 0) for name, lacking in missing.items() if lacking is not None}
        for start, stop in itertools.pairwise(edges):
            with readable(self._dataset.describe_chunk(start)):
                if self.sparse:
                    rows = self._dataset.read_sparse(start, stop)
                else:
                    rows = self._dataset.read_rows(start, stop, buffer[: stop - start])
                names = {name: column.read_labels(start, stop) for name, column in self._columns.items()}
            for name, (value, n_rows) in filled.items():
                filled[name] = value, n_rows + int(np.count_nonzero(names[name] == value))
            codes = {
                name: encode_block(values, self.uri if name == LABELS else f"{name!r} of {self.uri}")
                for name, values in names.items()
            }
            yield Block(rows, codes, stop)
        for name, (_, n_rows) in filled.items():
            refuse_made_up(self._columns[name], n_rows)

    def _edges(self) -> list[int]:
        """Return the edges of reading units. Large ones are cut; each piece of a large chunk reads the whole chunk."""
        if self.sparse:
            units, limit = np.asarray([0, self.total]), LIMITS.chunk_bytes // max(self._dataset.share_bytes(1), 1)
        else:
            row_bytes = self._dataset.row_bytes
            units, limit = unit_edges(self._dataset.chunk_edges, row_bytes), LIMITS.band_bytes // row_bytes
        pieces = (range(start, stop, max(limit, 1)) for start, stop in itertools.pairwise(units.tolist()))
        return [*itertools.chain.from_iterable(pieces), int(units[-1])]


class CsrStream(SparseRows):
    """A CSR matrix in an ``.npz`` file, and its labels, in ``.npy`` streams that are read from front to back.

    The row ends are read at once, the rest piece by piece, each piece once.
    """

    def __init__(self, open_member: Callable[[str], NpyStream], names: list[str], label: str, uri: str) -> None:
        form = open_member("format") if "format" in names else None
        shape = open_member("shape")
        size = csr_shape(shape.read_all(), None if form is None else form.read_all(), uri)
        self._data, self._indices, self._labels = (open_member(name) for name in ("data", "indices", label))
        check_table(uri, size, self._data.dtype, len(self._labels), sparse=True)
        check_label_type(self._labels.dtype, 1, self._labels.where)
        check_index_type(self._indices.dtype, uri)
        ends = open_member("indptr").read_all()
        check_row_ends(ends, size[0], len(self._data), len(self._indices), uri)
        self._ends, dtype = ends.astype(np.int64), value_type(self._data.dtype)
        self.facts = Facts(uri, *size, dtype, sparse=True, resident_bytes=self._ends.nbytes)

    def fingerprint(self) -> str:
        return ""

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


class NumpyRows(RowSource):
    """Rows and labels in two ``.npy`` streams, as in an ``.npz`` file, read side by side."""

    def __init__(self, rows: NpyStream, labels: NpyStream, uri: str) -> None:
        self._rows, self._labels, self.uri = rows, labels, uri
        check_table(uri, rows.shape, rows.dtype, len(labels))
        (self.total, self.n_features), self.dtype = rows.shape, rows.dtype
        self.n_rows = self.total
        self._step = max(1, LIMITS.chunk_bytes // (self.n_features * self.dtype.itemsize))
        check_label_type(labels.dtype, min(self._step, self.total), labels.where)

    def blocks(self) -> Iterator[Block]:
        for start in range(0, self.total, self._step):
            n_rows = min(self._step, self.total - start)
            codes = {LABELS: encode_block(self._labels.read(n_rows), self._labels.where)}
            yield Block(self._rows.read(n_rows), codes, start + n_rows)


class NpyStream:
    """An array in ``.npy`` form that is read from front to back; its length is that of its first axis."""

    def __init__(self, stream: Any, where: str, n_bytes: int | None) -> None:
        self._stream, self.where = stream, where
        header = NpyHeader.read(stream, where)
        header.refuse_longer_than(n_bytes, where)
        self.shape, self._by_column, self.dtype = header.shape, header.by_column, header.dtype
        self._data_start = header.offset
        self._row = self._band_start = 0
        self._band = np.empty((self.shape[1] if self._by_column else 0, 0), self.dtype)

    def __len__(self) -> int:
        return self.shape[0] if self.shape else 0

    def read(self, n_rows: int) -> NDArray:
        """Return the next rows."""
        out = np.empty((n_rows, *self.shape[1:]), self.dtype)
        if not self._by_column:
            return self._fill(out)
        n_read = 0
        while n_read < n_rows:
            if self._row == self._band_start + self._band.shape[1]:
                self._next_band()
            within = self._row - self._band_start
            rows = self._band[:, within : within + n_rows - n_read].T
            out[n_read : n_read + len(rows)] = rows
            n_read += len(rows)
            self._row += len(rows)
        return out

    def read_all(self) -> NDArray:
        """Return the whole array, of any shape."""
        refuse_larger(math.prod(self.shape) * self.dtype.itemsize, self.where)
        return self._fill(np.empty(self.shape, self.dtype))

    def _next_band(self) -> None:
        """Read a band of rows of an array stored column by column: one reading of the stream for every band."""
        n_rows, n_columns = self.shape
        size = min(n_rows - self._row, max(LIMITS.band_bytes // (n_columns * self.dtype.itemsize), 1))
        self._band, self._band_start = np.empty((n_columns, size), self.dtype), self._row
        for column in range(n_columns):
            self._stream.seek(self._data_start + (column * n_rows + self._row) * self.dtype.itemsize)
            self._fill(self._band[column])

    def _fill(self, out: NDArray) -> NDArray:
        try:
            fill(self._stream, out, PIECE_BYTES)
        except (EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
            raise InputError(f"{self.where} is damaged or cut short: {error}. Copy it again.") from error
        return out


def open_npy(uri: str, stack: ExitStack) -> NpyStream:
    """Open a ``.npy`` file as a stream, until the stack is left."""
    with storage.reached(uri) as (fs, path):
        return NpyStream(stack.enter_context(fs.open(path, "rb")), uri, fs.size(path))


def open_npz(uri: str, features: str, label: str, stack: ExitStack, sparse: bool | None = None) -> RowSource:
    """Open the rows and labels of an ``.npz`` file, dense or CSR, as streams."""

    def archive() -> zipfile.ZipFile:
        try:
            with storage.reached(uri) as (fs, path):
                file = stack.enter_context(fs.open(path, "rb"))
            return stack.enter_context(zipfile.ZipFile(file))
        except (zipfile.BadZipFile, OSError) as error:
            raise InputError(f"{uri} is not a readable .npz file: {error}.") from error

    def member(name: str) -> NpyStream:
        # Each array has the file to itself: reading two members in turn would undo an object store's read-ahead.
        where, own_archive = f"{name!r} of {uri}", archive()
        try:
            info = own_archive.getinfo(f"{name}.npy")
            return NpyStream(stack.enter_context(own_archive.open(info)), where, info.file_size)
        except (KeyError, RuntimeError, zipfile.BadZipFile) as error:  # such as a member that is encrypted
            raise InputError(f"{where} is not readable: {str(error).rstrip('.')}.") from error

    names = sorted(name.removesuffix(".npy") for name in archive().namelist())
    if features in npz_members(names, features, label, True, uri):
        return NumpyRows(member(features), member(label), uri)
    return DatasetRows(CsrStream(member, names, label, uri), sparse)
