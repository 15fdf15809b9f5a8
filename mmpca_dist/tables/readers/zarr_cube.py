"""Pixels of a cube (y, x, band) in a Zarr group, line by line, with a raster (y, x) of labels."""

from __future__ import annotations

import numpy as np
import zarr
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores.zarr_stores import pixels_of
from mmpca_dist.tables.facts import Facts
from mmpca_dist.tables.memory_limits import check_table
from mmpca_dist.tables.readers.packed import Packing
from mmpca_dist.tables.readers.zarr_groups import ZarrColumn, ZarrGroupRows, array_of, kept_open
from mmpca_dist.tables.spans import chunk_edges, chunk_of, cut_edges


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
