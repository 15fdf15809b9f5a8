"""What projecting rows costs, and how many of them it takes at a time."""

from __future__ import annotations

import numpy as np

from mmpca_dist.datasets.base import Dataset, Span, default_chunk_rows, unit_edges
from mmpca_dist.planning.plan import Resources
from mmpca_dist.statistics.costs import largest_unit

DOUBLE = 8
"""Bytes of a number in products with CSR rows."""


def output_chunk_rows(dataset: Dataset, width: int) -> int:
    """Return rows a chunk of the projected arrays: the unit that is read, where the units are regular.

    CSR rows are never made dense for their projection, so that a unit of them is bounded by what is stored and by
    their ``width`` coordinates.
    """
    size = dataset.share_bytes(1) + width * DOUBLE if dataset.sparse else dataset.row_bytes
    sizes = np.diff(unit_edges(dataset.chunk_edges, size))
    regular = len(sizes) == 1 or (np.all(sizes[:-1] == sizes[0]) and sizes[-1] <= sizes[0])
    return int(sizes[0]) if regular else default_chunk_rows(size)


def projecting(dataset: Dataset, spans: list[Span], resources: Resources, widths: list[int]) -> int:
    """Return what a process holds while it projects: a unit as it is read and converted, and what becomes of it."""
    width = sum(widths)
    # All methods at once, and one of them on its way into a file: its columns, the table and the bytes.
    numbers = 2 * width + 3 * max(widths, default=0)
    loadings = dataset.n_features * width * resources.item
    if dataset.sparse:
        rows = output_chunk_rows(dataset, width)
        unit = dataset.sparse_bytes(rows) + rows * width * DOUBLE
        loadings += dataset.n_features * width * DOUBLE
    else:
        rows, unit = largest_unit(dataset, spans)
        numbers += dataset.n_features
    return resources.process_threads * (unit + loadings + rows * numbers * resources.item)


def projected_bytes(dataset: Dataset, resources: Resources, widths: list[int], formats: int) -> int:
    """Return the bytes of the projected rows in so many formats."""
    return formats * dataset.n_rows * sum(widths) * resources.item
