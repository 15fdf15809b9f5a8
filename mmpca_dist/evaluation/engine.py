"""The evaluation of a split: fit to the rows that train, count errors and measure margins on those held out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.evaluation.cost_meter import ERRORS, MARGINS, Meter, owners_of
from mmpca_dist.evaluation.margins import rules_before
from mmpca_dist.evaluation.reconstructions import reconstructions
from mmpca_dist.evaluation.reduced_rows import check_rows, reduced_moments, score_rows
from mmpca_dist.evaluation.reductions import Reductions, fit_reductions
from mmpca_dist.evaluation.regressions import regressions
from mmpca_dist.evaluation.request import Classifiers, EvaluationRequest
from mmpca_dist.evaluation.sampled_margins import Sampling, sampled_margins
from mmpca_dist.evaluation.scorers import UNRANKED, Scorer, make_scorer, score_all
from mmpca_dist.evaluation.scores import naming, split_record
from mmpca_dist.evaluation.splits import Splits
from mmpca_dist.evaluation.training import Trained, Training
from mmpca_dist.passes.rows import Rows
from mmpca_dist.predictors.classifiers import fit_from_moments
from mmpca_dist.predictors.linear import LinearRule
from mmpca_dist.predictors.reduced_moments import ReducedMoments
from mmpca_dist.predictors.specification import Rule


@dataclass
class Fold:
    """The reductions and classifiers of the rows that train while a part is held out."""

    part: int
    number: int
    """Among all splits."""
    reductions: Reductions
    centre: NDArray[np.float64]
    """The mean of these rows, shape (d,)."""
    before: Mapping[str, LinearRule]
    """Linear classifiers of all columns, by label, where moments determine them."""
    record: dict[str, Any] = field(default_factory=dict)
    """The part of the record of the split that numbers to predict, or rows without labels, add."""
    rules: dict[tuple[int, str], Rule] = field(default_factory=dict)
    """Classifiers from moments, by position of the method and size, and label."""

    @classmethod
    def of(
        cls, rows: Rows, trained: Trained, splits: Splits, index: int, request: EvaluationRequest, meter: Meter
    ) -> Fold:
        """Fit all methods at all sizes, and the classifiers whose moments are known."""
        (statistics, held_out), part = trained, splits.held_out[index]
        reductions = fit_reductions(statistics, request, meter)
        with meter.charging(MARGINS):
            before = rules_before(statistics, rows, request)
        fold = cls(part, splits.first + index, reductions.without_moments(), statistics.mean, before)
        if held_out is not None and not request.classifiers.specs:
            errors_of = reconstructions if statistics.moments.targets is None else regressions
            fold.record = errors_of(statistics, held_out, reductions, splits.totals[0][:, part].sum().item(), meter)
        for position, item in enumerate(reductions.items if request.classifiers.from_moments else ()):
            with meter.charging(item.method):
                if not item.used and item.own is not None:
                    fold.rules |= {(position, spec.label): item.own for spec in request.classifiers.from_moments}
                elif item.moments is not None:
                    fold.add_rules(position, item.moments(), request.classifiers)
        return fold

    def add_rules(self, position: int, moments: ReducedMoments, classifiers: Classifiers) -> None:
        """Make the classifiers of a method and size from the moments of its reduced rows."""
        for spec in classifiers.from_moments:
            self.rules[position, spec.label] = fit_from_moments(spec, moments)


def evaluate(rows: Rows, splits: Splits, request: EvaluationRequest, training: Training) -> Iterator[dict[str, Any]]:
    """Yield the records of all parts of a split that are held out.

    After the passes of ``training``, one pass over the rows serves all parts, methods, sizes and classifiers that come
    from moments. Another gathers reduced rows for those that are fitted to rows, or more where memory permits few.

    ``splits`` is one split. Raises InputError for rows that a method or a classifier cannot use; the message names the
    split.
    """
    meter, classifiers = Meter(rows.on_pass, owners_of(request.methods)), request.classifiers
    rows = replace(rows, on_pass=meter.on_pass)
    folds: list[Fold] = []
    each = training(rows, splits, request, meter)
    for index, trained in zip(range(len(splits.held_out)), each, strict=False):
        with naming(splits.first + index):
            folds.append(Fold.of(rows, trained, splits, index, request, meter))
            check_rows(folds[-1].reductions.items, rows.dataset.n_rows, request)
        rows.tell_work("fit methods", len(folds), len(splits.held_out))
    nested = _nested_scorers(rows, each, splits, request, meter)
    sampling = None
    if request.margins:
        fitted = bool(classifiers.from_rows) or not all(fold.before for fold in folds)
        sampling = Sampling.of(splits, rows.dataset.n_features, fitted, request.in_memory)
    with meter.charging(ERRORS):
        _complete(rows, splits, folds, classifiers, meter)
        scorers = [
            make_scorer(fold.part, fold.centre, fold.reductions, fold.rules, splits.classes, request) for fold in folds
        ]
        errors, sample, ranked, squares = score_all(rows, splits, [*scorers, *nested], "score", sampling)
        of_rows = score_rows(rows, splits, [fold.reductions for fold in folds], request, meter)
    shared = {what: seconds / len(folds) for what, seconds in meter.seconds.items()}
    for index, (fold, scores) in enumerate(zip(folds, of_rows, strict=True)):
        record: dict[str, Any] = {"margins": [], **fold.record}
        notes, begin = [*classifiers.notes, *scores.notes, *record.pop("notes", [])], time.perf_counter()
        if sampling is not None:
            with naming(fold.number):
                models = {**fold.rules, **scores.fitted}
                record |= sampled_margins(
                    sample, sampling, fold.part, fold.reductions, classifiers, fold.before, models
                )
            notes += sampling.notes(classifiers, record["margins"], fold.reductions, rows.dataset.sparse)
            rows.tell_work("measure margins", index + 1, len(folds))
        if len(splits.classes) == 2 and scorers[index].scored and not ranked[index]:
            notes.append(UNRANKED)
        seconds = {**shared, MARGINS: shared.get(MARGINS, 0.0) + time.perf_counter() - begin}
        lines = scorers[index].lines(errors[index], ranked[index])
        if nested:
            inner = errors[len(folds) :][[scorer.without == fold.part for scorer in nested], :, 0].sum(axis=0)
            effective = f"{splits.totals[0][:, fold.part].sum() ** 2 / squares[index]:.12g}"
            for line, count in zip(lines, inner.tolist(), strict=True):
                line |= {"inner_errors": float(f"{count:.12g}"), "effective_rows": float(effective)}
        lines = _in_order(lines + scores.lines, fold, classifiers)
        lines += record.pop("lines", [])
        read = {} if index else dict(meter.n_bytes)
        yield split_record(splits, index, lines, fold.reductions, seconds=seconds, read=read, notes=notes, **record)


def _complete(rows: Rows, splits: Splits, folds: Sequence[Fold], classifiers: Classifiers, meter: Meter) -> None:
    """Make the classifiers from moments that only the rows tell, from a pass over these."""
    if not classifiers.from_moments:
        return
    label = classifiers.from_moments[0].label
    lacking = [[i for i in range(len(fold.reductions.items)) if (i, label) not in fold.rules] for fold in folds]
    if not any(lacking):
        return
    by_fold = reduced_moments(rows, splits, [fold.reductions for fold in folds], lacking)
    for fold, positions, moments in zip(folds, lacking, by_fold, strict=True):
        for position, own in zip(positions, moments, strict=True):
            with meter.charging(fold.reductions.items[position].method), naming(fold.number):
                fold.add_rules(position, own, classifiers)


def _nested_scorers(
    rows: Rows, pairs: Iterator[Trained], splits: Splits, request: EvaluationRequest, meter: Meter
) -> list[Scorer]:
    """Return what counts errors of models without ``pairs`` of parts, on each of both; nothing without pairs."""
    scorers, bare = list[Scorer](), replace(request, margins=False)
    for trained, (first, second) in zip(pairs, combinations(splits.held_out, 2), strict=False):
        with naming(f"{splits.first + first}, without the rows that split {splits.first + second} holds out"):
            fold = Fold.of(rows, trained, splits, first, bare, meter)
        scorer = make_scorer(first, fold.centre, fold.reductions, fold.rules, splits.classes, request)
        scorers += [replace(scorer, without=second), replace(scorer, part=second, without=first)]
    return scorers


def _in_order(lines: list[dict[str, Any]], fold: Fold, classifiers: Classifiers) -> list[dict[str, Any]]:
    """Return lines by method, size and classifier."""
    by_key = {(line["method"], line["n_components"], line["classifier"]): line for line in lines}
    return [
        by_key[item.method, item.n_components, spec.label]
        for item in fold.reductions.items
        for spec in classifiers.specs
    ]
