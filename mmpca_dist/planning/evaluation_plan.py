"""Cost of an evaluation, and of a run with ``n_components: auto``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.eigen.options import choose_solver
from mmpca_dist.evaluation.request import EvaluationRequest
from mmpca_dist.evaluation.sampled_margins import sampled_rows
from mmpca_dist.evaluation.scorers import MAX_DECISIONS, SCORED_ROWS
from mmpca_dist.evaluation.training import scatters_of_parts
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.checkpoint import most_kept
from mmpca_dist.passes.units import BLOCK_ROWS
from mmpca_dist.planning.passes import RowPasses
from mmpca_dist.planning.plan import PassPlan, Plan
from mmpca_dist.planning.run_plan import (
    SLACK,
    RunRequest,
    make_plan,
    plan_of_passes,
    search_costs_of,
    search_passes,
    sum_searches,
    wide_rank,
)
from mmpca_dist.predictors.classifiers import ClassifierSection, is_from_moments
from mmpca_dist.predictors.fits import fits_of
from mmpca_dist.predictors.specification import liblinear_bytes, linear_bytes, scoring_bytes
from mmpca_dist.statistics.costs import largest_unit, summary_bytes
from mmpca_dist.statistics.from_rows import scatter_bytes
from mmpca_dist.statistics.scatters import ClassWeighting
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.spans import Span, grain_edges, make_spans

if TYPE_CHECKING:  # compiled code is slow to import, and only m-pca2 needs it
    from mmpca_dist.neighbors.costs import SearchCosts

COLUMN_SCATTERS = 6
"""Scatters of all columns that coexist while a classifier is made from one of them."""
CHOICE = "choose: "
"""Prefix of the passes of a choice of n_components."""


def plan_run(
    dataset: Dataset, spans: list[Span], request: RunRequest, evaluation: EvaluationRequest | None = None
) -> Plan:
    """Return the plan of a run over ``spans`` of a data set.

    An ``evaluation`` chooses the numbers of components, up to the largest, before the fit to all rows.
    """
    fit = make_plan(RowPasses(dataset, spans, request.resources), request)
    if evaluation is None:
        return fit
    choice = plan_evaluation(dataset, spans, request, evaluation)
    return replace(
        fit,
        passes=[*(replace(each, name=CHOICE + each.name) for each in choice.passes), *fit.passes],
        more_passes=choice.more_passes + fit.more_passes,
        memory=max(choice.memory, fit.memory),
        kept=max(choice.kept, fit.kept),
        search=sum_searches([search for search in (choice.search, fit.search) if search is not None]),
        fits=choice.fits,
        at_once=choice.at_once,
        remedy="fewer evaluation.folds, n_components as numbers" if choice.memory > fit.memory else fit.remedy,
    )


def plan_evaluation(dataset: Dataset, spans: list[Span], request: RunRequest, evaluation: EvaluationRequest) -> Plan:
    """Return the plan of an evaluation of methods; ``request`` is that of one fit to all rows.

    The passes of classifiers that learn block by block are not foreseeable, and not in the plan.
    """
    make = _merging if evaluation.merged else _in_memory if evaluation.in_memory else _by_passes
    plan = make(RowPasses(dataset, spans, request.resources), request, evaluation)
    fits = sum(fits_of(spec) for spec in evaluation.classifiers.from_rows)
    n_threads = request.resources.workers * request.resources.threads_per_worker
    return replace(
        plan,
        fits=evaluation.fits,
        at_once=n_threads if evaluation.in_memory else evaluation.n_held_out,
        classifier_fits=evaluation.n_models * fits * evaluation.fits,
        remedy="fewer columns, classes, folds or windows, no margins (evaluation.margins: false) or no qda",
    )


def _in_memory(rows: RowPasses, request: RunRequest, evaluation: EvaluationRequest) -> Plan:
    """Every thread evaluates a split: it has rows of its own to fit to, besides all rows and the reduced rows."""
    dataset, n, d = rows.dataset, rows.dataset.n_rows, rows.dataset.n_features
    alone = replace(request.resources, workers=1, threads_per_worker=1, in_process=True)
    own = replace(request, n_projected=0, resources=alone)
    trained = evaluation.parts.n_train
    fits = [_fitting(dataset, n_train, own) for n_train in {int(trained.min()), int(trained.max())}]
    fit_bytes, statistics = (max(sizes) for sizes in zip(*fits, strict=True))
    all_rows = dataset.sparse_bytes(n) if dataset.sparse else dataset.n_bytes
    margins = _margin_bytes(dataset, request, evaluation, all_rows)
    largest = max([request.largest, *_unreduced(dataset, evaluation)])
    split = all_rows + 8 * n * (evaluation.width + 2 * largest) + 8 * d * evaluation.width
    split += _model_bytes(dataset, evaluation, evaluation.classifiers.specs, n)
    split += scoring_bytes(evaluation.tested, evaluation.n_classes)
    split += max(fit_bytes, statistics + margins)
    if evaluation.nested:  # folds of the reduced rows, and of the original rows for margins
        split += 8 * n * 2 * largest + (all_rows + 8 * n * d if evaluation.margins else 0)
    memory = 2 * all_rows + request.resources.process_threads * split
    if evaluation.classifiers.from_rows:  # LIBLINEAR, which one thread uses at a time
        columns = dataset.nnz // n + 1 if dataset.sparse else min(n, d)
        memory += liblinear_bytes(n, max(largest, columns if margins else 0))
    return plan_of_passes(
        rows,
        [rows.plan("rows", 0)],
        memory,
        solver="split by split",
        search=sum_searches(_searches(replace(rows, resources=alone), own, evaluation, False)),
    )


class _SomeRows(Dataset):
    """So many rows of a data set, taken into memory: what plans ask for, and nothing to read."""

    @classmethod
    def taken(cls, rows: Dataset, n_rows: int, kind: str = "memory") -> Dataset:
        """Return the facts of some rows."""
        return cls(rows, replace(rows.facts, n_rows=n_rows, kind=kind, resident_bytes=0))

    @property
    def chunk_edges(self) -> NDArray[np.int64]:
        return grain_edges(self.n_rows, self.row_bytes)

    @property
    def n_bytes(self) -> int:
        return self.source.share_bytes(self.n_rows)

    @property
    def nnz(self) -> int:
        return -(-self.source.nnz * self.n_rows // self.source.n_rows)

    def reading_bytes(self, n_rows: int) -> int:
        return self.source.reading_bytes(n_rows) if self.sparse else 0


def _fitting(dataset: Dataset, n_train: int, request: RunRequest) -> tuple[int, int]:
    """Return the bytes of a fit to rows that train, and of their statistics, of which classifiers are made then."""
    subset = _SomeRows.taken(dataset, n_train)
    fit = make_plan(RowPasses(subset, make_spans(subset), request.resources), request)
    fit_bytes = int(fit.memory / SLACK) - fit.base
    choice = choose_solver(request.solver, n_train, dataset.n_columns, request.needs, subset.held)
    return fit_bytes, fit_bytes if choice.in_passes else _statistics_bytes(subset, request)


def _statistics_bytes(dataset: Dataset, request: RunRequest) -> int:
    """Return the bytes of the statistics of the rows that train, while classifiers and margins are made of them."""
    d, needs, wide = dataset.n_features, request.needs, dataset.n_rows < dataset.n_features
    rank = wide_rank(dataset, request) if wide else d
    scatters = scatter_bytes(request.n_classes, rank, at_most=wide)
    basis = 8 * d * rank if wide else 0
    times = 2 if request.standardize and not wide else 1
    return times * scatters + basis + 8 * request.n_classes * d * len(needs.medians) + 8 * rank**2 * len(needs.searches)


def _unreduced(dataset: Dataset, evaluation: EvaluationRequest) -> list[int]:
    """Return how many columns a method has that reduces nothing, in a list of one; or an empty one."""
    columns = min(dataset.n_features, int(evaluation.parts.n_train.max()))
    return [columns] * bool(evaluation.unreduced)


def _model_bytes(
    dataset: Dataset, evaluation: EvaluationRequest, specs: Sequence[ClassifierSection], n_rows: int
) -> int:
    """Return the bytes of fitted classifiers of all methods and sizes, and of the moments of the largest size."""
    n_classes, sizes = evaluation.n_classes, [*evaluation.sizes, *_unreduced(dataset, evaluation)]
    kept = [sum(spec.classifier.kept_bytes(n_rows, size, n_classes) for spec in specs) for size in sizes]
    models = sum(kept[: len(evaluation.sizes)]) * len(evaluation.methods) + sum(kept[len(evaluation.sizes) :])
    scatters = 0
    if any(map(is_from_moments, specs)):
        # Of merged parts, the moments of all columns are the statistics themselves.
        reduced = evaluation.sizes if evaluation.merged else sizes
        scatters = max(scatter_bytes(n_classes, size) for size in reduced)
        if evaluation.merged and any(spec.classifier.each_scatter for spec in evaluation.classifiers.specs):
            scatters = 8 * n_classes * max(reduced) ** 2
    return models + 3 * scatters


def _margin_bytes(dataset: Dataset, request: RunRequest, evaluation: EvaluationRequest, rows: int) -> int:
    """Return the bytes of a thread for margins of rows in memory: training rows, and a classifier of all columns."""
    n, d, specs = dataset.n_rows, dataset.n_features, evaluation.measuring
    if not specs or (dataset.sparse and not evaluation.classifiers.from_rows):
        return 0
    coefficients = 4 * 8 * evaluation.n_classes * d
    if dataset.sparse:
        return 2 * rows + coefficients
    measured = 16 * evaluation.tested * d + coefficients
    if evaluation.parts.n_train.min() < d:  # rotated to their span
        return rows + 4 * 8 * n * d + measured
    if not is_from_moments(specs[0]):
        return rows + 8 * n * d + measured
    moments = 3 * 8 * d * d + BLOCK_ROWS * d * (dataset.dtype.itemsize + 16)
    return rows + 8 * n * d * request.standardize + measured + max(moments, COLUMN_SCATTERS * 8 * d * d)


def _merging(rows: RowPasses, request: RunRequest, evaluation: EvaluationRequest) -> Plan:
    """Return the plan of passes over all rows that serve all parts of a split, one split after the other."""
    dataset, n_splits, n_parts = rows.dataset, evaluation.parts.n_splits, evaluation.n_held_out
    d, cells = dataset.n_features, evaluation.parts.counts[0].size
    # Training rows in all sets of classes that need medians, together, of all parts.
    median_rows = math.ceil(request.median_rows * int(evaluation.parts.n_train.sum(axis=1).max()) / dataset.n_rows)
    passes, more_passes = rows.moments(0, median_rows=median_rows, n_classes=cells)
    scatters = scatters_of_parts(evaluation.parts, d, request.needs.scatters, evaluation.classifiers.each_scatter)
    trained = len(request.needs.scatters | {ClassWeighting.EQUAL}) if scatters < cells else request.n_classes
    summary = summary_bytes(cells, d, scatters)
    node = summary + (LIMITS.kept_bytes if median_rows else 0)
    kept = (len(passes) + more_passes) * most_kept(dataset.n_bytes, len(rows.spans), node)
    together = not request.standardize and not evaluation.parts.forward and n_parts >= LIMITS.fewest_together
    searches, search_bytes = _searches(rows, request, evaluation, together), 0
    for need, search in zip(request.needs.searches, searches, strict=True):
        passes += search_passes(rows, search) * (1 if together else n_parts)
        search_bytes += search.memory  # all searches coexist
        if together:  # the tables keep the nearest row of another part, too
            slots = request.n_classes if need.pairing == "one-vs-one" else 1
            search_bytes += 40 * search.queries * slots
    moments = rows.reducing(cells, scatters=scatters, median_rows=median_rows)
    memory = max(moments, _scoring(rows, request, evaluation), search_bytes)
    if request.resources.in_process:  # moments of the parts and merged moments, a fit, and the models of each part
        solving = 2 * summary + summary_bytes(8 * request.n_classes, d, 4 * trained + 5)
        solving += _reduction_bytes(dataset, evaluation)
        memory = max(memory, solving + search_bytes)
    score_passes = _score_passes(rows, evaluation)
    kept += len(score_passes) * most_kept(dataset.n_bytes, len(rows.spans), _result_bytes(dataset, evaluation))
    return plan_of_passes(
        rows,
        (passes + score_passes) * n_splits,
        memory,
        more_passes=more_passes * n_splits,
        solver=f"dense, {dataset.n_columns} x {dataset.n_columns}, of merged parts",
        kept=kept * n_splits,
        search=sum_searches(searches, at_once=together),
    )


def _by_passes(rows: RowPasses, request: RunRequest, evaluation: EvaluationRequest) -> Plan:
    """Return the plan of passes over the rows that train of each part, and over all rows for errors."""
    dataset, parts = rows.dataset, evaluation.parts
    subset = _SomeRows.taken(dataset, int(parts.n_train.max()), dataset.facts.kind)
    fit = make_plan(RowPasses(subset, make_spans(subset), request.resources), replace(request, n_projected=0))
    score_passes = _score_passes(rows, evaluation)
    if evaluation.classifiers.from_moments:  # of reduced rows
        score_passes.append(rows.plan("reduce", 0))
    return plan_of_passes(
        rows,
        (fit.passes * evaluation.n_held_out + score_passes) * parts.n_splits,
        max(int(fit.memory / SLACK) - fit.base, _scoring(rows, request, evaluation)),
        more_passes=fit.more_passes * evaluation.fits,
        solver=f"{fit.solver}, of the rows that train",
        kept=fit.kept,
        search=fit.search,
    )


def _score_passes(rows: RowPasses, evaluation: EvaluationRequest) -> list[PassPlan]:
    """Return the passes for errors and margins, and those that gather reduced rows."""
    n_gathering = -(-_gathered_bytes(rows.dataset, evaluation) // LIMITS.gathered_bytes)
    scoring = [rows.plan("score", 0)] if evaluation.decisions or evaluation.margins else []
    return scoring + [rows.plan("gather", 0)] * n_gathering


def _gathered_bytes(dataset: Dataset, evaluation: EvaluationRequest) -> int:
    """Return the bytes of the reduced rows that classifiers are fitted to, of all parts held out."""
    if not evaluation.classifiers.from_rows:
        return 0
    return 8 * dataset.n_rows * evaluation.width * evaluation.n_held_out


def _sample_bytes(dataset: Dataset, evaluation: EvaluationRequest) -> int:
    """Return the bytes of the rows to measure margins on, and of the rows to fit classifiers to for that."""
    if not evaluation.margins:
        return 0
    n, d, parts = dataset.n_rows, dataset.n_features, evaluation.n_held_out
    return 8 * d * sampled_rows(n, d, parts, evaluation.n_classes, fitted=bool(evaluation.classifiers.from_rows))


def _reduction_bytes(dataset: Dataset, evaluation: EvaluationRequest) -> int:
    """Return the bytes of reductions and classifiers of all parts."""
    d, from_moments = dataset.n_features, evaluation.classifiers.from_moments
    columns = evaluation.width + _decisions(evaluation)
    before = sum(is_from_moments(spec) for spec in evaluation.measuring) * linear_bytes(0, d, evaluation.n_classes)
    return evaluation.n_held_out * (8 * d * columns + before + _model_bytes(dataset, evaluation, from_moments, 0))


def _decisions(evaluation: EvaluationRequest) -> int:
    """Return how many decisions on a row one product of all columns makes."""
    return evaluation.decisions if evaluation.decisions <= MAX_DECISIONS else 0


def _result_bytes(dataset: Dataset, evaluation: EvaluationRequest) -> int:
    """Return the largest result of a pass for errors and margins, or for reduced rows."""
    scored = evaluation.n_models * len(evaluation.classifiers.from_moments)
    errors = 8 * evaluation.n_held_out * (evaluation.decisions + 2 * scored)  # in all, and of each class
    gathered = min(_gathered_bytes(dataset, evaluation), LIMITS.gathered_bytes)
    return max(errors + _sample_bytes(dataset, evaluation), gathered)


def _scoring(rows: RowPasses, request: RunRequest, evaluation: EvaluationRequest) -> int:
    """Return the bytes of a process that counts errors, or gathers reduced rows and fits classifiers to them."""
    dataset, resources, d = rows.dataset, request.resources, rows.dataset.n_features
    unit_rows, unit = largest_unit(dataset, rows.spans)
    columns, n_classes = _decisions(evaluation) + evaluation.width, evaluation.n_classes
    block = SCORED_ROWS * (d * (dataset.dtype.itemsize + 8 + resources.item) + 3 * 8 * columns)
    block += scoring_bytes(SCORED_ROWS, n_classes)
    counting = resources.process_threads * (unit + 32 * unit_rows + block) + _reduction_bytes(dataset, evaluation)
    counting += (4 if evaluation.nested else 3) * _sample_bytes(dataset, evaluation)
    if evaluation.margins:  # scores, and differences of the coefficients of two classes
        counting += scoring_bytes(LIMITS.margin_rows, n_classes) + 4 * 8 * n_classes * d
    from_rows = evaluation.classifiers.from_rows
    if not from_rows:
        return counting
    gathered = min(_gathered_bytes(dataset, evaluation), LIMITS.gathered_bytes)
    share = min(8 * unit_rows * evaluation.width * evaluation.n_held_out, gathered)
    fitting = (5 if evaluation.nested else 4) * gathered
    fitting += _model_bytes(dataset, evaluation, from_rows, dataset.n_rows)
    largest = max([request.largest, *_unreduced(dataset, evaluation)])
    fitting += liblinear_bytes(dataset.n_rows, largest) + scoring_bytes(evaluation.tested, n_classes)
    return max(counting, resources.process_threads * (unit + 2 * share) + fitting)


def _searches(rows: RowPasses, request: RunRequest, evaluation: EvaluationRequest, together: bool) -> list[SearchCosts]:
    """Return the costs of each search, as if among all rows.

    A search for all parts ``together`` draws more queries, so that about as many train in each part.
    """
    dataset, needs = rows.dataset, request.needs
    choice = choose_solver(request.solver, dataset.n_rows, dataset.n_columns, needs, dataset.held)
    more = dataset.n_rows / int(evaluation.parts.n_train.min()) if together else 1.0
    searches = tuple(
        need if need.max_queries is None else replace(need, max_queries=math.ceil(need.max_queries * more))
        for need in needs.searches
    )
    return search_costs_of(rows, replace(request, needs=replace(needs, searches=searches)), choice)
