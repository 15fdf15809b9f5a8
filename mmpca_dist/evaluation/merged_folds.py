"""Evaluate folds out of core: one pass for the moments of every part, one for errors."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.evaluation.cost_meter import ERRORS, MARGINS, MOMENTS, Meter, owners_of
from mmpca_dist.evaluation.margins import rules_of_columns
from mmpca_dist.evaluation.reduced_rows import check_rows, score_rows
from mmpca_dist.evaluation.reductions import fit_reductions
from mmpca_dist.evaluation.request import Classifiers, EvaluationRequest
from mmpca_dist.evaluation.sampled_margins import Sampling, sampled_margins
from mmpca_dist.evaluation.scorers import Rules, Scorer, make_scorer, score_all
from mmpca_dist.evaluation.scores import naming, split_record
from mmpca_dist.evaluation.splits import PartSizes, Splits
from mmpca_dist.methods.base.statistics_for import with_nearest_pairs
from mmpca_dist.neighbors.options import fits_memory
from mmpca_dist.passes.census import Census, count_labels
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.scratch import open_scratch
from mmpca_dist.predictors.classifiers import ClassifierSection, fit_from_moments, is_from_moments
from mmpca_dist.predictors.linear import LinearRule
from mmpca_dist.predictors.specification import Rule
from mmpca_dist.statistics import fold_moments
from mmpca_dist.statistics.class_weights import weighted_by_class
from mmpca_dist.statistics.from_rows import take_moments
from mmpca_dist.statistics.medians import by_pairing, median_sets
from mmpca_dist.statistics.moments import ClassMoments, use_pooled
from mmpca_dist.statistics.scatters import ClassWeighting
from mmpca_dist.statistics.widened_rows import adjusted_rows
from mmpca_dist.statistics.working_statistics import ColumnStatistics, Statistics, tall_statistics
from mmpca_dist.tables.batch import Batch


def part_and_class(batch: Batch, splits: Splits) -> NDArray[np.int64]:
    """Return keys part C + class: one for every part of a split and each of C classes, in their order."""
    return splits.codes(batch)[0].astype(np.int64) * len(splits.classes) + batch.codes(splits.classes)


def scatters_of_parts(
    sizes: PartSizes, n_features: int, weightings: Collection[ClassWeighting], specs: Iterable[ClassifierSection]
) -> int:
    """Return how many scatters the moments of the parts of a split keep: one of every class and part, or sums.

    Sums are kept where scatters of all classes are too large, and no classifier needs those of each class. For m-pca0 a
    row is then in products of several sums: that must save twice as much memory as it adds products.
    """
    cells, n_parts = sizes.counts[0].size, sizes.n_parts
    counted = len(sizes.held_out) if ClassWeighting.OTHERS in weightings else 0
    sums = n_parts + counted
    if any(spec.classifier.each_scatter for spec in specs) or cells <= 2 * sums * (1 + counted):
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

    def statistics(self, request: EvaluationRequest) -> Iterator[ColumnStatistics]:
        """Yield the statistics of what trains while each of the H parts is held out."""
        precision, standardize, class_weight = request.precision, request.standardize, request.class_weight
        for number, (moments, medians) in enumerate(self.training(), self.splits.first):
            by_class = by_pairing(medians, request.needs.medians)
            with naming(number):
                statistics = tall_statistics(
                    moments, by_class, precision=precision, standardize=standardize, class_weight=class_weight
                )
            yield statistics


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
    cells = Census(np.arange(n_classes * n_parts), counts.T.ravel(), units)
    merged, medians = take_moments(
        replace(rows, dataset=view, census=cells), precision=precision, weights=weights, medians_of=sets
    )
    if medians is not None:
        medians = medians.reshape(len(trains), -1, rows.dataset.n_features)
    counted = merged.scatters[n_parts:] if pooled and len(merged.scatters) > n_parts else None
    return SplitMoments(splits, fold_moments.moments_of_parts(merged, splits.classes, n_parts), counted, medians)


def evaluate_parts(rows: Rows, splits: Splits, request: EvaluationRequest) -> Iterator[dict[str, Any]]:
    """Yield the records of all parts of a split that are held out.

    Two passes over the rows serve all parts, methods, sizes and classifiers that come from moments; another gathers
    reduced rows for those that are fitted to rows, or more where memory permits few. Margins are measured on samples of
    the second pass.

    ``splits`` is one split. Raises InputError for rows that a method or a classifier cannot use; the message names the
    split.
    """
    meter, classifiers = Meter(rows.on_pass, owners_of(request.methods)), request.classifiers
    rows = replace(rows, on_pass=meter.on_pass)
    sampling = Sampling.of(splits, rows.dataset.n_features, classifiers) if request.margins else None
    trained: list[_Trained] = []
    for index, statistics in enumerate(_training_statistics(rows, splits, request, meter)):
        with naming(splits.first + index):
            trained.append(_Trained.of(statistics, request, splits.held_out[index], meter))
            check_rows(trained[-1].scorer.reductions.items, rows.dataset.n_rows, classifiers)
        rows.tell_work("fit methods", len(trained), len(splits.held_out))
    with meter.charging(ERRORS):
        errors, sample = score_all(rows, splits, [fold.scorer for fold in trained], "score", sampling)
        of_rows = score_rows(rows, splits, [fold.scorer.reductions for fold in trained], classifiers, meter)
    shared = {what: seconds / len(trained) for what, seconds in meter.seconds.items()}
    for index, (fold, scores) in enumerate(zip(trained, of_rows, strict=True)):
        part, reductions = fold.scorer.part, fold.scorer.reductions
        margins: dict[str, Any] = {"margins": []}
        notes = classifiers.notes + scores.notes
        begin = time.perf_counter()
        if sampling is not None:
            fitted = {**fold.rules, **scores.fitted}
            with naming(splits.first + index):
                margins = sampled_margins(sample, sampling, part, reductions, classifiers, fold.before, fitted)
            notes += sampling.notes(classifiers, margins["margins"])
            rows.tell_work("measure margins", index + 1, len(trained))
        lines = fold.in_order(fold.scorer.lines(errors[index]) + scores.lines, classifiers)
        seconds = {**shared, MARGINS: shared.get(MARGINS, 0.0) + time.perf_counter() - begin}
        read = {} if index else dict(meter.n_bytes)
        yield split_record(splits, index, lines, reductions, seconds=seconds, read=read, notes=notes, **margins)


def _training_statistics(rows: Rows, splits: Splits, request: EvaluationRequest, meter: Meter) -> Iterator[Statistics]:
    """Yield the statistics of what trains while each part of a split is held out.

    One pass over all rows serves all parts, and one search those methods that need nearest rows of other classes.
    """
    statistics = meter.charged(MOMENTS, _merged_statistics(rows, splits, request, meter))
    if not request.needs.searches:
        yield from statistics
        return
    if rows.dataset.widening is not None or request.class_weight is not None:
        yield from _with_own_searches(statistics, rows, splits, request, meter)
        return
    from mmpca_dist.neighbors.pair_folds import with_pairs_by_part  # compiles: slow to import

    in_memory = rows.scheduler.in_process and fits_memory(rows.dataset)
    scratch = partial(open_scratch, in_memory, rows.scratch)
    statistics = chain([next(statistics)], statistics)  # all passes for them come before the first
    rows = replace(rows, checkpoint=None)  # what tasks leave besides their results is gone by another attempt
    for search in request.needs.searches:
        paired = with_pairs_by_part(statistics, rows, splits, search, scratch)
        statistics = meter.charged(meter.owner_of(search), paired)
    yield from statistics


def _with_own_searches(
    statistics: Iterator[Statistics], rows: Rows, splits: Splits, request: EvaluationRequest, meter: Meter
) -> Iterator[Statistics]:
    """Yield statistics with pairs from a search for each part: rows, or their weights, depend on what trains."""
    for part, training in zip(splits.held_out, statistics, strict=True):
        selected = adjusted_rows(rows, training.adjustment).dataset.only(partial(_trains, splits=splits, part=part))
        own = weighted_by_class(Rows.of(selected, rows.scheduler, scratch=rows.scratch), request.class_weight)
        for search in request.needs.searches:
            with meter.charging_owner(search):
                training = with_nearest_pairs(training, own, search, request.needs.n_components, request.solver)
        yield training


def _trains(batch: Batch, splits: Splits, part: int) -> NDArray[np.bool_]:
    return splits.training(batch, part)[0]


def _merged_statistics(rows: Rows, splits: Splits, request: EvaluationRequest, meter: Meter) -> Iterator[Statistics]:
    needs, specs = request.needs, request.classifiers.specs
    by_part = moments_by_fold(
        rows,
        splits,
        precision=request.precision,
        medians_of=median_sets(len(splits.classes), *needs.medians),
        pooled=scatters_of_parts(splits, rows.dataset.n_features, needs.scatters, specs) < splits.counts[0].size,
        weightings=needs.scatters,
    )
    meter.turn(MOMENTS)  # whatever passes came last
    yield from by_part.statistics(request)


@dataclass(frozen=True)
class _Trained:
    """The fits while a part is held out: classifiers of reduced rows, and those of them that tell margins."""

    scorer: Scorer
    rules: Rules
    before: Mapping[str, LinearRule]

    @classmethod
    def of(cls, statistics: Statistics, request: EvaluationRequest, part: int, meter: Meter) -> _Trained:
        reductions, classifiers = fit_reductions(statistics, request, meter), request.classifiers
        rules: dict[tuple[int, str], Rule] = {}
        for position, item in enumerate(reductions.items):
            with meter.charging(item.method):
                for spec in classifiers.from_moments:
                    rule: Rule | None = None if item.used else item.own
                    if rule is None:
                        assert item.moments is not None  # noqa: S101  (merged statistics are of all columns)
                        rule = fit_from_moments(spec, item.moments())
                    rules[position, spec.label] = rule
        dtype = np.float32 if request.precision == "single" else np.float64
        scorer = make_scorer(part, statistics, reductions, classifiers, rules, dtype)
        with meter.charging(MARGINS):
            specs = [spec for spec in request.measuring if is_from_moments(spec)]
            before = rules_of_columns(statistics.unweighted, specs) if specs else {}
        kept = {key: rule for key, rule in rules.items() if key[1] in before}
        return cls(scorer, kept, before)

    def in_order(self, lines: list[dict[str, Any]], classifiers: Classifiers) -> list[dict[str, Any]]:
        """Return lines by method, size and classifier."""
        by_key = {(line["method"], line["n_components"], line["classifier"]): line for line in lines}
        items = self.scorer.reductions.items
        return [by_key[i.method, i.n_components, spec.label] for i in items for spec in classifiers.specs]
