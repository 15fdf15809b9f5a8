"""The passes that all moment methods share: moments, and medians if a method needs them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.rows import Rows, draw_sample, sample_rows
from mmpca_dist.passes.serialization import storable
from mmpca_dist.passes.units import read_batches
from mmpca_dist.statistics.chunk_adder import ChunkAdder
from mmpca_dist.statistics.costs import moments_spans
from mmpca_dist.statistics.medians import Brackets, MedianCounter, MedianCounts, brackets_from_sample, key_type, settle
from mmpca_dist.statistics.moments import ClassMoments, join_moments
from mmpca_dist.statistics.precision import DOUBLE, work_type
from mmpca_dist.statistics.sparse_moments import multiplies_stored, sparse_moments
from mmpca_dist.statistics.widening import Widening, effective_precision
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import Span


@storable
@dataclass(frozen=True)
class PassResult:
    """The result of a span: moments of the classes that it has seen, and counts for medians where asked for."""

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


def read_moments(
    dataset: Dataset, span: Span, *, classes: NDArray, precision: str | None, weights: NDArray | None = None,
    brackets: Brackets | None = None, n_rows: int = 0,
) -> PassResult:  # fmt: skip
    """Read the moments of classes, and what medians need, in a span.

    ``precision`` is that of the products; None where a pass is for medians alone.
    """
    adder, counter, n_classes = None, None, len(classes)
    rows, widening = dataset, None
    if precision is not None:
        if brackets is None and multiplies_stored(dataset):
            moments = sparse_moments(dataset, span, classes, precision, weights)
            if moments is not None:
                return PassResult(moments, None)
        # Blocks of rows are widened once they are near the processor, not rows of a unit.
        if isinstance(dataset.form, Widening):
            rows, widening = dataset.unwidened, dataset.form
        adder = ChunkAdder(n_classes, dataset.n_features, rows.dtype, precision, weights, widening)
    if brackets is not None:
        counter = MedianCounter(brackets, int(LIMITS.kept_bytes * (span.stop - span.start) / n_rows))
    for batch in read_batches(rows, span):
        codes = batch.codes(classes)
        if adder is not None:
            beside = None if widening is None else batch.beside()
            explain = replace(batch, table=dataset).not_finite
            adder.add(batch.X, codes, explain, batch.weight, beside)
        if counter is not None:
            counter.add(batch.X, codes)
    moments = None if adder is None else adder.moments()
    del adder
    return PassResult(moments, None if counter is None else counter.result())


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
    task = partial(
        read_moments, classes=rows.census.classes, precision=None, brackets=brackets, n_rows=rows.census.n_rows
    )
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
