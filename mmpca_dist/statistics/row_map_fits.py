"""Fit row maps to samples of the rows that they map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack

from mmpca_dist.datasets.dataset import Dataset, Span
from mmpca_dist.datasets.mapped_rows import MappedRows
from mmpca_dist.datasets.row_maps.sampling import evenly_drawn, stretches
from mmpca_dist.datasets.row_maps.specification import Arrays
from mmpca_dist.statistics.tree_reduction import Tasks
from mmpca_dist.statistics.units import read_unit, refuse_not_finite

SampleOf = Callable[[Dataset, int, int], Any]
"""Returns a sample of a data set's rows, of a size and by a seed."""


def fit_row_maps(rows: MappedRows, sample_of: SampleOf) -> list[Arrays]:
    """Return the fit of every row map of a table; each sees the rows that those before it give, and no labels."""
    fits: list[Arrays] = []
    for number, row_map in enumerate(rows.maps):
        before = MappedRows(rows.source, rows.maps[:number], fits) if number else rows.source
        count = row_map.sample_rows(before.row_bytes)
        sample = sample_of(before, count, row_map.sample_seed).astype(np.float64) if count else None
        fits.append(row_map.fit(sample, before.n_features))
    return fits


def spread_sample(tasks: Tasks, dataset: Dataset, count: int, seed: int) -> Any:
    """Return rows that are spread evenly over a table, ascending, dense or CSR as they are stored.

    They depend on the number of rows and the seed alone, not on chunks and labels. All rows are returned where there
    are no more than ``count``.

    Raises
    ------
    InputError
        For rows that are not finite.
    """
    rng = np.random.default_rng(seed)
    read = stretches(dataset.n_rows, min(count, dataset.n_rows), rng)
    n_read = sum(stop - start for start, stop in read)
    chosen = evenly_drawn(n_read, min(count, n_read), rng)
    spans, picks, before = [], [], 0
    for number, (start, stop) in enumerate(read):
        within = chosen[(chosen >= before) & (chosen < before + stop - start)] - before
        before += stop - start
        spans.append(Span(number, (start, stop)))
        picks.append(within)
    tasks.begins("row maps", dataset.share_bytes(n_read))
    task = _PickRows(dataset, tuple(picks))
    return replace(tasks, progress=None).run(task, spans, _joined, "row_maps", kept=False)


@dataclass(frozen=True)
class _PickRows:
    """Reads a stretch, and returns some of its rows."""

    dataset: Dataset
    picks: tuple[NDArray[np.int64], ...]

    def __call__(self, span: Span) -> Any:
        X = read_unit(self.dataset, span.start, span.stop, sparse=self.dataset.sparse)
        if not self.dataset.sparse:  # those are known to be finite since they were read
            refuse_not_finite(self.dataset, span.start, X)
        return X[self.picks[span.index]]


def _joined(left: Any, right: Any) -> Any:
    return csr_array(vstack([left, right], format="csr")) if issparse(left) else np.concatenate([left, right])
