"""Rows in parts for the tests: their neighbours while each part is held out, and statistics of those that train."""

from __future__ import annotations

import naive
import numpy as np

from mmpca_dist.evaluation.column_splits import given_splits
from mmpca_dist.limits import LIMITS
from mmpca_dist.neighbors.nearest import make_layout
from mmpca_dist.neighbors.options import Search
from mmpca_dist.neighbors.pair_folds import RowsInParts, find_by_part
from mmpca_dist.passes.census import take_census
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.passes.scratch import MemoryScratch
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.statistics.gather import gather_statistics
from mmpca_dist.tables.dataset import make_spans, spans_of
from mmpca_dist.tables.readers.memory import ArrayDataset


def make_small(patch):
    """Many cells, pieces and segments from few rows, and samples that few rows suffice for."""
    patch.setattr(LIMITS, "rows_per_cell", 10)
    patch.setattr(LIMITS, "smallest_segment", 16)
    patch.setattr(LIMITS, "calibration_queries", 150)


def prepared(data, names, *, edges=None, scheduler=None):
    """Return (data set, census, spans, parts) with the parts that the names say."""
    spans = make_spans(data) if edges is None else spans_of(np.asarray(edges))
    scheduler = scheduler or Threads(1)
    census = take_census(data, spans, Tasks(scheduler=scheduler))
    rows, names = Rows(dataset=data, census=census, spans=spans, scheduler=scheduler), np.asarray(names)
    return data, census, spans, given_splits(rows, ArrayDataset(np.zeros((len(names), 1)), names))


def find_all(data, names, *, edges=None, scheduler=None, scratch=None, **search):
    """Return the neighbours while each part is held out in turn."""
    scheduler, scratch = scheduler or Threads(1), scratch or MemoryScratch()
    data, census, spans, parts = prepared(data, names, edges=edges, scheduler=scheduler)
    layout = make_layout(
        Rows(dataset=data, census=census, spans=spans, scheduler=scheduler), scratch, members=RowsInParts(parts)
    )
    return find_by_part(layout, parts, Search(**search), Tasks(scheduler=scheduler))


def assert_training(found, X, y, names, pairing="one-vs-rest"):
    """Queries, row numbers and distances are those of the twin, to the bit, whichever part is held out."""
    parts = np.unique(names)
    assert len(found) == len(parts)
    for part, neighbors in zip(parts, found, strict=True):
        for array, expected in zip(neighbors.arrays(), naive.nearest_training(X, y, names, part, pairing), strict=True):
            np.testing.assert_array_equal(array, expected)
        certificate = neighbors.certificate()
        assert certificate["proved_exact"] == 1 and certificate["queries"] == np.sum(names != part)
        assert neighbors.fraction == 1


def training_statistics(X, y, trains, options):
    """Return the training rows as a data set with its census and spans, and their statistics."""
    data = ArrayDataset(X[trains], y[trains])
    spans = make_spans(data)
    census = take_census(data, spans, Tasks(scheduler=Threads(1)))
    return (
        data,
        census,
        spans,
        gather_statistics(Rows(dataset=data, census=census, spans=spans, scheduler=Threads(1)), **options),
    )


def difference_rows(X, y, trains, scale, pairing, mutual):
    scaled = X[trains] if scale is None else X[trains] / scale
    return naive.mpca2_rows(scaled, y[trains], pairing, mutual)
