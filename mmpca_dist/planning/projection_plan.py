"""Cost of projecting rows."""

from __future__ import annotations

import numpy as np

from mmpca_dist.datasets.dataset import Dataset, Span, default_chunk_rows, unit_edges
from mmpca_dist.planning.plan import Resources
from mmpca_dist.statistics.costs import largest_unit

DOUBLE = 8
"""Bytes of a value in products with CSR rows."""


def output_chunk_rows(dataset: Dataset, width: int) -> int:
    """Return rows a chunk of the projected arrays: a reading unit, if all units have equal size.

    CSR rows are projected without making them dense, so that stored values and ``width`` coordinates bound a unit.
    """
    size = dataset.share_bytes(1) + width * DOUBLE if dataset.sparse else dataset.row_bytes
    sizes = np.diff(unit_edges(dataset.chunk_edges, size))
    regular = len(sizes) == 1 or (np.all(sizes[:-1] == sizes[0]) and sizes[-1] <= sizes[0])
    return int(sizes[0]) if regular else default_chunk_rows(size)


def projecting(dataset: Dataset, spans: list[Span], resources: Resources, widths: list[int]) -> int:
    """Return the bytes of a process that projects: units as read and converted, and their coordinates."""
    width = sum(widths)
    # Coordinates of all methods, and of one method while it is written: its columns, the table and the bytes.
    values = 2 * width + 3 * max(widths, default=0)
    loadings = dataset.n_features * width * resources.item
    if dataset.sparse:
        rows = output_chunk_rows(dataset, width)
        unit = dataset.sparse_bytes(rows) + rows * width * DOUBLE
        loadings += dataset.n_features * width * DOUBLE
    else:
        rows, unit = largest_unit(dataset, spans)
        values += dataset.n_features
    return resources.process_threads * (unit + loadings + rows * values * resources.item)


def projected_bytes(dataset: Dataset, resources: Resources, widths: list[int], formats: int) -> int:
    """Return the bytes of the projected rows in so many formats."""
    return formats * dataset.n_rows * sum(widths) * resources.item
