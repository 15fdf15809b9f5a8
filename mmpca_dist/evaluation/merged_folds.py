"""Evaluate folds out of core: one pass for moments, one for errors.

Linear classifiers of all methods and sizes are scored by one matrix product, unless classes are many.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.evaluation.cost_meter import ERRORS, MARGINS, MOMENTS, Meter, owners_of
from mmpca_dist.evaluation.folds import moments_by_fold, scatters_of_parts
from mmpca_dist.evaluation.reduced_rows import check_rows, score_rows
from mmpca_dist.evaluation.reductions import Reduction, Reductions, fit_reductions
from mmpca_dist.evaluation.request import Classifiers, EvaluationRequest
from mmpca_dist.evaluation.sampled_margins import Sample, Sampling, rules_before, sampled_margins
from mmpca_dist.evaluation.scores import error_line, naming, split_record
from mmpca_dist.evaluation.splits import Splits
from mmpca_dist.methods.base.transform import centred, projected
from mmpca_dist.neighbors.layout_size import fits_memory
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.scratch import open_scratch
from mmpca_dist.passes.tree_reduction import concatenated
from mmpca_dist.passes.units import read_units
from mmpca_dist.predictors.classifiers import ClassifierSection, fit_from_moments
from mmpca_dist.predictors.fits import linear_parts
from mmpca_dist.predictors.linear import LinearRule
from mmpca_dist.predictors.specification import Rule
from mmpca_dist.statistics.coordinates import Statistics, tall_statistics
from mmpca_dist.statistics.medians import by_pairing, median_sets
from mmpca_dist.tables.dataset import Dataset, Span
from mmpca_dist.tables.labels import encode

BLOCK_ROWS = 4096
"""Rows that are scored at once."""
MOST_DECISIONS = 4096
"""Decisions on a row that one product of all columns makes. With more classes, products of the reduced rows are far
smaller."""


def evaluate_parts(rows: Rows, splits: Splits, first: int, request: EvaluationRequest) -> Iterator[dict[str, Any]]:
    """Yield the records of all parts of a split that are held out.

    Two passes over the rows serve all parts, methods, sizes and classifiers that come from moments; another gathers
    reduced rows for those that are fitted to rows, or more where memory permits few. Margins are measured on samples of
    the second pass.

    ``splits`` is one split, and ``first`` the number of its first part among those of all splits. Raises InputError
    for rows that a method or a classifier cannot use; the message names the split.
    """
    meter, classifiers = Meter(rows.on_pass, owners_of(request.methods)), request.classifiers
    rows = replace(rows, on_pass=meter.on_pass)
    sampling = Sampling.of(splits, rows.dataset.n_features, classifiers) if request.margins else None
    trained: list[_Trained] = []
    for number, statistics in enumerate(_training_statistics(rows, splits, request, meter), first):
        with naming(number):
            trained.append(_Trained.of(statistics, request, splits.held_out[number - first], meter))
            check_rows(trained[-1].reductions.items, rows.dataset.n_rows, classifiers)
        rows.tell_work("fit methods", len(trained), len(splits.held_out))
    with meter.charging(ERRORS):
        errors, sample = _score(rows, splits, [fold.head for fold in trained], sampling)
        of_rows = score_rows(rows, splits, first, [fold.reductions for fold in trained], classifiers, meter)
    shared = {what: seconds / len(trained) for what, seconds in meter.seconds.items()}
    for index, (fold, scores, part) in enumerate(zip(trained, of_rows, splits.held_out, strict=True)):
        margins: dict[str, Any] = {"margins": []}
        notes = classifiers.notes + scores.notes
        begin = time.perf_counter()
        if sampling is not None and sample is not None:
            fitted = {**fold.rules, **scores.fitted}
            with naming(first + index):
                margins = sampled_margins(
                    sample, sampling, part, splits.classes, fold.reductions, classifiers, fold.before, fitted
                )
            notes += sampling.notes(classifiers, margins["margins"])
            rows.tell_work("measure margins", index + 1, len(trained))
        lines = fold.in_order(fold.lines(errors[index]) + scores.lines, classifiers)
        seconds = {**shared, MARGINS: shared.get(MARGINS, 0.0) + time.perf_counter() - begin}
        read = {} if index else dict(meter.n_bytes)
        yield split_record(
            splits, index, first + index, lines, fold.reductions, seconds=seconds, read=read, notes=notes, **margins
        )


def _training_statistics(rows: Rows, splits: Splits, request: EvaluationRequest, meter: Meter) -> Iterator[Statistics]:
    """Yield the statistics of what trains while each part of a split is held out.

    One pass over all rows serves all parts, and one search those methods that need nearest rows of other classes.
    """
    statistics = meter.charged(MOMENTS, _merged_statistics(rows, splits, request, meter))
    if not request.needs.searches:
        yield from statistics
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


def _merged_statistics(rows: Rows, splits: Splits, request: EvaluationRequest, meter: Meter) -> Iterator[Statistics]:
    needs, precision, specs = request.needs, request.precision, request.classifiers.specs
    by_part = moments_by_fold(
        rows,
        splits,
        precision=precision,
        medians_of=median_sets(len(splits.classes), *needs.medians),
        pooled=scatters_of_parts(splits, rows.dataset.n_features, needs.scatters, specs) < splits.counts[0].size,
        weightings=needs.scatters,
    )
    meter.turn(MOMENTS)  # whatever passes came last
    for moments, medians in by_part.training():
        by_class = by_pairing(medians, needs.medians)
        yield tall_statistics(moments, by_class, precision=precision, standardize=request.standardize)


@dataclass(frozen=True)
class _OfReduced:
    """A rule for reduced rows: its number among all, the columns of reduced rows that it takes, and itself."""

    number: int
    columns: NDArray[np.intp]
    rule: Rule


@dataclass(frozen=True)
class Head:
    """Classifiers from moments that are scored on the rows of a part held out."""

    part: int
    scored: Sequence[tuple[Reduction, ClassifierSection]]
    """R of them."""
    linear: list[int]
    """Numbers of those that one product scores, L of them: linear ones, for few classes."""
    centre: NDArray[np.float64]
    weights: NDArray
    """Shape (d, L u); linear decisions are ``(x - centre) @ weights + offsets``, u = 1 for two classes, else C."""
    offsets: NDArray[np.float64]
    of_reduced: list[_OfReduced]
    """The others, for reduced rows ``projected(x, matrix, mean)``."""
    matrix: NDArray[np.float64]
    mean: NDArray[np.float64] | None
    classes: NDArray

    def count_errors(self, X: NDArray, codes: NDArray[np.intp], held_out: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return how many of the rows ``held_out`` of X every classifier gets wrong, shape (R,)."""
        errors = np.zeros(len(self.scored), np.int64)
        for start in range(0, len(held_out), BLOCK_ROWS):
            block = held_out[start : start + BLOCK_ROWS]
            rows, true = X[block], codes[block]
            if self.linear:
                errors[self.linear] += self._linear_errors(rows, true)
            if self.of_reduced:
                Z = projected(rows, self.matrix, self.mean, np.dtype(np.float64))
                for each in self.of_reduced:
                    named = each.rule.predict(Z[:, each.columns])
                    errors[each.number] += np.count_nonzero(named != self.classes[true])
        return errors

    def _linear_errors(self, rows: NDArray, true: NDArray[np.intp]) -> NDArray[np.int64]:
        decisions = centred(rows, self.centre, self.weights.dtype) @ self.weights + self.offsets
        if len(self.classes) == 2:
            return np.count_nonzero((decisions > 0) != (true == 1)[:, None], axis=0)
        by_class = decisions.reshape(len(rows), -1, len(self.classes))
        return np.count_nonzero(np.argmax(by_class, axis=2) != true[:, None], axis=0)


