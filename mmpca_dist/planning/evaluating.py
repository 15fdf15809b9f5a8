"""What an evaluation will cost, before it reads a row."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from mmpca_dist.datasets.base import Dataset, Span
from mmpca_dist.evaluation.gathered import GATHERED_BYTES
from mmpca_dist.evaluation.heads import BLOCK_ROWS
from mmpca_dist.evaluation.sampled_margins import MARGIN_ROWS, sampled_rows
from mmpca_dist.planning.making import (
    SLACK,
    Request,
    make_plan,
    plan_of_passes,
    search_costs_of,
    search_passes,
    wide_bytes,
    wide_rank,
)
from mmpca_dist.planning.plan import PassPlan, Plan
from mmpca_dist.planning.scoring import Judging, scoring_work
from mmpca_dist.planning.timing import median_passes, plan_pass
from mmpca_dist.predictors import is_from_moments
from mmpca_dist.predictors.costs import kept_bytes, liblinear_bytes
from mmpca_dist.solvers.options import choose_solver
from mmpca_dist.statistics.checkpoint import most_kept
from mmpca_dist.statistics.costs import largest_unit, reducing, summary_bytes
from mmpca_dist.statistics.gather import scatter_bytes
from mmpca_dist.statistics.medians import KEPT_BYTES
from mmpca_dist.statistics.moments import BLOCK_ROWS as MOMENT_ROWS

if TYPE_CHECKING:  # compiled code is slow to import, and only m-pca2 needs it
    from mmpca_dist.neighbors.costs import SearchCosts

DECIDING = 3 * 8
"""Bytes of the scores of a row for one class, while its class is named or its distances are measured."""

COLUMN_SCATTERS = 6
"""Scatters of all columns that are there at once while a classifier is made from one of them."""

TOGETHER = 3
"""Parts from which on one search serves all of them: see `neighbors.pair_folds`."""


def plan_evaluation(dataset: Dataset, spans: list[Span], request: Request, judging: Judging) -> Plan:
    """Return the plan of an evaluation by methods whose ``request`` is that of one fit to all rows.

    Classifiers that learn block by block make passes that nobody can foresee.
    """
    found = (_merging if judging.merged else _in_memory)(dataset, spans, request, judging)
    fewest = min(judging.training)
    choice = choose_solver(request.solver, fewest, dataset.n_features, request.largest, needed=request.scatters)
    work = scoring_work(dataset, judging, request.resources, solved=not choice.in_passes)
    return replace(found, fits=judging.all_fits, work=work)


def _in_memory(dataset: Dataset, spans: list[Span], request: Request, judging: Judging) -> Plan:
    """Every thread evaluates a split: it fits to rows of its own, beside those of all and the reduced ones."""
    n, d, fewest = dataset.n_rows, dataset.n_features, min(judging.training)
    alone = replace(request.resources, workers=1, threads_per_worker=1, in_process=True)
    fit = make_plan(dataset, spans, replace(request, n_projected=0, resources=alone))
    fitting = int(fit.memory / SLACK) - fit.base
    choice = choose_solver(request.solver, fewest, d, request.largest, needed=request.scatters)
    if fewest < d and not choice.in_passes:  # even where all rows are as many as columns
        fitting = max(fitting, wide_bytes(dataset, spans, request, at_most=True))
    kept = fitting if choice.in_passes else _kept(dataset, request, fewest)
    rows = dataset.sparse_bytes(n) if dataset.sparse else dataset.n_bytes
    margins = _margins(dataset, request, judging, rows)
    a_split = rows + 8 * n * (judging.width + 2 * request.largest) + 8 * d * judging.width
    a_split += _fitted(judging, n) + DECIDING * judging.tested * judging.n_classes + max(fitting, kept + margins)
    if judging.nested:  # folds of the reduced rows, and of the original ones for margins
        a_split += 8 * n * 2 * request.largest + (rows + 8 * n * d if judging.margins else 0)
    held = 2 * rows + request.resources.process_threads * a_split
    if judging.from_rows:  # LIBLINEAR, which one thread uses at a time
        columns = dataset.nnz // n + 1 if dataset.sparse else min(n, d)
        held += liblinear_bytes(n, max(request.largest, columns if margins else 0))
    passes = [plan_pass("rows", dataset, judging.parts * fit.operations, request.resources)]
    advice = " Without margins (evaluation.margins: false) an evaluation needs less." if margins > fitting else ""
    return plan_of_passes(
        dataset, spans, passes, request.resources, held, advice=advice,
        solver="split by split", search=_searches(fit.search, request, judging, together=False),
    )  # fmt: skip


def _kept(dataset: Dataset, request: Request, fewest: int) -> int:
    """Return what statistics of the rows that train keep, while classifiers and margins are made of them."""
    d, medians, wide = dataset.n_features, request.median_rows > 0, fewest < dataset.n_features
    rank = wide_rank(dataset, request) if wide else d
    scatters = scatter_bytes(request.n_classes, rank, at_most=wide)
    basis = 8 * d * rank if wide else 0
    times = 2 if request.standardize and not wide else 1
    return times * scatters + basis + 8 * request.n_classes * d * medians + 8 * rank**2 * (request.search is not None)


def _fitted(judging: Judging, n_rows: int) -> int:
    """Return what fitted classifiers of all methods and sizes keep, and the moments of the largest of them."""
    n_classes, largest = judging.n_classes, max(judging.sizes)
    kept = sum(kept_bytes(spec, n_rows, size, n_classes) for spec in judging.classifiers for size in judging.sizes)
    moments = 3 * 8 * n_classes * largest**2 if len(judging.from_rows) < len(judging.classifiers) else 0
    return judging.n_methods * kept + moments


def _margins(dataset: Dataset, request: Request, judging: Judging, rows: int) -> int:
    """Return what a thread holds for margins of rows in memory: those that train, and a classifier of all columns."""
    n, d, specs = dataset.n_rows, dataset.n_features, judging.measuring
    if not specs or (dataset.sparse and not judging.from_rows):
        return 0
    coefficients = 4 * 8 * judging.n_classes * d
    if dataset.sparse:
        return 2 * rows + coefficients
    measured = 16 * judging.tested * d + coefficients
    if min(judging.training) < d:  # turned to their span
        return rows + 4 * 8 * n * d + measured
    if not is_from_moments(specs[0]):
        return rows + 8 * n * d + measured
    forming = 3 * 8 * d * d + MOMENT_ROWS * d * (dataset.dtype.itemsize + 16)
    return rows + 8 * n * d * request.standardize + measured + max(forming, COLUMN_SCATTERS * 8 * d * d)


def _merging(dataset: Dataset, spans: list[Span], request: Request, judging: Judging) -> Plan:
    """Passes over all rows serve the parts of a split, one split after the other."""
    resources, d = request.resources, dataset.n_features
    n_classes, cells = request.n_classes, judging.counts.size
    summary, medians = summary_bytes(cells, d, pooled=False), _median_rows(request, judging)
    passes, more = _forming(dataset, spans, request, medians, cells)
    kept = (len(passes) + more) * most_kept(dataset.n_bytes, len(spans), summary + (KEPT_BYTES if medians else 0))
    held = [
        reducing(
            dataset, spans,
            n_classes=cells, pooled=False, medians=medians > 0, item=resources.item, threads=resources.process_threads,
        ),
        _scoring(dataset, spans, request, judging),
    ]  # fmt: skip
    together = not request.standardize and len(judging.held_out) >= TOGETHER
    search, searching = _search(dataset, spans, request, judging, together), 0
    if search is not None:
        passes += search_passes(dataset, spans, resources, search) * (1 if together else len(judging.held_out))
        # The nearest in other parts than the nearest of all is kept beside it.
        searching = search.memory + (40 * search.queries * _slots(request) if together else 0)
        held.append(searching)
    if resources.in_process:  # the parts, what is merged of them, a fit, and what is found of each
        solving = 2 * summary + (4 * n_classes + 5) * d * d * 8 + _heads(dataset, judging)
        held.append(solving + searching)
    judged = _judged(dataset, request, judging)
    kept += len(judged) * most_kept(dataset.n_bytes, len(spans), _left(dataset, judging))
    return plan_of_passes(
        dataset, spans, (passes + judged) * judging.n_splits, resources, max(held),
        more_passes=more * judging.n_splits, solver=f"dense, {d} x {d}, of merged parts", kept=kept * judging.n_splits,
        advice=" Fewer folds (evaluation.folds) need less.", search=_searches(search, request, judging, together),
    )  # fmt: skip


def _median_rows(request: Request, judging: Judging) -> int:
    """Return the rows that train in all sets of classes whose medians are wanted, together, of all parts."""
    return math.ceil(request.median_rows * sum(judging.training) / int(judging.counts.sum()))


def _forming(
    dataset: Dataset, spans: list[Span], request: Request, medians: int, cells: int
) -> tuple[list[PassPlan], int]:
    """Return the passes for moments and medians of the parts, and how many more there may be."""
    d, resources = dataset.n_features, request.resources
    operations = 1.0 * dataset.n_rows * d * d
    found = plan_pass("moments", dataset, operations, resources, counted=medians * d)
    if not medians:
        return [found], 0
    before, after, more = median_passes(dataset, spans, resources, rows=medians, n_classes=cells)
    return [*before, found, *after], more


def _judged(dataset: Dataset, request: Request, judging: Judging) -> list[PassPlan]:
    """Return the passes for errors and margins, and those that gather reduced rows."""
    resources, operations = request.resources, 1.0 * dataset.n_rows * dataset.n_features
    passes = []
    if judging.decisions or judging.margins:
        passes.append(plan_pass("score", dataset, operations * judging.decisions, resources))
    if judging.from_rows:
        times = -(-_reduced(dataset, judging) // GATHERED_BYTES)
        width = len(judging.held_out) * judging.width / times
        passes += [plan_pass("gather", dataset, operations * width, resources)] * times
    return passes


def _reduced(dataset: Dataset, judging: Judging) -> int:
    """Return the bytes of the reduced rows, of all parts held out."""
    return 8 * dataset.n_rows * judging.width * len(judging.held_out)


def _sampled(dataset: Dataset, judging: Judging) -> int:
    """Return the bytes of the rows whose margins are measured, and of those that classifiers are fitted to for it."""
    if not judging.margins:
        return 0
    n, d, parts = dataset.n_rows, dataset.n_features, len(judging.held_out)
    return 8 * d * sampled_rows(n, d, parts, judging.n_classes, fitted=bool(judging.from_rows))


def _heads(dataset: Dataset, judging: Judging) -> int:
    """Return the bytes of reductions and classifiers of all parts."""
    from_moments = replace(judging, classifiers=judging.judges.from_moments)
    linear = dataset.n_features * (judging.decisions + judging.width) * 8
    return len(judging.held_out) * (linear + _fitted(from_moments, 0))


def _left(dataset: Dataset, judging: Judging) -> int:
    """Return what passes for errors, margins and reduced rows leave, at most."""
    errors = 8 * len(judging.held_out) * judging.decisions
    gathered = min(_reduced(dataset, judging), GATHERED_BYTES) if judging.from_rows else 0
    return max(errors + _sampled(dataset, judging), gathered)


def _scoring(dataset: Dataset, spans: list[Span], request: Request, judging: Judging) -> int:
    """Return what a process holds while errors are counted, and reduced rows gathered: joined, and by classifiers."""
    resources, d = request.resources, dataset.n_features
    rows, unit = largest_unit(dataset, spans)
    columns = judging.decisions + judging.width
    block = BLOCK_ROWS * (d * (dataset.dtype.itemsize + 8 + resources.item) + 3 * 8 * columns)
    scoring = resources.process_threads * (unit + 32 * rows + block) + _heads(dataset, judging)
    scoring += (4 if judging.nested else 3) * _sampled(dataset, judging)
    tested = min(judging.tested, MARGIN_ROWS) if judging.margins else 0
    scoring += DECIDING * tested * judging.n_classes
    if not judging.from_rows:
        return scoring
    gathered = min(_reduced(dataset, judging), GATHERED_BYTES)
    share = min(8 * rows * judging.width * len(judging.held_out), gathered)
    judged = (5 if judging.nested else 4) * gathered + _fitted(
        replace(judging, classifiers=judging.from_rows), dataset.n_rows
    )
    judged += liblinear_bytes(dataset.n_rows, request.largest) + DECIDING * judging.tested * judging.n_classes
    return max(scoring, resources.process_threads * (unit + 2 * share) + judged)


def _search(
    dataset: Dataset, spans: list[Span], request: Request, judging: Judging, together: bool
) -> SearchCosts | None:
    """Return the costs of one search among all rows; one for all parts asks so many more that as many train."""
    wanted = request.search
    if wanted is not None and wanted.max_queries is not None and together:
        asked = math.ceil(wanted.max_queries * dataset.n_rows / min(judging.training))
        request = replace(request, search=replace(wanted, max_queries=asked))
    choice = choose_solver(request.solver, dataset.n_rows, dataset.n_features, request.largest, needed=request.scatters)
    return search_costs_of(dataset, spans, request, choice)


def _slots(request: Request) -> int:
    """Return how many neighbours a query has."""
    one_vs_one = request.search is not None and request.search.pairing == "one-vs-one"
    return request.n_classes if one_vs_one else 1


def _searches(search: SearchCosts | None, request: Request, judging: Judging, together: bool) -> SearchCosts | None:
    """Return the costs of all searches, from those of one: together, or among the rows that train, part by part."""
    if search is None or request.search is None:
        return search
    n, asked, training = int(judging.counts.sum()), search.queries, judging.training
    # As many queries, or all that train, and as much of the rows to compare them with as trains.
    times = 1.0 if together else sum(rows / n * min(asked, rows) / asked for rows in training)
    return replace(
        search,
        pairs=judging.n_splits * times * search.pairs,
        read=int(judging.n_splits * times * search.read),
        preparation=judging.n_splits * (1 if together else len(training)) * search.preparation,
        products=judging.n_splits * len(training) * search.products,
    )
