"""The passes that all moment methods share: labels, moments, and medians if a method needs them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.dataset import Dataset, Span, not_finite
from mmpca_dist.datasets.labels import encode
from mmpca_dist.errors import InputError
from mmpca_dist.limits import LIMITS
from mmpca_dist.statistics.medians import Brackets, MedianCounter, MedianCounts, brackets_from_sample, key_type, settle
from mmpca_dist.statistics.moments import BLOCK_ROWS, ChunkAdder, ClassMoments, class_groups
from mmpca_dist.statistics.row_sample import draw_sample, sample_rows
from mmpca_dist.statistics.rows import Rows
from mmpca_dist.statistics.serialization import storable
from mmpca_dist.statistics.tree_reduction import read_units


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
            counter = MedianCounter(self.brackets, int(LIMITS.kept_bytes * n_rows / self.n_rows))
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


def take_moments(
    rows: Rows,
    *,
    precision: str,
    weights: NDArray | None = None,
    medians_of: NDArray[np.bool_] | None = None,
) -> tuple[ClassMoments, NDArray[np.float64] | None]:
    """Return the class moments, and the medians of sets of classes.

    Parameters
    ----------
    weights : array of shape (k, C), optional
        Keep k weighted sums of the class scatters in place of every one.
    medians_of : bool array of shape (T, C), optional
        Sets of classes whose coordinate-wise medians are wanted, shape (T, d).
    """
    brackets = None if medians_of is None else _first_brackets(rows, medians_of)
    task = _ReadSpan(rows.dataset, rows.census.classes, weights, precision, brackets, rows.census.n_rows)
    found = rows.pass_over(task, merge_results, "moments")
    if medians_of is None or brackets is None:
        return found.moments, None
    return found.moments, _Rounds(rows, medians_of).settle(brackets, found.medians)


def take_medians(rows: Rows, medians_of: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the coordinate-wise medians of sets of classes, shape (T, d), without any moments.

    Parameters
    ----------
    medians_of : bool array of shape (T, C)
    """
    brackets, rounds = _first_brackets(rows, medians_of), _Rounds(rows, medians_of)
    return rounds.settle(brackets, rounds.count(brackets))


@dataclass(frozen=True)
class _Rounds:
    """Passes for medians alone, until all are settled."""

    rows: Rows
    medians_of: NDArray[np.bool_]

    def count(self, brackets: Brackets) -> MedianCounts | None:
        """Count what lies below the brackets and keep what lies inside."""
        dataset, census = self.rows.dataset, self.rows.census
        task = _ReadSpan(dataset, census.classes, None, "double", brackets, census.n_rows, False)
        return self.rows.pass_over(task, merge_results, "medians").medians

    def settle(self, brackets: Brackets | None, counts: MedianCounts | None) -> NDArray[np.float64]:
        """Return all medians, from what was counted and from as many more passes as it takes."""
        assert brackets is not None  # noqa: S101  (there are medians to settle)
        totals = self.medians_of.astype(np.int64) @ self.rows.census.counts
        medians = np.full(brackets.low.shape, np.nan)
        while brackets is not None and counts is not None:
            settled, brackets = settle(brackets, counts, totals)
            medians = np.where(np.isnan(medians), settled, medians)
            if brackets is not None:
                counts = self.count(brackets)
        return medians


def _first_brackets(rows: Rows, medians_of: NDArray[np.bool_]) -> Brackets:
    """Bracket the medians from a sample; small data is kept whole and needs none."""
    dataset, census = rows.dataset, rows.census
    entry = key_type(len(medians_of), dataset.n_features).itemsize + dataset.dtype.itemsize
    everything = int((medians_of @ census.counts).sum()) * dataset.n_features * entry
    if everything <= LIMITS.kept_bytes:
        return Brackets.unbounded(medians_of, dataset.n_features, dataset.dtype)
    sample, codes = draw_sample(rows, sample_rows(dataset.row_bytes))
    return brackets_from_sample(sample, codes, census.counts, medians_of)