Rules = dict[tuple[int, str], Rule]
"""Classifiers from moments by position of the method and size, and label."""


def make_head(
    part: int, statistics: Statistics, reductions: Reductions, classifiers: Classifiers, rules: Rules, dtype: Any
) -> Head:
    """Combine all classifiers from moments, of every method and size."""
    scored = [(item, spec) for item in reductions.without_moments().items for spec in classifiers.from_moments]
    centre, classes = statistics.mean, statistics.moments.classes
    n_decisions = len(scored) * (1 if len(classes) == 2 else len(classes))
    weights, offsets, linear, of_reduced = [np.empty((len(centre), 0))], [np.empty(0)], [], []
    for number, ((item, _), rule) in enumerate(zip(scored, rules.values(), strict=True)):
        parts = linear_parts(rule)
        if parts is None or n_decisions > MOST_DECISIONS:
            of_reduced.append(_OfReduced(number, item.columns, rule))
            continue
        coef, intercept = parts
        A = reductions.matrix[:, item.columns]
        middle = centre if reductions.mean is None else centre - reductions.mean
        weights.append(A @ coef.T)
        offsets.append(coef @ (A.T @ middle) + intercept)
        linear.append(number)
    return Head(
        part, scored, linear, centre, np.concatenate(weights, axis=1).astype(dtype), np.concatenate(offsets),
        of_reduced, reductions.matrix, reductions.mean, classes,
    )  # fmt: skip


