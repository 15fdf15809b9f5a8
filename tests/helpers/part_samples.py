"""Rows in parts for the tests: their neighbours while each part is held out, and statistics of those that train."""

import naive
import numpy as np

from mmpca_dist.evaluation.column_splits import given_splits
from mmpca_dist.limits import LIMITS
from mmpca_dist.neighbors.nearest import make_layout
from mmpca_dist.neighbors.options import Search
from mmpca_dist.neighbors.pair_folds import RowsInParts, find_by_part
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.passes.scratch import MemoryScratch
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.statistics.from_rows import gather_statistics
from mmpca_dist.tables.readers.memory import rows_in_memory
from mmpca_dist.tables.spans import spans_of


def make_small(patch, cell=10, segment=16, queries=150):
    """Many cells, pieces and segments from few rows, and samples that few rows suffice for."""
    patch.setattr(LIMITS, "rows_per_cell", cell)
    patch.setattr(LIMITS, "smallest_segment", segment)
    patch.setattr(LIMITS, "calibration_queries", queries)


def prepared(data, names, *, edges=None, scheduler=None):
    """Return (rows, parts) with the parts that the names say."""
    rows = Rows.of(data, scheduler or Threads(1), spans=None if edges is None else spans_of(np.asarray(edges)))
    return rows, given_splits(rows, rows_in_memory(np.zeros((len(names), 1)), np.asarray(names)))


def find_all(data, names, *, edges=None, scheduler=None, scratch=None, **search):
    """Return the neighbours while each part is held out in turn."""
    rows, parts = prepared(data, names, edges=edges, scheduler=scheduler)
    layout = make_layout(rows, scratch or MemoryScratch(), members=RowsInParts(parts))
    return find_by_part(layout, parts, Search(**search), Tasks(scheduler=rows.scheduler))


def assert_training(found, X, y, names, pairing="one-vs-rest"):
    """Queries, row numbers and distances are those of the twin, to the bit, whichever part is held out.

    Returns those of the twin, by part.
    """
    parts, nearest = np.unique(names), {}
    for part, neighbors in zip(parts, found, strict=True):
        nearest[part] = naive.nearest_training(X, y, names, part, pairing)
        for array, expected in zip(neighbors.arrays(), nearest[part], strict=True):
            np.testing.assert_array_equal(array, expected)
        certificate = neighbors.certificate()
        assert certificate["proved_exact"] == 1 and certificate["queries"] == np.sum(names != part)
        assert neighbors.fraction == 1
    return nearest


def training_statistics(X, y, trains, options):
    """Return the training rows, and their statistics."""
    rows = Rows.of(rows_in_memory(X[trains], y[trains]), Threads(1))
    return rows, gather_statistics(rows, **options)


def difference_rows(X, y, trains, scale, pairing, mutual):
    scaled = X[trains] if scale is None else X[trains] / scale
    return naive.mpca2_rows(scaled, y[trains], pairing, mutual)
