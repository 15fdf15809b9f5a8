"""Cost of an evaluation, and of a run with ``n_components: auto``."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from mmpca_dist.datasets.dataset import Dataset, Span
from mmpca_dist.evaluation.merged_folds import BLOCK_ROWS
from mmpca_dist.evaluation.sampled_margins import sampled_rows
from mmpca_dist.limits import LIMITS
from mmpca_dist.neighbors.options import Search
from mmpca_dist.planning.passes import RowPasses
from mmpca_dist.planning.plan import PassPlan, Plan
from mmpca_dist.planning.run_plan import (
    SLACK,
    Request,
    make_plan,
    plan_of_passes,
    search_costs_of,
    search_passes,
    sum_searches,
    wide_bytes,
    wide_rank,
)
from mmpca_dist.planning.scoring_plan import EvaluationRequest, scoring_work
from mmpca_dist.predictors.classifiers import is_from_moments
from mmpca_dist.predictors.costs import liblinear_bytes
from mmpca_dist.solvers.options import choose_solver
from mmpca_dist.statistics.checkpoint import most_kept
from mmpca_dist.statistics.costs import largest_unit, summary_bytes
from mmpca_dist.statistics.gather import scatter_bytes
from mmpca_dist.statistics.moments import BLOCK_ROWS as MOMENT_ROWS

if TYPE_CHECKING:  # compiled code is slow to import, and only m-pca2 needs it
    from mmpca_dist.neighbors.costs import SearchCosts

SCORE_BYTES = 3 * 8
"""Bytes of the scores of a row for one class, during predictions and measurements of distances."""
COLUMN_SCATTERS = 6
"""Scatters of all columns that coexist while a classifier is made from one of them."""
CHOICE = "choose: "
"""Prefix of the passes of a choice of n_components."""


def plan_run(
    dataset: Dataset, spans: list[Span], request: Request, evaluation: EvaluationRequest | None = None
) -> Plan:
    """Return the plan of a run over ``spans`` of a data set.

    Parameters
    ----------
    evaluation : EvaluationRequest, optional
        The evaluation that chooses the numbers of components, up to the largest, before the fit to all rows.
    """
    fit = make_plan(RowPasses(dataset, spans, request.resources), request)
    if evaluation is None:
        return fit
    choice = plan_evaluation(dataset, spans, request, evaluation)
    advice = " Most of it is for the choice by n_components: auto; give them as numbers, or fewer evaluation.folds."
    return replace(
        fit,
        passes=[*(replace(each, name=CHOICE + each.name) for each in choice.passes), *fit.passes],
        more_passes=choice.more_passes + fit.more_passes,
        memory=max(choice.memory, fit.memory),
        kept=max(choice.kept, fit.kept),
        search=sum_searches([search for search in (choice.search, fit.search) if search is not None]),
        work=[replace(work, name=f"{work.name} for the choice") for work in choice.work],
        advice=fit.advice + (advice if choice.memory > fit.memory else ""),
    )


def plan_evaluation(dataset: Dataset, spans: list[Span], request: Request, evaluation: EvaluationRequest) -> Plan:
    """Return the plan of an evaluation of methods; ``request`` is that of one fit to all rows.

    The passes of classifiers that learn block by block are not foreseeable, and not in the plan.
    """
    make = _merging if evaluation.merged else _in_memory
    plan = make(RowPasses(dataset, spans, request.resources), request, evaluation)
    choice = choose_solver(request.solver, evaluation.n_train, dataset.n_features, request.needs)
    work = scoring_work(dataset, evaluation, request.resources, solved=not choice.in_passes)
    return replace(plan, fits=evaluation.all_fits, work=work)


def _in_memory(rows: RowPasses, request: Request, evaluation: EvaluationRequest) -> Plan:
    """Every thread evaluates a split: it has rows of its own to fit to, beside all rows and the reduced rows."""
    dataset, n_train = rows.dataset, evaluation.n_train
    n, d = dataset.n_rows, dataset.n_features
    alone = replace(request.resources, workers=1, threads_per_worker=1, in_process=True)
    one_thread, own = replace(rows, resources=alone), replace(request, n_projected=0, resources=alone)
    fit = make_plan(one_thread, own)
    fit_bytes = int(fit.memory / SLACK) - fit.base
    choice = choose_solver(request.solver, n_train, d, request.needs)
    if n_train < d and not choice.in_passes:  # even if there are as many rows in all as columns
        fit_bytes = max(fit_bytes, wide_bytes(rows, request, at_most=True))
    statistics = fit_bytes if choice.in_passes else _statistics_bytes(dataset, request, n_train)
    all_rows = dataset.sparse_bytes(n) if dataset.sparse else dataset.n_bytes
    margins = _margin_bytes(dataset, request, evaluation, all_rows)
    split = all_rows + 8 * n * (evaluation.width + 2 * request.largest) + 8 * d * evaluation.width
    split += _model_bytes(evaluation, n) + SCORE_BYTES * evaluation.tested * evaluation.n_classes
    split += max(fit_bytes, statistics + margins)
    if evaluation.nested:  # folds of the reduced rows, and of the original rows for margins
        split += 8 * n * 2 * request.largest + (all_rows + 8 * n * d if evaluation.margins else 0)
    memory = 2 * all_rows + request.resources.process_threads * split
    if evaluation.from_rows:  # LIBLINEAR, which one thread uses at a time
        columns = dataset.nnz // n + 1 if dataset.sparse else min(n, d)
        memory += liblinear_bytes(n, max(request.largest, columns if margins else 0))
    advice = " Without margins (evaluation.margins: false) an evaluation needs less." if margins > fit_bytes else ""
    return plan_of_passes(
        rows,
        [rows.plan("rows", evaluation.parts * fit.operations)],
        memory,
        advice=advice,
        solver="split by split",
        search=_of_all_parts(_searches(one_thread, own, evaluation, False), evaluation, False),
    )


def _statistics_bytes(dataset: Dataset, request: Request, n_train: int) -> int:
    """Return the bytes of the statistics of the rows that train, while classifiers and margins are made of them."""
    d, needs, wide = dataset.n_features, request.needs, n_train < dataset.n_features
    rank = wide_rank(dataset, request) if wide else d
    scatters = scatter_bytes(request.n_classes, rank, at_most=wide)
    basis = 8 * d * rank if wide else 0
    times = 2 if request.standardize and not wide else 1
    return times * scatters + basis + 8 * request.n_classes * d * len(needs.medians) + 8 * rank**2 * len(needs.searches)


def _model_bytes(evaluation: EvaluationRequest, n_rows: int) -> int:
    """Return the bytes of fitted classifiers of all methods and sizes, and of the moments of the largest size."""
    n_classes, sizes, classifiers = evaluation.n_classes, evaluation.sizes, evaluation.classifiers
    models = sum(spec.classifier.kept_bytes(n_rows, size, n_classes) for spec in classifiers for size in sizes)
    moments = 3 * 8 * n_classes * max(sizes) ** 2 if len(evaluation.from_rows) < len(classifiers) else 0
    return evaluation.n_methods * models + moments


def _margin_bytes(dataset: Dataset, request: Request, evaluation: EvaluationRequest, rows: int) -> int:
    """Return the bytes of a thread for margins of rows in memory: training rows, and a classifier of all columns."""
    n, d, specs = dataset.n_rows, dataset.n_features, evaluation.measuring
    if not specs or (dataset.sparse and not evaluation.from_rows):
        return 0
    coefficients = 4 * 8 * evaluation.n_classes * d
    if dataset.sparse:
        return 2 * rows + coefficients
    measured = 16 * evaluation.tested * d + coefficients
    if evaluation.n_train < d:  # rotated to their span
        return rows + 4 * 8 * n * d + measured
    if not is_from_moments(specs[0]):
        return rows + 8 * n * d + measured
    moments = 3 * 8 * d * d + MOMENT_ROWS * d * (dataset.dtype.itemsize + 16)
    return rows + 8 * n * d * request.standardize + measured + max(moments, COLUMN_SCATTERS * 8 * d * d)


def _merging(rows: RowPasses, request: Request, evaluation: EvaluationRequest) -> Plan:
    """Passes over all rows serve all parts of a split, one split after the other."""
    dataset, n_splits, n_parts = rows.dataset, evaluation.n_splits, len(evaluation.held_out)
    d, cells = dataset.n_features, evaluation.counts.size
    # Training rows in all sets of classes that need medians, together, of all parts.
    median_rows = math.ceil(request.median_rows * sum(evaluation.training) / int(evaluation.counts.sum()))
    passes, more_passes = rows.moments(1.0 * dataset.n_rows * d * d, median_rows=median_rows, n_classes=cells)
    summary = summary_bytes(cells, d, cells)
    node = summary + (LIMITS.kept_bytes if median_rows else 0)
    kept = (len(passes) + more_passes) * most_kept(dataset.n_bytes, len(rows.spans), node)
    together = not request.standardize and n_parts >= LIMITS.fewest_together
    searches, search_bytes = _searches(rows, request, evaluation, together), 0
    for need, search in zip(request.needs.searches, searches, strict=True):
        passes += search_passes(rows, search) * (1 if together else n_parts)
        search_bytes += search.memory  # all searches coexist
        if together:  # the tables keep the nearest row of another part, too
            slots = request.n_classes if need.pairing == "one-vs-one" else 1
            search_bytes += 40 * search.queries * slots
    moments = rows.reducing(cells, scatters=cells, medians=median_rows > 0)
    memory = max(moments, _scoring(rows, request, evaluation), search_bytes)
    if request.resources.in_process:  # moments of the parts and merged moments, a fit, and the models of each part
        solving = 2 * summary + (4 * request.n_classes + 5) * d * d * 8 + _reduction_bytes(dataset, evaluation)
        memory = max(memory, solving + search_bytes)
    score_passes = _score_passes(rows, evaluation)
    kept += len(score_passes) * most_kept(dataset.n_bytes, len(rows.spans), _result_bytes(dataset, evaluation))
    return plan_of_passes(
        rows,
        (passes + score_passes) * n_splits,
        memory,
        advice=" Fewer folds (evaluation.folds) need less.",
        more_passes=more_passes * n_splits,
        solver=f"dense, {d} x {d}, of merged parts",
        kept=kept * n_splits,
        search=_of_all_parts(searches, evaluation, together),
    )


def _score_passes(rows: RowPasses, evaluation: EvaluationRequest) -> list[PassPlan]:
    """Return the passes for errors and margins, and those that gather reduced rows."""
    operations, passes = 1.0 * rows.dataset.n_rows * rows.dataset.n_features, []
    if evaluation.decisions or evaluation.margins:
        passes.append(rows.plan("score", operations * evaluation.decisions))
    if evaluation.from_rows:
        n_passes = -(-_gathered_bytes(rows.dataset, evaluation) // LIMITS.gathered_bytes)
        width = len(evaluation.held_out) * evaluation.width / n_passes
        passes += [rows.plan("gather", operations * width)] * n_passes
    return passes


def _gathered_bytes(dataset: Dataset, evaluation: EvaluationRequest) -> int:
    """Return the bytes of the reduced rows, of all parts held out."""
    return 8 * dataset.n_rows * evaluation.width * len(evaluation.held_out)


def _sample_bytes(dataset: Dataset, evaluation: EvaluationRequest) -> int:
    """Return the bytes of the rows to measure margins on, and of the rows to fit classifiers to for that."""
    if not evaluation.margins:
        return 0
    n, d, parts = dataset.n_rows, dataset.n_features, len(evaluation.held_out)
    return 8 * d * sampled_rows(n, d, parts, evaluation.n_classes, fitted=bool(evaluation.from_rows))


def _reduction_bytes(dataset: Dataset, evaluation: EvaluationRequest) -> int:
    """Return the bytes of reductions and classifiers of all parts."""
    from_moments = replace(evaluation, classifiers=evaluation.grouped.from_moments)
    linear = dataset.n_features * (evaluation.decisions + evaluation.width) * 8
    return len(evaluation.held_out) * (linear + _model_bytes(from_moments, 0))


def _result_bytes(dataset: Dataset, evaluation: EvaluationRequest) -> int:
    """Return the largest result of a pass for errors and margins, or for reduced rows."""
    errors = 8 * len(evaluation.held_out) * evaluation.decisions
    gathered = min(_gathered_bytes(dataset, evaluation), LIMITS.gathered_bytes) if evaluation.from_rows else 0
    return max(errors + _sample_bytes(dataset, evaluation), gathered)


def _scoring(rows: RowPasses, request: Request, evaluation: EvaluationRequest) -> int:
    """Return the bytes of a process that counts errors, or gathers reduced rows and fits classifiers to them."""
    dataset, resources, d = rows.dataset, request.resources, rows.dataset.n_features
    unit_rows, unit = largest_unit(dataset, rows.spans)
    columns = evaluation.decisions + evaluation.width
    block = BLOCK_ROWS * (d * (dataset.dtype.itemsize + 8 + resources.item) + 3 * 8 * columns)
    counting = resources.process_threads * (unit + 32 * unit_rows + block) + _reduction_bytes(dataset, evaluation)
    counting += (4 if evaluation.nested else 3) * _sample_bytes(dataset, evaluation)
    tested = min(evaluation.tested, LIMITS.margin_rows) if evaluation.margins else 0
    counting += SCORE_BYTES * tested * evaluation.n_classes
    if not evaluation.from_rows:
        return counting
    gathered = min(_gathered_bytes(dataset, evaluation), LIMITS.gathered_bytes)
    share = min(8 * unit_rows * evaluation.width * len(evaluation.held_out), gathered)
    fitting = (5 if evaluation.nested else 4) * gathered
    fitting += _model_bytes(replace(evaluation, classifiers=evaluation.from_rows), dataset.n_rows)
    fitting += liblinear_bytes(dataset.n_rows, request.largest) + SCORE_BYTES * evaluation.tested * evaluation.n_classes
    return max(counting, resources.process_threads * (unit + 2 * share) + fitting)


def _searches(rows: RowPasses, request: Request, evaluation: EvaluationRequest, together: bool) -> list[SearchCosts]:
    """Return the costs of each search among all rows.

    A search for all parts ``together`` draws more queries, so that about as many train in each part.
    """
    dataset, needs = rows.dataset, request.needs
    choice = choose_solver(request.solver, dataset.n_rows, dataset.n_features, needs)
    more = dataset.n_rows / evaluation.n_train if together else 1.0
    searches = tuple(_with_more_queries(need, more) for need in needs.searches)
    return search_costs_of(rows, replace(request, needs=replace(needs, searches=searches)), choice)


def _with_more_queries(need: Search, factor: float) -> Search:
    return need if need.max_queries is None else replace(need, max_queries=math.ceil(need.max_queries * factor))


def _of_all_parts(searches: list[SearchCosts], evaluation: EvaluationRequest, together: bool) -> SearchCosts | None:
    """Return the costs of the searches of all parts, from those among all rows.

    It is one search for all parts ``together``, or one for each part among the rows that train.
    """
    n, n_splits, training = int(evaluation.counts.sum()), evaluation.n_splits, evaluation.training
    costs = []
    for search in searches:
        queries = search.queries
        # Among the rows that train: as many queries, or all these rows; and fewer rows to compare them with.
        share = 1.0 if together else sum(n_train / n * min(queries, n_train) / queries for n_train in training)
        costs.append(
            replace(
                search,
                pairs=n_splits * share * search.pairs,
                read=int(n_splits * share * search.read),
                preparation=n_splits * (1 if together else len(training)) * search.preparation,
                products=n_splits * len(training) * search.products,
            )
        )
    return sum_searches(costs, at_once=together)