@dataclass(frozen=True)
class _Trained:
    """What is fitted while a part is held out: reductions, classifiers, and those of them that tell margins."""

    reductions: Reductions
    head: Head
    rules: Rules
    before: Mapping[str, LinearRule]

    @classmethod
    def of(cls, statistics: Statistics, request: EvaluationRequest, part: int, meter: Meter) -> _Trained:
        reductions, classifiers = fit_reductions(statistics, request, meter), request.classifiers
        rules: Rules = {}
        for position, item in enumerate(reductions.items):
            with meter.charging(item.method):
                for spec in classifiers.from_moments:
                    assert item.moments is not None  # noqa: S101  (merged statistics are of all columns)
                    rules[position, spec.label] = fit_from_moments(spec, item.moments())
        dtype = np.float32 if request.precision == "single" else np.float64
        head = make_head(part, statistics, reductions, classifiers, rules, dtype)
        with meter.charging(MARGINS):
            before = rules_before(statistics, classifiers) if request.margins else {}
        kept = {key: rule for key, rule in rules.items() if key[1] in before}
        return cls(reductions.without_moments(), head, kept, before)

    def lines(self, errors: NDArray[np.int64]) -> list[dict[str, Any]]:
        """Return the lines of a record for the classifiers from moments."""
        return [error_line(item, spec, count) for (item, spec), count in zip(self.head.scored, errors, strict=True)]

    def in_order(self, lines: list[dict[str, Any]], classifiers: Classifiers) -> list[dict[str, Any]]:
        """Return lines by method, size and classifier."""
        by_key = {(line["method"], line["n_components"], line["classifier"]): line for line in lines}
        items = self.reductions.items
        return [by_key[i.method, i.n_components, spec.label] for i in items for spec in classifiers.specs]


Totals = tuple[NDArray[np.int64], Sample | None]
"""Errors, shape (H, R), and rows to measure margins on."""


def _score(rows: Rows, splits: Splits, heads: Sequence[Head], sampling: Sampling | None) -> Totals:
    if sampling is None and not heads[0].scored:
        return np.zeros((len(heads), 0), np.int64), None
    return rows.pass_over(_ScoreSpan(rows.dataset, splits, heads, sampling), _add, "score")


def _add(left: Totals, right: Totals) -> Totals:
    sample = None if left[1] is None or right[1] is None else concatenated(left[1], right[1])
    return left[0] + right[0], sample


@dataclass(frozen=True)
class _ScoreSpan:
    """The task: errors of all classifiers from moments, on the rows of every part held out, and a sample of rows."""

    dataset: Dataset
    splits: Splits
    heads: Sequence[Head]
    sampling: Sampling | None

    def __call__(self, span: Span) -> Totals:
        errors = np.zeros((len(self.heads), len(self.heads[0].scored)), np.int64)
        samples = []
        for start, X in read_units(self.dataset, span):
            labels = self.dataset.read_labels(start, start + len(X))
            parts = self.splits.codes(start, start + len(X), labels)[0]
            codes = encode(labels, self.splits.classes, self.dataset.uri)
            for h, head in enumerate(self.heads):
                errors[h] += head.count_errors(X, codes, np.flatnonzero(parts == head.part))
            if self.sampling is not None:
                samples.append(self.sampling.take(start, X, parts, codes))
        return errors, concatenated(*samples) if samples else None
