"""The plan of an evaluation before it reads rows: the least that it takes. Its first fold measures the rest."""

from __future__ import annotations

from mmpca_dist.evaluation.request import EvaluationRequest
from mmpca_dist.evaluation.training import scatters_of_parts
from mmpca_dist.limits import LIMITS
from mmpca_dist.planning.plan import Plan
from mmpca_dist.planning.run_plan import RunRequest, plan_of, search_costs_of, sum_searches
from mmpca_dist.predictors.fits import fits_of
from mmpca_dist.statistics.costs import summary_bytes


def plan_evaluation(request: RunRequest, evaluation: EvaluationRequest, split: int = 0) -> Plan:
    """Return the plan of an evaluation of methods; ``request`` is that of one fit to all rows.

    ``split`` is what a thread takes for a split beside the rows, by the first one; 0 before that.
    """
    dataset, parts, threads = request.dataset, evaluation.parts, request.resources.process_threads
    rows = max(stop - start for span in request.spans for start, stop in span.units)
    memory = threads * 2 * dataset.share_bytes(rows)
    searches = []
    if evaluation.merged:
        cells = parts.counts[0].size
        each = evaluation.classifiers.each_scatter
        scatters = scatters_of_parts(parts, dataset.n_features, request.needs.scatters, each)
        # Moments of the parts and of what trains, and one fit.
        memory += 2 * summary_bytes(cells, dataset.n_features, scatters) + 6 * 8 * dataset.n_features**2
        memory += min(8 * dataset.n_rows * evaluation.width * evaluation.n_held_out, LIMITS.gathered_bytes) * bool(
            evaluation.classifiers.from_rows
        )
        searches = search_costs_of(request, dataset.n_rows / int(parts.n_train.min()))
        memory += sum(search.memory for search in searches)
    else:
        memory += 2 * dataset.n_bytes + threads * dataset.n_bytes
    classifier_fits = sum(fits_of(spec) for spec in evaluation.classifiers.from_rows)
    return plan_of(
        request,
        (),
        max(memory, split),
        solver="split by split",
        search=sum_searches(searches),
        fits=evaluation.fits,
        at_once=evaluation.n_held_out if evaluation.merged else threads,
        classifier_fits=evaluation.n_models * classifier_fits * evaluation.fits,
        remedy="fewer columns, classes, folds or windows, no margins (evaluation.margins: false) or no qda",
    )
