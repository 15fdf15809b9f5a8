"""Evaluate folds out of core: one pass for moments, one for errors."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.dataset import Dataset, Span
from mmpca_dist.datasets.labels import encode
from mmpca_dist.evaluation.cost_meter import ERRORS, MARGINS, MOMENTS, Meter, owners_of
from mmpca_dist.evaluation.folds import fold_moments, moments_by_fold
from mmpca_dist.evaluation.gathered_rows import check_rows, judge_rows
from mmpca_dist.evaluation.linear_scores import Head, Rules, fit_rules, make_head
from mmpca_dist.evaluation.reductions import Reductions, fit_reductions
from mmpca_dist.evaluation.sampled_margins import Sample, Sampling, rules_before, sampled_margins
from mmpca_dist.evaluation.scores import Judges, entry, naming
from mmpca_dist.evaluation.splits import Splits
from mmpca_dist.neighbors.scratch import fits_memory, open_scratch, row_bytes
from mmpca_dist.predictors.linear import LinearRule
from mmpca_dist.solvers.needs import Needs
from mmpca_dist.statistics.coordinates import Statistics, tall_statistics
from mmpca_dist.statistics.pairings import by_pairing, median_sets
from mmpca_dist.statistics.rows import Rows
from mmpca_dist.statistics.units import read_units


def evaluate_parts(rows: Rows, splits: Splits, first: int, settings: Any, judges: Judges) -> Iterator[dict]:
    """Yield the records of all parts of a split that are held out.

    Two passes over the rows serve all parts, methods, sizes and classifiers that come from moments; another gathers
    reduced rows for those that are fitted to rows, or more where memory permits few. Margins are measured on samples of
    the second pass.

    Parameters
    ----------
    splits : Splits
        One split.
    first : int
        Number of its first part among those of all splits.
    settings : RunConfig
        Methods, numbers of components, and what the methods take from it.

    Raises
    ------
    InputError
        For rows that a method or a classifier cannot use; the message names the split.
    """
    meter = Meter(rows.on_pass, owners_of(settings.methods))
    rows = replace(rows, on_pass=meter.on_pass)
    sampling = Sampling.of(splits, rows.dataset.n_features, judges) if settings.evaluation.margins else None
    trained = []
    for number, statistics in enumerate(_training_statistics(rows, splits, settings, meter), first):
        with naming(number):
            trained.append(_Trained.of(statistics, settings, judges, splits.held_out[number - first], meter))
            check_rows(trained[-1].reductions.items, rows.dataset.n_rows, judges)
        rows.tell_work("fit methods", len(trained), len(splits.held_out))
    with meter.charging(ERRORS):
        errors, sample = _score(rows, splits, [one.head for one in trained], sampling)
        judged_rows = judge_rows(rows, splits, first, [one.reductions for one in trained], judges, meter)
    shared = {what: seconds / len(trained) for what, seconds in meter.seconds.items()}
    for place, (one, judged) in enumerate(zip(trained, judged_rows, strict=True)):
        part = splits.held_out[place]
        margins: dict[str, Any] = {"margins": []}
        begin = time.perf_counter()
        if sampling is not None and sample is not None:
            fitted = {**one.rules, **judged.fitted}
            with naming(first + place):
                margins = sampled_margins(
                    sample, sampling, part, splits.classes, one.reductions, judges, one.before, fitted
                )
        yield {
            "split": first + place,
            "rows": int(splits.counts[:, part].sum()),
            "guessed": splits.guessed(part),
            "errors": one.in_order(one.lines(errors[place]) + judged.lines, judges),
            **margins,
            "seconds": {**shared, MARGINS: shared.get(MARGINS, 0.0) + time.perf_counter() - begin},
            "read": {} if place else dict(meter.n_bytes),
            "notes": judges.notes
            + judged.notes
            + (sampling.notes(judges, margins["margins"]) if sampling is not None else []),
        }


def _training_statistics(rows: Rows, splits: Splits, settings: Any, meter: Meter) -> Iterator[Statistics]:
    """Yield the statistics of what trains while each part of a split is held out.

    One pass over all rows serves all parts, and one search those methods that need nearest rows of other classes.
    """
    needs = settings.needs()
    statistics = meter.charged(MOMENTS, _merged_statistics(rows, splits, settings, needs, meter))
    if not needs.searches:
        yield from statistics
        return
    from mmpca_dist.neighbors.pair_folds import with_pairs_by_part  # compiles: slow to import

    in_memory = rows.scheduler.in_process and fits_memory(rows.dataset.n_rows * row_bytes(rows.dataset))
    scratch = partial(open_scratch, in_memory, rows.scratch)
    statistics = chain([next(statistics)], statistics)  # all passes for them come before the first
    rows = replace(rows, checkpoint=None)  # what tasks leave besides their results is gone by another attempt
    for search in needs.searches:
        paired = with_pairs_by_part(statistics, rows, splits, search, scratch)
        statistics = meter.charged(meter.owner_of(search), paired)
    yield from statistics


def _merged_statistics(rows: Rows, splits: Splits, settings: Any, needs: Needs, meter: Meter) -> Iterator[Statistics]:
    sets = median_sets(len(splits.classes), *needs.medians)
    parts, medians = moments_by_fold(rows, splits, precision=settings.precision, medians_of=sets)
    meter.turn(MOMENTS)  # whatever passes came last
    for part, moments in enumerate(fold_moments(parts)):
        if part in splits.held_out:
            own = None if medians is None else medians[splits.held_out.index(part)]
            by_class = by_pairing(own, needs.medians)
            yield tall_statistics(moments, by_class, precision=settings.precision, standardize=settings.standardize)


def _type(settings: Any) -> np.dtype:
    return np.dtype(np.float32 if settings.precision == "single" else np.float64)


@dataclass(frozen=True)
class _Trained:
    """What is fitted while a part is held out: reductions, classifiers, and those of them that tell margins."""

    reductions: Reductions
    head: Head
    rules: Rules
    before: dict[str, LinearRule]

    @classmethod
    def of(cls, statistics: Statistics, settings: Any, judges: Judges, part: int, meter: Meter) -> _Trained:
        reductions = fit_reductions(statistics, settings, meter)
        rules = fit_rules(reductions, judges, meter)
        head = make_head(part, statistics, reductions, judges, rules, _type(settings))
        with meter.charging(MARGINS):
            before = rules_before(statistics, judges) if settings.evaluation.margins else {}
        kept = {key: rule for key, rule in rules.items() if key[1] in before}
        return cls(reductions.without_moments(), head, kept, before)

    def lines(self, errors: NDArray[np.int64]) -> list[dict[str, Any]]:
        """Return the lines of a record for the classifiers from moments."""
        return [entry(item, spec, int(count)) for (item, spec), count in zip(self.head.judged, errors, strict=True)]

    def in_order(self, lines: list[dict[str, Any]], judges: Judges) -> list[dict[str, Any]]:
        """Return lines by method, size and classifier."""
        found = {(line["method"], line["n_components"], line["classifier"]): line for line in lines}
        return [
            found[item.method, item.n_components, spec.label] for item in self.reductions.items for spec in judges.specs
        ]


Scores = tuple[NDArray[np.int64], Sample | None]
"""Errors, shape (H, R), and rows to measure margins on."""


def _score(rows: Rows, splits: Splits, heads: Sequence[Head], sampling: Sampling | None) -> Scores:
    if sampling is None and not heads[0].judged:
        return np.zeros((len(heads), 0), np.int64), None
    return rows.pass_over(_ScoreSpan(rows.dataset, splits, heads, sampling), _add, "score")


def _add(left: Scores, right: Scores) -> Scores:
    sample = None if left[1] is None or right[1] is None else Sample.joined([left[1], right[1]])
    return left[0] + right[0], sample


@dataclass(frozen=True)
class _ScoreSpan:
    """The task: errors of all classifiers from moments, on the rows of every part held out, and a sample of rows."""

    dataset: Dataset
    splits: Splits
    heads: Sequence[Head]
    sampling: Sampling | None

    def __call__(self, span: Span) -> Scores:
        errors = np.zeros((len(self.heads), len(self.heads[0].judged)), np.int64)
        samples = []
        for start, X in read_units(self.dataset, span):
            labels = self.dataset.read_labels(start, start + len(X))
            parts = self.splits.codes(start, start + len(X), labels)[0]
            codes = encode(labels, self.splits.classes, self.dataset.uri)
            for h, head in enumerate(self.heads):
                errors[h] += head.judge(X, codes, np.flatnonzero(parts == head.part))
            if self.sampling is not None:
                samples.append(self.sampling.take(start, X, parts, codes))
        return errors, Sample.joined(samples) if samples else None
