"""``Rows``: the labelled rows of a job, with their census, spans and tasks; reproducible samples, and fits to these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.census import Census, take_census
from mmpca_dist.passes.schedulers import OnRows, Scheduler
from mmpca_dist.passes.tree_reduction import Tasks, concatenated, joined
from mmpca_dist.passes.units import read_batch, read_finite
from mmpca_dist.tables.batch import Batch, dense
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.readers.memory import rows_in_memory
from mmpca_dist.tables.row_maps.sampling import by_chunk, sample_plan
from mmpca_dist.tables.row_maps.specification import Arrays
from mmpca_dist.tables.spans import Span, make_spans

T = TypeVar("T")
OfSpan = Callable[[Dataset, Span], T]
SampleOf = Callable[[Dataset, int, int], Any]
"""Returns a sample of a data set's rows, of a size and by a seed."""
SAMPLE_BYTES = 64 << 20
SAMPLE_UNITS = 8
"""Samples come from at most 8 units and an eighth of all."""
SAMPLE_CLASS_ROWS = 64
"""Rows of a rare class in the sample, if it has as many."""


@dataclass(frozen=True, kw_only=True)
class Rows(Tasks):
    """Labelled rows, and the tasks that pass over them."""

    dataset: Dataset
    census: Census  # how many rows each class has
    spans: list[Span]  # the stretches of rows that tasks read
    scratch: str | None = None  # a folder for tables that do not fit in memory
    # (n,): for rows in memory: which of them belong together wherever rows are held out
    groups: NDArray[np.intp] | None = None

    @classmethod
    def of(cls, dataset: Dataset, scheduler: Scheduler, spans: list[Span] | None = None, **others: Any) -> Rows:
        """Return the rows of a data set, after a pass that counts its labels; ``spans`` are by default its chunks'.

        Raises InputError for labels that are not at least two classes.
        """
        spans = spans or make_spans(dataset)
        census = take_census(dataset, spans, Tasks(scheduler=scheduler))
        return cls(dataset=dataset, census=census, spans=spans, scheduler=scheduler, **others)

    def pass_over_columns(self, task: OfSpan[T], merge: Callable[[T, T], T], name: str, kept: bool = True) -> T:
        """Run a function of the data set and a span on every span, without reading X, and merge the results."""
        return self.run(OnRows(self.dataset, task, X=False), self.spans, merge, name, kept)

    def pass_over(self, task: OfSpan[T], merge: Callable[[T, T], T], name: str, kept: bool = True) -> T:
        """Report a pass over all rows, and make it: a function of the data set and a span runs on every span."""
        self.begins(name, self.dataset.n_bytes)
        return self.run(OnRows(self.dataset, task), self.spans, merge, name, kept)


def draw_sample(rows: Rows, count: int, class_rows: int = SAMPLE_CLASS_ROWS) -> tuple[NDArray, NDArray[np.intp]]:
    """Return about ``count`` rows, with the class shares of all rows, and their classes.

    Every class has at least ``class_rows``, if there are as many.
    """
    census = rows.census
    n_rows = np.minimum(census.sizes, np.maximum(count * census.sizes // census.n_rows, class_rows))
    spans, held = sample_spans(census)
    task = partial(_draw_sample, classes=census.classes, quotas=_quotas(held, n_rows))
    return pass_over_sample(rows, spans, task, concatenated)


def pass_over_sample(rows: Rows, spans: list[Span], task: OfSpan[T], merge: Callable[[T, T], T]) -> T:
    """Report that a sample is read, and run a function of the data set and a span on the spans of `sample_spans`."""
    rows.begins("sample", rows.dataset.share_bytes(sum(span.stop - span.start for span in spans)))
    return replace(rows, progress=None).run(OnRows(rows.dataset, task), spans, merge, "sample")


def sample_rows(row_bytes: int) -> int:
    """Return the size of the sample that brackets medians, for rows of ``row_bytes``."""
    return min(LIMITS.sample_rows, max(SAMPLE_BYTES // row_bytes, 256))


def evenly_chosen(n_units: int, count: int | None = None) -> set[int]:
    """Return the numbers of the reading units of the sample, without those for rare classes."""
    count = count or min(SAMPLE_UNITS, max(n_units // 8, 1))
    return {int((i + 0.5) * n_units / count) for i in range(count)}


def sample_spans(census: Census, count: int | None = None) -> tuple[list[Span], NDArray[np.int64]]:
    """Choose units evenly, and further ones so that every class is seen; return also their rows of each class."""
    chosen = evenly_chosen(len(census.units), count)
    seen = set(np.concatenate([census.units[u][2] for u in chosen]).tolist())
    for label in census.classes.tolist():
        if label not in seen:
            rows = [int(unit[3][unit[2] == label].sum()) for unit in census.units]
            best = int(np.argmax(rows))
            chosen.add(best)
            seen.update(census.units[best][2].tolist())
    units = [census.units[u] for u in sorted(chosen)]
    held = np.zeros((len(units), len(census.classes)), np.int64)
    for i, (_, _, classes, counts) in enumerate(units):
        held[i, np.searchsorted(census.classes, classes)] = counts
    return [Span(i, (start, stop)) for i, (start, stop, *_) in enumerate(units)], held


def _quotas(held: NDArray[np.int64], n_rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many of the rows that units hold of each class they send to the sample, shape (units, C)."""
    share = -(-n_rows * held // np.maximum(held.sum(axis=0), 1))
    return np.minimum(share, held)


def collect_rows(dataset: Dataset, spans: Sequence[Span], tasks: Tasks) -> Batch:
    """Return all rows, dense or in CSR form as they are stored, with the arrays of their roles.

    Raises InputError for rows that are not finite.
    """
    # They are too large for a checkpoint.
    arrays = tasks.run(OnRows(dataset, _read_span), spans, concatenated, "rows", kept=False)
    return Batch.of_arrays(table=dataset, **arrays)


def _read_span(dataset: Dataset, span: Span) -> dict[str, Any]:
    batch = read_finite(dataset, span)
    return {"X": batch.X, **batch.roles}


def _draw_sample(
    dataset: Dataset, span: Span, *, classes: NDArray, quotas: NDArray[np.int64]
) -> tuple[NDArray, NDArray[np.intp]]:
    batch = read_batch(dataset, span.start, span.stop, ("label",), sparse=dataset.sparse)
    codes, quota = batch.codes(classes), quotas[span.index]
    picks = [
        rows[np.linspace(0, len(rows) - 1, int(quota[label])).astype(np.intp)] for label, rows in class_groups(codes)
    ]
    chosen = np.sort(np.concatenate(picks))
    return dense(batch.X[chosen]), codes[chosen]


def rows_by_class(codes: NDArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows in the order of their classes, and the number of rows of each class."""
    counts = np.bincount(codes)
    # 16-bit keys are sorted by radix, in linear time.
    keys = codes.astype(np.uint16) if len(counts) <= 1 << 16 else codes
    return np.argsort(keys, kind="stable"), counts


def class_groups(codes: NDArray) -> Iterator[tuple[int, NDArray]]:
    """Yield each class present and its rows, in order."""
    order, counts = rows_by_class(codes)
    ends = np.cumsum(counts)
    for label in np.flatnonzero(counts):
        yield int(label), order[ends[label] - counts[label] : ends[label]]


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
