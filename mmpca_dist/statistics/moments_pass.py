"""The passes that all moment methods share: moments, and medians if a method needs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.rows import Rows, draw_sample, sample_rows
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.units import read_batches
from mmpca_dist.statistics.adjustment import Adjustment
from mmpca_dist.statistics.chunk_adder import ChunkAdder
from mmpca_dist.statistics.costs import moments_spans
from mmpca_dist.statistics.medians import (
    Brackets,
    MedianCounter,
    MedianCounts,
    brackets_from_sample,
    by_pairing,
    key_type,
    median_sets,
    settle,
)
from mmpca_dist.statistics.moments import ClassMoments, join_moments
from mmpca_dist.statistics.precision import DOUBLE, work_type
from mmpca_dist.statistics.sparse_moments import multiplies_stored, sparse_moments
from mmpca_dist.statistics.widened_rows import adjusted_rows
from mmpca_dist.statistics.widening import Widening, effective_precision
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import Span


@storable
@dataclass(frozen=True)
class PassResult:
    """The result of a span: moments of the classes that it has seen, and counts for medians where asked for."""

    moments: ClassMoments
    medians: MedianCounts | None = None

    def merge(self, other: PassResult, work: np.dtype = DOUBLE) -> PassResult:
        """Merge what two neighbouring stretches of spans left."""
        moments = join_moments(self.moments, other.moments, work)
        if self.medians is None or other.medians is None:
            return PassResult(moments)
        return PassResult(moments, self.medians.merge(other.medians))


def read_moments(
    dataset: Dataset, span: Span, *, classes: NDArray, precision: str, weights: NDArray | None = None,
    brackets: Brackets | None = None, n_rows: int = 0,
) -> PassResult:  # fmt: skip
    """Read the moments of classes, and what medians need, in a span; ``precision`` is that of the products."""
    if brackets is None and multiplies_stored(dataset):
        moments = sparse_moments(dataset, span, classes, precision, weights)
        if moments is not None:
            return PassResult(moments)
    # Blocks of rows are widened once they are near the processor, not rows of a unit.
    widening = dataset.form if isinstance(dataset.form, Widening) else None
    rows = dataset if widening is None else dataset.unwidened
    adder = ChunkAdder(len(classes), dataset.n_features, rows.dtype, precision, weights, widening)
    counter = None if brackets is None else MedianCounter.of_span(brackets, span, n_rows)
    for batch in read_batches(rows, span):
        codes = batch.codes(classes)
        adder.add(replace(batch, table=dataset), codes)
        if counter is not None:
            counter.add(batch.X, codes)
    moments = adder.moments()
    del adder
    return PassResult(moments, None if counter is None else counter.result())


def _count_span(dataset: Dataset, span: Span, *, classes: NDArray, brackets: Brackets, n_rows: int) -> MedianCounts:
    """Read what medians need in a span, without any moments."""
    counter = MedianCounter.of_span(brackets, span, n_rows)
    for batch in read_batches(dataset, span):
        counter.add(batch.X, batch.codes(classes))
    return counter.result()


def take_moments(
    rows: Rows, *, precision: str, weights: NDArray | None = None, medians_of: NDArray[np.bool_] | None = None
) -> tuple[ClassMoments, NDArray[np.float64] | None]:
    """Return the class moments, and the coordinate-wise medians (T, d) of sets of classes ``medians_of`` (T, C).

    With ``weights`` (k, C) moments keep k weighted sums of the class scatters in place of every one.
    """
    brackets = None if medians_of is None else _first_brackets(rows, medians_of)
    precision = effective_precision(precision, rows.dataset.widening)
    task = partial(
        read_moments, classes=rows.census.classes, precision=precision, weights=weights, brackets=brackets,
        n_rows=rows.census.n_rows,
    )  # fmt: skip
    merge = partial(PassResult.merge, work=work_type(precision))
    n_classes = len(rows.census.classes)
    scatters = n_classes if weights is None else len(weights)
    spans = moments_spans(rows.spans, n_classes, rows.dataset.n_features, scatters)
    result = replace(rows, spans=spans).pass_over(task, merge, "moments")
    moments = result.moments.over(np.arange(n_classes), weights)
    medians = None if result.medians is None or brackets is None else _settled(rows, brackets, result.medians)
    return replace(moments, classes=rows.census.classes, widening=rows.dataset.widening), medians


def column_medians(
    rows: Rows, adjustment: Adjustment | None, pairings: Sequence[str]
) -> dict[str, NDArray[np.float64]]:
    """Return the coordinate-wise medians of (adjusted) rows by pairing, shape (C, d) each, without any moments."""
    sets = median_sets(len(rows.census.classes), *pairings)
    if sets is None:
        return {}
    rows = adjusted_rows(rows, adjustment)
    brackets = _first_brackets(rows, sets)
    return by_pairing(_settled(rows, brackets, _count(rows, brackets)), pairings)


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


def _count(rows: Rows, brackets: Brackets) -> MedianCounts:
    """Count what lies below the brackets and keep what lies inside, in a pass of its own."""
    task = partial(_count_span, classes=rows.census.classes, brackets=brackets, n_rows=rows.census.n_rows)
    return rows.pass_over(task, MedianCounts.merge, "medians")


def _settled(rows: Rows, brackets: Brackets, counts: MedianCounts) -> NDArray[np.float64]:
    """Return all medians, from what was counted and from as many more passes as it takes."""
    totals = _sizes(brackets.members, rows.census.sizes)
    medians, following = settle(brackets, counts, totals)
    while following is not None:
        settled, after = settle(following, _count(rows, following), totals)
        medians, following = np.where(np.isnan(medians), settled, medians), after
    return medians
