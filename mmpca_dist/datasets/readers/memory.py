"""Rows in memory, in ``.npz`` files, or bundled with scikit-learn."""

from __future__ import annotations

import functools
import uuid
import zipfile
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from mmpca_dist.datasets.content_digest import digest_of_arrays
from mmpca_dist.datasets.dataset import Dataset, check_table, grain_edges
from mmpca_dist.datasets.labels import normalize_labels
from mmpca_dist.datasets.memory_limits import refuse_larger
from mmpca_dist.datasets.readers.bundled import Bundled
from mmpca_dist.datasets.readers.csr import SparseArray, check_index_type, check_row_ends, value_type
from mmpca_dist.datasets.readers.formats import Format, Request
from mmpca_dist.datasets.readers.npy import NpyHeader
from mmpca_dist.datasets.readers.npy_headers import read_again
from mmpca_dist.datasets.stores import storage
from mmpca_dist.errors import InputError, MmpcaError, did_you_mean


class ArrayDataset(Dataset):
    """Rows ``X`` of shape (n, d) that are in memory, and labels ``y`` of shape (n,), or None."""

    in_memory = True
    kind = "memory"
    read_overhead = 0.0

    def __init__(self, X: NDArray, y: NDArray | None, uri: str = "the array in memory") -> None:
        self.uri = uri
        X = np.asarray(X)
        self._y = None if y is None else normalize_labels(y, uri)
        self.has_labels = y is not None
        check_table(uri, X.shape, X.dtype, None if self._y is None else len(self._y))
        self._X = X
        self.n_rows, self.n_features = X.shape
        self.dtype = X.dtype

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return grain_edges(self.n_rows, self.row_bytes)

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        return self._X[start:stop]

    def read_labels(self, start: int, stop: int) -> NDArray:
        assert self._y is not None  # noqa: S101  (has_labels says so)
        return self._y[start:stop]

    def fingerprint(self) -> str:
        return storage.digest("array", digest_of_arrays(self._X, self._y))


def rows_in_memory(X: Any, y: Any, uri: str) -> ArrayDataset | SparseArray:
    """Return an array or a scipy.sparse matrix (n, d) with labels (n,), or None, as a data set."""
    return SparseArray(X, y, uri) if issparse(X) else ArrayDataset(X, y, uri)


CSR_PARTS = ("data", "indices", "indptr", "shape")
"""The arrays of a CSR matrix in an ``.npz`` file, as scipy.sparse.save_npz names them."""


class LoadedDataset(Dataset):
    """A small data set that each process loads whole, by name: bundled, or an ``.npz`` of dense or CSR rows."""

    features: str
    kind = "memory"
    read_overhead = 0.0

    def __init__(self, uri: str, features: str = "X", label: str = "y", label_required: bool = True) -> None:
        self.uri, self.features, self._label = uri, features, label
        self._label_required, self._token = label_required, uuid.uuid4().hex
        rows = self._rows()
        self.n_rows, self.n_features, self.dtype = rows.n_rows, rows.n_features, rows.dtype
        self.has_labels = rows.has_labels
        self.sparse, self.in_memory = rows.sparse, not rows.sparse
        self.resident_bytes = 2 * self.n_bytes
        if uri.startswith("bundled:"):
            bundled = Bundled.parse(uri)
            self.feature_names, self.image_shape = bundled.load()[2], bundled.image_shape

    @property
    def before_noise(self) -> Dataset | None:
        if not self.uri.startswith("bundled:"):
            return None
        bundled = Bundled.parse(self.uri)
        return LoadedDataset(bundled.without_noise) if bundled.noise else None

    def _rows(self) -> ArrayDataset | SparseArray:
        return _load(self.uri, self.features, self._label, self._label_required, self._token)

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return grain_edges(self.n_rows, self.row_bytes)

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        return self._rows().read_rows(start, stop, out)

    def read_sparse(self, start: int, stop: int) -> csr_array:
        return self._rows().read_sparse(start, stop)

    def reading_bytes(self, n_rows: int) -> int:
        return self._rows().reading_bytes(n_rows)

    def sparse_bytes(self, n_rows: int) -> int:
        return self._rows().sparse_bytes(n_rows)

    @property
    def n_bytes(self) -> int:
        return self._rows().n_bytes

    @property
    def nnz(self) -> int:
        return self._rows().nnz

    def read_labels(self, start: int, stop: int) -> NDArray:
        return self._rows().read_labels(start, stop)

    @property
    def addresses(self) -> list[str]:
        return [] if self.uri.startswith("bundled:") else [self.uri]

    def fingerprint(self) -> str:
        if not self.uri.startswith("bundled:"):
            return storage.digest("npz", storage.list_objects(self.uri), self.features, self._label)
        rows = self._rows()
        return storage.digest("bundled", self.uri, rows.n_rows, float(np.sum(rows.read_rows(0, rows.n_rows))))


