"""Rows in memory: arrays, CSR matrices, and ``.npz`` files, which each process loads whole."""

from __future__ import annotations

import functools
import uuid
import zipfile
import zlib
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from mmpca_dist.errors import InputError, MmpcaError, did_you_mean
from mmpca_dist.stores import storage
from mmpca_dist.tables.changes import digest_of_arrays
from mmpca_dist.tables.dataset import Dataset, grain_edges
from mmpca_dist.tables.facts import Facts
from mmpca_dist.tables.labels import check_label_type, has_label, label_array, labels_among, normalize_labels
from mmpca_dist.tables.memory_limits import check_table, refuse_larger
from mmpca_dist.tables.proxies import LoadedRows
from mmpca_dist.tables.readers.csr import SparseRows, check_index_type, check_row_ends, value_type
from mmpca_dist.tables.readers.formats import Format, Request
from mmpca_dist.tables.readers.npy import NpyHeader, read_again

CSR_PARTS = ("data", "indices", "indptr", "shape")
"""The arrays of a CSR matrix in an ``.npz`` file, as ``scipy.sparse.save_npz`` names them."""


class _InMemory(Dataset):
    """Base of rows ``X`` (n, d) in memory, with labels ``y`` (n,) or None."""

    def __init__(self, X: Any, y: NDArray | None, uri: str) -> None:
        self._values, sparse = y, issparse(X)
        check_table(uri, X.shape, X.dtype, None if y is None else len(y), sparse=sparse)
        self._X, dtype = X, value_type(X.dtype) if sparse else X.dtype
        self.facts = Facts(
            uri, X.shape[0], X.shape[1], dtype, has_labels=y is not None, sparse=sparse, kind="memory",
            read_overhead=1.0 if sparse else 0.0,
        )  # fmt: skip

    @functools.cached_property
    def _y(self) -> NDArray:
        if not self._skips_unlabelled:
            return normalize_labels(self._values, self.uri)
        values, known = self.read_values(0, self.n_rows), self.is_labelled(0, self.n_rows)
        return labels_among(known, normalize_labels(values[known], self.uri))

    def is_labelled(self, start: int, stop: int) -> NDArray[np.bool_]:
        return has_label(self.read_values(start, stop))

    def read_labels(self, start: int, stop: int) -> NDArray:
        return self._y[start:stop]

    def read_values(self, start: int, stop: int) -> NDArray:
        assert self._values is not None  # noqa: S101  (has_labels says so)
        return label_array(self._values, self.uri)[start:stop].reshape(-1)


class ArrayDataset(_InMemory):
    """Rows ``X`` of shape (n, d) that are in memory, and labels ``y`` of shape (n,), or None."""

    def __init__(self, X: NDArray, y: NDArray | None, uri: str = "the array in memory") -> None:
        super().__init__(np.asarray(X), y, uri)

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return grain_edges(self.n_rows, self.row_bytes)

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        return self._X[start:stop]

    def fingerprint(self) -> str:
        return storage.digest("array", digest_of_arrays(self._X, self._values))


class SparseArray(_InMemory, SparseRows):
    """A ``scipy.sparse`` matrix or array ``X`` of shape (n, d) in memory, and labels ``y`` of shape (n,), or None.

    Values that are stored twice are summed, as scipy means them, unless ``sum_duplicates`` is false. ``X`` itself is
    never changed.
    """

    def __init__(
        self, X: Any, y: NDArray | None, uri: str = "the matrix in memory", *, sum_duplicates: bool = True
    ) -> None:
        super().__init__(X, y, uri)
        rows = csr_array(X)
        if sum_duplicates and not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        self._X = rows.astype(self.dtype, copy=False)

    def _stored(self, start: int, stop: int) -> tuple[NDArray, NDArray, NDArray]:
        ends = self._X.indptr[start : stop + 1]
        within = slice(ends[0], ends[-1])
        return self._X.data[within], self._X.indices[within], ends - ends[0]

    @property
    def n_bytes(self) -> int:
        return int(self._X.data.nbytes + self._X.indices.nbytes + self._X.indptr.nbytes)

    @property
    def _ends(self) -> NDArray:
        return self._X.indptr

    def fingerprint(self) -> str:
        arrays = (self._X.data, self._X.indices, self._X.indptr, self._values)
        return storage.digest("csr", self.n_features, digest_of_arrays(*arrays))


