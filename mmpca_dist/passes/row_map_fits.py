"""Fit row maps to samples of the rows that they map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.passes.schedulers import OnRows
from mmpca_dist.passes.tree_reduction import Tasks, joined
from mmpca_dist.passes.units import read_finite
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.readers.memory import rows_in_memory
from mmpca_dist.tables.row_maps.sampling import by_chunk, sample_plan
from mmpca_dist.tables.row_maps.specification import Arrays
from mmpca_dist.tables.spans import Span

SampleOf = Callable[[Dataset, int, int], Any]
"""Returns a sample of a data set's rows, of a size and by a seed."""


def fit_row_maps(rows: Dataset, sample_of: SampleOf) -> list[Arrays]:
    """Return the fit of every row map of a table; each sees the rows that those before it give, and no labels."""
    assert rows.mapped is not None  # noqa: S101  (there are maps)
    source, fits, maps = rows.unmapped, list[Arrays](), rows.mapped.maps
    samples: dict[tuple[int, int], Any] = {}
    for number, row_map in enumerate(maps):
        before = source.with_maps(maps[:number], fits)
        key = (row_map.sample_rows(before.row_bytes), row_map.sample_seed)
        if key[0] and key not in samples:
            samples[key] = sample_of(source, *key)
        sample = _mapped_sample(samples[key], before) if key[0] else None
        fits.append(row_map.fit(sample, before.n_features))
    return fits


def _mapped_sample(sample: Any, before: Dataset) -> Any:
    """Return a sample of stored rows after the maps of a table, in double precision."""
    if before.mapped is not None:
        table = rows_in_memory(sample, None, f"a sample of {before.uri}")
        with single_blas_thread():
            sample = table.with_maps(before.mapped.maps, before.mapped.fits).read(0, table.n_rows)
    return sample.astype(np.float64)


def spread_sample(tasks: Tasks, dataset: Dataset, count: int, seed: int) -> Any:
    """Return rows that are spread evenly over a table, ascending, dense or CSR as they are stored.

    They depend on the number of rows and the seed alone, not on chunks and labels. All rows are returned where there
    are no more than ``count``. Raises InputError for rows that are not finite.
    """
    plan = by_chunk(sample_plan(dataset.n_rows, count, seed), dataset.chunk_edges)
    tasks.begins("row maps", dataset.share_bytes(sum(stop - start for start, stop, _ in plan)))
    task = OnRows(dataset, partial(_pick_rows, picks=tuple(picks for _, _, picks in plan)))
    spans = [Span(number, (start, stop)) for number, (start, stop, _) in enumerate(plan)]
    return replace(tasks, progress=None).run(task, spans, joined, "row_maps", kept=False)


def _pick_rows(dataset: Dataset, span: Span, *, picks: tuple[NDArray[np.int64], ...]) -> Any:
    """Read a stretch, and return some of its rows."""
    return read_finite(dataset, span, ()).X[picks[span.index]]
