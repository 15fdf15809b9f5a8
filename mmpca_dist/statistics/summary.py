"""The passes that all moment methods share: moments, and medians if a method needs them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.folds import Folds
from mmpca_dist.passes.rows import Rows, draw_sample, sample_rows
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.units import locator, read_codes, read_units
from mmpca_dist.statistics.chunk_adder import ChunkAdder
from mmpca_dist.statistics.costs import moments_spans
from mmpca_dist.statistics.medians import Brackets, MedianCounter, MedianCounts, brackets_from_sample, key_type, settle
from mmpca_dist.statistics.moments import ClassMoments, join_moments
from mmpca_dist.statistics.precision import DOUBLE, work_type
from mmpca_dist.statistics.sparse_moments import multiplies_stored, sparse_moments
from mmpca_dist.statistics.widening import implied
from mmpca_dist.tables.dataset import Dataset, Span


@storable
@dataclass(frozen=True)
class PassResult:
    """What a span leaves: moments of the classes that it has seen, and counts for medians where asked for."""

    moments: ClassMoments | None
    medians: MedianCounts | None

    def merge(self, other: PassResult, work: np.dtype = DOUBLE) -> PassResult:
        """Merge what two neighbouring stretches of spans left."""
        moments, medians = None, None
        if self.moments is not None and other.moments is not None:
            moments = join_moments(self.moments, other.moments, work)
        if self.medians is not None and other.medians is not None:
            medians = self.medians.merge(other.medians)
        return PassResult(moments, medians)


@dataclass(frozen=True)
class ReadMoments:
    """The task of every pass for moments of classes, or of folds and classes, and of those for medians.

    ``precision`` is that of the products; None where a pass is for medians alone.
    """

    dataset: Dataset
    classes: NDArray
    precision: str | None
    weights: NDArray | None = None
    brackets: Brackets | None = None
    n_rows: int = 0
    folds: Folds | None = None

    def __call__(self, span: Span) -> PassResult:
        adder, counter, dataset = None, None, self.dataset
        n_classes = len(self.classes) * (1 if self.folds is None else self.folds.n_folds)
        rows, widening = dataset, None
        if self.precision is not None:
            if self.brackets is None and multiplies_stored(dataset):
                codes = self._codes(span.start, span.stop)
                moments = sparse_moments(dataset, span, codes, n_classes, self.precision, self.weights)
                if moments is not None:
                    return PassResult(moments, None)
            # Blocks of rows are widened once they are near the processor, not rows of a unit.
            rows = dataset.narrow
            widening = None if rows is dataset else dataset.widening
            adder = ChunkAdder(n_classes, dataset.n_features, rows.dtype, self.precision, self.weights, widening)
        if self.brackets is not None:
            counter = MedianCounter(self.brackets, int(LIMITS.kept_bytes * (span.stop - span.start) / self.n_rows))
        for start, X in read_units(rows, span):
            stop = start + len(X)
            codes = self._codes(start, stop)
            if adder is not None:
                beside = None if widening is None else widening.beside(rows, start, stop)
                adder.add(X, codes, locator(dataset, start), dataset.read_weights(start, stop), beside)
            if counter is not None:
                counter.add(X, codes)
        moments = None if adder is None else adder.moments()
        del adder
        return PassResult(moments, None if counter is None else counter.result())

    def _codes(self, start: int, stop: int) -> NDArray[np.intp]:
        """Return the position of each row's class, or of its fold and class: fold by fold, class by class."""
        codes = read_codes(self.dataset, self.classes, start, stop)
        return codes if self.folds is None else self.folds.of_rows(codes, start) * len(self.classes) + codes


def take_moments(
    rows: Rows, *, precision: str, weights: NDArray | None = None, medians_of: NDArray[np.bool_] | None = None
) -> tuple[ClassMoments, NDArray[np.float64] | None]:
    """Return the class moments, and the coordinate-wise medians (T, d) of sets of classes ``medians_of`` (T, C).

    With ``weights`` (k, C) moments keep k weighted sums of the class scatters in place of every one.
    """
    brackets = None if medians_of is None else _first_brackets(rows, medians_of)
    precision = implied(precision, rows.dataset.widening)
    task = ReadMoments(rows.dataset, rows.census.classes, precision, weights, brackets, rows.census.n_rows)
    merge = partial(PassResult.merge, work=work_type(precision))
    n_classes = len(rows.census.classes)
    scatters = n_classes if weights is None else len(weights)
    spans = moments_spans(rows.spans, n_classes, rows.dataset.n_features, scatters)
    result = replace(rows, spans=spans).pass_over(task, merge, "moments")
    assert result.moments is not None  # noqa: S101  (this pass takes them)
    moments = result.moments.over(np.arange(n_classes), weights)
    medians = None if brackets is None else _settled(rows, brackets, result.medians)
    return replace(moments, classes=rows.census.classes, widening=rows.dataset.widening), medians


def take_medians(rows: Rows, medians_of: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the coordinate-wise medians of sets of classes (T, C), shape (T, d), without any moments."""
    brackets = _first_brackets(rows, medians_of)
    return _settled(rows, brackets, _count(rows, brackets))


def _first_brackets(rows: Rows, medians_of: NDArray[np.bool_]) -> Brackets:
    """Bracket the medians from a sample; small data is kept whole and needs none."""
    dataset, census = rows.dataset, rows.census
    entry = key_type(len(medians_of), dataset.n_features).itemsize + dataset.dtype.itemsize
    everything = int(_sizes(medians_of, census.sizes).sum()) * dataset.n_features * entry
    if everything <= LIMITS.kept_bytes:
        return Brackets.unbounded(medians_of, dataset.n_features, dataset.dtype)
    sample, codes = draw_sample(rows, sample_rows(dataset.row_bytes))
    return brackets_from_sample(sample, codes, census.sizes, medians_of)


def _sizes(members: NDArray[np.bool_], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many rows each set of classes has; a product would first make the sets eight times as large."""
    return np.asarray([counts[member].sum() for member in members])


def _count(rows: Rows, brackets: Brackets) -> MedianCounts | None:
    """Count what lies below the brackets and keep what lies inside, in a pass of its own."""
    task = ReadMoments(rows.dataset, rows.census.classes, None, None, brackets, rows.census.n_rows)
    return rows.pass_over(task, PassResult.merge, "medians").medians


def _settled(rows: Rows, brackets: Brackets, counts: MedianCounts | None) -> NDArray[np.float64]:
    """Return all medians, from what was counted and from as many more passes as it takes."""
    totals = _sizes(brackets.members, rows.census.sizes)
    medians = np.full(brackets.low.shape, np.nan)
    following: Brackets | None = brackets
    while following is not None:
        assert counts is not None  # noqa: S101  (every pass with brackets counts)
        settled, following = settle(brackets, counts, totals)
        medians = np.where(np.isnan(medians), settled, medians)
        if following is not None:
            brackets, counts = following, _count(rows, following)
    return medians