def rows_in_memory(X: Any, y: Any, uri: str) -> ArrayDataset | SparseArray:
    """Return an array or a scipy.sparse matrix (n, d) with labels (n,), or None, as a data set."""
    return SparseArray(X, y, uri) if issparse(X) else ArrayDataset(X, y, uri)


class NpzDataset(LoadedRows):
    """A small ``.npz`` file, which each process loads whole."""

    features: str

    def __init__(self, request: Request) -> None:
        self._address, self.features, self._label = request.uri, request.features or "X", request.label or "y"
        self._label_required, self._token = request.label_required, uuid.uuid4().hex
        self._skips_unlabelled = request.unlabelled == "skip"
        super().__init__(self._rows, resident_bytes=2 * self._rows.n_bytes)

    @property
    def _rows(self) -> ArrayDataset | SparseArray:  # type: ignore[override]
        rows = _load(self._address, self.features, self._label, self._label_required, self._token)
        rows._skips_unlabelled = self._skips_unlabelled
        return rows

    @property
    def addresses(self) -> list[str]:
        return [self.uri]

    def fingerprint(self) -> str:
        return storage.digest("npz", storage.list_objects(self.uri), self.features, self._label)


@functools.lru_cache(maxsize=2)
@read_again
def _load(uri: str, features: str, label: str, label_required: bool, token: str) -> ArrayDataset | SparseArray:
    """Load a file, once for each ``token``."""
    storage.require(uri)
    with storage.reached(uri) as (fs, path), fs.open(path, "rb") as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                names = sorted(archive.files)
                members = _npz_members(names, features, label, label_required, uri)
                _refuse_oversized(archive.zip, [name for name in (*members, "format") if name in names], uri)
                y = archive[label] if label in members else None
                if y is not None:
                    check_label_type(y.dtype, y.size, f"{label!r} of {uri}")
                if features in members:
                    return ArrayDataset(archive[features], y, uri)
                return _csr_of(archive, y, uri)
        except (OSError, EOFError, ValueError, LookupError, RuntimeError, zlib.error, zipfile.BadZipFile) as error:
            if isinstance(error, MmpcaError) or getattr(error, "errno", None):
                raise  # the file is out of reach, not damaged
            raise InputError(f"{uri} is not a readable .npz file: {error}.") from error


def _refuse_oversized(archive: zipfile.ZipFile, members: Collection[str], uri: str) -> None:
    """Refuse arrays that do not fit into memory, or are shorter than they declare."""
    total = 0
    for name in members:
        info = archive.getinfo(f"{name}.npy")
        total += info.file_size
        refuse_larger(total, uri, "Save its arrays as .npy files, which are read piece by piece")
        with archive.open(info) as stream:
            NpyHeader.read(stream, f"{name!r} of {uri}").refuse_longer_than(info.file_size, f"{name!r} of {uri}")


def _npz_members(names: list[str], features: str, label: str, label_required: bool, uri: str) -> tuple[str, ...]:
    """Return which arrays of an ``.npz`` file hold the rows, or the parts of their CSR matrix, and the labels."""
    rows = CSR_PARTS if features not in names and set(CSR_PARTS) <= set(names) else (features,)
    members = (*rows, label) if label_required or label in names else rows
    for name in members:
        if names.count(name) > 1:
            raise InputError(f"{uri} holds {names.count(name)} arrays called {name!r}. Save one of them again.")
        if name not in names:
            raise InputError(f"{uri} has no array {name!r}; it holds {', '.join(names)}.{did_you_mean(name, names)}")
    return members


def _csr_of(archive: Any, y: NDArray | None, uri: str) -> SparseArray:
    data, indices, indptr, shape = (archive[name] for name in CSR_PARTS)
    form = str(archive["format"].astype(str)) if "format" in archive.files else "csr"
    if form != "csr":
        raise InputError(
            f"{uri} holds a matrix in {form!r} form, whose rows cannot be read piece by piece. Save it by rows: "
            "scipy.sparse.save_npz(path, X.tocsr())."
        )
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise InputError(f"The array 'shape' of {uri} is {shape.tolist()}; it must be the two sizes of a matrix.")
    size = int(shape[0]), int(shape[1])
    check_table(uri, size, data.dtype, None if y is None else len(y), sparse=True)
    check_index_type(indices.dtype, uri)
    check_row_ends(indptr, size[0], len(data), len(indices), uri)
    rows = csr_array((data.astype(value_type(data.dtype), copy=False), indices, indptr), shape=size)
    return SparseArray(rows, y, uri, sum_duplicates=False)


FORMAT = Format("npz", "a file of arrays", NpzDataset, suffixes=(".npz",))
