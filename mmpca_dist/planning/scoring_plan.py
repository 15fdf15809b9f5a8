"""Work of an evaluation in addition to its passes: fits of methods and classifiers, and margins."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.dataset import Dataset
from mmpca_dist.evaluation.margins import linear_rules
from mmpca_dist.evaluation.sampled_margins import sampled_rows
from mmpca_dist.evaluation.scores import Classifiers
from mmpca_dist.limits import LIMITS
from mmpca_dist.planning.passes import product_rate
from mmpca_dist.planning.plan import Resources, WorkPlan
from mmpca_dist.predictors.classifiers import ClassifierSection, is_from_moments
from mmpca_dist.predictors.costs import Work
from mmpca_dist.predictors.fits import GRID, INNER_FOLDS, fits_of
from mmpca_dist.statistics.gather import use_pooled

LEADING = 0.4
"""Leading eigenvectors take this share of the time of all: measured for 100 of 1,024 and of 2,048."""
SUMMARY = 60
"""Visits of a distance for quantiles, histogram and Wasserstein's distance, sorting included: a guess."""


@dataclass(frozen=True)
class EvaluationRequest:
    """Facts about an evaluation that its plan follows from."""

    counts: NDArray[np.int64]  # (C, P): rows of every class in every part of a split
    held_out: Sequence[int]  # parts that are held out in turn in each split
    n_splits: int
    merged: bool  # whether moments of the parts are merged; else all rows are read into memory
    n_methods: int
    sizes: Sequence[int]  # numbers of components of each method
    classifiers: Sequence[ClassifierSection]
    margins: bool  # whether to measure margins
    n_blocks: int = 0  # blocks of components of all methods, where some have several

    @property
    def n_classes(self) -> int:
        return len(self.counts)

    @property
    def training(self) -> list[int]:
        """Rows that train while each part is held out."""
        sizes = self.counts.sum(axis=0)
        return [int(sizes.sum() - sizes[part]) for part in self.held_out]

    @property
    def n_train(self) -> int:
        """The fewest rows that train."""
        return min(self.training)

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
        return max(self.n_methods, self.n_blocks) * max(self.sizes)

    @property
    def grouped(self) -> Classifiers:
        return Classifiers(self.classifiers)

    @property
    def from_rows(self) -> list[ClassifierSection]:
        """The classifiers that are fitted to rows."""
        return self.grouped.from_rows

    @property
    def nested(self) -> bool:
        """Whether some of them choose a penalty within the rows that train."""
        return any(spec.C == "nested" for spec in self.from_rows)

    @property
    def decisions(self) -> int:
        """Decisions from moments on every row, of all methods, sizes and classifiers."""
        scores = 1 if self.n_classes == 2 else self.n_classes
        return self.n_methods * len(self.sizes) * len(self.grouped.from_moments) * scores

    @property
    def all_fits(self) -> int:
        """Most fits of classifiers to rows in all splits, including fits that choose a penalty."""
        return self.n_methods * len(self.sizes) * sum(map(fits_of, self.from_rows)) * self.parts

    @property
    def measuring(self) -> list[ClassifierSection]:
        """The classifiers that are known, by their names, to measure margins."""
        if not self.margins:
            return []
        return [spec for spec in self.from_rows if spec.classifier.linear] or linear_rules(self.grouped)


def scoring_work(
    dataset: Dataset, evaluation: EvaluationRequest, resources: Resources, *, solved: bool
) -> list[WorkPlan]:
    """Return the work that reads no rows; ``solved`` is whether methods solve whole eigenproblems."""
    rate, parts = product_rate(resources.precision), evaluation.parts
    processes = 1 if resources.in_process else resources.workers
    # Splits of rows in memory are tasks; the planning process fits merged splits one after the other.
    threads, processes = (1, 1) if evaluation.merged else (min(resources.busy_threads, parts), min(processes, parts))

    def plan(name: str, work: Work) -> WorkPlan:
        return WorkPlan(name, work.operations, work.seconds(rate, threads, processes))

    plans = [
        plan("fit methods", _methods(dataset, evaluation, solved) * parts),
        plan("fit and score classifiers", _classifiers(dataset, evaluation) * parts),
    ]
    if evaluation.measuring:
        plans.append(plan("measure margins", _margins(dataset, evaluation) * parts))
    chosen = [spec for spec in evaluation.classifiers if spec.C == "auto"]
    if chosen:
        rows = dataset.n_rows * (INNER_FOLDS - 1) // INNER_FOLDS
        fits = (spec.classifier.fit_work(rows, dataset.n_features, evaluation.n_classes) for spec in chosen)
        work = sum(fits, Work()) * (len(GRID) * INNER_FOLDS)
        plans.append(WorkPlan("choose penalties", work.operations, work.seconds(rate)))
    return plans


def _methods(dataset: Dataset, evaluation: EvaluationRequest, solved: bool) -> Work:
    """Return the operations of fitting all methods while a part is held out, and of reducing rows in memory."""
    rank = min(dataset.n_features, evaluation.n_train)
    work = Work(eigen=evaluation.n_methods * LEADING * float(rank) ** 3 * solved)
    if evaluation.merged:
        return work + Work(numbers=3.0 * evaluation.n_classes * dataset.n_features**2)
    return work + Work(products=float(dataset.nnz) * evaluation.width)


def _classifiers(dataset: Dataset, evaluation: EvaluationRequest) -> Work:
    """Return the operations of all classifiers of all methods and sizes while a part is held out."""
    n_train, n_classes = evaluation.n_train, evaluation.n_classes
    rank = min(dataset.n_features, n_train)
    pooled = use_pooled(n_classes, rank)
    works = []
    for size, spec in itertools.product(evaluation.sizes, evaluation.classifiers):
        classifier, from_moments = spec.classifier, is_from_moments(spec)
        works.append(classifier.fit_work(n_train, size, n_classes) * fits_of(spec))
        if from_moments:
            works.append(Work(products=float(n_train) * size**2 if pooled else float(n_classes) * rank**2 * size))
        if not (from_moments and evaluation.merged and classifier.summed_scores):
            works.append(classifier.use_work(evaluation.tested, size, n_classes))
    return sum(works, Work()) * evaluation.n_methods


def _margins(dataset: Dataset, evaluation: EvaluationRequest) -> Work:
    """Return the operations of margins while a part is held out."""
    d, n_train, n_test = dataset.n_features, evaluation.n_train, evaluation.tested
    n_classes = evaluation.n_classes
    if evaluation.merged:
        n_test = min(n_test, LIMITS.margin_rows)
        n_train = min(n_train, sampled_rows(dataset.n_rows, d, len(evaluation.held_out), n_classes, fitted=True))
    rank, summary = min(d, n_train), Work(numbers=float(SUMMARY) * n_test)
    works = [Work(products=0.0 if evaluation.merged or evaluation.from_rows else float(n_train) * d * rank)]
    for spec in evaluation.measuring:
        before = spec.classifier.fit_work(n_train, rank if is_from_moments(spec) else d, n_classes) * fits_of(spec)
        works += [before, spec.classifier.use_work(n_test, d, n_classes), summary]
        for size in evaluation.sizes:
            works.append((spec.classifier.use_work(n_test, size, n_classes) + summary) * evaluation.n_methods)
    return sum(works, Work())
