"""Folds of rows that need not fit in memory: moments of every fold from one pass, errors on all folds from another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.base import Dataset, Span
from mmpca_dist.datasets.labels import encode
from mmpca_dist.errors import InputError
from mmpca_dist.evaluation.folds import fold_moments, moments_by_fold
from mmpca_dist.evaluation.heads import Head, make_head
from mmpca_dist.evaluation.judging import Judges, Part, entry, judge, named
from mmpca_dist.evaluation.reductions import Reduction, Reductions, fit_reductions, needs_of
from mmpca_dist.evaluation.splits import Splits
from mmpca_dist.neighbors.scratch import fits_memory, open_scratch, row_bytes
from mmpca_dist.reducers.base import projected
from mmpca_dist.reducers.gathering import Needs
from mmpca_dist.statistics.census import Census
from mmpca_dist.statistics.reduction import Progress, Scheduler, keeping_nothing, read_units, reduce_spans
from mmpca_dist.statistics.sample import OnPass
from mmpca_dist.statistics.working import Statistics, tall_statistics

GATHERED_BYTES = 1 << 30
"""Reduced rows that are held at once for classifiers that are fitted to rows."""


@dataclass(frozen=True)
class Source:
    """Rows out of memory: where they are, how they are read, where the work goes and who watches."""

    dataset: Dataset
    census: Census
    spans: list[Span]
    scheduler: Scheduler
    scratch: str | None = None
    progress: Progress | None = None
    on_pass: OnPass | None = None

    def reduce(self, task: Any, merge: Callable[[Any, Any], Any], name: str) -> Any:
        """Make a pass over the rows."""
        if self.on_pass is not None:
            self.on_pass(name, self.dataset.n_bytes)
        return reduce_spans(task, self.spans, merge, scheduler=self.scheduler, name=name, progress=self.progress)


def evaluate_parts(source: Source, splits: Splits, first: int, settings: Any, judges: Judges) -> Iterator[dict]:
    """Yield the records of all parts of a split that are held out.

    Two passes over the rows serve all parts, methods, sizes and classifiers that come from moments; one or more passes
    gather reduced rows for those that are fitted to rows.

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
    begin = time.perf_counter()
    trained = []
    for number, statistics in enumerate(training_statistics(source, splits, settings), first):
        try:
            trained.append(_Trained.of(statistics, settings, judges, splits.held_out[number - first]))
        except InputError as error:
            raise named(error, number) from error
    gathering = time.perf_counter() - begin
    errors, rows = _score(source, splits, [one.head for one in trained])
    scoring = time.perf_counter() - begin - gathering
    for place, one in enumerate(trained):
        try:
            lines, seconds, notes = _judge_rows(source, splits, one, judges)
        except InputError as error:
            raise named(error, first + place) from error
        yield {
            "split": first + place,
            "rows": int(rows[place]),
            "errors": one.in_order(one.lines(errors[place]) + lines, judges),
            "margins": [],
            "seconds": {
                "gathering": (gathering - sum(sum(t.reductions.seconds.values()) for t in trained)) / len(trained),
                "scoring": scoring / len(trained),
                **{name: taken + seconds.get(name, 0.0) for name, taken in one.reductions.seconds.items()},
            },
            "notes": notes,
        }


def training_statistics(source: Source, splits: Splits, settings: Any) -> Iterator[Statistics]:
    """Yield the statistics of what trains while each part of a split is held out.

    One pass over all rows serves all parts, and one search those methods that need nearest rows of other classes.
    """
    needs = needs_of(settings, len(splits.classes))
    statistics = _merged_statistics(source, splits, settings, needs)
    if needs.pairs is None:
        yield from statistics
        return
    from mmpca_dist.neighbors.pair_folds import with_pairs_by_part  # compiles: slow to import

    in_memory = source.scheduler.in_process and fits_memory(source.dataset.n_rows * row_bytes(source.dataset))
    moments = chain([next(statistics)], statistics)  # all passes for them come before the first
    with keeping_nothing(source.scheduler):
        yield from with_pairs_by_part(
            moments, source.dataset, source.census, source.spans, splits, needs.pairs,
            partial(open_scratch, in_memory, source.scratch),
            scheduler=source.scheduler, progress=source.progress, on_pass=source.on_pass,
        )  # fmt: skip


def _merged_statistics(source: Source, splits: Splits, settings: Any, needs: Needs) -> Iterator[Statistics]:
    parts, medians = moments_by_fold(
        source.dataset, source.spans, splits,
        scheduler=source.scheduler, precision=settings.precision, medians_of=needs.medians_of,
        progress=source.progress, on_pass=source.on_pass,
    )  # fmt: skip
    for part, moments in enumerate(fold_moments(parts)):
        if part in splits.held_out:
            own = None if medians is None else medians[splits.held_out.index(part)]
            yield tall_statistics(moments, own, precision=settings.precision, standardize=settings.standardize)


def _type(settings: Any) -> np.dtype:
    return np.dtype(np.float32 if settings.precision == "single" else np.float64)


