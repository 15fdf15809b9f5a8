"""Rows in a Zarr group: one array ``(n, d)`` and one label array ``(n,)``."""

from __future__ import annotations

import functools
import logging
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from fsspec.implementations.local import LocalFileSystem
from numpy.typing import NDArray
from zarr.core.buffer.cpu import NDBuffer
from zarr.storage import FsspecStore, LocalStore

from mmpca_dist.datasets import storage
from mmpca_dist.datasets.base import Dataset, check_table, chunk_edges, reading_labels
from mmpca_dist.datasets.labels import normalize_labels
from mmpca_dist.datasets.zarr_direct import PlainChunks
from mmpca_dist.errors import InputError, did_you_mean

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ZarrReader:
    """Reads rows of a Zarr array into a buffer, past Zarr where chunks are plain local files."""

    array: zarr.Array
    plain: PlainChunks | None

    @classmethod
    def of(cls, array: zarr.Array) -> ZarrReader:
        """Return the reader of an array of shape (n, d)."""
        root = _local_root(array)
        return cls(array, None if root is None else PlainChunks.of(array, root))

    def read(self, start: int, stop: int, out: NDArray) -> NDArray:
        """Fill ``out``, shape (stop - start, d) and of the array's type, and return it."""
        if self.plain is None or not self.plain.read(start, stop, out):
            selection = (slice(start, stop), slice(None))
            self.array.get_basic_selection(selection, out=NDBuffer(out))  # type: ignore[arg-type]
        return out


def _local_root(array: zarr.Array) -> Path | None:
    """Return the folder of an array on this machine's file system, or None."""
    store = array.store
    if isinstance(store, LocalStore):
        return Path(store.root) / array.path
    if isinstance(store, FsspecStore):
        filesystem = getattr(store.fs, "sync_fs", store.fs)
        if isinstance(filesystem, LocalFileSystem):
            return Path(store.path) / array.path
    return None


