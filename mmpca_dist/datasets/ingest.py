"""The ingest job: any labelled table into a Zarr group that the other jobs read at full speed."""

from __future__ import annotations

import itertools
import os
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets import storage
from mmpca_dist.datasets.base import Dataset, check_table, unit_edges
from mmpca_dist.datasets.npy import NpyHeader
from mmpca_dist.datasets.parquet_rows import ParquetDataset
from mmpca_dist.datasets.text import CSV_SUFFIXES, LIBSVM_SUFFIXES, CsvRows, LibsvmRows
from mmpca_dist.datasets.writing import CHUNK_BYTES, Block, ZarrWriter, encode_block
from mmpca_dist.errors import InputError, did_you_mean

COMPRESSED = (".gz", ".bz2", ".xz")
LISTED_CLASSES = 100
"""Manifests give the number of rows of each class up to this many classes."""


BAND_BYTES = 256 << 20
"""Rows of an array stored column by column are gathered in bands of this size; each takes a reading of the file."""

PIECE_BYTES = 1 << 20
"""Members of a zip file are read through a second buffer, of this size."""


class RowSource(Protocol):
    """What can be ingested: blocks of rows with their labels, in order, read once."""

    uri: str
    n_features: int
    n_rows: int | None
    dtype: np.dtype
    feature_names: list[str] | None
    image_shape: tuple[int, int] | None
    labels: str | None
    """The column of the labels, where there are others that could be meant."""
    total: int

    def blocks(self) -> Iterator[Block]:
        """Yield all rows."""

    def label_values(self, values: list[Any]) -> NDArray:
        """Return the distinct labels as they are to be stored."""

    def where(self, row: int) -> str:
        """Say where a row is, in the words of the source."""


