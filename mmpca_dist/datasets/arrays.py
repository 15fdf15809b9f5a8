"""Rows that are in memory, in NumPy files, or bundled with scikit-learn."""

from __future__ import annotations

import functools
import uuid
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets import storage
from mmpca_dist.datasets.base import Dataset, check_table, chunk_edges, default_chunk_rows
from mmpca_dist.datasets.labels import normalize_labels
from mmpca_dist.errors import InputError, MmpcaError, did_you_mean

BUNDLED = ("digits", "breast_cancer", "wine", "iris")


class ArrayDataset(Dataset):
    """Rows ``X`` of shape (n, d) and labels ``y`` of shape (n,) that are in memory."""

    in_memory = True
    kind = "memory"
    read_overhead = 0.0

    def __init__(self, X: NDArray, y: NDArray, uri: str = "the array in memory") -> None:
        self.uri = uri
        X = np.asarray(X)
        self._y = normalize_labels(y, uri)
        check_table(uri, X.shape, X.dtype, len(self._y))
        self._X = X
        self.n_rows, self.n_features = X.shape
        self.dtype = X.dtype

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return chunk_edges(self.n_rows, default_chunk_rows(self.row_bytes))

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        return self._X[start:stop]

    def read_labels(self, start: int, stop: int) -> NDArray:
        return self._y[start:stop]

    def fingerprint(self) -> str:
        return storage.digest("array", self.n_rows, self.n_features, id(self._X))


class LoadedDataset(Dataset):
    """A small data set that each process loads whole, by name: bundled, or a compressed ``.npz``."""

    in_memory = True
    kind = "memory"
    read_overhead = 0.0

    def __init__(self, uri: str, features: str = "X", label: str = "y") -> None:
        self.uri, self._features, self._label = uri, features, label
        self._token = uuid.uuid4().hex
        rows = self._rows()
        self.n_rows, self.n_features, self.dtype = rows.n_rows, rows.n_features, rows.dtype
        self.resident_bytes = 2 * self.n_bytes
        if uri.startswith("bundled:"):
            bundle = load_bundled(uri)
            self.feature_names = [str(name) for name in bundle.feature_names]
            self.image_shape = (8, 8) if uri == "bundled:digits" else None

    def _rows(self) -> ArrayDataset:
        return _load(self.uri, self._features, self._label, self._token)

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return chunk_edges(self.n_rows, default_chunk_rows(self.row_bytes))

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        return self._rows().read_rows(start, stop)

    def read_labels(self, start: int, stop: int) -> NDArray:
        return self._rows().read_labels(start, stop)

    def fingerprint(self) -> str:
        if not self.uri.startswith("bundled:"):
            return storage.digest("npz", storage.list_objects(self.uri), self._features, self._label)
        rows = self._rows()
        return storage.digest("bundled", self.uri, rows.n_rows, float(np.sum(rows.read_rows(0, rows.n_rows))))


class NpyDataset(Dataset):
    """A pair of ``.npy`` files on a local disk, memory-mapped."""

    def __init__(self, uri: str, label: str) -> None:
        self.uri, self.label = uri, label
        self._token = uuid.uuid4().hex
        rows, labels = _map(uri, self._token), _map(label, self._token)
        check_table(f"{uri} with {label}", rows.shape, rows.dtype, len(labels))
        self.n_rows, self.n_features = rows.shape
        self.dtype = rows.dtype

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return chunk_edges(self.n_rows, default_chunk_rows(self.row_bytes))

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        rows = _map(self.uri, self._token)[start:stop]
        if out is None:
            return np.ascontiguousarray(rows)
        out[...] = rows
        return out

    def read_labels(self, start: int, stop: int) -> NDArray:
        return normalize_labels(np.asarray(_map(self.label, self._token)[start:stop]), self.label)

    def fingerprint(self) -> str:
        return storage.digest("npy", storage.list_objects(self.uri), storage.list_objects(self.label))


def load_bundled(uri: str) -> Any:
    """Return scikit-learn's bundle for ``bundled:NAME``."""
    import sklearn.datasets

    name = uri.removeprefix("bundled:")
    if name not in BUNDLED:
        raise InputError(
            f"There is no bundled data set {name!r}; there are {', '.join(BUNDLED)}.{did_you_mean(name, BUNDLED)}"
        )
    return getattr(sklearn.datasets, f"load_{name}")()


@functools.lru_cache(maxsize=2)
def _load(uri: str, features: str, label: str, token: str) -> ArrayDataset:
    if uri.startswith("bundled:"):
        bundle = load_bundled(uri)
        return ArrayDataset(bundle.data, bundle.target_names[bundle.target], uri)
    fs, path = storage.filesystem(uri)
    with storage.explained(uri), fs.open(path, "rb") as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                names = sorted(archive.files)
                for name in (features, label):
                    if name not in names:
                        raise InputError(
                            f"{uri} has no array {name!r}; it holds {', '.join(names)}.{did_you_mean(name, names)}"
                        )
                return ArrayDataset(archive[features], archive[label], uri)
        except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
            if isinstance(error, MmpcaError) or getattr(error, "errno", None):
                raise  # the file is out of reach, not damaged
            raise InputError(f"{uri} is not a readable .npz file: {error}.") from error


@functools.lru_cache(maxsize=8)
def _map(path: str, token: str) -> NDArray:
    with storage.explained(path):
        try:
            return np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise InputError(f"{path} is not a readable .npy file: {error}.") from error