class ZarrDataset(Dataset):
    """Rows and labels of a Zarr group, version 3 or 2, at a path or fsspec URL.

    Without ``label_required`` the array of labels may be absent.
    """

    def __init__(
        self,
        uri: str,
        features: str = "X",
        label: str = "y",
        missing_chunks: str = "refuse",
        label_required: bool = True,
    ) -> None:
        self.uri, self.features, self.label = uri, features, label
        self.missing_chunks = missing_chunks
        self._token = uuid.uuid4().hex
        group = storage.open_group(uri)
        rows = _array(group, features, uri, "dataset.features")
        self.has_labels = label_required or label in group
        labels = _labels(group, label, uri) if self.has_labels else None
        where = f"{uri} ({features!r} with {label!r})" if labels is not None else f"{uri} ({features!r})"
        check_table(where, rows.shape, rows.dtype, None if labels is None else labels.shape[0])
        self.n_rows, self.n_features = rows.shape
        self.dtype = rows.dtype
        self.missing_label_rows = 0
        self.label_fill: Any = None
        self._chunk_rows = int((rows.shards or rows.chunks)[0])
        local = storage.is_local(uri)
        self.kind = "local" if local else "remote"
        self.read_overhead = 0.0 if ZarrReader.of(rows).plain is not None else 2.0
        self._attributes(group)
        self._refuse_missing(rows)
        if labels is not None:
            self._note_missing_labels(labels)

    def _attributes(self, group: zarr.Group) -> None:
        names = group.attrs.get("feature_names")
        if isinstance(names, list) and len(names) == self.n_features:
            self.feature_names = [str(name) for name in names]
        shape = group.attrs.get("image_shape")
        if isinstance(shape, list | tuple) and len(shape) == 2:
            height, width = (int(str(size)) for size in shape)
            self.image_shape = (height, width) if height * width == self.n_features else None

    def _refuse_missing(self, rows: zarr.Array) -> None:
        """Zarr reads a missing chunk as fill values without a word; data may be missing only knowingly."""
        missing = _missing_chunks(self.uri, self.features, rows)
        if missing and self.missing_chunks == "refuse":
            first = missing[0]
            start = first[0] * self._chunk_rows
            stop = min(start + self._chunk_rows, self.n_rows)
            raise InputError(
                f"{self.uri} lacks {len(missing)} of the chunks of {self.features!r}, the first one {first}: rows "
                f"{start} to {stop - 1}. Restore it, or set dataset.missing_chunks: fill to take its "
                f"rows as {rows.fill_value}."
            )

    def _note_missing_labels(self, labels: zarr.Array) -> None:
        """Whether fill values are labels is known only when all labels are counted."""
        missing = _missing_chunks(self.uri, self.label, labels)
        chunk_rows = int((labels.shards or labels.chunks)[0])
        for (index,) in missing:
            self.missing_label_rows += min(chunk_rows, self.n_rows - index * chunk_rows)
        if missing:
            self.label_fill = normalize_labels(np.asarray([labels.fill_value]), self.label)[0]

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return chunk_edges(self.n_rows, self._chunk_rows)

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        if out is None:
            out = np.empty((stop - start, self.n_features), self.dtype)
        return _open_rows(self.uri, self.features, self._token).read(start, stop, out)

    def read_labels(self, start: int, stop: int) -> NDArray:
        where = f"{self.uri}/{self.label}"
        with reading_labels(where, start, stop):
            return normalize_labels(np.asarray(_open_labels(self.uri, self.label, self._token)[start:stop]), where)

    def describe_chunk(self, row: int) -> str:
        number, start, stop = self.chunk_of(row)
        return f"chunk {number} (rows {start} to {stop - 1}) of {self.uri}/{self.features}"

    @property
    def _names(self) -> list[str]:
        return [self.features, self.label] if self.has_labels else [self.features]

    def fingerprint(self) -> str:
        objects = [storage.list_objects(storage.join(self.uri, name)) for name in self._names]
        return storage.digest("zarr", self.n_rows, self.n_features, str(self.dtype), objects)


def _array(group: zarr.Group, name: str, uri: str, setting: str) -> zarr.Array:
    try:
        found = group[name]
    except KeyError:
        found = None
    if isinstance(found, zarr.Array):
        return found
    names = sorted(group.array_keys())
    raise InputError(
        f"{uri} has no array {name!r} ({setting}); it holds {', '.join(names) or 'no arrays'}."
        f"{did_you_mean(name, names)}"
    )


def _labels(group: zarr.Group, name: str, uri: str) -> zarr.Array:
    labels = _array(group, name, uri, "dataset.label")
    if labels.ndim != 1:
        raise InputError(f"{name!r} of {uri} has shape {labels.shape}; labels must have shape (n,).")
    return labels


def _missing_chunks(uri: str, name: str, array: zarr.Array) -> list[tuple[int, ...]]:
    """Return the grid positions of the chunks (or shards) of ``array`` that are not stored."""
    present = {entry[0] for entry in storage.list_objects(storage.join(uri, name))}
    stored = array.shards or array.chunks
    grid = [-(-size // chunk) for size, chunk in zip(array.shape, stored, strict=True)]
    return [index for index in np.ndindex(*grid) if array.metadata.encode_chunk_key(index) not in present]


# Opened arrays are kept per process, by address: a task would otherwise read the metadata again, and the data
# set that is sent to workers holds no open files. The token is new for each data set that is opened, lest a
# long-lived worker know an array that has been replaced.
@functools.lru_cache(maxsize=16)
def _open_rows(uri: str, name: str, token: str) -> ZarrReader:
    return ZarrReader.of(_array(storage.open_group(uri), name, uri, "dataset.features"))


@functools.lru_cache(maxsize=16)
def _open_labels(uri: str, name: str, token: str) -> zarr.Array:
    return _array(storage.open_group(uri), name, uri, "dataset.label")
