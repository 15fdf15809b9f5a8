"""Dense rows in a Zarr group: an array of shape (n, d); uncompressed local chunks are read past Zarr."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import zarr
from fsspec.implementations.local import LocalFileSystem
from numpy.typing import NDArray
from zarr.storage import FsspecStore, LocalStore

from mmpca_dist.stores.zarr_stores import fill_from
from mmpca_dist.tables.facts import Facts
from mmpca_dist.tables.memory_limits import check_table
from mmpca_dist.tables.readers.packed import Packing
from mmpca_dist.tables.readers.plain_chunks import PlainChunks
from mmpca_dist.tables.readers.zarr_groups import ZarrGroupRows, array_of, kept_open
from mmpca_dist.tables.spans import chunk_of


class ZarrRows(ZarrGroupRows):
    """Dense rows of a Zarr group, in one array (n, d), chunked along rows or along both axes."""

    def _open(self, group: zarr.Group, where: str) -> Facts:
        rows = array_of(group, self.features, self._address)
        check_table(where, rows.shape, rows.dtype)
        self._chunk_rows = int((rows.shards or rows.chunks)[0])
        self._refuse_missing(self.features, rows, "rows")
        n_rows, n_features = rows.shape
        packing = Packing.of(rows, where)
        dtype = rows.dtype if packing is None else packing.dtype
        return Facts(self._address, n_rows, n_features, dtype)

    def read(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        if out is None:
            out = np.empty((stop - start, self.n_features), self.dtype)
        return self._reader.read(start, stop, out)

    @property
    def by_blocks(self) -> bool:
        reader = self._reader
        return reader.plain is not None and reader.packing is None

    def blocks(self, start: int, stop: int, out: NDArray) -> Iterator[NDArray]:
        return self._reader.blocks(start, stop, out)

    @property
    def _reader(self) -> ZarrReader:
        return kept_open(ZarrReader.opened, self.table, self.features, self._token)

    def describe_chunk(self, row: int) -> str:
        number, start, stop = chunk_of(self.chunk_edges, row)
        return f"chunk {number} (rows {start} to {stop - 1}) of {self.uri}/{self.features}"


@dataclass(frozen=True)
class ZarrReader:
    """Reads rows of a Zarr array (n, d) into a buffer, past Zarr where chunks are plain local files."""

    array: zarr.Array
    plain: PlainChunks | None
    packing: Packing | None = None

    @classmethod
    def of(cls, array: zarr.Array) -> ZarrReader:
        store, root = array.store, None
        if isinstance(store, LocalStore):
            root = Path(store.root)
        elif isinstance(store, FsspecStore) and isinstance(getattr(store.fs, "sync_fs", store.fs), LocalFileSystem):
            root = Path(store.path)
        plain = None if root is None else PlainChunks.of(array, root / array.path)
        return cls(array, plain)

    @classmethod
    def opened(cls, group: zarr.Group, name: str, uri: str) -> ZarrReader:
        """Return a reader of the array ``name`` of a group."""
        array = array_of(group, name, uri)
        return replace(cls.of(array), packing=Packing.of(array, f"{uri}/{name}"))

    def read(self, start: int, stop: int, out: NDArray) -> NDArray:
        """Fill ``out``, shape (stop - start, d) and of the type of the numbers, and return it."""
        stored = out if self.packing is None else np.empty(out.shape, self.array.dtype)
        if self.plain is None:
            fill_from(self.array, start, stop, stored)
        else:
            self.plain.read(start, stop, stored)
        return out if self.packing is None else self.packing.unpack(stored, out)

    def blocks(self, start: int, stop: int, out: NDArray) -> Iterator[NDArray]:
        """Yield rows of plain chunks, as many at a time as ``out`` holds."""
        assert self.plain is not None  # noqa: S101  (``by_blocks`` says so)
        return self.plain.blocks(start, stop, out)
