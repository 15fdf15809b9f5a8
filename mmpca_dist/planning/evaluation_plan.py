"""The plan of an evaluation: a floor before it reads rows, and what its first part held out measures."""

from __future__ import annotations

from mmpca_dist.evaluation.request import EvaluationRequest
from mmpca_dist.evaluation.training import scatters_of_parts
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.pilot import TRIED
from mmpca_dist.planning.plan import Plan
from mmpca_dist.planning.run_plan import (
    SLACK,
    THREAD_SLACK,
    Measured,
    RunRequest,
    plan_of,
    search_costs_of,
    sum_searches,
)
from mmpca_dist.predictors.fits import fits_of
from mmpca_dist.predictors.specification import SCORE_BYTES
from mmpca_dist.statistics.costs import summary_bytes
from mmpca_dist.statistics.from_rows import scatter_bytes

COLUMN_SCATTERS = 6
"""Scatters of all columns that coexist while a classifier is made from one of them."""

LITTLE = 1 << 20
"""Bytes of rows, or of scatters, up to which no part is tried before the others."""


def plan_evaluation(request: RunRequest, evaluation: EvaluationRequest, measured: Measured | None = None) -> Plan:
    """Return the plan of an evaluation of methods; ``request`` is that of one fit to all rows.

    ``measured`` is what a pilot of one part held out, by passes over the rows, has found; without, the plan is a floor.
    """
    dataset, parts, threads = request.dataset, evaluation.parts, request.resources.process_threads
    n, d, searches = dataset.n_rows, dataset.n_features, []
    rows = max(stop - start for span in request.spans for start, stop in span.units)
    memory = threads * dataset.share_bytes(rows) if measured is None else measured.memory(threads)
    if measured is None:
        memory += threads * min(LIMITS.score_bytes, SCORE_BYTES * evaluation.n_classes * evaluation.tested)
        if (evaluation.unreduced or evaluation.measuring) and not request.choice.in_passes:
            memory += COLUMN_SCATTERS * 8 * min(d, int(parts.n_train.max())) ** 2
    if evaluation.merged:
        cells, each = parts.counts[0].size, evaluation.classifiers.each_scatter
        scatters = scatters_of_parts(parts, d, request.needs.scatters, each)
        moments = summary_bytes(cells, d, scatters)
        memory = max(memory, 3 * moments)
        more = dataset.n_rows / int(parts.n_train.min())
        searches = search_costs_of(request, more)
        memory = max(memory, sum(search.memory for search in searches))  # all of them coexist, without passes beside
    if evaluation.in_memory:
        memory += (2 + threads) * dataset.n_bytes
        if not request.choice.in_passes:
            memory += threads * 2 * scatter_bytes(evaluation.n_classes, min(d, int(parts.n_train.max())))
    else:  # reductions and classifiers of the other parts held out; reduced rows, and LIBLINEAR's copies
        memory += (evaluation.n_fits - 1) * 8 * d * (evaluation.width + evaluation.decisions)
        memory += 2 * evaluation.ranked_bytes
        if evaluation.classifiers.from_rows:
            gathered = min(8 * n * evaluation.width * evaluation.n_held_out, LIMITS.gathered_bytes)
            unseen = 1.0 if measured is None else 1 - min(TRIED / request.n_units, 1)
            memory += int((5 if evaluation.nested else 4) * gathered * unseen)
    classifier_fits = sum(fits_of(spec) for spec in evaluation.classifiers.from_rows)
    return plan_of(
        request,
        measured.footprints if measured else (),
        memory,
        solver="split by split",
        search=sum_searches(searches),
        fits=evaluation.fits,
        at_once=threads if evaluation.in_memory else evaluation.n_fits,
        classifier_fits=evaluation.n_models * classifier_fits * evaluation.fits,
        remedy=("no intervals (evaluation.intervals: false), " if evaluation.intervals else "")
        + "fewer columns, classes, folds or windows, no margins (evaluation.margins: false) or no qda",
    )


def is_measured(request: RunRequest, evaluation: EvaluationRequest) -> bool:
    """Tell whether a part held out is tried alone: not of little data, unless the scatters of its classes are large."""
    size = min(request.dataset.n_features, int(evaluation.parts.n_train.max()))
    return max(request.dataset.n_bytes, scatter_bytes(evaluation.n_classes, size)) > LITTLE


def splits_at_once(plan: Plan, n_bytes: int, split: int, n_left: int) -> tuple[int, int]:
    """Return how many of ``n_left`` splits of rows in memory fit at a time, at least one, and the bytes they then take.

    ``n_bytes`` are those of the rows, and a thread takes ``split`` bytes for a split, as the first one did.
    """
    rows, each = plan.base + SLACK * 2 * n_bytes, SLACK * split + THREAD_SLACK
    count = int(min(max((plan.memory_limit - rows) // each, 1), plan.resources.process_threads, n_left))
    return count, int(rows + count * each)
