"""Rows that are images, small, in one sheet: what a page shows of the row that is pointed at, and of marked ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mmpca_dist.errors import InputError
from mmpca_dist.pictures.mosaic import data_uri, greys
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import chunk_of

MAX_BYTES, MAX_PIXELS = 64 << 20, 400_000
"""Bytes of chunks that are read, and pixels of all images together, which are coarser where there would be more."""
COLUMNS = 50
"""Images side by side in the sheet."""


def image_sheet(table: Any, numbers: Sequence[int], shape: Sequence[int] | None) -> dict[str, Any] | None:
    """Return the sheet of the images of some rows, and the size of each; None where rows are no images, or many.

    Parameters
    ----------
    numbers : sequence of int
        Positions of the rows in the table.
    shape : sequence of int or None
        Height and width of the image of a row, in C order.
    """
    if shape is None or not isinstance(table, Dataset) or table.sparse:
        return None
    chunks = sorted({chunk_of(table.chunk_edges, number)[1:] for number in numbers})
    if sum(stop - start for start, stop in chunks) * table.row_bytes > MAX_BYTES:
        return None
    try:
        blocks = [
            table.read_rows(start, stop)[[n - start for n in numbers if start <= n < stop]] for start, stop in chunks
        ]
    except InputError:
        return None
    step = max(1, int(np.ceil((len(numbers) * shape[0] * shape[1] / MAX_PIXELS) ** 0.5)))
    images = np.concatenate(blocks).reshape(-1, *shape)[:, ::step, ::step]
    height, width = images.shape[1:]
    lines = -(-len(images) // COLUMNS)
    padded = np.concatenate([images, np.full((lines * COLUMNS - len(images), height, width), images.min())])
    sheet = padded.reshape(lines, COLUMNS, height, width).swapaxes(1, 2).reshape(lines * height, COLUMNS * width)
    ends = (float(np.nanmin(images)), float(np.nanmax(images)))
    return {"source": data_uri(greys(sheet, ends)), "columns": COLUMNS, "lines": lines, "tall": height / width}
