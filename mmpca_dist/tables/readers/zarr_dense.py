"""Dense rows in a Zarr group: an array of shape (n, d), whose uncompressed local chunks are read past Zarr, or a cube.

The pixels of a cube (y, x, band) are rows, line by line; their labels are a raster (y, x).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import zarr
from fsspec.implementations.local import LocalFileSystem
from numpy.typing import NDArray
from zarr.storage import FsspecStore, LocalStore

from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores.zarr_stores import fill_from, pixels_of
from mmpca_dist.tables.facts import Facts
from mmpca_dist.tables.memory_limits import check_table
from mmpca_dist.tables.readers.packed import Packing
from mmpca_dist.tables.readers.plain_chunks import PlainChunks
from mmpca_dist.tables.readers.zarr_groups import ZarrColumn, ZarrGroupRows, array_of, kept_open
from mmpca_dist.tables.spans import chunk_edges, chunk_of, cut_edges


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


class ZarrCube(ZarrGroupRows):
    """Rows are pixels in the order of the lines, features are bands.

    Its chunks are whole lines: all chunks of the array that lie side by side, or a part of these where they are large.
    """

    def _open(self, group: zarr.Group, where: str) -> Facts:
        cube = array_of(group, self.features, self._address)
        height, self._width, n_bands = cube.shape
        check_table(where, (height * self._width, n_bands), cube.dtype)
        self._refuse_missing(self.features, cube, "lines")
        line_bytes = max(self._width * n_bands * cube.dtype.itemsize, 1)
        step, most = int(cube.chunks[0]), max(LIMITS.band_bytes // line_bytes, 1)
        self._edges = cut_edges(chunk_edges(height, step), most) * self._width
        packing = Packing.of(cube, where)
        dtype = cube.dtype if packing is None else packing.dtype
        return Facts(self._address, height * self._width, n_bands, dtype)

    def _check_shape(self, stored: ZarrColumn, name: str) -> None:
        pixels = (self.n_rows // self._width, self._width)
        if stored.array.ndim != 2:
            raise InputError(
                f"{name!r} of {self._address} has shape {stored.array.shape}; labels must have shape (y, x), that of a "
                "line and a column of the rows."
            )
        if stored.array.shape != pixels:
            raise InputError(
                f"{self._address} has labels {name!r} of shape {stored.array.shape}, and {self.features!r} of {pixels} "
                "pixels. A cube has the shape (y, x, band): transpose it if it has another."
            )

    def read(self, start: int, stop: int, out: NDArray | None = None) -> NDArray:
        cube = kept_open(array_of, self.table, self.features, self._token)
        rows, packing = pixels_of(cube, start, stop), Packing.of(cube, self.features)
        if packing is not None:
            return packing.unpack(rows, np.empty(rows.shape, packing.dtype) if out is None else out)
        if out is None:
            return np.ascontiguousarray(rows)
        out[...] = rows
        return out

    def describe_chunk(self, row: int) -> str:
        _, start, stop = chunk_of(self.chunk_edges, row)
        return f"lines {start // self._width} to {stop // self._width - 1} of {self.uri}/{self.features}"
