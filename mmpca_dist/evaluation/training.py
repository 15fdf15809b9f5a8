"""Where the statistics of the rows that train come from: merged moments of parts, or passes of their own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, combinations
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.evaluation.cost_meter import MOMENTS, Meter
from mmpca_dist.evaluation.request import EvaluationRequest
from mmpca_dist.evaluation.scores import naming
from mmpca_dist.evaluation.splits import PartSizes, Splits
from mmpca_dist.limits import LIMITS
from mmpca_dist.methods.base.shrinkage import with_shrinkages
from mmpca_dist.methods.base.statistics_for import statistics_for, with_nearest_pairs
from mmpca_dist.neighbors.options import fits_memory
from mmpca_dist.passes.census import Census, count_labels
from mmpca_dist.passes.rows import Rows, collect_rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.passes.scratch import open_scratch
from mmpca_dist.passes.tree_reduction import Tasks, joined
from mmpca_dist.statistics import fold_moments
from mmpca_dist.statistics.class_weights import weighted_by_class
from mmpca_dist.statistics.costs import use_pooled
from mmpca_dist.statistics.from_rows import take_moments
from mmpca_dist.statistics.medians import by_pairing, median_sets
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.statistics.scatters import ClassWeighting
from mmpca_dist.statistics.widened_rows import Widened, adjusted_rows
from mmpca_dist.statistics.working_statistics import ColumnStatistics, Statistics, tall_statistics
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.readers.memory import rows_in_memory, weighted
from mmpca_dist.tables.spans import Span, make_spans

Trained = tuple[Statistics, ClassMoments | None]
"""Statistics of the rows that train while a part is held out, and the moments of that part, where they are known."""
Training = Callable[[Rows, Splits, EvaluationRequest, Meter], Iterator[Trained]]
"""Yields what trains while each part of a split is held out, in their order: `merged_moments` or `own_passes`.

