"""What an evaluation takes beside its passes over the rows: fits of methods and classifiers, decisions, margins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.base import Dataset
from mmpca_dist.evaluation.judging import Judges
from mmpca_dist.evaluation.margins import linear_rules
from mmpca_dist.evaluation.sampled_margins import MARGIN_ROWS, sampled_rows
from mmpca_dist.planning.plan import Resources, WorkPlan
from mmpca_dist.planning.timing import product_rate
from mmpca_dist.predictors import LINEAR, ClassifierSection, fits_of, is_from_moments
from mmpca_dist.predictors.costs import Work, fit_work, use_work
from mmpca_dist.predictors.penalties import GRID, INNER_FOLDS
from mmpca_dist.statistics.gather import use_pooled

LEADING = 0.4
"""Leading eigenvectors take this share of the time that all take: measured for 100 of 1,024 and of 2,048."""

SUMMARY = 60
"""Visits of a distance for its quantiles, histogram and Wasserstein's distance, sorting included: a guess."""


@dataclass(frozen=True)
class Judging:
    """What the plan of an evaluation must know beside its methods.

    Attributes
    ----------
    counts : int array of shape (C, P)
        Rows of every class in every part of a split.
    held_out : sequence of int
        Parts held out in turn in each of the splits.
    n_splits : int
    merged : bool
        Whether moments of the parts are merged; else all rows are taken into memory.
    n_methods : int
    sizes : sequence of int
        Numbers of components of each method.
    classifiers : sequence of ClassifierSection
    margins : bool
        Whether margins are measured.
    """

    counts: NDArray[np.int64]
    held_out: Sequence[int]
    n_splits: int
    merged: bool
    n_methods: int
    sizes: Sequence[int]
    classifiers: Sequence[ClassifierSection]
    margins: bool

    @property
    def n_classes(self) -> int:
        return len(self.counts)

    @property
    def training(self) -> list[int]:
        """Rows that train while each part is held out."""
        sizes = self.counts.sum(axis=0)
        return [int(sizes.sum() - sizes[part]) for part in self.held_out]

    @property
    def tested(self) -> int:
        """Rows of the largest part that is held out."""
        return int(self.counts.sum(axis=0)[list(self.held_out)].max())

    @property
    def parts(self) -> int:
        """Parts held out, of all splits together."""
        return self.n_splits * len(self.held_out)

    @property
    def width(self) -> int:
        """Columns of the reduced rows of all methods together."""
        return self.n_methods * max(self.sizes)

    @property
    def judges(self) -> Judges:
        return Judges(self.classifiers)

    @property
    def from_rows(self) -> list[ClassifierSection]:
        """Classifiers that are fitted to rows."""
        return self.judges.from_rows

    @property
    def nested(self) -> bool:
        """Whether some of them choose a penalty within the rows that train."""
        return any(spec.C == "nested" for spec in self.from_rows)

    @property
    def decisions(self) -> int:
        """Decisions from moments on every row, of all methods, sizes and classifiers."""
        scores = 1 if self.n_classes == 2 else self.n_classes
        return self.n_methods * len(self.sizes) * len(self.judges.from_moments) * scores

    @property
    def all_fits(self) -> int:
        """Fits of classifiers to rows in all splits; those that choose a penalty are counted, at most."""
        return self.n_methods * len(self.sizes) * sum(map(fits_of, self.from_rows)) * self.parts

    @property
    def measuring(self) -> list[ClassifierSection]:
        """Classifiers by which margins are measured, as far as their names tell."""
        if not self.margins:
            return []
        return [spec for spec in self.from_rows if spec.name in LINEAR] or linear_rules(self.judges)


def scoring_work(dataset: Dataset, judging: Judging, resources: Resources, *, solved: bool) -> list[WorkPlan]:
    """Return what is done beside passes over the rows, and roughly how long it takes.

    ``solved`` tells whether methods solve eigenproblems of all columns, or of as many as rows train.
    """
    rate, parts = product_rate(resources.precision), judging.parts
    processes = 1 if resources.in_process else resources.workers
    # Splits of rows in memory are the tasks; merged ones are fitted one after the other, by the process that plans.
    threads, processes = (1, 1) if judging.merged else (min(resources.busy_threads, parts), min(processes, parts))

    def plan(name: str, work: Work) -> WorkPlan:
        return WorkPlan(name, work.operations, work.seconds(rate, threads, processes))

    found = [
        plan("fit methods", _methods(dataset, judging, solved) * parts),
        plan("fit and judge classifiers", _classifiers(dataset, judging) * parts),
    ]
    if judging.measuring:
        found.append(plan("measure margins", _margins(dataset, judging) * parts))
    chosen = [spec for spec in judging.classifiers if spec.C == "auto"]
    if chosen:
        rows = dataset.n_rows * (INNER_FOLDS - 1) // INNER_FOLDS
        one = _sum(fit_work(spec, rows, dataset.n_features, judging.n_classes) for spec in chosen)
        work = one * (len(GRID) * INNER_FOLDS)
        found.append(WorkPlan("choose penalties", work.operations, work.seconds(rate)))
    return found


def _sum(works: Iterable[Work]) -> Work:
    return reduce(add, works, Work())


def _methods(dataset: Dataset, judging: Judging, solved: bool) -> Work:
    """Return the operations of fitting all methods while a part is held out, and of reducing rows in memory."""
    rank = min(dataset.n_features, min(judging.training))
    work = Work(eigen=judging.n_methods * LEADING * float(rank) ** 3 * solved)
    if judging.merged:
        return work + Work(numbers=3.0 * judging.n_classes * dataset.n_features**2)
    return work + Work(products=float(dataset.nnz) * judging.width)


def _classifiers(dataset: Dataset, judging: Judging) -> Work:
    """Return the operations of all classifiers of all methods and sizes while a part is held out."""
    n_train, n_classes, rank = min(judging.training), judging.n_classes, min(dataset.n_features, min(judging.training))
    works = []
    for size in judging.sizes:
        for spec in judging.classifiers:
            works.append(fit_work(spec, n_train, size, n_classes) * fits_of(spec))
            if not is_from_moments(spec):
                works.append(use_work(spec, judging.tested, size, n_classes))
                continue
            pooled = use_pooled(n_classes, rank)
            works.append(Work(products=float(n_train) * size**2 if pooled else float(n_classes) * rank**2 * size))
            if not judging.merged or spec.name in ("qda", "naive-bayes"):  # linear ones are a product of the pass
                works.append(use_work(spec, judging.tested, size, n_classes))
    return _sum(works) * judging.n_methods


def _margins(dataset: Dataset, judging: Judging) -> Work:
    """Return the operations of margins while a part is held out."""
    d, n_train, n_test, n_classes = dataset.n_features, min(judging.training), judging.tested, judging.n_classes
    if judging.merged:
        n_test = min(n_test, MARGIN_ROWS)
        n_train = min(n_train, sampled_rows(dataset.n_rows, d, len(judging.held_out), n_classes, fitted=True))
    rank = min(d, n_train)
    works = [Work(products=0.0 if judging.merged or judging.from_rows else float(n_train) * d * rank)]
    for spec in judging.measuring:
        before = fit_work(spec, n_train, rank if is_from_moments(spec) else d, n_classes) * fits_of(spec)
        works += [before, use_work(spec, n_test, d, n_classes), Work(numbers=float(SUMMARY) * n_test)]
        for size in judging.sizes:
            after = use_work(spec, n_test, size, n_classes) + Work(numbers=float(SUMMARY) * n_test)
            works.append(after * judging.n_methods)
    return _sum(works)
