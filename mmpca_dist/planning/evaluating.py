"""What an evaluation will cost, before it reads a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.datasets.base import Dataset, Span
from mmpca_dist.evaluation.gathered import GATHERED_BYTES
from mmpca_dist.evaluation.heads import BLOCK_ROWS
from mmpca_dist.evaluation.sampled_margins import SAMPLE_BYTES
from mmpca_dist.planning.making import (
    SLACK,
    Request,
    make_plan,
    plan_of_passes,
    search_costs_of,
    search_passes,
)
from mmpca_dist.planning.plan import PassPlan, Plan
from mmpca_dist.planning.timing import median_passes, plan_pass
from mmpca_dist.solvers.options import choose_solver
from mmpca_dist.statistics.checkpoint import most_kept
from mmpca_dist.statistics.costs import largest_unit, reading_wide, reducing, summary_bytes
from mmpca_dist.statistics.medians import KEPT_BYTES

if TYPE_CHECKING:  # compiled code is slow to import, and only m-pca2 needs it
    from mmpca_dist.neighbors.costs import SearchCosts

TOGETHER = 3
"""Parts from which on one search serves all of them: see `neighbors.pair_folds`."""


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
    width : int
        Columns of the reduced rows of all methods together.
    decisions : int
        Decisions from moments on every row, of all methods, sizes and classifiers.
    from_rows, margins : bool
        Whether classifiers are fitted to rows, and margins measured.
    """

    counts: NDArray[np.int64]
    held_out: Sequence[int]
    n_splits: int
    merged: bool
    width: int
    decisions: int
    from_rows: bool
    margins: bool

    @property
    def training(self) -> list[int]:
        """Rows that train while each part is held out."""
        sizes = self.counts.sum(axis=0)
        return [int(sizes.sum() - sizes[part]) for part in self.held_out]


def plan_evaluation(dataset: Dataset, spans: list[Span], request: Request, judging: Judging) -> Plan:
    """Return the plan of an evaluation by methods whose ``request`` is that of one fit to all rows.

    Classifiers that learn block by block make passes that nobody can foresee.
    """
    return (_merging if judging.merged else _in_memory)(dataset, spans, request, judging)


def _in_memory(dataset: Dataset, spans: list[Span], request: Request, judging: Judging) -> Plan:
    """Every thread evaluates a split: it fits to rows of its own, beside those of all and the reduced ones."""
    n, d, fewest = dataset.n_rows, dataset.n_features, min(judging.training)
    alone = replace(request.resources, workers=1, threads_per_worker=1, in_process=True)
    fit = make_plan(dataset, spans, replace(request, n_projected=0, resources=alone))
    fitting = int(fit.memory / SLACK) - fit.base
    choice = choose_solver(request.solver, fewest, d, request.largest, needed=request.scatters)
    if fewest < d and not choice.in_passes:  # even where all rows are as many as columns
        fitting = max(fitting, reading_wide(dataset, spans))
    rows = dataset.sparse_bytes(n) if dataset.sparse else dataset.n_bytes
    a_split = fitting + rows + 8 * n * (judging.width + 2 * request.largest) + 8 * d * judging.width
    if judging.margins and not dataset.sparse:  # in the original columns, or turned to where few rows are wide
        a_split += rows + 8 * n * d * (3 if n < d else 1)
    held = 2 * rows + request.resources.process_threads * a_split
    fits = judging.n_splits * len(judging.held_out)
    passes = [plan_pass("rows", dataset, fits * fit.operations, request.resources)]
    return plan_of_passes(
        dataset, spans, passes, request.resources, held,
        solver="split by split", search=_searches(fit.search, request, judging, together=False),
    )  # fmt: skip


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
    return min(SAMPLE_BYTES, 8 * dataset.n_rows * dataset.n_features) * (1 + judging.from_rows)


def _heads(dataset: Dataset, judging: Judging) -> int:
    """Return the bytes of reductions and classifiers of all parts."""
    return len(judging.held_out) * dataset.n_features * (judging.decisions + judging.width) * 8


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
    scoring += 3 * _sampled(dataset, judging)
    if not judging.from_rows:
        return scoring
    gathered = min(_reduced(dataset, judging), GATHERED_BYTES)
    share = min(8 * rows * judging.width * len(judging.held_out), gathered)
    return max(scoring, resources.process_threads * (unit + 2 * share) + 4 * gathered)


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
