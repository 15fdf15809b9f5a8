"""Dense rows in a Zarr group: an array of shape (n, d)."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import zarr
from fsspec.implementations.local import LocalFileSystem
from numpy.typing import NDArray
from zarr.storage import FsspecStore, LocalStore

from mmpca_dist.datasets.dataset import check_table, chunk_edges
from mmpca_dist.datasets.readers.zarr_direct import PlainChunks
from mmpca_dist.datasets.readers.zarr_groups import ZarrGroupRows, array_of
from mmpca_dist.datasets.stores import zarr_stores
from mmpca_dist.datasets.stores.zarr_stores import fill_from


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
            fill_from(self.array, start, stop, out)
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


class ZarrDataset(ZarrGroupRows):
    """Dense rows of a Zarr group, in one array (n, d), chunked along rows or along both axes."""

    def _open(self, group: zarr.Group, n_labels: int | None) -> None:
        rows = array_of(group, self.features, self.uri)
        check_table(self._where, rows.shape, rows.dtype, n_labels)
        self.n_rows, self.n_features = rows.shape
        self.dtype = rows.dtype
        self._chunk_rows = int((rows.shards or rows.chunks)[0])
        self.read_overhead = 0.0 if ZarrReader.of(rows).plain is not None else 2.0
        self._refuse_missing(self.features, rows, "rows")

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return chunk_edges(self.n_rows, self._chunk_rows)

    def read_rows(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        if out is None:
            out = np.empty((stop - start, self.n_features), self.dtype)
        return _open_rows(self.place, self.features, self._token).read(start, stop, out)

    def describe_chunk(self, row: int) -> str:
        number, start, stop = self.chunk_of(row)
        return f"chunk {number} (rows {start} to {stop - 1}) of {self.uri}/{self.features}"


@functools.lru_cache(maxsize=16)
def _open_rows(uri: str, name: str, token: str) -> ZarrReader:
    return ZarrReader.of(array_of(zarr_stores.open_group(uri), name, uri))
