"""``Rows``: the labelled rows of a job, with their census, spans and tasks; and reproducible samples of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.census import Census, take_census
from mmpca_dist.passes.schedulers import Scheduler
from mmpca_dist.passes.tree_reduction import Tasks, concatenated
from mmpca_dist.passes.units import read_codes, read_finite, read_unit
from mmpca_dist.tables.dataset import Dataset, Span, make_spans

T = TypeVar("T")
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

    def reduce(self, task: Callable[[Span], T], merge: Callable[[T, T], T], name: str, kept: bool = True) -> T:
        """Run a task on every span of the rows and merge the results."""
        return self.run(task, self.spans, merge, name, kept)

    def pass_over(self, task: Callable[[Span], T], merge: Callable[[T, T], T], name: str, kept: bool = True) -> T:
        """Report a pass over all rows, and make it."""
        self.begins(name, self.dataset.n_bytes)
        return self.reduce(task, merge, name, kept)


def draw_sample(rows: Rows, count: int, class_rows: int = SAMPLE_CLASS_ROWS) -> tuple[NDArray, NDArray[np.intp]]:
    """Return about ``count`` rows, with the class shares of all rows, and their classes.

    Every class has at least ``class_rows``, if there are as many.
    """
    dataset, census = rows.dataset, rows.census
    n_rows = np.minimum(census.sizes, np.maximum(count * census.sizes // census.n_rows, class_rows))
    units = _sample_units(census)
    edges = [Span(i, (census.units[u][0], census.units[u][1])) for i, u in enumerate(units)]
    task = _DrawSample(dataset, census.classes, _quotas(census, units, n_rows))
    rows.begins("sample", dataset.share_bytes(sum(span.stop - span.start for span in edges)))
    return replace(rows, progress=None).run(task, edges, concatenated, "sample")


def sample_rows(row_bytes: int) -> int:
    """Return the size of the sample that brackets medians, for rows of ``row_bytes``."""
    return min(LIMITS.sample_rows, max(SAMPLE_BYTES // row_bytes, 256))


def evenly_chosen(n_units: int) -> set[int]:
    """Return the numbers of the reading units of the sample, without those for rare classes."""
    count = min(SAMPLE_UNITS, max(n_units // 8, 1))
    return {int((i + 0.5) * n_units / count) for i in range(count)}


def _sample_units(census: Census) -> list[int]:
    """Choose units evenly, and further ones so that every class is seen."""
    chosen = evenly_chosen(len(census.units))
    seen = set(np.concatenate([census.units[u][2] for u in chosen]).tolist())
    for label in census.classes.tolist():
        if label not in seen:
            rows = [int(unit[3][unit[2] == label].sum()) for unit in census.units]
            best = int(np.argmax(rows))
            chosen.add(best)
            seen.update(census.units[best][2].tolist())
    return sorted(chosen)


def _quotas(census: Census, units: list[int], n_rows: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
    """Return how many rows of each class every unit, named by its first row, sends to the sample."""
    held = np.zeros((len(units), len(census.classes)), np.int64)
    for i, u in enumerate(units):
        _, _, classes, counts = census.units[u]
        held[i, np.searchsorted(census.classes, classes)] = counts
    share = -(-n_rows * held // np.maximum(held.sum(axis=0), 1))
    return {census.units[u][0]: np.minimum(share[i], held[i]) for i, u in enumerate(units)}


def collect_rows(
    dataset: Dataset, spans: Sequence[Span], tasks: Tasks, *, targets: bool = False
) -> tuple[Any, NDArray, NDArray[np.float64] | None]:
    """Return all rows, dense or in CSR form as they are stored, their labels, or targets, and their weights, if any.

    Raises InputError for rows that are not finite.
    """
    task = _ReadSpan(dataset, targets)
    X, y, *weights = tasks.run(task, spans, concatenated, "rows", kept=False)  # too large for a checkpoint
    return X, y, weights[0] if weights else None


@dataclass(frozen=True)
class _ReadSpan:
    dataset: Dataset
    targets: bool

    def __call__(self, span: Span) -> tuple[Any, ...]:
        read = self.dataset.read_targets if self.targets else self.dataset.read_labels
        weights = self.dataset.read_weights(span.start, span.stop)
        own = () if weights is None else (weights,)
        return read_finite(self.dataset, span), read(span.start, span.stop), *own


@dataclass(frozen=True)
class _DrawSample:
    dataset: Dataset
    classes: NDArray
    quotas: dict[int, NDArray[np.int64]]

    def __call__(self, span: Span) -> tuple[NDArray, NDArray[np.intp]]:
        X = read_unit(self.dataset, span.start, span.stop, sparse=self.dataset.sparse)
        codes = read_codes(self.dataset, self.classes, span.start, span.stop)
        quota = self.quotas[span.start]
        picks = [
            rows[np.linspace(0, len(rows) - 1, int(quota[label])).astype(np.intp)]
            for label, rows in class_groups(codes)
        ]
        chosen = np.sort(np.concatenate(picks))
        return X[chosen].toarray() if self.dataset.sparse else X[chosen], codes[chosen]


def class_groups(codes: NDArray) -> Iterator[tuple[int, NDArray]]:
    """Yield each class present and its rows, in order."""
    # 16-bit keys are sorted by radix, in linear time.
    keys = codes.astype(np.uint16) if len(codes) and codes.max() < 1 << 16 else codes
    order = np.argsort(keys, kind="stable")
    counts = np.bincount(codes)
    ends = np.cumsum(counts)
    for label in np.flatnonzero(counts):
        yield int(label), order[ends[label] - counts[label] : ends[label]]