For intervals, what trains without each pair of parts follows, in the order of ``itertools.combinations``."""


def merged_moments(rows: Rows, splits: Splits, request: EvaluationRequest, meter: Meter) -> Iterator[Trained]:
    """Yield statistics from one pass over all rows, whose moments of parts are merged.

    One search serves those methods that need nearest rows of other classes.
    """
    by_part = _moments_of_parts(rows, splits, request)
    meter.turn(MOMENTS)  # whatever passes came last
    statistics: Iterator[Statistics] = meter.charged(MOMENTS, by_part.statistics(request))
    if request.needs.searches:
        statistics = _with_searches(statistics, rows, splits, request, meter)
    for part, own in zip(splits.held_out, statistics, strict=True):
        yield own, by_part.parts[part]
    if request.intervals:
        for own in meter.charged(MOMENTS, by_part.statistics(request, in_pairs=True)):
            yield own, None


def own_passes(rows: Rows, splits: Splits, request: EvaluationRequest, meter: Meter) -> Iterator[Trained]:
    """Yield statistics from passes over the rows that train alone, for any method and shape of the rows."""
    for number, part in enumerate(splits.held_out, splits.first):
        with meter.charging(MOMENTS), naming(number):
            statistics = statistics_for(
                training_rows(rows, splits, part, request), request.needs, request.solver,
                precision=request.precision, standardize=request.standardize, class_weight=request.class_weight,
                sizes=cast(Sequence[int], request.sizes), charging=meter.charging_owner,
            )  # fmt: skip
        yield statistics, None


def read_all(dataset: Dataset, splits: Splits, tasks: Tasks) -> Batch:
    """Read all rows into memory, with their values and groups. Raises InputError for rows that are not finite."""
    return splits.valued(collect_rows(dataset, make_spans(dataset), tasks))


def held_rows(batch: Batch, census: Census) -> Rows:
    """Return rows that are in memory, for one thread."""
    rows = rows_in_memory(batch.X, batch.label, batch.table.uri)
    if batch.table.widening is not None:
        rows = replace(rows, form=Widened(batch.table.widening))
    if batch.weight is not None:
        rows = weighted(rows, batch.weight)
    return Rows(dataset=rows, census=census, spans=make_spans(rows), scheduler=Threads(1))


def training_rows(rows: Rows, splits: Splits, part: int, request: EvaluationRequest) -> Rows:
    """Return the rows that train while a part is held out, with the counts of the parts; a copy of rows in memory."""
    selected = rows.dataset.only(partial(_trains, splits=splits, part=part))
    own = replace(rows, dataset=selected, spans=make_spans(selected), checkpoint=None)
    trains = splits.trains(part)
    sizes, totals = splits.counts[0] @ trains, None if splits.weights is None else splits.weights[0] @ trains
    units: Any = ((0, selected.n_rows, splits.classes, sizes),)
    if len(own.spans) > 1 or len(own.spans[0].units) > 1:
        units = count_labels(selected, own.spans, replace(own, progress=None)).units
    own = replace(own, census=Census(splits.classes, sizes, units, totals))
    if request.needs.swept and splits.grouped:
        task = partial(_groups_that_train, splits=splits, part=part)
        own = replace(own, groups=replace(rows, progress=None).pass_over_columns(task, joined, "groups", kept=False))
    if request.in_memory:
        return replace(held_rows(collect_rows(selected, own.spans, own), own.census), groups=own.groups)
    return own


def _trains(batch: Batch, splits: Splits, part: int) -> NDArray[np.bool_]:
    return splits.training(batch, part)[0]


def _groups_that_train(dataset: Dataset, span: Span, *, splits: Splits, part: int) -> NDArray[np.intp]:
    batch = splits.valued(dataset.batch(span.start, span.stop, X=False, roles=("label",)))
    return batch.roles["group"][_trains(batch, splits, part)]


def part_and_class(batch: Batch, splits: Splits) -> NDArray[np.int64]:
    """Return keys part C + class: one for every part of a split and each of C classes, in their order."""
    return splits.codes(batch)[0].astype(np.int64) * len(splits.classes) + batch.codes(splits.classes)


def scatters_of_parts(
    sizes: PartSizes, n_features: int, weightings: Collection[ClassWeighting], each: bool = False
) -> int:
    """Return how many scatters the moments of the parts of a split keep: one of every class and part, or sums.

    Sums are kept where scatters of all classes are too large, and none needs those of ``each`` class. For m-pca0 a row
    is then in products of several sums: that must save twice as much memory as it adds products.
    """
    cells, n_parts = sizes.counts[0].size, sizes.n_parts
    counted = len(sizes.held_out) if ClassWeighting.OTHERS in weightings else 0
    sums = n_parts + counted
    if each or cells <= 2 * sums * (1 + counted):
        return cells
    return sums if use_pooled(cells, n_features) else cells


@dataclass(frozen=True)
class SplitMoments:
    """The moments that one pass over the rows leaves of a split."""

    splits: Splits  # one, of P parts, H of which are held out in turn
    parts: list[ClassMoments]
    counted: NDArray[np.float64] | None
    """Shape (H, d, d): with pooled moments, for m-pca0, sums of class scatters as of `weights_of_parts`."""
    medians: NDArray[np.float64] | None
    """Shape (H, T, d): of T sets of classes, of the rows that train while each of the H parts is held out."""

    def training(self) -> Iterator[tuple[ClassMoments, NDArray[np.float64] | None]]:
        """Yield the moments and medians of what trains while each of the H parts is held out."""
        merged = (
            enumerate(fold_moments.earlier_moments(self.parts), 1)
            if self.splits.forward
            else enumerate(fold_moments.training_moments(self.parts))
        )
        for part, moments in merged:
            if part not in self.splits.held_out:
                continue
            index = self.splits.held_out.index(part)
            if self.counted is not None:
                trained = [self.parts[p] for p in np.flatnonzero(self.splits.trains(part))]
                moments = fold_moments.with_counted_scatter(moments, trained, self.counted[index])
            yield moments, None if self.medians is None else self.medians[index]

    def statistics(self, request: EvaluationRequest, in_pairs: bool = False) -> Iterator[ColumnStatistics]:
        """Yield the statistics of what trains while each of the H parts is held out, or each pair of parts."""
        precision, standardize, class_weight = request.precision, request.standardize, request.class_weight
        pairs = ((moments, None) for moments in fold_moments.pair_moments(self.parts))
        numbers = range(len(self.parts))
        trains = (np.delete(numbers, pair) for pair in combinations(numbers, 2))
        if not in_pairs:
            trains = (np.flatnonzero(self.splits.trains(part)) for part in self.splits.held_out)
        training = zip(trains, pairs if in_pairs else self.training(), strict=True)
        for number, (trained, (moments, medians)) in enumerate(training, self.splits.first):
            by_class = by_pairing(medians, request.needs.medians)
            with naming(number):
                statistics = tall_statistics(
                    moments, by_class, precision=precision, standardize=standardize, class_weight=class_weight
                )
                yield with_shrinkages(statistics, [self.parts[part] for part in trained], request.needs.shrinkages)


def moments_by_fold(
    rows: Rows,
    splits: Splits,
    *,
    precision: str,
    medians_of: NDArray[np.bool_] | None = None,
    pooled: bool = False,
    weightings: Collection[ClassWeighting] = (),
) -> SplitMoments:
    """Return the class moments of each part of a split, from one pass over the rows, and medians of what trains.

    The moments of the P parts of ``splits``, which is one split, are C P d^2 doubles, and so is what a task leaves; or
    fewer, where scatters are ``pooled`` over the classes into what these ``weightings`` need (`scatters_of_parts`). For
    fewer rows than columns, take `row_space_statistics` of the rows that train. ``medians_of``, bool of shape (T, C),
    are sets of classes whose coordinate-wise medians to compute. Raises InputError for rows that are not finite.
    """
    view = rows.dataset.keyed(partial(part_and_class, splits=splits))
    counts = splits.counts[0]
    n_classes, n_parts = counts.shape
    units: tuple[Any, ...] = ()
    sets = weights = None
    trains = np.stack([splits.trains(part) for part in splits.held_out])
    if medians_of is not None:
        # Brackets are of rows from a few units.
        units = count_labels(view, rows.spans, replace(rows, progress=None)).units
        sets = np.concatenate([np.kron(train[None], medians_of) for train in trains]).astype(bool)
    if pooled:
        weights = fold_moments.weights_of_parts(trains, splits.totals[0], by_counts=ClassWeighting.OTHERS in weightings)
    totals = None if rows.census.totals is None else splits.totals[0].T.ravel()
    cells = Census(np.arange(n_classes * n_parts), counts.T.ravel(), units, totals)
    merged, medians = take_moments(
        replace(rows, dataset=view, census=cells), precision=precision, weights=weights, medians_of=sets
    )
    if medians is not None:
        medians = medians.reshape(len(trains), -1, rows.dataset.n_features)
    counted = merged.scatters[n_parts:] if pooled and len(merged.scatters) > n_parts else None
    return SplitMoments(splits, fold_moments.moments_of_parts(merged, splits.classes, n_parts), counted, medians)


def _moments_of_parts(rows: Rows, splits: Splits, request: EvaluationRequest) -> SplitMoments:
    needs, each = request.needs, request.classifiers.each_scatter
    return moments_by_fold(
        rows,
        splits,
        precision=request.precision,
        medians_of=median_sets(len(splits.classes), *needs.medians),
        pooled=scatters_of_parts(splits, rows.dataset.n_features, needs.scatters, each) < splits.counts[0].size,
        weightings=needs.scatters,
    )


def _with_searches(
    statistics: Iterator[Statistics], rows: Rows, splits: Splits, request: EvaluationRequest, meter: Meter
) -> Iterator[Statistics]:
    """Yield statistics with pairs of nearest rows, from a search for all parts, or for each.

    It is for each where rows, their weights or their distances depend on what trains, where later rows must not be
    neighbours, and where parts are so few that it costs less.
    """
    rows = replace(rows, checkpoint=None)  # what tasks leave besides their results is gone by another attempt
    statistics = chain([next(statistics)], statistics)  # all passes for them come before the first
    depend = rows.dataset.widening is not None or request.class_weight is not None or request.standardize
    if depend or splits.forward or len(splits.held_out) < LIMITS.fewest_together:
        for part, training in zip(splits.held_out, statistics, strict=True):
            own = training_rows(adjusted_rows(rows, training.adjustment), splits, part, request)
            own = weighted_by_class(own, request.class_weight)
            for search in request.needs.searches:
                with meter.charging_owner(search):
                    training = with_nearest_pairs(training, own, search, request.needs.n_components, request.solver)
            yield training
        return
    from mmpca_dist.neighbors.pair_folds import with_pairs_by_part  # compiles: slow to import

    in_memory = rows.scheduler.in_process and fits_memory(rows.dataset)
    scratch = partial(open_scratch, in_memory, rows.scratch)
    for search in request.needs.searches:
        paired = with_pairs_by_part(statistics, rows, splits, search, scratch)
        statistics = meter.charged(meter.owner_of(search), paired)
    yield from statistics
