"""The passes that every moment method shares: labels, moments, and medians where a method asks for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.base import Dataset, Span
from mmpca_dist.datasets.labels import encode
from mmpca_dist.errors import InputError
from mmpca_dist.statistics.census import Census
from mmpca_dist.statistics.medians import (
    KEPT_BYTES,
    Brackets,
    MedianCounter,
    MedianCounts,
    brackets_from_sample,
    key_type,
    settle,
)
from mmpca_dist.statistics.moments import BLOCK_ROWS, ChunkAdder, ClassMoments, class_groups
from mmpca_dist.statistics.reduction import Progress, Scheduler, read_unit, read_units, reduce_spans

OnPass = Callable[[str, int], None]
"""Called with the name of a pass as it begins, and with the bytes of rows that it reads."""

SAMPLE_ROWS = 65_536
SAMPLE_BYTES = 64 << 20
SAMPLE_UNITS = 8
"""Medians are bracketed from up to this many rows, out of at most 8 units and an eighth of all: brackets then hold
2 to 3% of the values."""

SAMPLE_CLASS_ROWS = 64
"""What a rare class sends to the sample, if it has as many rows."""


@dataclass(frozen=True)
class PassResult:
    """What a span leaves: moments, and counts for medians where asked for."""

    moments: ClassMoments
    medians: MedianCounts | None


@dataclass(frozen=True)
class _ReadSpan:
    """The task of the moments pass; also that of later passes for medians alone."""

    dataset: Dataset
    classes: NDArray
    weights: NDArray | None
    precision: str
    brackets: Brackets | None
    n_rows: int
    with_moments: bool = True

    def __call__(self, span: Span) -> PassResult:
        found = self._start(span.stop - span.start)
        for start, X in read_units(self.dataset, span):
            found.add(X, self.dataset.read_labels(start, start + len(X)), Locate(self.dataset, start))
        return found.result()

    def _start(self, n_rows: int) -> _Accumulator:
        d = self.dataset.n_features
        moments = ClassMoments.empty(self.classes, d if self.with_moments else 0, self.weights)
        adder = ChunkAdder(moments, self.dataset.dtype, self.precision) if self.with_moments else None
        counter = None
        if self.brackets is not None:
            counter = MedianCounter(self.brackets, int(KEPT_BYTES * n_rows / self.n_rows))
        return _Accumulator(self.classes, moments, adder, counter)


@dataclass(frozen=True)
class _Accumulator:
    """What a task adds chunks to."""

    classes: NDArray
    moments: ClassMoments
    adder: ChunkAdder | None
    counter: MedianCounter | None

    def add(self, X: NDArray, labels: NDArray, locate: Locate) -> None:
        codes = encode(labels, self.classes, locate.dataset.uri)
        if self.adder is not None:
            self.adder.add(X, codes, locate, self.counter.visit if self.counter is not None else None)
        elif self.counter is not None:
            for label, rows in class_groups(codes):
                for start in range(0, len(rows), BLOCK_ROWS):
                    self.counter.visit(label, X[rows[start : start + BLOCK_ROWS]])

    def result(self) -> PassResult:
        return PassResult(self.moments, None if self.counter is None else self.counter.result())


@dataclass(frozen=True)
class Locate:
    """Makes the message for a value that is not finite."""

    dataset: Dataset
    start: int

    def __call__(self, row: int, column: int, value: float) -> str:
        names = self.dataset.feature_names
        name = f" ({names[column]!r})" if names else ""
        return (
            f"Found {value} in row {self.start + row}, column {column}{name}, in "
            f"{self.dataset.describe_chunk(self.start + row)}. Rows must be finite: fill or drop such values."
        )

    def refuse(self, row: int, column: int, value: float) -> None:
        """Raise the ``InputError`` for this value."""
        raise InputError(self(row, column, value))


def merge_results(left: PassResult, right: PassResult) -> PassResult:
    """Merge what two neighbouring stretches of spans left."""
    medians = None
    if left.medians is not None and right.medians is not None:
        medians = left.medians.merge(right.medians)
    return PassResult(left.moments.merge(right.moments), medians)


def median_sets(n_classes: int, pairing: str) -> NDArray[np.bool_]:
    """Return the sets of classes whose medians M-PCA1b needs, shape (C, C): complements, or the classes."""
    own = np.eye(n_classes, dtype=bool)
    return ~own if pairing == "one-vs-rest" else own


def take_moments(
    dataset: Dataset,
    census: Census,
    spans: list[Span],
    *,
    scheduler: Scheduler,
    precision: str,
    weights: NDArray | None = None,
    medians_of: NDArray[np.bool_] | None = None,
    progress: Progress | None = None,
    on_pass: OnPass | None = None,
) -> tuple[ClassMoments, NDArray[np.float64] | None]:
    """Return the class moments, and the medians of sets of classes.

    Parameters
    ----------
    weights : array of shape (k, C), optional
        Keep k weighted sums of the class scatters in place of every one.
    medians_of : bool array of shape (T, C), optional
        Sets of classes whose coordinate-wise medians are wanted, shape (T, d).
    on_pass : callable, optional
        Told of every pass over the rows as it begins: its name, and the bytes of rows it reads.
    """
    brackets = None
    if medians_of is not None:
        brackets = _first_brackets(dataset, census, medians_of, scheduler, on_pass)
    task = _ReadSpan(dataset, census.classes, weights, precision, brackets, census.n_rows)
    if on_pass is not None:
        on_pass("moments", dataset.n_bytes)
    found = reduce_spans(task, spans, merge_results, scheduler=scheduler, name="moments", progress=progress)
    if medians_of is None or brackets is None:
        return found.moments, None
    totals = medians_of.astype(np.int64) @ census.counts
    medians, counts = np.full(brackets.low.shape, np.nan), found.medians
    while brackets is not None and counts is not None:
        settled, brackets = settle(brackets, counts, totals)
        medians = np.where(np.isnan(medians), settled, medians)
        if brackets is not None:
            if on_pass is not None:
                on_pass("medians", dataset.n_bytes)
            again = _ReadSpan(dataset, census.classes, None, precision, brackets, census.n_rows, False)
            counts = reduce_spans(
                again, spans, merge_results, scheduler=scheduler, name="medians", progress=progress
            ).medians
    return found.moments, medians


def _first_brackets(
    dataset: Dataset,
    census: Census,
    medians_of: NDArray[np.bool_],
    scheduler: Scheduler,
    on_pass: OnPass | None,
) -> Brackets:
    """Bracket the medians from a sample; small data is kept whole and needs none."""
    entry = key_type(len(medians_of), dataset.n_features).itemsize + dataset.dtype.itemsize
    everything = int((medians_of @ census.counts).sum()) * dataset.n_features * entry
    if everything <= KEPT_BYTES:
        return Brackets.unbounded(medians_of, dataset.n_features, dataset.dtype)
    rows = sample_rows(dataset.row_bytes)
    wanted = np.minimum(census.counts, np.maximum(rows * census.counts // census.n_rows, SAMPLE_CLASS_ROWS))
    units = _sample_units(census)
    edges = [Span(i, (census.units[u][0], census.units[u][1])) for i, u in enumerate(units)]
    task = _DrawSample(dataset, census.classes, _quotas(census, units, wanted))
    if on_pass is not None:
        on_pass("sample", sum(span.stop - span.start for span in edges) * dataset.row_bytes)
    sample, codes = reduce_spans(task, edges, _join_samples, scheduler=scheduler, name="sample")
    return brackets_from_sample(sample, codes, census.counts, medians_of)


def sample_rows(row_bytes: int) -> int:
    """Return how many rows of ``row_bytes`` medians are bracketed from, if there are as many."""
    return min(SAMPLE_ROWS, max(SAMPLE_BYTES // row_bytes, 256))


def evenly_chosen(n_units: int) -> set[int]:
    """Return the numbers of the reading units that the sample comes from, those for rare classes aside."""
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


def _quotas(census: Census, units: list[int], wanted: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
    """Share out, by first row of the units, how many rows of each class they send to the sample."""
    held = np.zeros((len(units), len(census.classes)), np.int64)
    for i, u in enumerate(units):
        _, _, classes, counts = census.units[u]
        held[i, np.searchsorted(census.classes, classes)] = counts
    share = -(-wanted * held // np.maximum(held.sum(axis=0), 1))
    return {census.units[u][0]: np.minimum(share[i], held[i]) for i, u in enumerate(units)}


@dataclass(frozen=True)
class _DrawSample:
    dataset: Dataset
    classes: NDArray
    quotas: dict[int, NDArray[np.int64]]

    def __call__(self, span: Span) -> tuple[NDArray, NDArray[np.intp]]:
        X = read_unit(self.dataset, span.start, span.stop)
        codes = encode(self.dataset.read_labels(span.start, span.stop), self.classes, self.dataset.uri)
        quota = self.quotas[span.start]
        picks = [
            rows[np.linspace(0, len(rows) - 1, int(quota[label])).astype(np.intp)]
            for label, rows in class_groups(codes)
        ]
        chosen = np.sort(np.concatenate(picks))
        return X[chosen], codes[chosen]


def _join_samples(
    left: tuple[NDArray, NDArray[np.intp]], right: tuple[NDArray, NDArray[np.intp]]
) -> tuple[NDArray, NDArray[np.intp]]:
    return np.concatenate([left[0], right[0]]), np.concatenate([left[1], right[1]])


def draw_sample(dataset, census, rows, scheduler):
    wanted = np.minimum(census.counts, np.maximum(rows * census.counts // census.n_rows, SAMPLE_CLASS_ROWS))
    units = _sample_units(census)
    edges = [Span(i, (census.units[u][0], census.units[u][1])) for i, u in enumerate(units)]
    task = _DrawSample(dataset, census.classes, _quotas(census, units, wanted))
    return reduce_spans(task, edges, _join_samples, scheduler=scheduler, name="sample")
