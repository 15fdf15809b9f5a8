"""The passes that every moment method shares: labels, moments, and medians where a method asks for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.base import Dataset, Span, not_finite
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
from mmpca_dist.statistics.reduction import Progress, Scheduler, read_units, reduce_spans
from mmpca_dist.statistics.sample import OnPass, draw_sample, sample_rows
from mmpca_dist.statistics.storing import storable

PAIRINGS = ("one-vs-rest", "one-vs-one")
"""Whether a class faces all others together, or one after the other."""


@storable
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
        return not_finite(self.dataset, self.start + row, column, value)

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
    rounds = _Rounds(dataset, census, spans, medians_of, scheduler, progress, on_pass)
    return found.moments, rounds.settle(brackets, found.medians)


def take_medians(
    dataset: Dataset,
    census: Census,
    spans: list[Span],
    medians_of: NDArray[np.bool_],
    *,
    scheduler: Scheduler,
    progress: Progress | None = None,
    on_pass: OnPass | None = None,
) -> NDArray[np.float64]:
    """Return the coordinate-wise medians of sets of classes, shape (T, d), without any moments.

    Parameters
    ----------
    medians_of : bool array of shape (T, C)
    """
    brackets = _first_brackets(dataset, census, medians_of, scheduler, on_pass)
    rounds = _Rounds(dataset, census, spans, medians_of, scheduler, progress, on_pass)
    return rounds.settle(brackets, rounds.count(brackets))


@dataclass(frozen=True)
class _Rounds:
    """Passes for medians alone, until all are settled."""

    dataset: Dataset
    census: Census
    spans: list[Span]
    medians_of: NDArray[np.bool_]
    scheduler: Scheduler
    progress: Progress | None
    on_pass: OnPass | None

    def count(self, brackets: Brackets) -> MedianCounts | None:
        """Count what lies below the brackets and keep what lies inside."""
        if self.on_pass is not None:
            self.on_pass("medians", self.dataset.n_bytes)
        task = _ReadSpan(self.dataset, self.census.classes, None, "double", brackets, self.census.n_rows, False)
        return reduce_spans(
            task, self.spans, merge_results, scheduler=self.scheduler, name="medians", progress=self.progress
        ).medians

    def settle(self, brackets: Brackets | None, counts: MedianCounts | None) -> NDArray[np.float64]:
        """Return all medians, from what was counted and from as many more passes as it takes."""
        assert brackets is not None  # noqa: S101  (there are medians to settle)
        totals = self.medians_of.astype(np.int64) @ self.census.counts
        medians = np.full(brackets.low.shape, np.nan)
        while brackets is not None and counts is not None:
            settled, brackets = settle(brackets, counts, totals)
            medians = np.where(np.isnan(medians), settled, medians)
            if brackets is not None:
                counts = self.count(brackets)
        return medians


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
    sample, codes = draw_sample(dataset, census, sample_rows(dataset.row_bytes), scheduler, on_pass)
    return brackets_from_sample(sample, codes, census.counts, medians_of)