def ingest(
    source: str | os.PathLike,
    destination: str | os.PathLike,
    *,
    features: str | None = None,
    label: str | int | None = None,
    dtype: str | None = None,
    image_shape: tuple[int, int] | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    progress: Callable[[int, int], None] | None = None,
    note: Callable[[str], None] | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write a labelled table as a Zarr group with arrays ``X`` (n, d) and ``y`` (n,), a few blocks in memory at most.

    Parameters
    ----------
    source : str or path
        CSV (``.csv``, ``.tsv``) or LIBSVM text (``.libsvm``, ``.svm``, ``.svmlight``, ``.txt``), also compressed
        (``.gz``, ``.bz2``, ``.xz``), ``.npz``, ``.npy``, or whatever ``open_dataset`` opens; paths or fsspec URLs.
    destination : str or path
        Where the group is to be, as a path or fsspec URL.
    features : str, optional
        As for ``open_dataset``; text has no such choice.
    label : str or int, optional
        As for ``open_dataset``; for CSV the name or number of a column (default: ``label``, ``y`` or the last).
    dtype : {"float32", "float64"}, optional
        Convert the rows. By default text becomes float32 and everything else keeps its type.
    image_shape : (int, int), optional
        Height and width, where a row is an image; kept as an attribute, by default that of the source.
    chunk_bytes : int
        Size of a chunk of rows (8 MiB); eight make a shard, and what fits one shard becomes one chunk.
    progress : callable, optional
        Called with how much of the source is read, and of how much: in rows, for text in bytes of the file (of
        LIBSVM text, in the second of its two readings).
    note : callable, optional
        Called with what the user should know: which column is taken for the labels where none was named.
    overwrite : bool
        Replace the Zarr group that is at the destination.

    Returns
    -------
    dict
        For JSON: ``rows``, ``columns``, ``dtype``, ``classes`` (how many), ``class_rows`` (rows of each, up to 100
        classes), ``labels`` (the column they are from, or None), ``labels_guessed`` (whether nobody named it),
        ``bytes`` (stored), ``seconds``, ``source``, ``destination``.

    Raises
    ------
    InputError
        For a source that is not a table of finite numbers with one label a row; says what was found and where.
        Nothing is left at the destination.
    OutputError
        When the destination exists, or with ``overwrite`` is not a Zarr group.
    PlanError
        When the rows do not fit the disk.

    Examples
    --------
    >>> ingest("flowers.csv", "flowers.zarr", label="species")  # doctest: +SKIP
    {'rows': 150, 'columns': 4, ...}
    """
    started = time.monotonic()
    origin, target = storage.normalize(source), storage.normalize(destination)
    if origin.rstrip("/") == target.rstrip("/"):
        raise InputError(f"{origin} cannot be written onto itself; choose another destination.")
    if dtype not in (None, "float32", "float64"):
        raise InputError(f"dtype is {dtype!r}; rows can be converted to 'float32' or 'float64'.")
    if chunk_bytes < 1:
        raise InputError(f"chunk_bytes is {chunk_bytes}; it must be positive.")
    with ZarrWriter(target, overwrite=overwrite, chunk_bytes=chunk_bytes) as writer, ExitStack() as stack:
        rows = _open(origin, features, label, dtype, stack)
        guessed = label is None and rows.labels is not None
        if guessed and note is not None:
            note(f"Labels are taken from {rows.labels}, of {origin}, since none was named. Name another with --label.")
        kept = np.dtype(dtype or rows.dtype).newbyteorder("=")
        shape = tuple(image_shape or rows.image_shape or ())
        if shape and (len(shape) != 2 or int(np.prod(shape)) != rows.n_features):
            raise InputError(f"image_shape {shape} does not make {rows.n_features} columns, which {origin} has.")
        if kept.kind not in "fiub" or kept.itemsize > 8 or rows.n_features < 1:
            raise InputError(f"{origin} has {rows.n_features} columns of type {kept}; convert them to float64.")
        writer.begin(rows.n_features, kept, rows.n_rows)
        for block in rows.blocks():
            _refuse_not_finite(block.rows, kept, writer.n_rows, rows)
            writer.append(block)
            if progress is not None:
                progress(block.done, max(rows.total, block.done))
            del block  # before the next one is read
        attributes: dict[str, Any] = {}
        if rows.feature_names is not None:
            attributes["feature_names"] = rows.feature_names
        if shape:
            attributes["image_shape"] = [int(size) for size in shape]
        classes, n_bytes = writer.finish(attributes, rows.label_values)
    manifest = {
        "source": origin,
        "destination": target,
        "rows": writer.n_rows,
        "columns": rows.n_features,
        "dtype": str(kept),
        "labels": rows.labels,
        "labels_guessed": guessed,
        "classes": len(classes),
        "bytes": n_bytes,
        "seconds": round(time.monotonic() - started, 3),
    }
    if len(classes) <= LISTED_CLASSES:
        manifest["class_rows"] = {str(name): count for name, count in classes.items()}
    return manifest


def _open(uri: str, features: str | None, label: str | int | None, dtype: str | None, stack: ExitStack) -> RowSource:
    # This module is part of the package that open_dataset belongs to.
    from mmpca_dist.datasets import open_dataset

    stem = uri.lower()
    for suffix in COMPRESSED:
        stem = stem.removesuffix(suffix)
    wanted = np.dtype(dtype or "float32")
    if stem.endswith((*CSV_SUFFIXES, *LIBSVM_SUFFIXES)):
        if features is not None:
            raise InputError(
                f"features={features!r} cannot be honoured: every column of {uri} beside the label is a feature."
            )
        if stem.endswith(CSV_SUFFIXES):
            return CsvRows(uri, label, wanted)
        if label is not None:
            raise InputError(f"label={label!r} cannot be honoured: each line of {uri} begins with its label.")
        return LibsvmRows(uri, wanted)
    name = None if label is None else str(label)
    if uri.endswith(".npz"):
        return _open_npz(uri, features or "X", name or "y", stack)
    if uri.endswith(".npy") and name is not None and not storage.is_local(uri):
        name = storage.normalize(name)
        return NumpyRows(_NpyStream(_file(uri, stack), uri), _NpyStream(_file(name, stack), name), uri)
    return DatasetRows(open_dataset(uri, features=features, label=name))


def _refuse_not_finite(rows: NDArray, kept: np.dtype, first_row: int, source: RowSource) -> None:
    if rows.dtype.kind != "f":
        return
    with np.errstate(over="ignore"):
        finite = np.isfinite(rows if kept.itemsize >= rows.dtype.itemsize else rows.astype(kept))
    if finite.all():
        return
    row, column = (int(i) for i in np.argwhere(~finite)[0])
    value = rows[row, column]
    name = f"{column} ({source.feature_names[column]!r})" if source.feature_names else str(column)
    found = "an empty cell or NaN" if np.isnan(value) else f"{value:g}"
    if np.isfinite(value) or (np.isinf(value) and kept == np.float32):
        found += ", too large a number for float32 or infinite,"
    raise InputError(
        f"Feature {name} of {source.uri} has {found} in {source.where(first_row + row)}. Features must be finite "
        "numbers: fill it, or drop the row."
    )


class DatasetRows:
    """What ``open_dataset`` opens, in its reading units."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self.uri, self.n_features, self.dtype = dataset.uri, dataset.n_features, dataset.dtype
        self.feature_names, self.image_shape = dataset.feature_names, dataset.image_shape
        self.n_rows: int | None = dataset.n_rows
        self.total = dataset.n_rows
        self.labels = f"column {dataset.label!r}" if isinstance(dataset, ParquetDataset) else None

    def blocks(self) -> Iterator[Block]:
        """Yield all rows."""
        if not self.total:
            return
        edges = unit_edges(self._dataset.chunk_edges, self._dataset.row_bytes).tolist()
        buffer = np.empty((max(np.diff(edges)), self.n_features), self.dtype)
        for start, stop in itertools.pairwise(edges):
            try:
                rows = self._dataset.read_rows(start, stop, buffer[: stop - start])
                labels = self._dataset.read_labels(start, stop)
            except InputError:
                raise
            except Exception as error:  # whatever a store or codec raises for damaged data
                raise InputError(
                    f"Cannot read {self._dataset.describe_chunk(start)}: "
                    f"{str(error).rstrip('.') or type(error).__name__}. It is damaged or out of reach: restore it "
                    "from its source."
                ) from error
            yield Block(rows, *encode_block(labels, self.uri), stop)

    def label_values(self, values: list[Any]) -> NDArray:
        """Return the distinct labels as they are."""
        return np.asarray(values)

    def where(self, row: int) -> str:
        """Say where a row is."""
        return f"row {row}"


class NumpyRows:
    """Rows and labels in two ``.npy`` streams, as in an ``.npz`` file, read side by side."""

    feature_names: list[str] | None = None
    image_shape: tuple[int, int] | None = None
    labels: str | None = None

    def __init__(self, rows: _NpyStream, labels: _NpyStream, uri: str) -> None:
        self._rows, self._labels, self.uri = rows, labels, uri
        check_table(uri, rows.shape, rows.dtype, labels.shape[0] if labels.shape else 0)
        self.n_rows: int | None = rows.shape[0]
        self.n_features, self.dtype, self.total = rows.shape[1], rows.dtype, rows.shape[0]

    def blocks(self) -> Iterator[Block]:
        """Yield all rows."""
        step = max(1, CHUNK_BYTES // (self.n_features * self.dtype.itemsize))
        for start in range(0, self.total, step):
            stop = min(start + step, self.total)
            labels = self._labels.read(stop - start)
            yield Block(self._rows.read(stop - start), *encode_block(labels, self._labels.where), stop)

    label_values = DatasetRows.label_values
    where = DatasetRows.where


class _NpyStream:
    """An array in ``.npy`` form that is read from front to back."""

    def __init__(self, stream: Any, where: str) -> None:
        self._stream, self.where = stream, where
        header = NpyHeader.read(stream, where)
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


def _file(uri: str, stack: ExitStack) -> Any:
    fs, path = storage.filesystem(uri)
    with storage.explained(uri):
        return stack.enter_context(fs.open(path, "rb"))


def _open_npz(uri: str, features: str, label: str, stack: ExitStack) -> NumpyRows:
    streams = []
    for name in (features, label):
        # Each array has the file to itself: reading two members in turn would undo an object store's read-ahead.
        try:
            archive = stack.enter_context(zipfile.ZipFile(_file(uri, stack)))
        except (zipfile.BadZipFile, OSError) as error:
            raise InputError(f"{uri} is not a readable .npz file: {error}.") from error
        names = sorted(member.removesuffix(".npy") for member in archive.namelist())
        if name not in names:
            raise InputError(f"{uri} has no array {name!r}; it holds {', '.join(names)}.{did_you_mean(name, names)}")
        stream = stack.enter_context(archive.open(f"{name}.npy"))
        streams.append(_NpyStream(stream, f"{name!r} of {uri}"))
    return NumpyRows(streams[0], streams[1], uri)