@dataclass(frozen=True)
class _Trained:
    """What is fitted while a part is held out."""

    reductions: Reductions
    head: Head

    @classmethod
    def of(cls, statistics: Statistics, settings: Any, judges: Judges, part: int) -> _Trained:
        reductions = fit_reductions(statistics, settings)
        head = make_head(part, statistics, reductions, judges, _type(settings))
        return cls(reductions.without_moments(), head)

    def lines(self, errors: NDArray[np.int64]) -> list[dict[str, Any]]:
        """Return the lines of a record for the classifiers from moments."""
        return [entry(item, spec, int(count)) for (item, spec), count in zip(self.head.judged, errors, strict=True)]

    def in_order(self, lines: list[dict[str, Any]], judges: Judges) -> list[dict[str, Any]]:
        """Return lines by method, size and classifier."""
        found = {(line["method"], line["n_components"], line["classifier"]): line for line in lines}
        return [
            found[item.method, item.n_components, spec.label] for item in self.reductions.items for spec in judges.specs
        ]


Scores = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Errors, shape (H, R), and how many rows are held out, shape (H,)."""


def _score(source: Source, splits: Splits, heads: Sequence[Head]) -> Scores:
    return source.reduce(_ScoreSpan(source.dataset, splits, heads), _add, "score")


def _add(left: Scores, right: Scores) -> Scores:
    return left[0] + right[0], left[1] + right[1]


@dataclass(frozen=True)
class _ScoreSpan:
    """The task: errors of all classifiers from moments, on the rows of every part held out."""

    dataset: Dataset
    splits: Splits
    heads: Sequence[Head]

    def __call__(self, span: Span) -> Scores:
        errors = np.zeros((len(self.heads), len(self.heads[0].judged)), np.int64)
        rows = np.zeros(len(self.heads), np.int64)
        for start, X in read_units(self.dataset, span):
            labels = self.dataset.read_labels(start, start + len(X))
            parts = self.splits.codes(start, start + len(X), labels)[0]
            codes = encode(labels, self.splits.classes, self.dataset.uri)
            for h, head in enumerate(self.heads):
                own = np.flatnonzero(parts == head.part)
                rows[h] += len(own)
                errors[h] += head.judge(X, codes, own)
        return errors, rows


def _judge_rows(
    source: Source, splits: Splits, one: _Trained, judges: Judges
) -> tuple[list[dict[str, Any]], dict[str, float], list[str]]:
    """Judge by the classifiers that are fitted to rows, with as many methods and sizes at a time as memory permits."""
    lines: list[dict[str, Any]] = []
    seconds: dict[str, float] = {}
    notes: list[str] = []
    if not judges.from_rows:
        return lines, seconds, notes
    for items in _batches(one.reductions.items, source.dataset.n_rows):
        columns = np.unique(np.concatenate([item.columns for item in items]))
        task = _GatherSpan(
            source.dataset, splits, one.head.part, one.reductions.matrix[:, columns], one.reductions.mean
        )
        part = Part(*source.reduce(task, _join, "gather"))
        moved = [Reduction(i.method, i.n_components, np.searchsorted(columns, i.columns), i.moments) for i in items]
        found = judge(moved, judges, judges.from_rows, part)
        lines += found.lines
        notes += found.notes
        for name, taken in found.seconds.items():
            seconds[name] = seconds.get(name, 0.0) + taken
    return lines, seconds, notes


def _batches(items: Sequence[Reduction], n_rows: int) -> Iterator[list[Reduction]]:
    """Yield stretches of methods and sizes whose reduced rows are held at once.

    Raises
    ------
    InputError
        Where those of a single one are too many.
    """
    batch: list[Reduction] = []
    for item in items:
        if 8 * n_rows * item.used > GATHERED_BYTES:
            raise InputError(
                f"{n_rows:,} rows of {item.used} components are more than the {GATHERED_BYTES >> 20:,} MiB of reduced "
                "rows that a classifier may be fitted to. Use classifiers from moments (fisher, lda, qda, "
                "naive-bayes), or fewer components."
            )
        together = [*batch, item]
        if 8 * n_rows * len(np.unique(np.concatenate([one.columns for one in together]))) > GATHERED_BYTES:
            yield batch
            together = [item]
        batch = together
    yield batch


@dataclass(frozen=True)
class _GatherSpan:
    """The task: reduced rows, their labels, and which of them train."""

    dataset: Dataset
    splits: Splits
    part: int
    matrix: NDArray[np.float64]
    mean: NDArray[np.float64] | None

    def __call__(self, span: Span) -> tuple[NDArray, NDArray, NDArray[np.bool_]]:
        labels = self.dataset.read_labels(span.start, span.stop)
        units = read_units(self.dataset, span)
        Z = [projected(X, self.matrix, self.mean, np.dtype(np.float64)) for _, X in units]
        return np.concatenate(Z), labels, self.splits.training(span.start, span.stop, labels, self.part)[0]


def _join(left: tuple[NDArray, ...], right: tuple[NDArray, ...]) -> tuple[NDArray, ...]:
    return tuple(np.concatenate(pair) for pair in zip(left, right, strict=True))