@functools.lru_cache(maxsize=2)
@read_again
def _load(uri: str, features: str, label: str, label_required: bool, token: str) -> ArrayDataset | SparseArray:
    if uri.startswith("bundled:"):
        rows, labels, _ = Bundled.parse(uri).load()
        return ArrayDataset(rows, labels, uri)
    storage.require(uri)
    fs, path = storage.filesystem(uri)
    with storage.explained(uri), fs.open(path, "rb") as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                names = sorted(archive.files)
                parts = npz_members(names, features, label, label_required, uri)
                _refuse_oversized(archive.zip, (*parts, *(["format"] if "format" in names else [])), uri)
                y = archive[label] if label in parts else None
                if features in parts:
                    return ArrayDataset(archive[features], y, uri)
                return _csr_of(archive, y, uri)
        except (OSError, EOFError, ValueError, LookupError, RuntimeError, zlib.error, zipfile.BadZipFile) as error:
            if isinstance(error, MmpcaError) or getattr(error, "errno", None):
                raise  # the file is out of reach, not damaged
            raise InputError(f"{uri} is not a readable .npz file: {error}.") from error


def _refuse_oversized(archive: zipfile.ZipFile, parts: tuple[str, ...], uri: str) -> None:
    """Refuse arrays that do not fit the memory, or are not as long as they declare."""
    total = 0
    for name in parts:
        info = archive.getinfo(f"{name}.npy")
        total += info.file_size
        refuse_larger(total, uri, f"Turn it into Zarr first, with: mmpca ingest {uri} DEST.zarr")
        with archive.open(info) as stream:
            NpyHeader.read(stream, f"{name!r} of {uri}").refuse_longer_than(info.file_size, f"{name!r} of {uri}")


def npz_members(names: list[str], features: str, label: str, label_required: bool, uri: str) -> tuple[str, ...]:
    """Return which arrays of an ``.npz`` file make the data set: one of rows or the parts of a CSR matrix, and labels.

    Raises
    ------
    InputError
        Where they are not there.
    """
    rows = CSR_PARTS if features not in names and set(CSR_PARTS) <= set(names) else (features,)
    wanted = (*rows, label) if label_required or label in names else rows
    for name in wanted:
        if names.count(name) > 1:
            raise InputError(f"{uri} holds {names.count(name)} arrays called {name!r}. Save one of them again.")
        if name not in names:
            raise InputError(f"{uri} has no array {name!r}; it holds {', '.join(names)}.{did_you_mean(name, names)}")
    return wanted


def csr_shape(shape: NDArray, stored_as: NDArray | None, uri: str) -> tuple[int, int]:
    """Return the shape of the CSR matrix in an ``.npz`` file; ``stored_as`` is its array ``format``, if there is one.

    Raises
    ------
    InputError
        For other formats, and shapes that are none.
    """
    try:
        form = "csr" if stored_as is None else np.asarray(stored_as).astype(str).item()
    except (ValueError, SystemError) as error:  # several texts, or numbers of no characters
        raise InputError(f"The array 'format' of {uri} is no text; it must be 'csr'.") from error
    if form != "csr":
        raise InputError(
            f"{uri} holds a matrix in {form!r} form, whose rows cannot be read piece by piece. Save it by rows: "
            "scipy.sparse.save_npz(path, X.tocsr())."
        )
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise InputError(f"The array 'shape' of {uri} is {shape.tolist()}; it must be the two sizes of a matrix.")
    return int(shape[0]), int(shape[1])


def _csr_of(archive: Any, y: NDArray | None, uri: str) -> SparseArray:
    data, indices, indptr, shape = (archive[name] for name in CSR_PARTS)
    size = csr_shape(shape, archive["format"] if "format" in archive.files else None, uri)
    check_table(uri, size, data.dtype, None if y is None else len(y), sparse=True)
    check_index_type(indices.dtype, uri)
    check_row_ends(indptr, size[0], len(data), len(indices), uri)
    rows = csr_array((data.astype(value_type(data.dtype), copy=False), indices, indptr), shape=size)
    return SparseArray(rows, y, uri, sum_duplicates=False)


def _open_npz(request: Request) -> Dataset:
    return LoadedDataset(request.uri, request.features or "X", request.label or "y", request.label_required)


FORMATS = (
    Format("bundled", "a bundled table", lambda request: LoadedDataset(request.uri), scheme="bundled:"),
    Format("npz", "a file of arrays", _open_npz, suffixes=(".npz",)),
)
