"""Rows that are in memory, in an ``.npz`` file, or bundled with scikit-learn."""

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

GRAIN_BYTES = 1 << 20
"""Arrays in memory may be cut anywhere: they pass for chunks of this size."""

BUNDLED = ("digits", "breast_cancer", "wine", "iris")


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
        return chunk_edges(self.n_rows, min(default_chunk_rows(self.row_bytes), max(1, GRAIN_BYTES // self.row_bytes)))

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        return self._X[start:stop]

    def read_labels(self, start: int, stop: int) -> NDArray:
        assert self._y is not None  # noqa: S101  (has_labels says so)
        return self._y[start:stop]

    def fingerprint(self) -> str:
        return storage.digest("array", self.n_rows, self.n_features, id(self._X))


class LoadedDataset(Dataset):
    """A small data set that each process loads whole, by name: bundled, or a compressed ``.npz``."""

    in_memory = True
    kind = "memory"
    read_overhead = 0.0

    def __init__(self, uri: str, features: str = "X", label: str = "y", label_required: bool = True) -> None:
        self.uri, self._features, self._label = uri, features, label
        self._label_required, self._token = label_required, uuid.uuid4().hex
        rows = self._rows()
        self.n_rows, self.n_features, self.dtype = rows.n_rows, rows.n_features, rows.dtype
        self.has_labels = rows.has_labels
        self.resident_bytes = 2 * self.n_bytes
        if uri.startswith("bundled:"):
            bundle = load_bundled(uri)
            self.feature_names = [str(name) for name in bundle.feature_names]
            self.image_shape = (8, 8) if uri == "bundled:digits" else None

    def _rows(self) -> ArrayDataset:
        return _load(self.uri, self._features, self._label, self._label_required, self._token)

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return chunk_edges(self.n_rows, min(default_chunk_rows(self.row_bytes), max(1, GRAIN_BYTES // self.row_bytes)))

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        return self._rows().read_rows(start, stop)

    def read_labels(self, start: int, stop: int) -> NDArray:
        return self._rows().read_labels(start, stop)

    def fingerprint(self) -> str:
        if not self.uri.startswith("bundled:"):
            return storage.digest("npz", storage.list_objects(self.uri), self._features, self._label)
        rows = self._rows()
        return storage.digest("bundled", self.uri, rows.n_rows, float(np.sum(rows.read_rows(0, rows.n_rows))))


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
def _load(uri: str, features: str, label: str, label_required: bool, token: str) -> ArrayDataset:
    if uri.startswith("bundled:"):
        bundle = load_bundled(uri)
        return ArrayDataset(bundle.data, bundle.target_names[bundle.target], uri)
    storage.require(uri)
    fs, path = storage.filesystem(uri)
    with storage.explained(uri), fs.open(path, "rb") as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                names = sorted(archive.files)
                wanted = (features, label) if label_required or label in names else (features,)
                for name in wanted:
                    if name not in names:
                        raise InputError(
                            f"{uri} has no array {name!r}; it holds {', '.join(names)}.{did_you_mean(name, names)}"
                        )
                return ArrayDataset(archive[features], archive[label] if label in wanted else None, uri)
        except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
            if isinstance(error, MmpcaError) or getattr(error, "errno", None):
                raise  # the file is out of reach, not damaged
            raise InputError(f"{uri} is not a readable .npz file: {error}.") from error
